// Budgets: figures that fall as they are used, the burn-down, the ledger, the limit.
import { call, complain, day, find, get, make, number, tell, time } from "./api.js";
import { draw, palette, say } from "./charts.js";

const KINDS = { reserve: "reserved", dispatch: "asked", settle: "settled", expire: "expired", limit: "limit changed", open: "period opened", correct: "corrected", anchor: "chain begun" };
const OUTCOMES = [
  ["robust", "Checked: the models accept"], ["valid", "Likely, not confirmed"], ["already_target", "Nothing needed to change"],
  ["infeasible", "No way found"], ["error", "Record unreadable"],
];
const DAY = 86400000;

class Budget {
  constructor(section) {
    this.section = section;
    this.name = section.dataset.ensemble;
    this.path = encodeURIComponent(this.name);
    this.oldest = null;
    find("[data-filters]", section).addEventListener("change", () => this.showLedger(false));
    find("[data-more]", section).addEventListener("click", () => this.showLedger(true));
    find("[data-limit-form]", section)?.addEventListener("submit", (event) => this.saveLimit(event));
    find("[data-correction-form]", section)?.addEventListener("submit", (event) => this.correct(event));
  }

  async refresh() {
    await Promise.all([this.showFigures(), this.showLedger(false)]);
  }

  show(budget) {
    this.balance = budget;
    for (const name of ["limit", "used", "reserved", "remaining"]) {
      find(`[data-figure=${name}]`, this.section).textContent = number(budget[name]);
    }
    const share = (count) => String(Math.min(1, count / Math.max(1, budget.limit)) * 1000);
    find("[data-part=used]", this.section).setAttribute("width", share(budget.used));
    find("[data-part=reserved]", this.section).setAttribute("width", share(budget.used + budget.reserved));
    find("[data-bar]", this.section).setAttribute("aria-label",
      `${number(budget.used)} used, ${number(budget.reserved)} reserved, of ${number(budget.limit)}`);
    find("[data-alert]", this.section).hidden = budget.remaining > 0;
    find("[data-alert-fact]", this.section).textContent = budget.limit ? "The budget is used up." : "The limit is 0.";
  }

  async showFigures() {
    const chart = find("[data-chart]", this.section);
    try {
      const [figures, usage] = await Promise.all([get(`/dashboard/figures/${this.path}`), get(`/budgets/${this.path}/usage?step=hour&since=${since(14)}`)]);
      this.showFacts(figures);
      find("[data-projection]", this.section).textContent = projection(figures, this.balance, this.section.dataset.ends);
      if (!usage.points.length) say(chart, "No query was made in the last 14 days. The line appears with the first one.");
      else draw(chart, () => burnDown(usage, figures, this.balance));
    } catch (error) {
      find("[data-projection]", this.section).textContent = "";
      say(chart, error.message);
    }
  }

  showFacts(figures) {
    const fact = (name, text) => { find(`[data-fact=${name}]`, this.section).textContent = text; };
    const explained = Object.values(figures.outcomes).reduce((sum, count) => sum + count, 0);
    fact("per-robust", figures.queries_per_robust === null ? "none yet" : figures.queries_per_robust.toFixed(1));
    fact("explained", number(explained));
    fact("per-day", figures.per_day ? number(Math.round(figures.per_day)) : "none");
    const counts = (rows, nothing) => rows.length ? rows.map(([words, count]) => make("li", {}, make("span", {}, words), make("b", {}, number(count)))) : [make("li", { class: "muted" }, nothing)];
    const outcomes = OUTCOMES.filter(([status]) => figures.outcomes[status]).map(([status, words]) => [words, figures.outcomes[status]]);
    find("[data-outcomes]", this.section).replaceChildren(...counts(outcomes, "No applicant was explained yet."));
    const refusals = figures.refusals.map((one) => [one.title, one.count]);
    find("[data-refusals]", this.section).replaceChildren(...counts(refusals, "None."));
    find("[data-refusals-since]", this.section).textContent = `Of all your ensembles, since ${time(figures.refusals_since)} UTC.`;
  }

  async showLedger(older) {
    const body = find("[data-ledger] tbody", this.section);
    const form = new FormData(find("[data-filters]", this.section));
    const query = new URLSearchParams();
    if (form.get("kind")) query.set("kind", form.get("kind"));
    if (form.get("since")) query.set("since", `${form.get("since")}T00:00:00Z`);
    if (form.get("until")) query.set("until", new Date(Date.parse(form.get("until")) + DAY).toISOString());
    if (older && this.oldest) query.set("before", this.oldest);
    try {
      const page = await get(`/dashboard/ledger/${this.path}?${query}`);
      const rows = page.items.map(line);
      if (older) body.append(...rows);
      else body.replaceChildren(...(rows.length ? rows : [make("tr", {}, make("td", { colspan: 6, class: "muted" }, "No line fits these filters."))]));
      this.oldest = page.next;
      find("[data-more]", this.section).hidden = page.next === null;
    } catch (error) {
      body.replaceChildren(make("tr", {}, make("td", { colspan: 6 }, error.message)));
    }
  }

  saveLimit(event) {
    const form = event.target;
    return this.change(event, "[data-problem]", async () => {
      const wanted = { limit: Number(form.limit.value), period: form.period.value, restart: form.restart.checked };
      const saved = await call("PUT", `/budgets/${this.path}`, wanted);
      form.restart.checked = false;
      this.section.dataset.ends = saved.period_ends || "";
      this.show(saved);
      tell(`The limit of ${this.name} is now ${number(saved.limit)}.`);
    });
  }

  correct(event) {
    const form = event.target;
    return this.change(event, "[data-correction-problem]", async () => {
      const reverses = form.reverses.value ? Number(form.reverses.value) : null;
      const wanted = { queries: Number(form.queries.value), reason: form.reason.value, reverses };
      const saved = await call("POST", `/budgets/${this.path}/corrections`, wanted);
      form.reset();
      this.show(saved);
      tell(`${number(saved.used)} queries of ${this.name} are now used.`);
    });
  }

  async change(event, problemAt, save) {
    event.preventDefault();
    const button = find("button", event.target), problem = find(problemAt, event.target);
    complain(problem, null);
    button.disabled = true;
    try {
      await save();
      await this.refresh();
    } catch (error) {
      complain(problem, error);
    } finally {
      button.disabled = false;
    }
  }
}

function line(entry) {
  const change = (count) => count === 0 ? "" : (count > 0 ? "+" : "−") + number(Math.abs(count));
  const cells = [entry.query_limit, entry.reserved, entry.dispatched, entry.used];
  return make("tr", {}, make("td", {}, time(entry.at)), make("td", {}, KINDS[entry.kind] || entry.kind, entry.reason ? make("p", { class: "hint" }, why(entry)) : ""),
    cells.map((count) => make("td", { class: "number" }, change(count))));
}

const why = (entry) => `${entry.reason} (${entry.made_by}${entry.reverses ? `, takes back entry ${entry.reverses}` : ""})`;

const since = (days) => encodeURIComponent(new Date(Date.now() - days * DAY).toISOString());

function projection(figures, balance, ends) {
  if (!balance.remaining) return balance.limit ? "Used up." : "The limit is 0, so nothing may be asked.";
  if (!figures.per_day) return "Nothing was asked in the last seven days, so nothing runs out.";
  if (figures.exhausted_at) return `At the present pace it is used up on ${day(figures.exhausted_at)}.`;
  return ends ? `At the present pace it lasts until it restarts on ${day(ends)}.` : "At the present pace it lasts for years.";
}

// The remaining queries back through time from now, and on to the projected end.
function burnDown(usage, figures, balance) {
  const [main, amber] = palette();
  const now = new Date().toISOString();
  let left = balance.remaining;
  const times = [now], remaining = [left];
  for (const point of [...usage.points].reverse()) {
    times.push(new Date(Date.parse(point.at) + 3600000 > Date.now() ? Date.now() : Date.parse(point.at) + 3600000).toISOString());
    remaining.push(left);
    left += point.dispatched + point.corrected;
    times.push(point.at);
    remaining.push(left);
  }
  const traces = [{ x: times.reverse(), y: remaining.reverse(), mode: "lines", name: "remaining", line: { color: main, width: 3 }, hovertemplate: "%{y:,} left<extra></extra>" }];
  const end = figures.exhausted_at;
  if (end && balance.remaining && Date.parse(end) - Date.now() < 120 * DAY) {
    traces.push({ x: [now, end], y: [balance.remaining, 0], mode: "lines", name: "at this pace", line: { color: amber, width: 2, dash: "dot" }, hovertemplate: "%{y:,.0f} at this pace<extra></extra>" });
  }
  return {
    traces, text: `Queries remaining over the last 14 days; ${number(balance.remaining)} now.`,
    layout: { key: traces.length > 1, xaxis: { type: "date", nticks: 5, tickangle: 0 }, yaxis: { rangemode: "tozero", tickformat: ",d", title: { text: "queries left" } } },
  };
}

function follow(budgets) {
  const state = document.getElementById("live"), words = document.getElementById("live-text");
  const source = new EventSource("/dashboard/budget-events");
  let waiting;
  source.addEventListener("open", () => { state.className = "live on"; words.textContent = "Live"; });
  source.addEventListener("error", () => { state.className = "live off"; words.textContent = source.readyState === EventSource.CLOSED ? "Not live: load the page again" : "Not live: trying again"; });
  source.addEventListener("budgets", (event) => {
    for (const found of JSON.parse(event.data)) budgets.get(found.ensemble)?.show(found);
    clearTimeout(waiting);
    waiting = setTimeout(() => budgets.forEach((budget) => budget.refresh()), 800);
  });
}

const budgets = new Map();
for (const section of document.querySelectorAll(".budget")) {
  const budget = new Budget(section);
  const figure = (name) => Number(find(`[data-figure=${name}]`, section).textContent.replace(/\D/g, ""));
  budget.balance = { limit: figure("limit"), used: figure("used"), reserved: figure("reserved"), remaining: figure("remaining") };
  budgets.set(budget.name, budget);
}
document.documentElement.dataset.ready = String(Math.round(performance.now()));
budgets.forEach((budget) => budget.refresh());
if (budgets.size) follow(budgets);
