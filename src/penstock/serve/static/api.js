// What the page asks of the service, with the token where there is one, and the stream of what changes.

const KEY = "penstock-token";

/** The token comes behind the '#' of the link that was printed, and stays in this tab. */
export function takeToken() {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, found[1]);
    history.replaceState(null, "", `${location.pathname}#/`);
  }
}

export const hasToken = () => Boolean(sessionStorage.getItem(KEY));
export const setToken = (token) => (token ? sessionStorage.setItem(KEY, token) : sessionStorage.removeItem(KEY));

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { ...more, authorization: `Bearer ${token}` } : more;
}

/** An answer that is no success: its sentence says what to do. */
export class Refused extends Error {
  constructor(status, kind, sentence) {
    super(sentence);
    this.status = status;
    this.kind = kind;
  }
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Refused(0, "Unreachable", "the service does not answer; is it still running?");
  }
  if (answer.ok) return answer.json();
  const told = await answer.json().catch(() => ({ kind: "Unknown", error: `the service answered ${answer.status}` }));
  throw new Refused(answer.status, told.kind, told.error);
}

export function get(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const text = query.toString();
  return ask(text ? `${path}?${text}` : path, { headers: headers(), signal });
}

export function put(path, body) {
  return ask(path, { method: "PUT", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body) });
}

/**
 * Follows the events of the service and begins anew when they break off. Read with fetch and not with EventSource,
 * which cannot send a token.
 */
export async function follow(onNews, onLink) {
  for (let waited = 0; ; waited = Math.min(waited + 1, 5)) {
    try {
      const answer = await fetch("/api/events", { headers: headers(), cache: "no-store" });
      if (!answer.ok) {
        const told = await answer.json().catch(() => ({}));
        throw new Refused(answer.status, told.kind, told.error || `the service answered ${answer.status}`);
      }
      onLink("live");
      waited = 0;
      await read(answer.body.getReader(), onNews);
      onLink("lost", "the service ended");
    } catch (error) {
      onLink("lost", error instanceof Refused ? error.message : "the service does not answer", error.status);
    }
    await new Promise((resolve) => setTimeout(resolve, 500 + 1000 * waited));
  }
}

async function read(reader, onNews) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = text.slice(0, end).split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("");
      text = text.slice(end + 2);
      if (data) onNews(JSON.parse(data));
    }
  }
}
