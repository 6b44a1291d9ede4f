// Plotly, fetched when a chart is first needed, in the page's own colours.
import { make } from "./api.js";

// Plotly would add a style sheet for maps, which we do not draw and our policy forbids; it looks for this id first.
const MAP_STYLE = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53";

let loading;
function plotly() {
  loading ??= new Promise((done, fail) => {
    document.head.append(make("meta", { id: MAP_STYLE }));
    const script = document.createElement("script");
    script.src = document.querySelector("meta[name=plotly]").content;
    script.onload = () => done(window.Plotly);
    script.onerror = () => fail(new Error("The charts could not be loaded."));
    document.head.append(script);
  });
  return loading;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const drawn = new Map();

export function palette() {
  return [colour("accent"), colour("amber"), colour("bad"), colour("soft"), colour("good"), colour("card")];
}

function layout(wanted) {
  const axis = { gridcolor: colour("line"), linecolor: colour("line"), zeroline: false, automargin: true, title: { standoff: 8 } };
  return {
    margin: { l: 64, r: 12, t: 8, b: 40 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, 'DejaVu Sans', sans-serif", size: 13, color: colour("soft") },
    showlegend: false, hovermode: "x unified", hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } },
    ...wanted, key: undefined, xaxis: { ...axis, ...wanted.xaxis }, yaxis: { ...axis, ...wanted.yaxis },
  };
}

// `describe` rebuilds {traces, layout, text}: colours change with the scheme. `text` is for those who do not see it.
export async function draw(place, describe) {
  drawn.set(place, describe);
  try {
    const library = await plotly();
    if (drawn.get(place) !== describe) return;
    const { traces, layout: wanted, text } = describe();
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", text);
    place.querySelector(".plain")?.remove();
    if (wanted.key) keyOf(place).replaceChildren(...traces.map(entry));
    await library.react(place, traces, layout(wanted), { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false });
  } catch (error) {
    say(place, error.message);
  }
}

// The key stands above the chart as text: Plotly's own would lie on the lines where the page is narrow.
function keyOf(place) {
  const before = place.previousElementSibling;
  if (before?.classList.contains("key")) return before;
  const key = make("ul", { class: "key", "aria-hidden": "true" });
  place.before(key);
  return key;
}

function entry(trace) {
  const color = trace.line?.color || trace.marker.color;
  const shape = trace.mode === "markers" ? make("circle", { cx: 9, cy: 6, r: 5, fill: color }) : make("line", { x1: 0, x2: 18, y1: 6, y2: 6, stroke: color, "stroke-width": 3, "stroke-dasharray": trace.line?.dash ? "3 3" : null });
  return make("li", {}, make("svg", { width: 18, height: 12 }, shape), trace.name);
}

export function say(place, text) {
  drawn.delete(place);
  if (window.Plotly && place.classList.contains("js-plotly-plot")) window.Plotly.purge(place);
  place.removeAttribute("role");
  place.removeAttribute("aria-label");
  const words = document.createElement("p");
  words.className = "plain";
  words.textContent = text;
  place.replaceChildren(words);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const [place, describe] of drawn) if (place.isConnected) draw(place, describe);
});
