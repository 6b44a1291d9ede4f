// Keys: make, list, revoke.
import { call, complain, failed, find, get, make, tag, tell, time } from "./api.js";

const place = document.getElementById("place"), form = document.getElementById("new-key");

async function show() {
  try {
    const page = await get("/keys?limit=100");
    const rows = page.items.map((key) => make("tr", {},
      make("td", {}, key.name), make("td", {}, key.role), make("td", {}, make("code", {}, `rk_${key.prefix}…`)),
      make("td", {}, time(key.created_at)),
      make("td", {}, key.last_used_at ? time(key.last_used_at) : "never"),
      make("td", {}, key.expires_at ? time(key.expires_at) : "never"),
      make("td", {}, state(key)),
      make("td", {}, key.revoked_at ? "" : make("button", { type: "button", class: "danger", "aria-label": `Revoke ${key.name}`, onclick: () => revoke(key) }, "Revoke"))));
    const head = ["Name", "Role", "Begins with", "Made (UTC)", "Last used", "Expires", "State"].map((word) => make("th", { scope: "col" }, word));
    head.push(make("th", { scope: "col" }, make("span", { class: "unseen" }, "Action")));
    place.className = "card";
    place.replaceChildren(make("h2", {}, "Keys of this lender"), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Keys" },
      make("table", {}, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows))));
  } catch (error) {
    failed(place, error, show);
  }
}

function state(key) {
  if (key.revoked_at) return tag("bad", "revoked");
  return key.expires_at && new Date(key.expires_at) <= new Date() ? tag("bad", "expired") : tag("good", "works");
}

async function revoke(key) {
  if (!confirm(`Revoke "${key.name}"? Whoever uses it is locked out within seconds.`)) return;
  try {
    await call("DELETE", `/keys/${key.id}`);
    tell(`${key.name} works no more.`);
    await show();
  } catch (error) {
    complain(find("[data-problem]", form), error);
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  complain(find("[data-problem]", form), null);
  try {
    const last = form.elements.last.value;
    const made = await call("POST", "/keys", { name: form.elements.name.value, role: form.role.value, ...(last && { expires_at: `${last}T23:59:59Z` }) });
    find("[data-secret]", form).textContent = made.key;
    find("[data-made]", form).hidden = false;
    form.reset();
    await show();
  } catch (error) {
    complain(find("[data-problem]", form), error);
  }
});

show();
