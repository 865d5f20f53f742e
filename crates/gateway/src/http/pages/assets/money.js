// What the account holds and spent, this month's usage, and the keys; and the alarm when the ledger does not add up.

import { at, call, download, make, tell } from "./api.js";

const EVERY = 5000;
let timer;
let drawn = "";

export function startMoney() {
  stopMoney();
  refresh();
  timer = setInterval(refresh, EVERY);
}

export function stopMoney() {
  clearInterval(timer);
  drawn = "";
  at("ledger-alarm").hidden = true;
  at("money-section").hidden = true;
}

async function refresh() {
  if (document.hidden) return;
  try {
    const account = await call("GET", "/v1/account");
    const usage = await month();
    // What did not change is left alone, so that marked text stays marked.
    const now = JSON.stringify([account, usage]);
    if (now === drawn) return;
    drawn = now;
    draw(account);
    drawUsage(usage);
  } catch {
    // The task list tells of a gateway that cannot be reached.
  }
}

/** This month's usage by model; nothing for a key that may not see tasks. */
async function month() {
  try {
    return await call("GET", `/v1/usage?from=${firstOfMonth()}&group_by=model`);
  } catch (error) {
    if (error.status === 403) return undefined;
    throw error;
  }
}

function draw(account) {
  const wrong = account.ledger_mismatches || 0;
  at("ledger-alarm").hidden = wrong === 0;
  at("ledger-alarm").textContent = `The ledger does not add up in ${wrong} ${wrong === 1 ? "place" : "places"}. ` +
    "Nothing was repaired. mediagate ledger verify says where.";
  at("money-section").hidden = false;
  at("money-policy").textContent = `${account.display_name} (${account.handle}) · ` +
    (account.policy === "prepaid" ? "prepaid: it spends what was credited" : "unlimited: it spends without credit");
  const figures = [
    ["Balance", account.balance_usd], ["Held", account.held_usd], ["Spent", account.spent_usd],
    ["Available", account.available_usd], ["Budget", account.budget_usd],
  ];
  at("money-figures").replaceChildren(...figures.filter(([, amount]) => amount !== null).map(([name, amount]) =>
    make("div", {}, make("dt", {}, name), make("dd", { className: amount.startsWith("-") ? "below" : "" }, amount, make("span", {}, " USD")))));
  at("keys-rows").replaceChildren(...account.keys.map((key) => row(
    [key.name, make("span", { className: "kind mono" }, `${key.prefix}…${key.revoked_at ? " revoked" : ""}`)],
    [["Spent", key.spent_usd], ["Held", key.held_usd], ["Budget", key.budget_usd === null ? "none" : key.budget_usd]],
  )));
}

function drawUsage(usage) {
  at("usage-box").hidden = !usage;
  if (!usage) return;
  const figures = (sum) => [["Made", sum.succeeded], ["Failed", sum.failed], ["Cancelled", sum.cancelled], ["Paid", sum.cost_usd]];
  const rows = usage.data.map((one) => row([one.model], figures(one)));
  const total = row(["Together"], figures(usage.total));
  total.className = "total";
  at("usage-rows").replaceChildren(...rows, ...(rows.length > 1 ? [total] : []));
  at("usage-table").hidden = rows.length === 0;
  at("no-usage").hidden = rows.length > 0;
}

function row(name, figures) {
  const cells = figures.map(([label, value]) => make("td", { "data-label": label }, String(value)));
  return make("tr", {}, make("th", { scope: "row" }, ...name), ...cells);
}

// Days are counted in UTC, as the gateway does.
const firstOfMonth = () => `${new Date().toISOString().slice(0, 8)}01`;

at("usage-csv").addEventListener("click", async () => {
  const from = firstOfMonth();
  try {
    await download(`/v1/usage?from=${from}&format=csv`, `usage-${from}.csv`);
    at("usage-error").hidden = true;
  } catch (error) {
    at("usage-error").textContent = tell(error);
    at("usage-error").hidden = false;
  }
});
