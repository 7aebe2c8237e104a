// Charts of a query. The library is 4 MB and is loaded, from this machine, when the first chart is drawn.

let loading = null;

/** Loads the chart library once. */
export function library() {
  loading ||= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/static/plotly.min.js";
    script.onload = () => resolve(globalThis.Plotly);
    script.onerror = () => { loading = null; reject(new Error("the chart library could not be loaded")); };
    document.head.append(script);
  });
  return loading;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faded = (hex, part) => `${hex}${Math.round(255 * part).toString(16).padStart(2, "0")}`;
const moments = (times) => times.map((time) => new Date(time * 1000));

export const palette = () => ({ main: colour("--accent"), other: colour("--shed"), third: colour("--grow"), soft: colour("--soft"), line: colour("--line"), text: colour("--text"), bad: colour("--bad") });

/** A line over time; bands and gaps are other traces. */
export function line(name, times, values, how = {}) {
  const own = how.colour || palette().main;
  // One or two points make no line.
  const mode = values.filter((value) => value !== null).length < 3 ? "lines+markers" : "lines";
  return { type: "scatter", mode, name, x: moments(times), y: values, connectgaps: true, line: { color: own, width: how.width || 1.6, dash: how.dash || "solid", shape: how.shape || "linear" }, hovertemplate: `%{y:${how.format || ".4~g"}}${how.unit || ""}<extra>${name}</extra>` };
}

/** The space between two lines. */
export function band(times, low, high, own) {
  const known = times.map((time, place) => [time, low[place], high[place]]).filter(([, a, b]) => a !== null && b !== null);
  return { type: "scatter", mode: "lines", x: moments([...known.map(([time]) => time), ...known.map(([time]) => time).reverse()]), y: [...known.map(([, , b]) => b), ...known.map(([, a]) => a).reverse()], fill: "toself", fillcolor: faded(own, 0.14), line: { width: 0 }, hoverinfo: "skip", showlegend: false };
}

/** Marks of actions at the top of a chart; hovering says why. */
export function marks(actions) {
  const p = palette();
  const words = (text) => text.replace(/(.{1,64})(\s|$)/g, "$1<br>").replace(/<br>$/, "");
  const safe = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const tone = (kind) => ({ infeasible: p.bad, fault: p.bad, keep_ratio: p.other, executors: p.third, executors_done: p.third }[kind] || p.soft);
  return { type: "scatter", mode: "markers", yaxis: "y2", x: moments(actions.map((action) => action.time_s)), y: actions.map(() => 0.5), marker: { symbol: "triangle-down", size: 9, color: actions.map((action) => tone(action.kind)) },
    text: actions.map((action) => `<b>${action.kind}</b> ${safe(action.change)}<br>${words(safe(action.reason))}`), hovertemplate: "%{text}<extra></extra>", showlegend: false, name: "actions" };
}

/** A horizontal line with its name. */
export function goalLine(value, text) {
  const p = palette();
  return { shape: { type: "line", xref: "paper", x0: 0, x1: 1, y0: value, y1: value, line: { color: p.bad, width: 1, dash: "dash" } }, note: { xref: "paper", x: 1, xanchor: "right", y: value, yanchor: "bottom", text, showarrow: false, font: { size: 11, color: p.bad } } };
}

/** Draws or redraws; the zoom that somebody has set stays. */
export async function draw(element, traces, { range, goals = [], format = "", top = undefined, least = 0 } = {}) {
  const Plotly = await library();
  const p = palette();
  // Noise around nothing must not look like a storm.
  const highest = Math.max(0, ...traces.filter((trace) => trace.yaxis !== "y2").flatMap((trace) => trace.y.filter((value) => value !== null)));
  if (highest < least) top = least;
  const hasMarks = traces.some((trace) => trace.yaxis === "y2" && trace.x.length);
  const axis = { gridcolor: p.line, zerolinecolor: p.line, linecolor: p.line, tickfont: { size: 11, color: p.soft }, automargin: true };
  const layout = {
    height: element.clientHeight || 224, margin: { t: 26, r: 14, b: 26, l: 10 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: "system-ui, sans-serif", size: 12, color: p.text },
    xaxis: { ...axis, type: "date", range: range && moments(range), showgrid: false }, yaxis: { ...axis, domain: hasMarks ? [0, 0.9] : [0, 1], rangemode: "tozero", tickformat: format, nticks: 5, range: top && [0, top] },
    yaxis2: { domain: [0.92, 1], anchor: "x", range: [0, 1], visible: false, fixedrange: true }, showlegend: traces.filter((trace) => trace.showlegend !== false).length > 1, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11, color: p.soft }, bgcolor: "rgba(0,0,0,0)" },
    shapes: goals.map((goal) => goal.shape), annotations: goals.map((goal) => goal.note), hovermode: "closest", hoverlabel: { align: "left", bgcolor: colour("--panel"), bordercolor: p.line, font: { color: p.text, size: 12 } }, uirevision: String(range), dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
  };
  await Plotly.react(element, traces, layout, { displayModeBar: false, responsive: true });
}

export function clear(element) {
  globalThis.Plotly?.purge(element);
}
