// One query: how it is doing and why, its charts with what was decided, its goal, and what if.
import { get, put } from "/static/api.js";
import { actionRow, actionTable } from "/static/actions.js";
import { change, keyOf } from "/static/app.js";
import { band, clear, draw, goalLine, line, marks, palette } from "/static/charts.js";
import { clock, h, lasting, percent, seconds, setText, short, statePill } from "/static/dom.js";

const RANGES = [["5 min", 300], ["15 min", 900], ["1 h", 3600], ["6 h", 21600], ["24 h", 86400]];
const REFRESH_MS = 5000;
const SHOWN = matchMedia("(max-width: 760px)").matches ? 8 : 25;
const SHORTEST_S = 30;
const kept = { range: 900 };

export class QueryView {
  constructor(main, state, engine, query) {
    Object.assign(this, { state, engine, query, isOpen: true, aborted: new AbortController() });
    this.pill = statePill("…");
    this.lead = h("p", { class: "lead" }, "Loading");
    this.figures = h("dl", { class: "figures" });
    this.why = h("ul", { class: "why" }, h("li", { class: "soft" }, "Loading"));
    this.ranges = h("div", { class: "ranges", role: "group", "aria-label": "Time range" }, RANGES.map(([name, span]) =>
      h("button", { type: "button", "data-span": span, "aria-pressed": String(kept.range === span), click: () => this.setRange(span) }, name)));
    this.plots = {};
    const charts = h("div", { class: "charts" },
      this.chart("load", "Load", "rows a second, with its forecast"), this.chart("latency", "Latency", "age of the oldest row when its result is out"),
      this.chart("accuracy", "Accuracy and keep ratio", "part of the rows that is kept"), this.chart("backlog", "Backlog", "rows that wait"),
      this.chart("executors", "Executors", "of the engine"), this.chart("cpu", "CPU", "of all executors of the engine"));
    const { table, body } = actionTable(false);
    this.actions = body;
    this.actionNote = h("p", { class: "empty", hidden: true }, "Nothing was decided in this time.");
    main.append(
      h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Fleet"), ` / ${engine}`),
      h("div", { class: "title" }, h("h1", {}, query), this.pill, h("span", { class: "spread" }), this.ranges), this.lead,
      h("div", { class: "panel strip" }, this.figures),
      h("div", { class: "split" },
        h("div", {}, charts, this.whatIf(), h("section", { class: "panel section" }, h("header", {}, h("h2", {}, "Actions"), h("span", { class: "soft" }, "what was decided in this time, newest first")), table, this.actionNote)),
        h("div", { class: "side" }, h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Why")), this.why), this.goalForm())));
    this.timer = setInterval(() => { if (!document.hidden) this.load(); }, REFRESH_MS);
    this.load();
  }

  chart(name, title, about) {
    const plot = h("div", { class: "plot" });
    const none = h("p", { class: "none" }, "Loading");
    this.plots[name] = { plot, none };
    return h("section", { class: "panel chart", "aria-label": title }, h("header", {}, h("h2", {}, title), h("span", { class: "soft" }, about)), plot, none);
  }

  setRange(span) {
    kept.range = span;
    for (const button of this.ranges.children) button.setAttribute("aria-pressed", String(Number(button.dataset.span) === span));
    this.load();
  }

  /** What the stream of events tells; charts are loaded less often. */
  update() {
    const row = this.state.queries.get(keyOf(this.engine, this.query));
    const engine = this.state.engines.get(this.engine);
    if (!row) {
      if (this.state.isLoaded) setText(this.lead, `Nothing is known of ${this.query} on ${this.engine}.`);
      return;
    }
    this.row = row;
    this.pill.dataset.state = row.state;
    setText(this.pill, row.state);
    const age = row.seen_s === null ? null : this.state.now() - row.seen_s;
    const stale = engine?.is_live && age > 60 ? ` No news of it for ${lasting(age)}.` : "";
    const since = row.since_s === null ? "" : ` (since ${clock(row.since_s)})`;
    setText(this.lead, `It ${row.sentence}${since}.${stale}`);
    const figures = [["Latency", seconds(row.latency_s), row.goal_latency_s === null ? "" : `goal ${seconds(row.goal_latency_s)}`], ["Kept", percent(row.measured_accuracy ?? row.keep_ratio), row.minimum_accuracy === null ? "" : `at least ${percent(row.minimum_accuracy)}`],
      ["Backlog", short(row.backlog_rows), "rows"], ["Load", short(row.arrival_rows_per_s), "rows/s"], ["Read limit", short(row.read_limit_rows), "rows a batch"], ["Executors", row.executors_serving === null ? "–" : String(row.executors_serving), row.executors_target === null ? "" : `of ${row.executors_target}`], ["Priority", row.priority === null ? "–" : String(row.priority), ""]];
    if (!this.figures.children.length) this.figures.append(...figures.map(([name]) => h("div", {}, h("dt", {}, name), h("dd", {}, h("span"), h("small")))));
    figures.forEach(([, value, note], place) => {
      const cell = this.figures.children[place].lastElementChild;
      setText(cell.firstElementChild, value);
      setText(cell.lastElementChild, note && ` ${note}`);
    });
    this.fillGoal();
    this.form.fieldset.disabled = !engine?.can_change;
    this.form.hint.textContent = engine?.can_change ? "Takes effect with the next batch, and is on record." : "Nobody governs this engine now: a recorded run, or an application that does not serve.";
  }

  async load() {
    if (this.isLoading) { this.isWaiting = true; return; }
    this.isLoading = true;
    const where = { engine: this.engine, query: this.query };
    const { signal } = this.aborted;
    try {
      const seen = this.state.engines.get(this.engine)?.seen_s;
      const until = seen ? Math.min(this.state.now(), seen + 5) : this.state.now();
      const span = { since_s: until - kept.range, until_s: until };
      const [told, series, actions] = await Promise.all([get("/api/query", where, signal), get("/api/series", { ...where, ...span }, signal), get("/api/actions", { ...where, ...span, last: 200 }, signal)]);
      if (!this.isOpen) return;
      this.told = told;
      this.why.replaceChildren(...told.sentences.map((sentence) => h("li", {}, sentence)));
      this.fillGoal();
      this.actions.replaceChildren(...actions.rows.slice(0, SHOWN).map((row) => actionRow(row, false)));
      this.actionNote.hidden = actions.rows.length > 0 && actions.rows.length <= SHOWN;
      setText(this.actionNote, actions.rows.length ? `The newest ${SHOWN}; hover over the marks of the charts for the others.` : "Nothing was decided in this time.");
      this.last = { series, actions: actions.rows, span };
      await this.drawAll();
    } catch (error) {
      if (error.name !== "AbortError" && this.isOpen) this.fail(error);
    } finally {
      this.isLoading = false;
      if (this.isWaiting && this.isOpen) { this.isWaiting = false; this.load(); }
    }
  }

  fail(error) {
    for (const { none } of Object.values(this.plots)) { none.hidden = false; setText(none, error.message); }
    this.why.replaceChildren(h("li", {}, error.message));
  }

  async drawAll() {
    const { series, actions, span } = this.last;
    const p = palette();
    const { mean, low, high, forecast, times_s: times } = series;
    const begin = this.begin(series, span);
    const ahead = [begin, Math.max(span.until_s, forecast?.times_s.at(-1) ?? 0)];
    const range = [begin, span.until_s];
    const noted = marks(actions);
    const has = (name) => mean[name]?.some((value) => value !== null);
    const load = [line("arriving", times, mean.arrival_rows_per_s, { unit: " rows/s" }), line("processed", times, mean.processed_rows_per_s, { colour: p.soft, width: 1.2, unit: " rows/s" })];
    if (forecast) load.push(line("forecast", forecast.times_s, forecast.mean, { dash: "dot", unit: " rows/s" }), band(forecast.times_s, forecast.mean, forecast.upper, p.main));
    await this.show("load", has("arrival_rows_per_s"), load, noted, { range: ahead, format: "~s" });
    const age = has("oldest_row_age_s") ? "oldest_row_age_s" : "batch_duration_s";
    const goal = this.row?.goal_latency_s;
    await this.show("latency", has(age), [line(age === "oldest_row_age_s" ? "oldest row" : "batch time", times, mean[age], { unit: " s" }), band(times, low[age], high[age], p.main)], noted, { range, goals: goal ? [goalLine(goal, `goal ${seconds(goal)}`)] : [] });
    const least = this.row?.minimum_accuracy;
    await this.show("accuracy", has("keep_ratio") || has("measured_accuracy"), [line("kept", times, mean.measured_accuracy, { format: ".1%" }), line("keep ratio", times, mean.keep_ratio, { colour: p.other, dash: "dot", format: ".1%" })], noted, { range, format: ".0%", top: 1.08, goals: least ? [goalLine(least, `at least ${percent(least)}`)] : [] });
    await this.show("backlog", has("lag_rows"), [line("backlog", times, mean.lag_rows, { unit: " rows" }), band(times, low.lag_rows, high.lag_rows, p.main)], noted, { range, format: "~s", least: 10 });
    await this.show("executors", has("executors_serving"), [line("executors", times, mean.executors_serving, { shape: "hv" })], noted, { range, least: 2 });
    await this.show("cpu", has("executor_busy_fraction"), [line("CPU", times, mean.executor_busy_fraction, { format: ".0%" }), band(times, low.executor_busy_fraction, high.executor_busy_fraction, p.main)], noted, { range, format: ".0%", top: 1.05 });
  }

  /** A query that is younger than the range fills its charts all the same. */
  begin(series, span) {
    const first = series.times_s.findIndex((_, place) => Object.values(series.mean).some((values) => values[place] !== null));
    if (first <= 0) return span.since_s;
    return Math.max(span.since_s, Math.min(series.times_s[first - 1], span.until_s - SHORTEST_S));
  }

  async show(name, isKnown, traces, noted, how) {
    const { plot, none } = this.plots[name];
    none.hidden = isKnown;
    plot.style.visibility = isKnown ? "visible" : "hidden";
    if (!isKnown) { setText(none, "Nothing was seen of this in this time."); return; }
    try {
      await draw(plot, [...traces, noted], how);
    } catch (error) {
      none.hidden = false;
      plot.style.visibility = "hidden";
      setText(none, error.message);
    }
  }

  restyle() {
    if (this.last) this.drawAll();
    if (this.played) this.drawPlayed();
  }

  // The goal

  goalForm() {
    const field = (name, attributes) => h("input", { type: "number", name, required: true, ...attributes });
    const inputs = { latency_s: field("latency_s", { min: 0.1, step: "any" }), minimum_accuracy: field("minimum_accuracy", { min: 0, max: 100, step: "any" }), priority: field("priority", { min: 1, max: 100, step: 1 }) };
    const hint = h("p", { class: "hint" });
    const fieldset = h("fieldset", { style: "border:0;padding:0;margin:0;display:grid;gap:.55rem;min-width:0" }, h("legend", { class: "visually-hidden" }, "Goal"),
      h("label", {}, "Latency, s", inputs.latency_s), h("label", {}, "Minimum accuracy, %", inputs.minimum_accuracy), h("label", {}, "Priority, 1 to 100", inputs.priority), hint,
      h("div", { class: "row" }, h("button", { type: "button", class: "quiet", click: () => { this.form.isEdited = false; this.fillGoal(); } }, "Undo"), h("button", { type: "submit", class: "primary" }, "Set goal")));
    const form = h("form", { class: "form", input: () => { this.form.isEdited = true; }, submit: (event) => { event.preventDefault(); this.setGoal(); } }, fieldset);
    this.form = { form, inputs, fieldset, hint, isEdited: false, isFilled: false };
    return h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Goal")), form);
  }

  /** Shows what stands, unless somebody is writing; who was faster than the first answer finds the other fields filled. */
  fillGoal() {
    const goal = this.told?.goal;
    const { form } = this;
    if (!goal || (form.isEdited && form.isFilled)) return;
    const stands = { latency_s: goal.latency_s ?? "", minimum_accuracy: Number((100 * goal.minimum_accuracy).toPrecision(6)), priority: goal.priority };
    for (const [name, value] of Object.entries(stands)) {
      if (!form.isEdited || form.inputs[name].value === "") form.inputs[name].value = value;
    }
    form.isFilled = true;
  }

  async setGoal() {
    const { inputs } = this.form;
    const wish = { engine: this.engine, query: this.query, latency_s: Number(inputs.latency_s.value), minimum_accuracy: Number(inputs.minimum_accuracy.value) / 100, priority: Number(inputs.priority.value) };
    if (await change(() => put("/api/goal", wish), `The goal of ${this.query} is set.`)) {
      this.form.isEdited = false;
      setTimeout(() => this.load(), 1200);
    }
  }

  // What if

  whatIf() {
    const number = (name, text, attributes) => h("label", { class: "field" }, text, h("input", { type: "number", name, step: "any", placeholder: "as it is", ...attributes }));
    const policy = h("select", { name: "policy" }, h("option", { value: "" }, "as it is"));
    get("/api/service").then((told) => policy.append(...told.policies.map((name) => h("option", { value: name }, name)))).catch(() => {});
    const button = h("button", { type: "submit", class: "primary" }, "Play");
    this.answer = h("div");
    this.playNote = h("p", { class: "hint", role: "status" }, "The load on record is played through the same decisions in a simulation, under the goal as it is and under another.");
    const form = h("form", { class: "form", style: "grid-template-columns:repeat(auto-fill,minmax(17rem,1fr));column-gap:2rem", submit: (event) => { event.preventDefault(); this.play(new FormData(form), button); } },
      number("hours", "Hours of the past", { min: 0.02, max: 24, value: 1, placeholder: "" }), number("latency_s", "Latency goal, s", { min: 0.1 }), number("accuracy", "Minimum accuracy, %", { min: 0, max: 100 }), number("max_executors", "Executors at most", { min: 1, max: 500, step: 1 }),
      h("label", { class: "field" }, "Scaling policy", policy), h("div", { class: "row" }, button));
    return h("section", { class: "panel section", style: "padding-bottom:1rem" }, h("header", {}, h("h2", {}, "What if")), form, h("div", { style: "padding:.3rem 1rem 0" }, this.playNote), this.answer);
  }

  async play(data, button) {
    const value = (name) => (data.get(name) === "" ? null : Number(data.get(name)));
    const accuracy = value("accuracy");
    button.disabled = true;
    setText(this.playNote, "Playing…");
    try {
      this.played = await get("/api/what-if", { engine: this.engine, query: this.query, hours: value("hours"), latency_s: value("latency_s"), minimum_accuracy: accuracy === null ? null : accuracy / 100, max_executors: value("max_executors"), policy: data.get("policy") }, this.aborted.signal);
      setText(this.playNote, this.played.notes.join("; "));
      await this.drawPlayed();
    } catch (error) {
      if (error.name !== "AbortError") setText(this.playNote, error.message);
    } finally {
      button.disabled = false;
    }
  }

  async drawPlayed() {
    const { times_s: times, as_is: before, what_if: after, goal_latency_s: goal, what_if_latency_s: other } = this.played;
    const p = palette();
    const summary = h("table", { class: "compare num" }, h("caption", { class: "visually-hidden" }, "Both runs"), h("thead", {}, h("tr", {}, h("td"), ["rows too late", "rows kept", "executor-hours"].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, [["as it is", before], ["what if", after]].map(([name, run]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, percent(run.late_ratio)), h("td", {}, percent(run.kept_ratio)), h("td", {}, short(run.executor_hours))))));
    const plots = ["latency", "kept", "backlog", "executors"].map((name) => h("section", { class: "chart", "aria-label": `What if: ${name}` }, h("h2", { class: "label", style: "padding:.6rem 1rem 0" }, name), h("div", { class: "plot", "data-name": name })));
    this.answer.replaceChildren(summary, h("div", { class: "charts", style: "gap:.4rem" }, plots));
    const both = (key, how = {}) => [line("as it is", times, before[key], { colour: p.soft, ...how }), line("what if", times, after[key], how)];
    const place = (name) => this.answer.querySelector(`[data-name="${name}"]`);
    const range = [times[0], times.at(-1)];
    const goals = [goalLine(goal, `goal ${seconds(goal)}`), ...(other === goal ? [] : [goalLine(other, `what if ${seconds(other)}`)])];
    await draw(place("latency"), both("latency_s", { unit: " s" }), { range, goals });
    await draw(place("kept"), both("keep_ratio", { format: ".1%" }), { range, format: ".0%", top: 1.08 });
    await draw(place("backlog"), both("backlog_rows"), { range, format: "~s", least: 10 });
    await draw(place("executors"), both("executors", { shape: "hv" }), { range });
  }

  close() {
    this.isOpen = false;
    this.aborted.abort();
    clearInterval(this.timer);
    for (const { plot } of Object.values(this.plots)) clear(plot);
  }
}
