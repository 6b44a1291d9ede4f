// An answer as a picture: what moves from where to where, in the applicant's own units, and who agrees.
import { make, number, percent, plainName, tag, value } from "./api.js";
import { draw, palette } from "./charts.js";

export function answerCards(answer, schema, asked) {
  const one = answer.explanations[0];
  const print = make("a", { class: "button", href: `/explanations/${one.id}` }, "Printable record");
  const cost = `the lender's models were asked ${one.queries === 1 ? "once" : `${number(one.queries)} times`}`;
  const head = make("div", { class: "card" }, make("div", { class: "head" }, make("h2", {}, heading(one.status)), print),
    make("p", { class: "verdict" }, verdict(one, asked)), make("p", { class: "hint" }, `${answer.model}, version ${answer.version} · ${cost}`),
    one.error ? make("p", { class: "problem" }, one.error) : null, one.diagnosis ? whyNot(one.diagnosis) : null);
  const several = one.counterfactuals.length > 1;
  const ways = one.counterfactuals.map((found, index) => way(found, index, several, schema, asked));
  const cards = [head];
  if (ways.length) cards.push(make("div", { class: "answers" }, ways));
  if (one.trajectory?.length > 1) cards.push(journey(one.trajectory));
  return cards;
}

const heading = (status) => ({ robust: "There is a way", valid: "There is a likely way", already_target: "Nothing needs to change", infeasible: "No way within these limits", error: "The record cannot be read" })[status];

function verdict(one, asked) {
  const best = one.counterfactuals[0];
  if (one.status === "already_target") return `The models say “${asked.target}” as things are.`;
  if (!best) return one.status === "infeasible" ? "Nothing that this applicant may change is enough." : "Mend the record and try again.";
  const things = best.changes.length === 1 ? "one thing changes" : `${best.changes.length} things change`;
  if (!best.votes.length) return `If ${things}, we expect ${percent(best.expected_agreement)} of the models to accept. They were not asked.`;
  const yes = best.votes.filter((vote) => vote.accepts).length;
  return `If ${things}, ${yes} of ${best.votes.length} models accept.`;
}

function whyNot(diagnosis) {
  const binding = diagnosis.binding.filter((entry) => entry.gain > 0);
  return make("div", {}, make("h3", {}, "Why not"), make("p", { class: "advice" }, diagnosis.advice),
    make("p", {}, `The best that was found: ${percent(diagnosis.best_agreement)} of the models${diagnosis.verified ? "" : ", as far as can be told without asking them"}.`),
    diagnosis.dissenting.length ? make("p", {}, `Still refusing: ${diagnosis.dissenting.join(", ")}.`) : null,
    binding.length ? make("p", {}, "It would help most if these could change: ", binding.map((entry) => plainName(entry.feature)).join(", "), ".") : null);
}

function way(found, index, several, schema, asked) {
  const moved = new Set(found.changes.map((change) => change.feature));
  const kept = asked.constraints.immutable.filter((name) => !moved.has(name));
  return make("article", { class: "card", "data-way": index }, make("h3", {}, several ? `Way ${index + 1}` : "What would have to change"),
    found.changes.length ? found.changes.map((change) => movement(change, schema.features.find((one) => one.name === change.feature))) : make("p", {}, "Nothing."),
    kept.length ? make("p", { class: "hint", "data-kept": true }, `Kept as it is, as you asked: ${kept.map(plainName).join(", ")}.`) : null,
    make("h4", {}, "What each model says"), votes(found),
    make("h4", {}, "Is it realistic?"),
    make("p", {}, found.trusted ? tag("good", "inside the trusted region") : tag("warn", "outside the trusted region")),
    make("p", { class: "hint" }, found.trusted ? `It resembles real applicants who were accepted (density score ${found.density.toFixed(1)}).` : `Few real applicants look like this (density score ${found.density.toFixed(1)}): treat it with care.`));
}

function movement(change, feature) {
  const head = make("div", { class: "change-head" }, make("strong", {}, plainName(change.feature)),
    make("span", { class: "values" }, `${value(change.from)} → `, make("span", { class: "after" }, value(change.to)), difference(change)));
  const numeric = feature && feature.kind !== "categorical" && change.from !== null && change.to !== null;
  return make("div", { class: "change", "data-changed": change.feature }, head, numeric ? track(change, feature) : null);
}

function difference(change) {
  if (typeof change.from !== "number" || typeof change.to !== "number") return "";
  const by = Number((change.to - change.from).toPrecision(6));
  return ` (${by > 0 ? "+" : "−"}${number(Math.abs(by))})`;
}

// Where the value was and where it goes, between the least and the greatest that the data know.
function track(change, feature) {
  const [low, high] = [Math.min(feature.lower, change.from), Math.max(feature.upper, change.from)];
  const at = (raw) => `${3 + 94 * (raw - low) / (high - low || 1)}%`;
  return make("div", {}, make("svg", { class: "track", role: "img", "aria-label": `from ${value(change.from)} to ${value(change.to)}` },
    make("line", { class: "rail", x1: "3%", x2: "97%", y1: 17, y2: 17 }), make("line", { class: "move", x1: at(change.from), x2: at(change.to), y1: 17, y2: 17 }),
    make("circle", { class: "old", cx: at(change.from), cy: 17, r: 7 }), make("circle", { class: "new", cx: at(change.to), cy: 17, r: 9 })),
  make("div", { class: "ends", "aria-hidden": "true" }, make("span", {}, value(low)), make("span", {}, value(high))));
}

function votes(found) {
  if (!found.votes.length) return make("p", {}, `They were not asked. We expect ${percent(found.expected_agreement)} of them to accept.`);
  const list = found.votes.map((vote) => make("li", {}, vote.accepts === null ? tag("", `? ${vote.model}: no answer`) : vote.accepts ? tag("good", `✓ ${vote.model} accepts`) : tag("bad", `✕ ${vote.model} refuses`)));
  return make("div", {}, make("ul", { class: "votes" }, list),
    make("p", { class: "hint" }, `With 90% certainty at least ${percent(found.lower_bound)} of models like these would accept.`));
}

function journey(points) {
  const chart = make("div", { class: "chart small" });
  draw(chart, () => ({
    traces: [{ x: points.map((p) => p.cost), y: points.map((p) => p.expected_agreement), mode: "lines", line: { color: palette()[0], width: 3, shape: "spline" }, hovertemplate: "%{y:.0%} expected to accept<extra></extra>" }],
    text: `Along the way the expected share of models that accept goes from ${percent(points[0].expected_agreement)} to ${percent(points.at(-1).expected_agreement)}.`,
    layout: { hovermode: "closest", xaxis: { title: { text: "how far from today" }, rangemode: "tozero" }, yaxis: { tickformat: ".0%", range: [0, 1.04], title: { text: "expected to accept" } } },
  }));
  return make("div", { class: "card" }, make("h3", {}, "The way there"), make("p", { class: "hint" }, "How the search moves from today's record towards acceptance."), chart);
}
