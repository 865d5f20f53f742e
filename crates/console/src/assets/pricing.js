// Adds to the list of models: a filter, and live availability.

import "./copy.js";

const INTERVAL_MS = 5000;
let timer;

const cards = [...document.querySelectorAll("[data-model]")];
const filter = document.getElementById("filter");
if (filter) {
  document.getElementById("filter-box").hidden = false;
  filter.addEventListener("input", show);
  refresh();
  document.addEventListener("visibilitychange", refresh);
}

function show() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const card of cards) card.hidden = !words.every((word) => card.dataset.words.includes(word));
  for (const group of document.querySelectorAll(".group")) {
    const members = [...group.querySelectorAll("[data-model]")];
    group.hidden = words.length > 0 && members.every((card) => card.hidden);
  }
  const visible = cards.filter((card) => !card.hidden).length;
  document.getElementById("filter-count").textContent = words.length ? `${visible} of ${cards.length}` : "";
}

async function refresh() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const response = await fetch("/pricing.json", { headers: { Accept: "application/json" }, cache: "no-store" });
    if (response.ok) update(await response.json(), response.headers.get("date"));
  } catch {
    // The page keeps the last data, with its time beside it.
  }
  timer = setTimeout(refresh, INTERVAL_MS);
}

/** Shows a price list; `date` is when the gateway sent it, by its own clock. */
function update(list, date) {
  // Something else responded, for example a proxy. The old data is better than wrong data.
  if (!Array.isArray(list.data)) return;
  const models = new Map(list.data.map((model) => [model.id, model]));
  let availableCount = 0;
  for (const card of cards) {
    const model = models.get(card.dataset.model);
    const available = Boolean(model && model.available);
    if (available) availableCount += 1;
    card.querySelector(".state").dataset.up = String(available);
    card.querySelector(".word").textContent = available ? "available" : "unavailable";
    if (model) showPrice(card, model.price);
    const median = model && model.median_seconds;
    if (median) card.querySelector("[data-median]").textContent = `${median.toFixed(1)} s over the last 24 h`;
  }
  document.getElementById("up-count").textContent = String(availableCount);
  const time = document.getElementById("as-of");
  const moment = date ? new Date(date) : new Date();
  time.dateTime = moment.toISOString();
  time.textContent = moment.toLocaleTimeString();
}

// Prices have dates: a page that stays open must not continue to show an old price.
function showPrice(card, price) {
  const text = (value) => `${value.usd} USD per ${value.unit.replaceAll("_", " ")}`;
  const next = price && price.next;
  write(card.querySelector("[data-price]"), price ? text(price) : "free");
  const following = card.querySelector("[data-next-price]");
  following.hidden = !next;
  if (next) write(following, `${text(next)} from ${next.from.replace("T00:00:00.000Z", "")}`);
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
