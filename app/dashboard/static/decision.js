// The decision record: print it, or ask whether it still holds.
import { call, percent, sentence } from "./api.js";

const article = document.querySelector("article"), place = document.getElementById("verified");
document.getElementById("print").addEventListener("click", () => print());
document.getElementById("verify")?.addEventListener("click", async (event) => {
  const button = event.currentTarget;
  button.disabled = true;
  try {
    const found = await call("POST", `/explanations/${article.dataset.id}/verify`);
    place.className = found.holds ? "tag good" : "problem";
    place.textContent = `${found.holds ? "It still holds" : "It no longer holds"}: ${percent(found.agreement)} of the models accept, asked under version ${found.asked_version} (${found.charged} ${found.charged === 1 ? "query" : "queries"}).`;
  } catch (error) {
    place.className = "problem";
    place.textContent = sentence(error);
  } finally {
    button.disabled = false;
  }
});
