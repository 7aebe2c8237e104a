// The page: which view is shown, what is known of the fleet, and how fresh it is.
import { Refused, follow, hasToken, setToken, takeToken } from "/static/api.js";
import { clock, lasting, setText, toast } from "/static/dom.js";
import { FleetView } from "/static/fleet.js";
import { ActionsView } from "/static/actions.js";

const STALE_AFTER_S = 20;

/** What is known, and who wants to hear of news. */
export const state = {
  queries: new Map(), engines: new Map(), time: null, newsAt: null, isLoaded: false, link: "connecting", why: "",
  /** Seconds since the epoch by the service's clock: that of this computer may be off. */
  now() { return this.time === null ? Date.now() / 1000 : this.time + (performance.now() - this.newsAt) / 1000; },
};
export const keyOf = (engine, query) => `${engine}\u0000${query}`;

let view = null;

takeToken();
addEventListener("hashchange", () => { takeToken(); route(); });

function route() {
  const [, name = "", engine = "", query = ""] = location.hash.split("/").map(decodeURIComponent);
  view?.close?.();
  const main = document.getElementById("main");
  main.replaceChildren();
  const shown = name === "query" ? "fleet" : name || "fleet";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (name === "query") {
    document.title = `${query} · Penstock`;
    view = new LazyView(main, () => import("/static/query.js").then(({ QueryView }) => new QueryView(main, state, engine, query)));
  } else if (name === "actions") {
    document.title = "Actions · Penstock";
    view = new ActionsView(main, state);
  } else {
    document.title = "Fleet · Penstock";
    view = new FleetView(main, state);
  }
  view.update?.([]);
}

/** A view whose code is loaded when it is needed. */
class LazyView {
  constructor(main, load) {
    this.isOpen = true;
    load().then((view) => {
      if (this.isOpen) { this.inner = view; view.update?.([]); } else view.close?.();
    }).catch((error) => { main.textContent = `This view could not be loaded: ${error.message}`; });
  }

  update(news) { this.inner?.update?.(news); }

  close() { this.isOpen = false; this.inner?.close?.(); }
}

function onNews(news) {
  for (const engine of news.engines) state.engines.set(engine.engine, engine);
  for (const row of news.queries) state.queries.set(keyOf(row.engine, row.query), row);
  Object.assign(state, { time: news.time_s, newsAt: performance.now(), isLoaded: true });
  view?.update?.(news.actions);
  showLink();
}

function onLink(link, why = "", status = 0) {
  Object.assign(state, { link, why });
  if (status === 401 && !document.getElementById("token-dialog").open) unlock();
  showLink();
  view?.update?.([]);
}

function showLink() {
  const isLive = [...state.engines.values()].some((engine) => engine.is_live);
  const link = state.link === "live" && state.queries.size && !isLive ? "recorded" : state.link;
  const element = document.getElementById("link");
  element.dataset.is = link;
  setText(element.lastElementChild, { live: "live", lost: "reconnecting", recorded: "recorded run", connecting: "connecting" }[link]);
  showBanner(isLive);
}

function showBanner(isLive) {
  const banner = document.getElementById("banner");
  const problems = [...state.engines.values()].filter((engine) => engine.problem);
  const silence = state.newsAt === null ? 0 : (performance.now() - state.newsAt) / 1000;
  let kind = "", text = "";
  if (state.link === "lost" && !state.isLoaded) [kind, text] = ["error", `Nothing to show yet: ${state.why}.`];
  else if (state.link === "lost") [kind, text] = ["stale", `No news for ${lasting(silence)} (${state.why}). Figures are of ${clock(state.time)}.`];
  else if (problems.length) [kind, text] = ["error", problems.map((engine) => `${engine.engine}: ${engine.problem}`).join(" · ")];
  else if (state.isLoaded && !isLive && state.queries.size) {
    const seen = Math.max(...[...state.engines.values()].map((engine) => engine.seen_s || 0));
    [kind, text] = ["note", `A recorded run: the newest observation is of ${clock(seen)}.`];
  } else if (silence > STALE_AFTER_S) [kind, text] = ["stale", `No news for ${lasting(silence)}.`];
  banner.hidden = !text;
  banner.dataset.kind = kind;
  setText(banner, text);
}

// Changes need the token.

export function showLock() {
  setText(document.getElementById("unlock"), hasToken() ? "Lock" : "Unlock");
}

export function unlock() {
  const dialog = document.getElementById("token-dialog");
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const input = document.getElementById("token-input");
      if (dialog.returnValue === "save" && input.value.trim()) setToken(input.value.trim());
      input.value = "";
      showLock();
      resolve(hasToken());
    }, { once: true });
  });
}

/** Does something that needs the token, and says what came of it. */
export async function change(act, done) {
  if (!hasToken() && !(await unlock())) return false;
  try {
    const answer = await act();
    toast(answer.outcome === "accepted" ? `${done} It is on its way to the engine.` : done);
    return true;
  } catch (error) {
    if (error instanceof Refused && error.status === 401) { setToken(""); showLock(); }
    toast(error.message, "bad");
    return false;
  }
}

document.getElementById("unlock").addEventListener("click", () => {
  if (hasToken()) { setToken(""); showLock(); } else unlock();
});
document.getElementById("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("penstock-theme", next);
  view?.restyle?.();
  view?.inner?.restyle?.();
});

showLock();
route();
setInterval(showLink, 5000);
follow(onNews, onLink);
