// Every engine and every query: sortable, searchable, a page of rows at a time however many there are.
import { put } from "/static/api.js";
import { change, keyOf } from "/static/app.js";
import { Sparkline, clock, h, lasting, percent, seconds, setText, short, statePill } from "/static/dom.js";

const STATES = ["fault", "infeasible", "shedding", "catching up", "scaling", "observed", "fine"];
const STALE_S = 60;
const PAGE = matchMedia("(max-width: 760px)").matches ? 20 : 50;

const over = (row) => (row.latency_s === null || !row.goal_latency_s ? null : row.latency_s / row.goal_latency_s);
const COLUMNS = [
  { key: "query", title: "Query", sort: (row) => row.query },
  { key: "state", title: "State", sort: (row) => STATES.indexOf(row.state) },
  { key: "latency", title: "Latency / goal", num: true, sort: over },
  { key: "curve", title: "Recent", sort: null },
  { key: "accuracy", title: "Kept / min", num: true, sort: (row) => row.measured_accuracy ?? row.keep_ratio },
  { key: "backlog", title: "Backlog", num: true, sort: (row) => row.backlog_rows },
  { key: "load", title: "Rows/s", num: true, sort: (row) => row.arrival_rows_per_s },
  { key: "priority", title: "Priority", num: true, sort: (row) => row.priority },
  { key: "executors", title: "Executors", num: true, sort: (row) => row.executors_serving },
  { key: "since", title: "Since", num: true, sort: (row) => row.since_s },
];
const kept = { sort: "state", down: false, text: "", states: new Set(), page: 0 };

export class FleetView {
  constructor(main, state) {
    this.state = state;
    this.rows = new Map();
    this.engineCards = new Map();
    this.engines = h("section", { class: "engines", "aria-label": "Engines" });
    this.search = h("input", { type: "search", placeholder: "Search queries and engines", "aria-label": "Search queries and engines", value: kept.text,
      input: () => { kept.text = this.search.value; kept.page = 0; this.draw(); } });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Show only these states" });
    this.count = h("span", { class: "soft spread num", role: "status" });
    this.headers = new Map();
    const heads = COLUMNS.map((column) => {
      const cell = h("th", { scope: "col", class: column.num ? "num" : null },
        column.sort ? h("button", { type: "button", click: () => this.sortBy(column) }, column.title) : column.title);
      this.headers.set(column.key, cell);
      return cell;
    });
    this.body = h("tbody");
    this.table = h("div", { class: "panel" },
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Queries" },
        h("table", { class: "stack" }, h("caption", { class: "visually-hidden" }, "How every query is doing"), h("thead", {}, h("tr", {}, heads)), this.body)),
      this.pager());
    this.empty = h("div", { class: "panel empty", hidden: true });
    this.loading = h("div", { class: "loading", role: "status" }, h("span", { class: "bone" }), h("span", { class: "bone" }), h("span", { class: "bone" }), h("span", { class: "visually-hidden" }, "Loading"));
    main.append(h("h1", { class: "visually-hidden" }, "Fleet"), this.engines,
      h("div", { class: "controls" }, this.search, this.chips, this.count), this.loading, this.table, this.empty);
    this.controls = main.querySelector(".controls");
  }

  pager() {
    this.before = h("button", { type: "button", click: () => { kept.page -= 1; this.draw(); } }, "Previous");
    this.after = h("button", { type: "button", click: () => { kept.page += 1; this.draw(); } }, "Next");
    this.place = h("span", { class: "num" });
    this.pages = h("div", { class: "pager" }, this.place, this.before, this.after);
    return this.pages;
  }

  sortBy(column) {
    kept.down = kept.sort === column.key ? !kept.down : Boolean(column.num);
    kept.sort = column.key;
    kept.page = 0;
    this.draw();
  }

  update() {
    this.drawEngines();
    this.draw();
  }

  chosen() {
    const text = kept.text.trim().toLowerCase();
    const rows = [...this.state.queries.values()].filter((row) => (!kept.states.size || kept.states.has(row.state))
      && (!text || row.query.toLowerCase().includes(text) || row.engine.toLowerCase().includes(text)));
    const { sort } = COLUMNS.find((column) => column.key === kept.sort);
    const sign = kept.down ? -1 : 1;
    // What is unknown comes last, whichever way is sorted.
    return rows.map((row) => [sort(row) ?? null, row]).sort(([a, one], [b, other]) => {
      if (a === b) return one.query.localeCompare(other.query) || one.engine.localeCompare(other.engine);
      if (a === null) return 1;
      if (b === null) return -1;
      return (a < b ? -1 : 1) * sign;
    }).map(([, row]) => row);
  }

  draw() {
    const { isLoaded, queries } = this.state;
    this.loading.hidden = isLoaded;
    this.controls.hidden = !isLoaded || !queries.size;
    this.table.hidden = !isLoaded || !queries.size;
    this.drawEmpty(isLoaded && !queries.size);
    if (!isLoaded || !queries.size) return;
    this.drawChips();
    const rows = this.chosen();
    const last = Math.max(0, Math.ceil(rows.length / PAGE) - 1);
    kept.page = Math.min(Math.max(0, kept.page), last);
    const shown = rows.slice(kept.page * PAGE, (kept.page + 1) * PAGE);
    for (const [key, cell] of this.headers) {
      if (key === kept.sort) cell.setAttribute("aria-sort", kept.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    this.placeRows(shown);
    setText(this.count, rows.length === queries.size ? `${short(queries.size)} ${queries.size === 1 ? "query" : "queries"}` : `${short(rows.length)} of ${short(queries.size)} queries`);
    this.pages.hidden = last === 0;
    setText(this.place, `${kept.page * PAGE + 1}–${kept.page * PAGE + shown.length} of ${rows.length}`);
    this.before.disabled = kept.page === 0;
    this.after.disabled = kept.page === last;
    if (!rows.length) this.body.replaceChildren(h("tr", {}, h("td", { colspan: COLUMNS.length, class: "soft" }, "No query matches.")));
  }

  /** Rows keep their elements while they are shown, so that focus and selection stay where they are. */
  placeRows(shown) {
    const wanted = shown.map((row) => {
      const key = keyOf(row.engine, row.query);
      if (!this.rows.has(key)) this.rows.set(key, new Row(row));
      const own = this.rows.get(key);
      own.update(row, this.state.now(), this.state.engines.size > 1, this.state.engines.get(row.engine)?.is_live);
      return own.element;
    });
    const isSame = wanted.length === this.body.children.length && wanted.every((element, place) => this.body.children[place] === element);
    if (!isSame) this.body.replaceChildren(...wanted);
    if (this.rows.size > 10 * PAGE) {
      const inUse = new Set(wanted);
      for (const [key, row] of this.rows) if (!inUse.has(row.element)) this.rows.delete(key);
    }
  }

  drawChips() {
    const counts = new Map(STATES.map((name) => [name, 0]));
    for (const row of this.state.queries.values()) counts.set(row.state, (counts.get(row.state) || 0) + 1);
    const signature = JSON.stringify([[...counts], [...kept.states]]);
    if (signature === this.signature) return;
    this.signature = signature;
    const focused = this.chips.contains(document.activeElement) ? document.activeElement.dataset.state : null;
    this.chips.replaceChildren(...[...counts].filter(([name, count]) => count || kept.states.has(name)).map(([name, count]) =>
      h("button", { type: "button", class: "chip", "data-state": name, "aria-pressed": String(kept.states.has(name)),
        click: () => { if (!kept.states.delete(name)) kept.states.add(name); kept.page = 0; this.draw(); } }, h("b", {}, String(count)), name)));
    if (focused) this.chips.querySelector(`[data-state="${focused}"]`)?.focus();
  }

  drawEmpty(isEmpty) {
    this.empty.hidden = !isEmpty;
    if (isEmpty && !this.empty.children.length) {
      this.empty.append(h("h2", {}, "No queries yet"),
        h("p", {}, "Nothing is recorded in the store. Start a streaming query in a session that Penstock is attached to, and it appears here with its first batch."),
        h("p", {}, h("code", {}, 'pen = penstock.attach(spark, goals={"clicks": Goal(latency="5 seconds")})')));
    }
  }

  drawEngines() {
    for (const [name, engine] of this.state.engines) {
      if (!this.engineCards.has(name)) {
        const card = new EngineCard(name);
        this.engineCards.set(name, card);
        this.engines.append(card.element);
      }
      this.engineCards.get(name).update(engine, this.state.now());
    }
  }
}

class Row {
  constructor(row) {
    this.spark = new Sparkline();
    this.cells = Object.fromEntries(COLUMNS.slice(1).map(({ key, title, num }) => [key, h("td", { class: num ? "num" : null, "data-label": key === "state" ? "" : title })]));
    this.cells.curve.append(this.spark.element);
    this.pill = statePill(row.state);
    this.cells.state.append(this.pill);
    this.where = h("small", {}, row.engine);
    this.element = h("tr", {}, h("th", { scope: "row" },
      h("a", { href: `#/query/${encodeURIComponent(row.engine)}/${encodeURIComponent(row.query)}` }, row.query), this.where), Object.values(this.cells));
  }

  update(row, now, showsEngine, isLive) {
    this.where.hidden = !showsEngine;
    this.element.className = isLive && row.seen_s !== null && now - row.seen_s > STALE_S ? "is-stale" : "";
    this.element.title = this.element.className ? `no news of this query for ${lasting(now - row.seen_s)}` : "";
    if (row === this.drawn) { setText(this.cells.since, lasting(row.since_s === null ? null : now - row.since_s)); return; }
    this.drawn = row;
    this.pill.dataset.state = row.state;
    setText(this.pill, row.state);
    this.pill.title = `${row.query} ${row.sentence}`;
    const isOver = row.latency_s !== null && row.goal_latency_s !== null && row.latency_s > row.goal_latency_s;
    this.cells.latency.classList.toggle("over", isOver);
    pair(this.cells.latency, seconds(row.latency_s), row.goal_latency_s === null ? "" : seconds(row.goal_latency_s));
    pair(this.cells.accuracy, percent(row.measured_accuracy ?? row.keep_ratio), row.minimum_accuracy === null ? "" : percent(row.minimum_accuracy));
    setText(this.cells.backlog, short(row.backlog_rows));
    setText(this.cells.load, short(row.arrival_rows_per_s));
    setText(this.cells.priority, row.priority === null ? "–" : String(row.priority));
    const target = row.executors_target !== null && row.executors_target !== row.executors_serving ? ` → ${row.executors_target}` : "";
    setText(this.cells.executors, row.executors_serving === null ? "–" : `${row.executors_serving}${target}`);
    setText(this.cells.since, lasting(row.since_s === null ? null : now - row.since_s));
    this.cells.since.title = row.since_s === null ? "" : clock(row.since_s);
    this.spark.draw(row.curve, row.goal_latency_s);
  }
}

function pair(cell, value, bound) {
  setText(cell, "");
  cell.append(value, bound ? h("small", {}, ` / ${bound}`) : "");
}

class EngineCard {
  constructor(name) {
    this.name = name;
    this.seen = h("small");
    this.executors = h("dd");
    this.cpu = h("dd");
    this.queries = h("dd");
    this.toggle = h("button", { type: "button", class: "switch", role: "switch", "aria-checked": "false", click: () => this.flip() },
      h("span", { class: "track", "aria-hidden": "true" }), h("span", {}, "Observe only"));
    this.infeasible = h("p", { class: "note bad", hidden: true });
    this.element = h("article", { class: "panel engine" }, h("h2", {}, name, this.seen),
      h("dl", { class: "figures" }, h("div", {}, h("dt", {}, "Executors"), this.executors), h("div", {}, h("dt", {}, "CPU"), this.cpu), h("div", {}, h("dt", {}, "Queries"), this.queries)),
      this.toggle, this.infeasible);
  }

  update(engine, now) {
    const target = engine.executors_target !== null && engine.executors_target !== engine.executors_serving ? ` → ${engine.executors_target}` : "";
    setText(this.executors, engine.executors_serving === null ? "–" : `${engine.executors_serving}${target}`);
    setText(this.cpu, percent(engine.cpu_ratio === null ? null : Math.round(100 * engine.cpu_ratio) / 100));
    setText(this.queries, short(engine.queries));
    setText(this.seen, engine.is_live ? "live" : engine.seen_s === null ? "nothing seen yet" : `last seen ${clock(engine.seen_s)}`);
    this.toggle.setAttribute("aria-checked", String(Boolean(engine.observe_only)));
    this.toggle.disabled = !engine.can_change;
    this.toggle.title = engine.can_change ? "What is decided is recorded and not applied" : "Nobody governs this engine now";
    const trouble = [engine.infeasible && `infeasible: ${engine.infeasible}`, engine.fault && `fault: ${engine.fault}`].filter(Boolean).join(" · ");
    this.infeasible.hidden = !trouble;
    setText(this.infeasible, trouble);
    this.isObserving = Boolean(engine.observe_only);
  }

  async flip() {
    const wanted = !this.isObserving;
    await change(() => put("/api/mode", { engine: this.name, observe_only: wanted }),
      wanted ? `${this.name} is observed only: queries have their own limits.` : `${this.name} is governed again.`);
  }
}
