// The JSON API with the session's cookie, and small pieces that every page is made of.

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `The service answered ${status}.`);
    this.status = status;
    this.type = body.type || "";
  }
}

export async function call(method, path, body) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRF-Token"] = document.querySelector("meta[name=csrf-token]").content;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Problem(0, { detail: "The service cannot be reached. Check that it runs, then try again." });
  }
  if (answer.status === 401) {
    location.assign(`/sign-in?next=${encodeURIComponent(location.pathname)}`);
    throw new Problem(401, { detail: "The session has ended. Sign in again." });
  }
  const text = await answer.text();
  let found = {};
  try { found = text ? JSON.parse(text) : {}; } catch { /* not JSON: the status tells enough */ }
  if (!answer.ok) throw new Problem(answer.status, found);
  return found;
}

export const get = (path) => call("GET", path);

// make("li", {class: "x", onclick: f}, "text", node, ...)
export function make(name, attributes = {}, ...children) {
  const svg = ["svg", "line", "circle", "rect", "path", "text", "g"].includes(name);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const find = (selector, within = document) => within.querySelector(selector);
export const main = () => document.getElementById("main");
export const mayWrite = () => main().dataset.mayWrite === "yes";
export const mayTrain = () => main().dataset.mayTrain === "yes";

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });
export const number = (value) => numbers.format(value);
export const percent = (value) => `${Math.round(100 * value)}%`;
// A feature's value with all its digits: two values that differ are shown apart.
const exact = new Intl.NumberFormat("en", { maximumSignificantDigits: 15 });
export const value = (raw) => raw === null || raw === undefined ? "not known" : typeof raw === "number" ? exact.format(raw) : String(raw);
export const plainName = (name) => {
  const words = name.replace(/[_.]/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
};
export const day = (moment) => new Intl.DateTimeFormat("en", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" }).format(new Date(moment));
export const time = (moment) => new Date(moment).toISOString().slice(0, 16).replace("T", " ");
export const duration = (seconds) => {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
};

let silence;
export function tell(text) {
  const place = document.getElementById("told");
  place.textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => { place.textContent = ""; }, 6000);
}

export function complain(place, error) {
  place.textContent = error ? sentence(error) : "";
  place.hidden = !error;
}

const PLAIN = {
  "/problems/query-limit": "The query budget does not allow this",
  "/problems/no-budget": "No query budget is set",
  "/problems/role": "Your key may not do this",
  "/problems/deadline": "It took too long",
  "/problems/overloaded": "The service is busy",
  "/problems/unavailable": "Part of the service is unavailable",
};

export function sentence(error) {
  const plain = PLAIN[error.type];
  const detail = error.message.charAt(0).toUpperCase() + error.message.slice(1);
  const end = /[.!?]$/.test(detail) ? "" : ".";
  return plain ? `${plain}: ${error.message}${end}` : `${detail}${end}`;
}

export function failed(place, error, again) {
  place.replaceChildren(make("div", { class: "empty card", role: "alert" },
    make("h2", {}, "This could not be loaded"), make("p", {}, sentence(error)),
    again ? make("button", { type: "button", onclick: again }, "Try again") : null));
}

export const STATUS = {
  robust: ["good", "Checked"], valid: ["warn", "Not confirmed"], already_target: ["good", "Nothing to change"],
  infeasible: ["bad", "No way found"], error: ["bad", "Unreadable"],
};
export const tag = (kind, text) => make("span", { class: `tag ${kind}` }, text);
