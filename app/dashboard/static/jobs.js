// Jobs: the list, and one of them as it runs.
import { call, complain, duration, failed, find, get, make, mayTrain, number, tag, tell, time } from "./api.js";
import { draw, palette, say } from "./charts.js";

const STATES = { queued: ["", "waiting"], running: ["accent", "running"], done: ["good", "done"], failed: ["bad", "failed"], cancelled: ["warn", "cancelled"] };
const PHASES = { ensemble: "The lender's models", surrogate: "Imitating them", generator: "Finding ways", distill: "Asking them", measure: "Measuring", publish: "Publishing" };
const LOSSES = ["surrogate", "generator", "distill"];
const place = document.getElementById("place");
const list = make("ul", { class: "list", "aria-label": "Jobs" });
const detail = make("div", { class: "card" });
let shown = null, stream = null, redraw = null;

async function show() {
  try {
    const page = await get("/jobs?limit=50");
    place.className = page.items.length ? "side" : "";
    if (!page.items.length) {
      place.replaceChildren(make("div", { class: "empty card" }, make("h2", {}, "No job yet"),
        make("p", {}, "A training is started with ", make("code", {}, "POST /train"), ". To see one with made-up loans, run ", make("code", {}, "make demo"), ".")));
      return;
    }
    place.replaceChildren(list, detail);
    list.replaceChildren(...page.items.map(entry));
    const wanted = new URLSearchParams(location.search).get("job");
    open(page.items.find((job) => job.id === (shown?.id || wanted)) || page.items[0]);
  } catch (error) {
    failed(place, error, show);
  }
}

function entry(job) {
  return make("li", {}, make("button", { type: "button", class: "job", "data-job": job.id, "data-state": job.state, onclick: () => open(job) },
    make("span", {}, job.model), tag(...STATES[job.state]), make("small", {}, `${time(job.created_at)} UTC`)));
}

function open(job) {
  stream?.close();
  shown = { ...job, curves: new Map(), log: [] };
  for (const button of list.querySelectorAll(".job")) button.setAttribute("aria-current", String(button.dataset.job === job.id));
  const part = (name, tagName = "div", attributes = {}) => make(tagName, { "data-part": name, ...attributes });
  detail.replaceChildren(
    make("div", { class: "head" }, make("h2", {}, job.model), part("state", "span")),
    part("words", "p", { class: "sentence", role: "status" }), part("bar", "progress", { max: 1, value: 0, "aria-label": "Progress of this step" }),
    part("phases", "ol", { class: "phases", "aria-label": "Steps" }), part("problem", "p", { class: "problem", role: "alert", hidden: true }),
    make("h3", {}, "Learning curves"), make("p", { class: "hint" }, "Each line should fall and then level off."), make("ul", { class: "key", "aria-hidden": "true" }), part("chart", "div", { class: "chart small" }),
    part("facts", "dl", { class: "facts" }), part("actions", "p"), part("log", "ul", { class: "log" }));
  say(find("[data-part=chart]", detail), "The curves appear when the networks learn.");
  paint();
  follow(job.id);
}

function follow(id) {
  stream = new EventSource(`/jobs/${id}/events`);
  stream.addEventListener("progress", (event) => {
    const progress = JSON.parse(event.data);
    if (!["done", "failed", "cancelled"].includes(shown.state)) shown.state = "running";
    shown.progress = progress;
    if (progress.loss !== undefined) {
      if (!shown.curves.has(progress.phase)) shown.curves.set(progress.phase, []);
      shown.curves.get(progress.phase).push([progress.step, progress.loss]);
    }
    later();
  });
  stream.addEventListener("state", (event) => {
    const told = JSON.parse(event.data);
    shown.state = told.state || shown.state;
    if (told.error) shown.error = told.error;
    if (["done", "failed", "cancelled"].includes(shown.state)) { stream.close(); finish(id); }
    later();
  });
  stream.addEventListener("log", (event) => { shown.log.push(JSON.parse(event.data).message); later(); });
}

async function finish(id) {
  const job = await get(`/jobs/${id}`);
  if (shown.id !== id) return;
  Object.assign(shown, job);
  const button = list.querySelector(`[data-job="${id}"]`);
  find(".tag", button).replaceWith(tag(...STATES[job.state]));
  later();
}

function later() {
  redraw ??= setTimeout(() => { redraw = null; paint(); }, 250);
}

function paint() {
  const part = (name) => find(`[data-part=${name}]`, detail);
  const progress = shown.progress || {}, over = ["done", "failed", "cancelled"].includes(shown.state);
  part("state").replaceChildren(tag(...STATES[shown.state]));
  part("words").textContent = words(progress);
  part("bar").value = shown.state === "done" ? 1 : progress.steps ? progress.step / progress.steps : 0;
  const order = Object.keys(PHASES), at = order.indexOf(progress.phase);
  part("phases").replaceChildren(...order.map((name, index) => make("li", {},
    tag(shown.state === "done" || index < at ? "good" : index === at && !over ? "accent" : "", PHASES[name]))));
  complain(part("problem"), shown.state === "failed" ? new Error(shown.error || "The job failed.") : null);
  const facts = [["Queries made", number(progress.queries || 0)], ["Begun", shown.started_at ? `${time(shown.started_at)} UTC` : "not yet"]];
  if (over && shown.finished_at) facts.push(["Took", duration((Date.parse(shown.finished_at) - Date.parse(shown.started_at || shown.created_at)) / 1000)]);
  part("facts").replaceChildren(...facts.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))));
  part("log").replaceChildren(...shown.log.slice(-5).map((text) => make("li", {}, text)));
  actions(part("actions"), over);
  if (shown.curves.size) draw(part("chart"), curves);
}

function words(progress) {
  if (shown.state === "queued") return "Waiting for a free trainer.";
  if (shown.state === "done") return "Done: the new version is on the page of the models.";
  if (shown.state === "cancelled") return "Cancelled. What it had asked stays charged.";
  if (shown.state === "failed") return "It failed.";
  if (shown.cancel_requested) return "Cancelling.";
  const step = PHASES[progress.phase] ? `${PHASES[progress.phase]}: step ${number(progress.step)} of ${number(progress.steps)}` : "Getting ready";
  return progress.eta_seconds ? `${step}, about ${duration(progress.eta_seconds)} left.` : `${step}.`;
}

function actions(at, over) {
  const wanted = shown.state === "done" ? "models" : over || !mayTrain() || shown.cancel_requested ? "" : "cancel";
  if (at.dataset.now === wanted) return;
  at.dataset.now = wanted;
  at.replaceChildren(wanted === "models" ? make("a", { class: "button", href: `/models#${shown.model}` }, "See the new version")
    : wanted === "cancel" ? make("button", { type: "button", class: "danger", onclick: cancel }, "Cancel the job") : "");
}

async function cancel() {
  try {
    Object.assign(shown, await call("DELETE", `/jobs/${shown.id}`));
    tell("The job is being cancelled.");
  } catch (error) {
    tell(error.message);
  }
  later();
}

function curves() {
  const colours = palette();
  const traces = LOSSES.filter((phase) => shown.curves.has(phase)).map((phase, index) => {
    const points = shown.curves.get(phase), last = points.at(-1)[0] || 1;
    return { x: points.map(([step]) => index + step / last), y: points.map(([, loss]) => loss), mode: points.length > 1 ? "lines" : "markers", name: PHASES[phase], line: { color: colours[index], width: 2.5 }, marker: { color: colours[index] }, hovertemplate: "%{y:.3f}<extra>%{fullData.name}</extra>" };
  });
  return { traces, text: "Loss of each step of the training", layout: { key: true, hovermode: "closest", xaxis: { showticklabels: false, title: { text: "time", standoff: 4 } }, yaxis: { title: { text: "loss" } } } };
}

show();
setInterval(async () => {
  if (document.hidden || !list.isConnected) return;
  try {
    const page = await get("/jobs?limit=50");
    if (page.items.length !== list.children.length || page.items.some((job) => job.state !== list.querySelector(`[data-job="${job.id}"]`)?.dataset.state)) {
      const focused = document.activeElement?.dataset?.job;
      list.replaceChildren(...page.items.map(entry));
      for (const button of list.querySelectorAll(".job")) button.setAttribute("aria-current", String(button.dataset.job === shown?.id));
      if (focused) list.querySelector(`[data-job="${focused}"]`)?.focus();
    }
  } catch { /* the next look may find it */ }
}, 5000);
