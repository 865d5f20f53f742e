// Spend: who spent what in any range of days, and whether the books add up.

import { html } from "../vendor/preact-htm.js";
import { useAction } from "./act.js";
import { call, file, query as asQuery, save } from "./api.js";
import { Bars, MARKS, dayName } from "./chart.js";
import { go, withQuery } from "./router.js";
import { Empty, Failed, Field, Head, Load, Pager, Table, When, short, useLoad, usd } from "./ui.js";

const GROUPS = { model: "Model", key: "Key" };
/** Of all accounts. */
const ALL_GROUPS = { account: "Account", provider: "Provider", ...GROUPS, outcome: "Outcome" };

const DAY_MS = 86_400_000;
/** In days. */
const LONGEST_STACKED = 100;

export function Spend({ query, may }) {
  const from = query.get("from") || day(new Date(Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth(), 1)));
  const to = query.get("to") || day(new Date());
  const isAll = may("admin") && query.get("of") !== "own";
  const groups = isAll ? ALL_GROUPS : GROUPS;
  const asked = query.get("by") || "";
  const by = Object.keys(groups).includes(asked) ? asked : Object.keys(groups)[0];
  const ask = (group_by, format) => `/v1/${isAll ? "admin/usage" : "usage"}${asQuery({ from, to, group_by, format })}`;
  const usage = useLoad(async (signal) => {
    const get = (path) => call("GET", path, undefined, { signal });
    // Stacked by group where that is not too many bars' parts.
    const byDay = lengthOf(from, to) <= LONGEST_STACKED ? `day,${by}` : "day";
    const [account, days, sums] = await Promise.all([get("/v1/account"), get(ask(byDay)), get(ask(by))]);
    return { account, days, sums };
  }, [from, to, by, isAll]);
  const saving = useAction();
  const csv = () => saving.run(async () => save(await file(ask(`day,${by}`, "csv")), `usage-${from}-${to}.csv`));
  const set = (name) => (event) => go(withQuery({ [name]: event.target.value }));
  return html`<${Head} title="Spend" small=${isAll ? "Revenue and cost of all accounts, by day (UTC)." : "Cost of this account, by day (UTC)."}><button type="button" class="quiet small" aria-disabled=${saving.busy} onClick=${csv}>Download CSV</button><//>
    <${Failed} error=${saving.error} />
    ${usage.data && html`<${Account} of=${usage.data.account} />`}
    <div class="filters spend-filters">${may("admin") && html`<${Field} name="of" label="Accounts"><select id="of" value=${isAll ? "all" : "own"} onChange=${set("of")}><option value="all">all accounts</option><option value="own">my account</option></select><//>`}<${Field} name="from" label="From"><input id="from" type="date" value=${from} max=${to} onChange=${set("from")} /><//><${Field} name="to" label="To"><input id="to" type="date" value=${to} min=${from} onChange=${set("to")} /><//>
      <${Field} name="by" label="Grouped by"><select id="by" value=${by} onChange=${set("by")}>${Object.entries(groups).map(([group, name]) => html`<option key=${group} value=${group}>${name}</option>`)}</select><//><nav class="ranges" aria-label="Ranges">${ranges().map(([name, since, until]) => html`<a key=${name} href=${withQuery({ from: since, to: until })} aria-current=${since === from && until === to ? "true" : undefined}>${name}</a>`)}</nav></div>
    <${Load} of=${usage}>${({ days, sums }) => (days.data.length === 0 ? html`<${Empty} title="No tasks ended in this period"><p>A task counts on the day on which it ended.</p><//>`
      : html`<div class="card"><${Days} days=${days.data} sums=${sums} by=${by} from=${from} to=${to} /></div>
        <section><${Table} label="Totals" columns=${[groups[by], "#Tasks", "#Succeeded", "#Failed", "#Cancelled", "#Charged", ...(isAll ? ["#Provider cost", "#Margin"] : [])]} keyed=${(row) => name(row, by)} rows=${sums.data} total=${{ ...sums.total, isTotal: true }}
          row=${(row) => [html`<strong>${row.isTotal ? "Total" : name(row, by)}</strong>`, row.tasks, row.succeeded, row.failed, row.cancelled, usd(row.cost_usd), ...(isAll ? margin(row) : [])]} />${isAll && html`<${Unknown} of=${sums.total} />`}</section>`)}<//>
    ${may("admin") && html`<${Ledger} after=${query.get("after") || ""} />`}`;
}

function name(row, by) {
  if (row.isTotal) return "";
  return by === "key" ? row.key_name || short(row.key_id) : row[by] || "–";
}

/** What providers were paid, and what is left. */
function margin(row) {
  const paid = Number(row.provider_cost_usd) + Number(row.failed_cost_usd);
  return [paid ? usd(paid.toFixed(6)) : "–", html`<span class=${row.margin_usd.startsWith("-") ? "wrong" : ""}>${usd(row.margin_usd)}</span>`];
}

function Unknown({ of }) {
  const count = of.unknown_cost_jobs;
  if (!count) return "";
  return html`<p class="fine muted">The margin does not include ${count} ${count === 1 ? "job" : "jobs"} at providers, because the cost is unknown. Declare the <code>cost</code> of a route to include its successful jobs. The cost of failed jobs is known only to the provider.</p>`;
}

/** Every day of the range, those without work too: in dollars, or in tasks where all of it was free. */
function Days({ days, sums, by, from, to }) {
  const isFree = Number(sums.total.cost_usd) === 0;
  const value = (row) => (isFree ? row.tasks : Number(row.cost_usd));
  const largest = sums.data.toSorted((a, b) => value(b) - value(a)).slice(0, MARKS.length - 1).map((row) => name(row, by));
  const mark = (row) => MARKS[largest.includes(name(row, by)) ? largest.indexOf(name(row, by)) : MARKS.length - 1];
  const isStacked = days.some((row) => name(row, by) !== "–");
  const found = new Map();
  for (const row of days) found.set(row.day, [...(found.get(row.day) || []), row]);
  const bars = Array.from({ length: Math.min(lengthOf(from, to), 400) }, (_, place) => {
    const at = day(new Date(Date.parse(from) + place * DAY_MS));
    const rows = found.get(at) || [];
    const parts = MARKS.map((one, order) => ({ mark: one, value: rows.filter((row) => (isStacked ? mark(row) === one : order === 0)).reduce((all, row) => all + value(row), 0) }));
    const tasks = rows.reduce((all, row) => all + row.tasks, 0);
    const paid = rows.reduce((all, row) => all + Number(row.cost_usd), 0);
    return { name: dayName(at), parts, label: rows.length ? `${usd(paid.toFixed(6))}, ${tasks} ${tasks === 1 ? "task" : "tasks"}` : "nothing" };
  });
  const legend = isStacked ? [...largest.map((one, at) => ({ mark: MARKS[at], name: one })), ...(sums.data.length > largest.length ? [{ mark: "rest", name: "others" }] : [])] : [];
  return html`<${Bars} bars=${bars} legend=${legend} label=${`${isFree ? "Tasks" : "Dollars"} by day, ${from} to ${to}`} say=${(line) => (isFree ? String(line) : `${line} USD`)}
    sum=${html`<strong>${isFree ? sums.total.tasks : usd(sums.total.cost_usd)}</strong> ${isFree ? "tasks" : `in ${sums.total.tasks} tasks`}, ${dayName(from)} to ${dayName(to)}`} />`;
}

/** Days from one to the other, both of them. */
const lengthOf = (from, to) => Math.max(1, Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS) + 1);

/** What people look at most, as addresses. */
function ranges() {
  const now = new Date();
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  const ago = (days) => day(new Date(now.getTime() - days * DAY_MS));
  const date = (...parts) => day(new Date(Date.UTC(.../** @type {[number, number, number]} */ (parts))));
  return [["This month", date(year, month, 1), day(now)], ["Last month", date(year, month - 1, 1), date(year, month, 0)], ["7 days", ago(6), day(now)], ["30 days", ago(29), day(now)]];
}

const day = (date) => date.toISOString().slice(0, 10);

function Account({ of }) {
  const isPrepaid = of.policy === "prepaid";
  const budgets = of.keys.filter((key) => key.budget_usd && !key.revoked_at);
  return html`<dl class="figures">
    ${isPrepaid && html`<div><dt>Balance</dt><dd>${usd(of.balance_usd)}</dd></div>`}
    <div><dt>Total spent</dt><dd>${usd(of.spent_usd)}</dd></div><div><dt>Held for open tasks</dt><dd>${usd(of.held_usd)}</dd></div>
    <div><dt>Available</dt><dd>${of.available_usd === null ? "no limit" : usd(of.available_usd)}</dd></div></dl>
    ${of.ledger_mismatches > 0 && html`<p class="notice bad" role="alert"><strong>The ledger has ${of.ledger_mismatches} ${of.ledger_mismatches === 1 ? "mismatch" : "mismatches"}.</strong> Run <code>mediagate ledger verify</code> for details.</p>`}
    ${budgets.length > 0 && html`<section><h2>Budgets</h2><${Table} label="Budgets of keys" columns=${["Key", "Used", "#Left", "#Budget"]} rows=${budgets} row=${(key) => {
      const used = 1 - Number(key.available_usd) / (Number(key.budget_usd) || 1);
      return [html`<strong>${key.name}</strong>`, html`<span class="meter"><meter min="0" max="1" high="0.9" value=${used} aria-label=${`Budget of ${key.name}`}></meter> ${Math.round(100 * used)} %</span>`, usd(key.available_usd), `${usd(key.budget_usd)}${key.budget_period ? ` a ${key.budget_period}` : ""}`];
    }} /></section>`}`;
}

const moved = (text) => (Number(text) ? usd(text) : "–");

function Ledger({ after }) {
  const list = useLoad(async (signal) => {
    const [entries, check] = await Promise.all([call("GET", `/v1/admin/ledger${asQuery({ limit: 25, after })}`, undefined, { signal }), call("GET", "/v1/admin/ledger/verify", undefined, { signal })]);
    return { entries, check };
  }, [after]);
  return html`<section><div class="between"><h2>Ledger</h2>${list.data && html`<p class=${list.data.check.adds_up ? "status ok" : "status bad"}>${list.data.check.adds_up ? "adds up" : "does not add up"}</p>`}</div>
    ${list.data?.check.mismatches.length > 0 && html`<ul>${list.data.check.mismatches.map((one) => html`<li key=${one.what + one.id}>${one.what} <code>${one.id}</code>: ${one.why}</li>`)}</ul>`}
    <${Load} of=${list} rows=${3}>${(found) => (found.entries.data.length === 0 ? html`<${Empty} title="No ledger entries yet" />`
      : html`<${Table} label="Ledger, newest first" columns=${["When", "Kind", "Account", "Task or note", "#Held", "#Spent", "#Credited"]} rows=${found.entries.data} row=${(entry) => [html`<${When} at=${entry.created_at} />`, entry.kind, entry.account, entry.task_id ? html`<a class="mono" href=${`/console/tasks/${entry.task_id}`}>${short(entry.task_id)}</a>` : entry.note || "", moved(entry.held_usd), moved(entry.spent_usd), moved(entry.credit_usd)]} />
        <${Pager} list=${found.entries} after=${after} newest=${withQuery({ after: undefined })} older=${withQuery({ after: found.entries.last_id })} />`)}<//></section>`;
}
