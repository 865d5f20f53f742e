// Now: is everything well? What is under way, what failed, what nobody could confirm, and the newest tasks.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { call, follow } from "./api.js";
import { Empty, Head, Load, Progress, Status, Table, When, cost, ended, short, useLoad } from "./ui.js";
import { Thing } from "./tasks.js";

/** Events come in crowds; what is shown is read again once for each. */
const PAUSE_MS = 1000;

const get = (path, signal) => call("GET", path, undefined, { signal });
/** What is shown, and of which events it depends. */
const PARTS = {
  routes: { of: ["route", "task"], read: async (signal) => (await get("/v1/admin/providers?limit=100", signal)).data },
  unconfirmed: { of: ["task"], read: (signal) => get("/v1/admin/submissions?state=unconfirmed&limit=20", signal) },
  tasks: { of: ["task"], read: async (signal) => (await get("/v1/admin/tasks?limit=15", signal)).data },
  changes: { of: ["change"], read: async (signal) => (await get("/v1/admin/audit?limit=5", signal)).data },
};

const readAll = (names, signal) => Promise.all(names.map(async (name) => [name, await PARTS[name].read(signal)]));

export function Now() {
  const [newer, setNewer] = useState(/** @type {Record<string, any>} */ ({}));
  const [isLost, setLost] = useState(false);
  const state = useLoad(async (signal) => {
    const [books, parts] = await Promise.all([get("/v1/admin/ledger/verify", signal), readAll(Object.keys(PARTS), signal)]);
    return { books, ...Object.fromEntries(parts) };
  }, []);
  const isThere = Boolean(state.data);
  useEffect(() => {
    if (!isThere) return undefined;
    const end = new AbortController();
    const due = new Set();
    let timer = 0;
    const look = async () => {
      const names = [...due];
      due.clear();
      const found = await readAll(names, end.signal).catch(() => []);
      timer = 0;
      if (end.signal.aborted) return;
      setNewer((before) => ({ ...before, ...Object.fromEntries(found) }));
      if (due.size) timer = setTimeout(look, PAUSE_MS);
    };
    const seen = (subject) => {
      for (const [name, part] of Object.entries(PARTS)) if (subject === "missed" || part.of.includes(subject)) due.add(name);
      if (!timer) timer = setTimeout(look, PAUSE_MS);
    };
    follow("/v1/admin/events", { seen, lost: setLost, signal: end.signal }).catch(() => setLost(true));
    return () => {
      end.abort();
      clearTimeout(timer);
    };
  }, [isThere]);
  return html`<div><${Head} title="Now" small="Is everything well? It follows what happens, while you look." />
    ${isLost && html`<p class="notice" role="status">The connection is lost; it is taken up again.</p>`}
    <${Load} of=${state}>${(found) => html`<${Health} of=${{ ...found, ...newer }} />`}<//></div>`;
}

function Health({ of }) {
  const sum = (pick) => of.routes.reduce((all, route) => all + pick(route), 0);
  const waiting = of.unconfirmed.data.filter((one) => one.state !== "ended");
  const faults = of.routes.filter((route) => route.key_refused_at || route.paused_at || !route.available);
  return html`<div><dl class="figures">
      <div><dt>Jobs at providers</dt><dd>${sum((route) => route.open_jobs)}</dd></div>
      <div><dt>Made there in the last hour</dt><dd>${sum((route) => route.last_hour.succeeded)}</dd></div>
      <div><dt>Failed or refused there</dt><dd>${sum((route) => route.last_hour.failed + route.last_hour.refused)}</dd></div>
      <div><dt>Not confirmed</dt><dd>${waiting.length}${of.unconfirmed.has_more ? "+" : ""}</dd></div>
      <div><dt>The books</dt><dd>${of.books.adds_up ? "add up" : html`<span class="wrong">do not add up</span>`}</dd></div></dl>
    ${faults.map((route) => html`<p key=${route.id} class="notice bad"><strong>${route.provider} (${route.model}):</strong> ${route.key_refused_at ? "the provider refuses the key" : route.paused_at ? "paused by an operator" : `not available (${route.breaker.state})`}. <a href="/console/providers">Look at the providers</a></p>`)}
    <section><h2>Not confirmed</h2>${waiting.length === 0 ? html`<p class="muted">Every order that was sent is accounted for.</p>` : html`<${Table} label="Orders that nobody could confirm" columns=${["Provider", "State", "Task", "Account", "Sent", "Why"]} rows=${waiting} row=${(one) => [
      html`<span><strong>${one.provider}</strong> ${one.model}</span>`, html`<${Status} of=${one.state === "found" ? "failed" : "waiting"} label=${one.state === "found" ? "turned up" : "unknown"} />`, html`<a class="mono" href=${`/console/tasks/${one.task_id}`}>${short(one.task_id)}</a>`, one.account, html`<${When} at=${one.sent_at} />`, one.error?.message || ""]} />`}</section>
    <section><div class="between"><h2>Newest tasks of every account</h2><a class="button quiet small" href="/console/tasks?of=all">All of them</a></div><br />
      ${of.tasks.length === 0 ? html`<${Empty} title="Quiet"><p>Tasks appear here as they are ordered.</p><//>` : html`<${Table} label="Newest tasks" columns=${["Task", "Account", "Provider", "Status", "Cost", "Ordered"]} rows=${of.tasks} row=${(task) => [html`<${Thing} task=${task} />`, task.account, task.provider,
        html`<span><${Status} of=${task.status} />${ended(task) ? task.error && task.status === "failed" ? html`<br /><span class="fine wrong">${task.error.code}</span>` : "" : html` <${Progress} task=${task} />`}</span>`, cost(task.cost_usd), html`<${When} at=${task.created_at} />`]} />`}</section>
    <section><div class="between"><h2>Newest changes</h2><a class="button quiet small" href="/console/audit">All of them</a></div><br />
      ${of.changes.length === 0 ? html`<p class="muted">Nobody has changed anything yet.</p>` : html`<${Table} label="Newest changes" columns=${["Change", "Of", "By", "When"]} rows=${of.changes} row=${(one) => [html`<code>${one.action}</code>`, html`<span class="mono">${one.target}</span>`, one.actor.name, html`<${When} at=${one.at} />`]} />`}</section></div>`;
}
