// Explain: a form made from the model's schema, and the answer beside it.
import { call, complain, failed, find, get, make, mayWrite, number, plainName, time, STATUS } from "./api.js";
import { answerCards } from "./answer.js";

const place = document.getElementById("place");
const answers = make("div", { id: "answers", "aria-live": "polite" });
let form = null, schema = null, version = null;

async function start() {
  try {
    const page = await get("/models?limit=100");
    const models = page.items.filter((model) => model.active_version !== null);
    if (!models.length) {
      place.className = "";
      place.replaceChildren(make("div", { class: "empty card" }, make("h2", {}, "No model answers yet"),
        make("p", {}, "Train one first: ", make("code", {}, "make demo"), " does it with made-up loans, ", make("code", {}, "POST /train"), " with your own table.")));
      return;
    }
    const wanted = new URLSearchParams(location.search).get("model");
    await open(models, (models.find((model) => model.name === wanted) || models[0]).name);
  } catch (error) {
    failed(place, error, start);
  }
}

async function open(models, name) {
  version = await activeVersion(name);
  schema = version.schema;
  form = make("form", { class: "card", novalidate: false, onsubmit: submit });
  const chooser = make("select", { id: "model", name: "model", onchange: (event) => open(models, event.target.value).catch((error) => failed(place, error, start)) },
    models.map((model) => make("option", { value: model.name, selected: model.name === name }, model.name)));
  form.append(
    field("model", "Model", chooser),
    make("div", { id: "recent" }),
    make("fieldset", {}, make("legend", {}, "The applicant"),
      make("p", { class: "hint" }, "Untick what this applicant cannot or will not change.", schema.features.some((one) => one.protected) ? " What is protected, such as age or sex, is never suggested as something to change." : ""), schema.features.map(feature)),
    asks(version), make("p", { class: "problem", role: "alert", "data-problem": true, hidden: true }),
    mayWrite() ? make("div", { class: "submit" }, make("button", { class: "primary", type: "submit" }, "Find what could change")) : make("p", { class: "advice" }, "A viewer's key may not explain. Sign in with a client's."));
  answers.replaceChildren(make("div", { class: "empty card" }, make("h2", {}, "The answer appears here"),
    make("p", {}, "What to change, by how much, and which of the lender's models would then accept.")));
  place.className = "explain";
  place.replaceChildren(form, answers);
  recent(name);
}

async function activeVersion(name) {
  let cursor = "";
  for (;;) {
    const model = await get(`/models/${encodeURIComponent(name)}?limit=50${cursor}`);
    const found = model.versions.find((version) => version.number === model.active_version);
    if (found) return found;
    if (!model.next) throw new Error(`The active version of ${name} was not found.`);
    cursor = `&cursor=${encodeURIComponent(model.next)}`;
  }
}

const field = (id, words, control) => make("div", { class: "field" }, make("label", { for: id }, words), control);

function feature(one, index) {
  const id = `feature-${index}`, fixed = one.immutable || one.protected;
  const way = one.direction === "up" ? ", may only rise" : one.direction === "down" ? ", may only fall" : "";
  const range = one.kind === "categorical" ? way.slice(2) : `${number(one.lower)} to ${number(one.upper)}${way}`;
  const control = one.kind === "categorical"
    ? make("select", { id, "data-feature": one.name }, one.categories.map((name) => make("option", { value: name }, name)), one.nullable ? make("option", { value: "" }, "not known") : null)
    : make("input", { id, "data-feature": one.name, type: "number", min: one.least ?? one.lower, max: one.most ?? one.upper, step: one.kind === "integer" ? 1 : "any", value: middle(one), required: !one.nullable, inputmode: one.kind === "integer" ? "numeric" : "decimal" });
  const check = fixed
    ? make("span", { class: "check muted", title: one.protected ? "A protected attribute: it is never suggested as something to change." : "The model's schema says that it does not change." }, lock(), one.protected ? "protected" : "fixed")
    : make("label", { class: "check" }, make("input", { type: "checkbox", checked: true, "data-change": one.name, "aria-label": `${plainName(one.name)} may change` }), "may change");
  return make("div", { class: "feature" }, make("label", { for: id }, plainName(one.name), make("span", { class: "range" }, range)), control, check);
}

const lock = () => make("svg", { class: "lock", viewBox: "0 0 16 16", "aria-hidden": "true" },
  make("rect", { x: 3, y: 7, width: 10, height: 7, rx: 1.5 }), make("path", { d: "M5.5 7V5a2.5 2.5 0 0 1 5 0v2" }));

function middle(one) {
  const point = one.lower + (one.upper - one.lower) / 3;
  return Number((Math.round(point / one.step) * one.step).toFixed(6));
}

function asks(version) {
  const choice = (id, words, options) => field(id, words, make("select", { id, name: id }, options.map(([raw, text, chosen]) => make("option", { value: raw, selected: chosen }, text))));
  const wanted = version.classes.find((name) => /^(approved|accepted|yes|good|1|true)$/i.test(name)) || version.classes[0];
  return make("div", { class: "asks" },
    choice("target", "The applicant wants to be", version.classes.map((name) => [name, name, name === wanted])),
    choice("queries", "How sure?", [["0", "Estimate, ask no model"], ["5", "Check, up to 5 queries"], ["10", "Check, up to 10 queries", true], ["30", "Check well, up to 30 queries"]]),
    choice("agreement", "How many of the models must accept?", [["1", "All of them", true], ["0.8", "Four in five"], ["0.6", "Three in five"]]),
    choice("most", "How many things may change?", [["schema", "As the model says", true], ["1", "One"], ["2", "Two"], ["3", "Three"], ["4", "Four"], ["", "Any number"]]),
    choice("levers", "Who shall act?", [["applicant,time", "The applicant, or time", true], ["applicant", "The applicant, today"], ["lender", "The lender: a counter-offer"], ["applicant,lender,time", "Anybody"]]),
    choice("k", "Alternatives", [["1", "One way"], ["2", "Two ways", true], ["3", "Three ways"]]));
}

async function recent(name) {
  try {
    const page = await get(`/explanations?model=${encodeURIComponent(name)}&limit=8`);
    if (!page.items.length) return;
    const chooser = make("select", { id: "earlier", onchange: async (event) => { if (event.target.value) fillIn((await get(`/explanations/${event.target.value}`)).record); } },
      make("option", { value: "" }, "choose one"), page.items.map((one) => make("option", { value: one.id }, `${time(one.created_at)}, ${STATUS[one.status][1].toLowerCase()}`)));
    find("#recent", form).replaceChildren(make("div", { class: "asks" }, field("earlier", "Fill in an earlier applicant", chooser)));
  } catch { /* a convenience only */ }
}

function fillIn(record) {
  for (const control of form.querySelectorAll("[data-feature]")) {
    const raw = record[control.dataset.feature];
    if (raw !== undefined) control.value = raw === null ? "" : raw;
  }
}

function read() {
  const record = {};
  schema.features.forEach((one, index) => {
    const raw = find(`#feature-${index}`, form).value;
    record[one.name] = raw === "" ? null : one.kind === "categorical" ? raw : Number(raw);
  });
  const frozen = [...form.querySelectorAll("[data-change]")].filter((box) => !box.checked).map((box) => box.dataset.change);
  return {
    model: form.model.value, records: [record], target: find("#target", form).value,
    constraints: { immutable: frozen, max_changes: limit(find("#most", form).value) }, levers: find("#levers", form).value.split(","), k: Number(find("#k", form).value), trajectory: true, deadline_ms: 120000,
    robustness: { min_agreement: Number(find("#agreement", form).value), max_queries: Number(find("#queries", form).value) },
  };
}

const limit = (raw) => raw === "schema" ? raw : raw === "" ? null : Number(raw);

async function submit(event) {
  event.preventDefault();
  const button = find("button[type=submit]", form), problem = find("[data-problem]", form);
  complain(problem, null);
  button.disabled = true;
  button.textContent = "Searching";
  answers.replaceChildren(make("div", { class: "card loading", role: "status" }, "Searching for the smallest change that holds"));
  try {
    const asked = read();
    const answer = await call("POST", "/explain", asked);
    answers.replaceChildren(...answerCards(answer, version, asked));
    if (innerWidth < 960 || answers.getBoundingClientRect().top < 0) answers.scrollIntoView();
  } catch (error) {
    complain(problem, error);
    answers.replaceChildren(make("div", { class: "empty card" }, make("h2", {}, error.type === "/problems/query-limit" ? "The budget is used up" : "No answer this time"),
      make("p", {}, error.type === "/problems/query-limit" ? "The lender's models may not be asked any further. Choose “Estimate, ask no model”, or let an admin raise the limit on the page of the budgets." : "See the message beside the form.")));
  } finally {
    button.disabled = false;
    button.textContent = "Find what could change";
  }
}

start();
