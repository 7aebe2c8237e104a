// The action log: what was decided, why, what was expected of it and what was seen.
import { get } from "/static/api.js";
import { clock, h, short } from "/static/dom.js";

const KINDS = ["govern", "release", "read_limit", "keep_ratio", "executors", "executors_done", "resize", "resize_done", "graph_plan", "place", "move", "move_done", "stream_keep", "accuracy_bounds", "hold", "infeasible", "unmanaged", "plan_finding", "actuator_off", "repay", "fault"];
const REFRESH_MS = 3000;

/** A metric in words, and its unit. */
function named(name) {
  for (const [ending, unit] of [["_rows_per_s", " rows/s"], ["_per_row_s", " s a row"], ["_rows", " rows"], ["_s", " s"]]) {
    if (name.endsWith(ending)) return [name.slice(0, -ending.length).replaceAll("_", " "), unit];
  }
  return [name.replaceAll("_", " "), ""];
}

/** One line of the log, with or without the name of its query. */
export function actionRow(row, withQuery) {
  const where = row.query || "(application)";
  const effects = Object.entries(row.expected).map(([name, expected]) => {
    const seen = row.seen[name];
    const [words, unit] = named(name);
    return `${words}: ${short(expected)}${unit} expected${seen === undefined ? "" : `, ${short(seen)}${unit} seen`}`;
  });
  const name = withQuery && h("td", { "data-label": "Query" }, row.query
    ? h("a", { href: `#/query/${encodeURIComponent(row.engine)}/${encodeURIComponent(row.query)}` }, where) : where);
  return h("tr", {},
    h("th", { scope: "row", class: "num" }, clock(row.time_s)), name,
    h("td", { "data-label": "Kind" }, h("span", { class: "kind" }, row.kind), row.mode === "observe" ? h("small", { class: "soft" }, " observed only") : null),
    h("td", { "data-label": "Change" }, row.change || "–"),
    h("td", { class: "reason", "data-label": `Why (${row.cause})` }, row.reason),
    h("td", { class: "reason soft", "data-label": "Expected and seen" }, effects.join("; ") || "–"));
}

export function actionTable(withQuery) {
  const body = h("tbody");
  const heads = ["Time", ...(withQuery ? ["Query"] : []), "Kind", "Change", "Reason", "Expected and seen"];
  const table = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Actions" },
    h("table", { class: "stack" }, h("caption", { class: "visually-hidden" }, "What was decided, newest first"),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), body));
  return { table, body };
}

export class ActionsView {
  constructor(main, state) {
    this.state = state;
    this.engine = h("select", { "aria-label": "Engine", change: () => this.load() });
    this.kind = h("select", { "aria-label": "Kind", change: () => this.load() }, h("option", { value: "" }, "all kinds"), KINDS.map((kind) => h("option", { value: kind }, kind)));
    this.query = h("input", { type: "search", placeholder: "Name of a query", "aria-label": "Name of a query", change: () => this.load() });
    const { table, body } = actionTable(true);
    this.body = body;
    this.note = h("p", { class: "empty", role: "status" }, "Loading");
    this.panel = h("div", { class: "panel" }, table);
    main.append(h("div", { class: "title" }, h("h1", {}, "Actions")), h("p", { class: "lead" }, "What was decided, why, and what came of it. Newest first."),
      h("div", { class: "controls" }, this.engine, this.kind, this.query), this.panel, this.note);
    this.panel.hidden = true;
    this.timer = setInterval(() => { if (this.isDirty) this.load(); }, REFRESH_MS);
  }

  update(actions) {
    const names = [...this.state.engines.keys()];
    if (names.length !== this.engine.options.length) {
      this.engine.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
      this.engine.hidden = names.length < 2;
      this.load();
    }
    this.isDirty ||= actions.length > 0;
  }

  async load() {
    if (!this.engine.value) return;
    this.isDirty = false;
    try {
      const found = await get("/api/actions", { engine: this.engine.value, kind: this.kind.value, query: this.query.value.trim(), last: 100 });
      this.body.replaceChildren(...found.rows.map((row) => actionRow(row, true)));
      this.panel.hidden = !found.rows.length;
      this.note.hidden = found.rows.length > 0 && !found.older_exist;
      this.note.textContent = found.rows.length ? "The newest 100 are shown; 'penstock log' shows all." : "Nothing was decided that matches.";
    } catch (error) {
      this.panel.hidden = true;
      this.note.hidden = false;
      this.note.textContent = error.message;
    }
  }

  close() { clearInterval(this.timer); }
}
