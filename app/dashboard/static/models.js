// Models: versions, how good they are, what robustness costs, which one answers.
import { call, failed, get, make, mayTrain, number, percent, plainName, sentence, tag, tell, time } from "./api.js";
import { draw, palette, say } from "./charts.js";

const place = document.getElementById("place");

async function show() {
  try {
    const page = await get("/models?limit=50");
    place.className = "";
    if (!page.items.length) {
      place.replaceChildren(make("div", { class: "empty card" }, make("h2", {}, "No model yet"),
        make("p", {}, "The first appears when a training has ended. Run ", make("code", {}, "make demo"), " to see one.")));
      return;
    }
    const details = await Promise.all(page.items.map((model) => get(`/models/${encodeURIComponent(model.name)}?limit=20`)));
    place.replaceChildren(...details.map(modelSection));
    document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  } catch (error) {
    failed(place, error, show);
  }
}

function modelSection(model) {
  const active = model.versions.find((version) => version.number === model.active_version) || model.versions[0];
  const inside = make("div", { class: "version" });
  const section = make("section", { class: "card", id: model.name, "aria-labelledby": `name-${model.name}` },
    make("div", { class: "head" }, make("h2", { id: `name-${model.name}` }, model.name),
      make("a", { class: "button", href: `/explain?model=${encodeURIComponent(model.name)}` }, "Explain with it")),
    versionTable(model, inside), inside);
  if (active) fill(inside, active, model);
  return section;
}

function versionTable(model, inside) {
  const rows = model.versions.map((version) => {
    const live = version.number === model.active_version;
    const back = version.number < model.active_version;
    const act = live || !mayTrain() ? "" : make("button", { type: "button", "aria-label": `${back ? "Go back to" : "Activate"} version ${version.number}`, onclick: () => activate(model, version.number) }, back ? "Go back to this" : "Activate");
    return make("tr", {}, make("td", {}, make("button", { type: "button", class: "quiet", "aria-label": `Show version ${version.number}`, onclick: () => fill(inside, version, model) }, `Version ${version.number}`)),
      make("td", {}, live ? tag("good", "active") : tag("", "kept")), make("td", {}, time(version.created_at)),
      make("td", { class: "number" }, confirmed(version)), make("td", { class: "number" }, act));
  });
  const head = ["Version", "State", "Made (UTC)"].map((word) => make("th", { scope: "col" }, word));
  head.push(make("th", { scope: "col", class: "number" }, "Confirmed agreement"), make("th", { scope: "col", class: "number" }, make("span", { class: "unseen" }, "Action")));
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Versions of ${model.name}` },
    make("table", {}, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows)));
}

const confirmed = (version) => version.metrics?.verified ? percent(version.metrics.verified.agreement) : "not asked";

function fill(inside, version, model) {
  const { expected, verified, members, labels, queries, rows, beside_oracle: beside } = version.metrics || {};
  const facts = [];
  if (verified) {
    facts.push(["The models themselves agree", percent(verified.agreement)], ["All of them agree", percent(verified.unanimous)]);
  }
  if (expected?.agreement !== undefined) {
    facts.push(["We had expected", percent(expected.agreement)], ["Refused applicants answered", percent(expected.answered)],
      ["Features changed, on average", expected.changes.toFixed(1)]);
  }
  if (queries !== undefined) facts.push(["Queries it took", number(queries)]);
  if (rows !== undefined) facts.push(["Rows learned from", number(rows)]);
  const chart = make("div", { class: "chart" });
  inside.replaceChildren(
    make("h3", {}, `Version ${version.number}: how good is it?`),
    verified ? make("p", { class: "hint" }, `${number(verified.records)} answers for applicants it had never seen were put to the lender's models: what they say is the truth, what we had expected is beside it.`) : "",
    facts.length ? make("dl", { class: "quality" }, facts.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text)))) : make("p", { class: "muted" }, "Nothing was measured for this version."),
    ...besideOracle(beside), ...fixed(version.schema),
    make("div", { class: "columns" }, make("div", {}, make("h3", {}, "What certainty costs the applicant"),
      make("p", { class: "hint" }, "Further right is a larger change; further up, more of the models accept."), make("ul", { class: "key", "aria-hidden": "true" }), chart),
    make("div", {}, make("h3", {}, "The lender's models"), memberTable(members ?? labels?.accuracy, labels?.auc), ...besideLabels(labels))));
  if (version.frontier?.length) draw(chart, () => frontier(version.frontier, beside));
  else say(chart, "This version has no measured frontier.");
}

const WAYS = [["unverified", "Our answer, no question asked"], ["verified", "Our answer, checked with up to 10 questions"], ["oracle", "Oracle, up to 100 questions"]];

function besideOracle(beside) {
  const title = make("h3", {}, "Beside an oracle");
  if (!beside) return [title, make("p", { class: "muted" }, "This version was not compared with one.")];
  if (beside.skipped) return [title, make("p", { class: "muted" }, `It was left out: ${beside.skipped}.`)];
  const rows = WAYS.map(([way, words]) => make("tr", {}, make("th", { scope: "row" }, words), make("td", { class: "number" }, percent(beside[way].unanimity)),
    make("td", { class: "number" }, percent(beside[way].validity)), make("td", { class: "number" }, beside[way].cost.toFixed(2))));
  const head = ["Found by", "All models accept", "Models that accept", "Size of change"].map((word, at) => make("th", { scope: "col", class: at ? "number" : null }, word));
  const ratio = beside.cost_ratio === null ? "" : ` Our checked answers are ${beside.cost_ratio.toFixed(2)} times as large a change as the oracle's.`;
  return [title, make("p", { class: "hint" }, `How much smaller could the change be? An oracle starts from the nearest real applicants who were accepted, and goes back towards each applicant as far as all models follow, at ten times the questions. Its answers lie at the very edge of these models, where the next model refuses more easily; ours stop before. ${number(beside.records)} applicants, the same in each row.${ratio}`),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Beside an oracle" }, make("table", { "data-oracle": true }, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows)))];
}

function fixed(schema) {
  const named = (chosen) => schema.features.filter(chosen).map((one) => plainName(one.name)).join(", ");
  const guarded = named((one) => one.protected), still = named((one) => one.immutable && !one.protected);
  const lines = [];
  if (guarded) lines.push(make("p", {}, make("strong", {}, "Protected, never suggested: "), `${guarded}.`));
  if (still) lines.push(make("p", {}, make("strong", {}, "Fixed: "), `${still}.`));
  return lines.length ? [make("h3", {}, "What no answer changes"), ...lines] : [];
}

function besideLabels(labels) {
  if (!labels) return [];
  if (labels.skipped) return [make("p", { class: "muted" }, `They were not compared with the labels: ${labels.skipped}.`)];
  return [make("p", { class: "hint" }, `On ${number(labels.records)} labelled records; an AUC of 0.5 is chance.`), ...labels.notices.map((notice) => make("p", { class: "advice" }, notice))];
}

function memberTable(members, auc) {
  if (!members || !Object.keys(members).length) return make("p", { class: "muted" }, "They belong to the lender; we know only their answers.");
  const rows = Object.entries(members).map(([name, right]) => make("tr", {}, make("td", {}, name), make("td", { class: "number" }, percent(right)), auc ? make("td", { class: "number" }, auc[name].toFixed(2)) : null));
  return make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Model"), make("th", { scope: "col", class: "number" }, "Right on unseen rows"), auc ? make("th", { scope: "col", class: "number" }, "AUC") : null)), make("tbody", {}, rows));
}

function frontier(points, beside) {
  const [main, amber] = palette();
  const sorted = [...points].sort((a, b) => a.cost - b.cost);
  const mark = (way, name, color) => ({ x: [beside[way].cost], y: [beside[way].validity], mode: "markers", name, marker: { size: 13, color, symbol: "circle", line: { width: 2, color: palette()[5] } }, hovertemplate: `size of change %{x:.2f}<br>%{y:.0%} of the models<extra>${name}</extra>` });
  const marks = beside?.oracle ? [mark("verified", "ours, checked", palette()[4]), mark("oracle", "oracle", amber)] : [];
  return {
    traces: [{ x: sorted.map((p) => p.cost), y: sorted.map((p) => p.agreement), mode: "lines+markers", name: "ours, as expected", line: { color: main, width: 3 }, marker: { size: 7 }, hovertemplate: "size of change %{x:.2f}<br>%{y:.0%} of the models<extra></extra>" }, ...marks],
    text: `From ${percent(sorted[0].agreement)} agreement at a change of size ${sorted[0].cost.toFixed(1)} to ${percent(sorted.at(-1).agreement)} at ${sorted.at(-1).cost.toFixed(1)}`,
    layout: { hovermode: "closest", key: marks.length > 0, xaxis: { title: { text: "size of the change" }, rangemode: "tozero" }, yaxis: { title: { text: "models that accept" }, tickformat: ".0%", range: [0, 1.04] } },
  };
}

async function activate(model, number) {
  try {
    await call("POST", `/models/${encodeURIComponent(model.name)}/activate`, { version: number });
    tell(`Version ${number} of ${model.name} answers from now on.`);
    await show();
  } catch (error) {
    tell(sentence(error));
  }
}

show();
