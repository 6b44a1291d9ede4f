// An answer as a picture: what moves from where to where, in the applicant's own units, and who agrees.
import { make, number, percent, plainName, tag, value } from "./api.js";
import { draw, palette } from "./charts.js";

export function answerCards(answer, version, asked) {
  const one = answer.explanations[0];
  const print = make("a", { class: "button", href: `/explanations/${one.id}` }, "Printable record");
  const cost = `the lender's models were asked ${one.queries === 1 ? "once" : `${number(one.queries)} times`}`;
  const head = make("div", { class: "card" }, make("div", { class: "head" }, make("h2", {}, heading(one.status)), print),
    make("p", { class: "verdict" }, verdict(one, asked)), make("p", { class: "hint" }, `${answer.model}, version ${answer.version} · ${cost}`),
    one.error ? make("p", { class: "problem" }, one.error) : null,
    ...(one.notices ?? []).map((notice) => make("p", { class: "advice" }, notice)), one.diagnosis ? whyNot(one.diagnosis) : null);
  const several = one.counterfactuals.length > 1;
  const ways = one.counterfactuals.map((found, index) => way(found, one.status, several ? `Way ${index + 1}` : null, version, asked));
  const cards = [head];
  if (ways.length) cards.push(make("div", { class: "answers" }, ways));
  if (one.status !== "infeasible" && one.trajectory?.length > 1) cards.push(journey(one.trajectory, one.counterfactuals[0]));
  return cards;
}

const heading = (status) => ({ robust: "There is a way", valid: "There is a likely way", already_target: "Nothing needs to change", infeasible: "No way within these limits", error: "The record cannot be read" })[status];

function verdict(one, asked) {
  const best = one.counterfactuals[0];
  if (one.status === "already_target") return one.queries ? `As many of the models as you asked for say “${asked.target}” as things are.` : `We expect the models to say “${asked.target}” as things are. They were not asked.`;
  if (one.status === "infeasible") return "Nothing that this applicant may change is enough.";
  if (!best) return "Mend the record and try again.";
  const count = best.actions?.length || best.changes.length, things = count === 1 ? "one thing changes" : `${count} things change`;
  if (!best.votes.length) return `If ${things}, we expect ${percent(best.expected_agreement)} of the models to accept. They were not asked.`;
  const yes = best.votes.filter((vote) => vote.accepts).length;
  return `If ${things}, ${yes} of ${best.votes.length} models accept.`;
}

function whyNot(diagnosis) {
  const binding = diagnosis.binding.filter((entry) => entry.gain > 0);
  return make("div", {}, make("h3", {}, "Why not"), make("p", { class: "advice" }, diagnosis.advice),
    make("p", {}, `The best that was found convinces ${diagnosis.best_agreement ? percent(diagnosis.best_agreement) : "none"} of the models${diagnosis.verified ? "" : ", as far as can be told without asking them"}.`),
    diagnosis.certificate in CERTAINTY ? make("p", { class: "hint" }, CERTAINTY[diagnosis.certificate]) : null,
    diagnosis.dissenting.length ? make("p", {}, `Still refusing: ${diagnosis.dissenting.join(", ")}.`) : null,
    binding.length ? make("p", {}, "It would help most if these could change: ", binding.map((entry) => plainName(entry.feature)).join(", "), ".") : null);
}

function way(found, status, name, version, asked) {
  const lost = status === "infeasible", schema = version.schema;
  const moved = new Set(found.changes.map((change) => change.feature));
  const kept = asked.constraints.immutable.filter((name) => !moved.has(name));
  return make("article", { class: "card" }, make("h3", {}, name || (lost ? "The best that was found" : "What would have to change")),
    steps(found),
    found.changes.map((change) => movement(change, schema.features.find((one) => one.name === change.feature))),
    kept.length ? make("p", { class: "hint", "data-kept": true }, `Kept as it is, as you asked: ${kept.map(plainName).join(", ")}.`) : null,
    make("h4", {}, "What each model says"), votes(found, lost),
    make("h4", {}, "Is it realistic?"),
    make("p", {}, found.trusted ? tag("good", "inside the trust region") : tag("warn", "outside the trust region")),
    gauge(found),
    make("p", { class: "hint" }, found.trusted ? "It resembles real applicants who were accepted." : "Few real applicants who were accepted look like this: treat it with care."));
}

// What to do, in the applicant's own units and in order.
function steps(found) {
  const told = (found.actions ?? []).filter((one) => one.sentence);
  return told.length ? make("ol", { class: "steps" }, told.map((one) => make("li", {}, one.sentence))) : null;
}

const CERTAINTY = {
  proven: "This is certain: the rules leave nothing else, or all that they leave was put to the models.",
  excluded_by_surrogate: "All that the rules leave was listed; what the models were not asked about is expected to be refused.",
};

// As in models/search/scoring.py: below this share an answer is not trusted.
const USUAL = 0.05;

// How many real applicants of the wanted class are less typical; what lies left of the line is not trusted.
function gauge(found) {
  if (typeof found.typicality !== "number") return null;
  const at = (share) => `${3 + 94 * share}%`, words = `${percent(found.typicality)} of the real applicants who were accepted are less typical`;
  return make("div", { class: "gauge" }, make("svg", { class: "track", role: "img", "aria-label": words },
    make("line", { class: "rail", x1: at(0), x2: at(USUAL), y1: 17, y2: 17 }), make("line", { class: "trusted", x1: at(USUAL), x2: at(1), y1: 17, y2: 17 }),
    make("line", { class: "edge", x1: at(USUAL), x2: at(USUAL), y1: 6, y2: 28 }), make("circle", { class: found.trusted ? "new" : "outside", cx: at(found.typicality), cy: 17, r: 8 })),
  make("div", { class: "ends", "aria-hidden": "true" }, make("span", {}, "unlike real ones"), make("span", {}, `${percent(found.typicality)} are less typical`), make("span", {}, "much like them")));
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
  return ` (${by > 0 ? "+" : "−"}${value(Math.abs(by))})`;
}

// Where the value was and where it goes, so near that the step can be seen, and never beyond what the data know.
function track(change, feature) {
  const pad = 1.5 * Math.abs(change.to - change.from), step = nice(pad / 2);
  const low = Math.min(change.from, Math.max(feature.lower, Math.floor((Math.min(change.from, change.to) - pad) / step) * step));
  const high = Math.max(change.from, Math.min(feature.upper, Math.ceil((Math.max(change.from, change.to) + pad) / step) * step));
  const at = (raw) => `${3 + 94 * (raw - low) / (high - low || 1)}%`;
  return make("div", {}, make("svg", { class: "track", role: "img", "aria-label": `from ${value(change.from)} to ${value(change.to)}` },
    make("line", { class: "rail", x1: "3%", x2: "97%", y1: 17, y2: 17 }), make("line", { class: "move", x1: at(change.from), x2: at(change.to), y1: 17, y2: 17 }),
    make("circle", { class: "old", cx: at(change.from), cy: 17, r: 7 }), make("circle", { class: "new", cx: at(change.to), cy: 17, r: 9 })),
  make("div", { class: "ends", "aria-hidden": "true" }, make("span", {}, value(low)), make("span", {}, value(high))));
}

// 1, 2 or 5 times a power of ten, not above the raw number.
function nice(raw) {
  const power = 10 ** Math.floor(Math.log10(raw));
  return [5, 2, 1].find((times) => times * power <= raw) * power;
}

function votes(found, lost) {
  if (!found.votes.length) return make("p", {}, `They were not asked. We expect ${percent(found.expected_agreement)} of them to accept.`);
  const list = found.votes.map((vote) => make("li", {}, vote.accepts === null ? tag("", `? ${vote.model}: no answer`) : vote.accepts ? tag("good", `✓ ${vote.model} accepts`) : tag("bad", `✕ ${vote.model} refuses`)));
  return make("div", {}, make("ul", { class: "votes" }, list),
    lost ? null : make("p", { class: "hint" }, "These are the models that were asked. Others may decide otherwise."));
}

function journey(points, best) {
  const chart = make("div", { class: "chart small" });
  draw(chart, () => {
    const [main, second, , , good, card] = palette();
    const bend = Math.max(0, points.findLastIndex((p) => p.stage === "record" || p.stage === "flow"));
    const line = (part, name, color) => ({ x: part.map((p) => p.time), y: part.map((p) => p.expected_agreement), customdata: part.map((p) => p.cost), mode: "lines+markers", name, line: { color, width: 3 }, marker: { size: 7 }, hovertemplate: "%{y:.0%} expected to accept, change of size %{customdata:.2f}<extra></extra>" });
    return {
      traces: [
        line(points.slice(bend), "then put right", second), line(points.slice(0, bend + 1), "the search", main),
        { x: [1], y: [best.expected_agreement], customdata: [best.cost], mode: "markers", name: "the answer", marker: { size: 13, color: good, line: { width: 2, color: card } }, cliponaxis: false, hovertemplate: "the answer: %{y:.0%} expected, change of size %{customdata:.2f}<extra></extra>" },
      ],
      text: `Along the way the expected share of models that accept goes from ${percent(points[0].expected_agreement)}, as things are, to ${percent(best.expected_agreement)} at the answer.`,
      layout: { key: true, hovermode: "closest", xaxis: { tickvals: [0, 0.5, 1], ticktext: ["today", "half way", "there"], range: [-0.02, 1.04] }, yaxis: { tickformat: ".0%", range: [0, 1.04], title: { text: "expected to accept" } } },
    };
  });
  return make("div", { class: "card" }, make("h3", {}, "The way there"),
    make("p", { class: "hint" }, "From the applicant's own record the search moves step by step; changes that are not needed are then put back, up to the answer."), chart);
}
