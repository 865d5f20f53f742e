// Now: is everything well? What is under way, what failed, what nobody could confirm, and the newest tasks.

import { html, useEffect } from "../vendor/preact-htm.js";
import { call } from "./api.js";
import { Empty, Head, Load, Progress, Status, Table, When, cost, ended, short, useLoad } from "./ui.js";
import { Thing } from "./tasks.js";

const LOOK_AGAIN_MS = 5000;

export function Now() {
  const state = useLoad(async (signal) => {
    const get = (path) => call("GET", path, undefined, { signal });
    const [routes, unconfirmed, books, tasks] = await Promise.all([
      get("/v1/admin/providers?limit=100"), get("/v1/admin/submissions?state=unconfirmed&limit=20"), get("/v1/admin/ledger/verify"), get("/v1/admin/tasks?limit=15")]);
    return { routes: routes.data, unconfirmed, books, tasks: tasks.data };
  }, []);
  useEffect(() => {
    if (state.isLoading) return undefined;
    const look = () => document.hidden || state.reload();
    const timer = setTimeout(look, LOOK_AGAIN_MS);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [state.isLoading, state.data]);
  return html`<div><${Head} title="Now" small="Is everything well? Looked at every five seconds, while you look." />
    <${Load} of=${state}>${(found) => html`<${Health} of=${found} />`}<//></div>`;
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
        html`<span><${Status} of=${task.status} />${ended(task) ? task.error && task.status === "failed" ? html`<br /><span class="fine wrong">${task.error.code}</span>` : "" : html` <${Progress} task=${task} />`}</span>`, cost(task.cost_usd), html`<${When} at=${task.created_at} />`]} />`}</section></div>`;
}
