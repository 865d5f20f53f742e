// Spend: who spent what in any range of days, and whether the books add up.

import { html } from "../vendor/preact-htm.js";
import { call, file, query as asQuery, save } from "./api.js";
import { Bars } from "./chart.js";
import { go, withQuery } from "./router.js";
import { Empty, Failed, Field, Head, Load, Pager, Table, When, short, useAction, useLoad, usd } from "./ui.js";

const GROUPS = { model: "Model", key: "Key" };
/** Of all accounts. */
const ALL_GROUPS = { account: "Account", provider: "Provider", ...GROUPS, outcome: "Outcome" };

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
    const [account, days, sums] = await Promise.all([get("/v1/account"), get(ask("day")), get(ask(by))]);
    return { account, days, sums };
  }, [from, to, by, isAll]);
  const saving = useAction();
  const csv = () => saving.run(async () => save(await file(ask(`day,${by}`, "csv")), `usage-${from}-${to}.csv`));
  const set = (name) => (event) => go(withQuery({ [name]: event.target.value }));
  return html`<${Head} title="Spend" small=${isAll ? "What the work of every account brought in and cost, in days of UTC." : "What the work of an account cost, in days of UTC."}><button type="button" class="quiet small" aria-disabled=${saving.busy} onClick=${csv}>Download CSV</button><//>
    <${Failed} error=${saving.error} />
    ${usage.data && html`<${Account} of=${usage.data.account} />`}
    <div class="filters">${may("admin") && html`<${Field} name="of" label="Of"><select id="of" value=${isAll ? "all" : "own"} onChange=${set("of")}><option value="all">every account</option><option value="own">my account</option></select><//>`}<${Field} name="from" label="From"><input id="from" type="date" value=${from} max=${to} onChange=${set("from")} /><//><${Field} name="to" label="To"><input id="to" type="date" value=${to} min=${from} onChange=${set("to")} /><//>
      <${Field} name="by" label="Grouped by"><select id="by" value=${by} onChange=${set("by")}>${Object.entries(groups).map(([group, name]) => html`<option key=${group} value=${group}>${name}</option>`)}</select><//></div>
    <${Load} of=${usage}>${({ days, sums }) => (days.data.length === 0 ? html`<${Empty} title="Nothing ended in these days"><p>Tasks count on the day on which they ended.</p><//>`
      : html`<div class="card"><${Bars} bars=${bars(days.data, from, to)} label=${`Dollars by day, ${from} to ${to}`} /></div>
        <section><${Table} label="Sums" columns=${[groups[by], "Tasks", "Succeeded", "Failed", "Cancelled", "Charged", ...(isAll ? ["Providers", "Margin"] : [])]} keyed=${(row) => name(row, by)} rows=${[...sums.data, { ...sums.total, isTotal: true }]}
          row=${(row) => [html`<strong>${row.isTotal ? "In all" : name(row, by)}</strong>`, row.tasks, row.succeeded, row.failed, row.cancelled, usd(row.cost_usd), ...(isAll ? margin(row) : [])]} />${isAll && html`<${Unknown} of=${sums.total} />`}</section>`)}<//>
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
  return html`<p class="fine muted">${count} ${count === 1 ? "job" : "jobs"} at providers ${count === 1 ? "is" : "are"} in no margin: nobody knows what ${count === 1 ? "it" : "they"} cost. A route's <code>cost</code> says so for what is made; what failed only its provider can say.</p>`;
}

/** Every day of the range, those without work too. */
function bars(rows, from, to) {
  const found = new Map(rows.map((row) => [row.day, row]));
  const list = [];
  for (let at = Date.parse(from); at <= Date.parse(to) && list.length < 400; at += 86_400_000) {
    const row = found.get(day(new Date(at)));
    list.push({ name: day(new Date(at)), value: Number(row?.cost_usd || 0), label: row ? `${usd(row.cost_usd)}, ${row.tasks} ${row.tasks === 1 ? "task" : "tasks"}` : "nothing" });
  }
  return list;
}

const day = (date) => date.toISOString().slice(0, 10);

function Account({ of }) {
  const isPrepaid = of.policy === "prepaid";
  const budgets = of.keys.filter((key) => key.budget_usd && !key.revoked_at);
  return html`<dl class="figures">
    ${isPrepaid && html`<div><dt>Balance</dt><dd>${usd(of.balance_usd)}</dd></div>`}
    <div><dt>Spent in all</dt><dd>${usd(of.spent_usd)}</dd></div><div><dt>Held for open tasks</dt><dd>${usd(of.held_usd)}</dd></div>
    <div><dt>Can still be ordered</dt><dd>${of.available_usd === null ? "no limit" : usd(of.available_usd)}</dd></div></dl>
    ${of.ledger_mismatches > 0 && html`<p class="notice bad" role="alert"><strong>The ledger does not add up in ${of.ledger_mismatches} ${of.ledger_mismatches === 1 ? "place" : "places"}.</strong> <code>mediagate ledger verify</code> says where.</p>`}
    ${budgets.length > 0 && html`<section><h2>Budgets</h2><${Table} label="Budgets of keys" columns=${["Key", "Used", "Left", "Budget"]} rows=${budgets} row=${(key) => {
      const used = 1 - Number(key.available_usd) / (Number(key.budget_usd) || 1);
      return [html`<strong>${key.name}</strong>`, html`<span class="row"><meter min="0" max="1" high="0.9" value=${used} aria-label=${`Budget of ${key.name}`}></meter> ${Math.round(100 * used)} %</span>`, usd(key.available_usd), `${usd(key.budget_usd)}${key.budget_period ? ` a ${key.budget_period}` : ""}`];
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
    <${Load} of=${list} rows=${3}>${(found) => (found.entries.data.length === 0 ? html`<${Empty} title="No money has moved yet" />`
      : html`<br /><${Table} label="Ledger, newest first" columns=${["When", "Kind", "Held", "Spent", "Credited", "Account", "For"]} rows=${found.entries.data} row=${(entry) => [html`<${When} at=${entry.created_at} />`, entry.kind, moved(entry.held_usd), moved(entry.spent_usd), moved(entry.credit_usd), entry.account, entry.task_id ? html`<a class="mono" href=${`/console/tasks/${entry.task_id}`}>${short(entry.task_id)}</a>` : entry.note || ""]} />
        <${Pager} list=${found.entries} after=${after} newest=${withQuery({ after: undefined })} older=${withQuery({ after: found.entries.last_id })} />`)}<//></section>`;
}
