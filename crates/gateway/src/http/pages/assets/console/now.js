// Now: is everything well? What is under way, what failed, what nobody could confirm, and a live tail.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { call, follow } from "./api.js";
import { Bars } from "./chart.js";
import { Empty, Failed, Head, Load, Status, Table, When, clock, short, useLoad } from "./ui.js";

const MOST_LINES = 100;
const HOUR_MS = 3_600_000;

export function Now() {
  const state = useLoad(async (signal) => {
    const get = (path) => call("GET", path, undefined, { signal });
    const since = new Date(Date.now() - 23 * HOUR_MS).toISOString().slice(0, 10);
    const [routes, unconfirmed, books, hours] = await Promise.all([
      get("/v1/admin/providers?limit=100"), get("/v1/admin/submissions?state=unconfirmed&limit=20"), get("/v1/admin/ledger/verify"), get(`/v1/admin/usage?group_by=hour&from=${since}`)]);
    return { routes: routes.data, unconfirmed, books, hours: hours.data };
  }, []);
  useEffect(() => {
    const look = () => document.hidden || state.reload();
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  return html`<div><${Head} title="Now" small="Is everything well?"><button type="button" class="quiet small" onClick=${state.reload}>Look again</button><//>
    <${Load} of=${state}>${(found) => html`<${Health} of=${found} />`}<//>
    <${Tail} moved=${state.reload} /></div>`;
}

function Health({ of }) {
  const sum = (pick) => of.routes.reduce((all, route) => all + pick(route), 0);
  const waiting = of.unconfirmed.data.filter((one) => one.state !== "ended");
  const faults = of.routes.filter((route) => route.key_refused_at || route.paused_at || !route.available);
  return html`<div><dl class="figures">
      <div><dt>Jobs at providers</dt><dd>${sum((route) => route.open_jobs)}</dd></div>
      <div><dt>Made in the last hour</dt><dd>${sum((route) => route.last_hour.succeeded)}</dd></div>
      <div><dt>Failed or refused</dt><dd>${sum((route) => route.last_hour.failed + route.last_hour.refused)}</dd></div>
      <div><dt>Not confirmed</dt><dd>${waiting.length}${of.unconfirmed.has_more ? "+" : ""}</dd></div>
      <div><dt>The books</dt><dd>${of.books.adds_up ? "add up" : html`<span class="wrong">do not add up</span>`}</dd></div></dl>
    ${faults.map((route) => html`<p key=${route.id} class="notice bad"><strong>${route.provider} (${route.model}):</strong> ${route.key_refused_at ? "the provider refuses the key" : route.paused_at ? "paused by an operator" : `not available (${route.breaker.state})`}. <a href="/console/providers">Look at the providers</a></p>`)}
    <div class="card"><h2>Tasks that ended, by hour</h2><${Bars} label="Tasks that ended in each of the last 24 hours" bars=${hours(of.hours)} /></div>
    <section><h2>Not confirmed</h2>${waiting.length === 0 ? html`<p class="muted">Every order that was sent is accounted for.</p>` : html`<${Table} label="Orders that nobody could confirm" columns=${["Provider", "State", "Task", "Account", "Sent", "Why"]} rows=${waiting} row=${(one) => [
      html`<strong>${one.provider}</strong> ${one.model}`, html`<${Status} of=${one.state === "found" ? "failed" : "waiting"} label=${one.state === "found" ? "turned up" : "unknown"} />`, html`<a class="mono" href=${`/console/tasks/${one.task_id}`}>${short(one.task_id)}</a>`, one.account, html`<${When} at=${one.sent_at} />`, one.error?.message || ""]} />`}</section></div>`;
}

/** The last 24 hours, those in which nothing ended too. */
function hours(rows) {
  const found = new Map(rows.map((row) => [Date.parse(row.hour), row]));
  const now = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  return Array.from({ length: 24 }, (_, at) => {
    const start = now - (23 - at) * HOUR_MS;
    const row = found.get(start);
    const time = `${String(new Date(start).getHours()).padStart(2, "0")}:00`;
    return { name: `${new Date(start).toISOString().slice(0, 10)} ${time}`, short: time, value: row?.tasks || 0, label: row ? `${row.tasks} ended, ${row.failed} failed` : "nothing" };
  });
}

/** What happens, as it happens. */
function Tail({ moved }) {
  const [lines, setLines] = useState(/** @type {any[]} */ ([]));
  const [state, setState] = useState(/** @type {{isLost?: boolean, error?: any}} */ ({}));
  useEffect(() => {
    const controller = new AbortController();
    const seen = (name, data) => {
      setLines((before) => [{ name, data, at: data.at || new Date().toISOString(), key: `${Date.now()}-${Math.random()}` }, ...before].slice(0, MOST_LINES));
      if (name.startsWith("breaker") || name.startsWith("route")) moved();
    };
    follow("/v1/admin/events", { seen, lost: (isLost) => setState({ isLost }), signal: controller.signal }).catch((error) => setState({ error }));
    return () => controller.abort();
  }, []);
  return html`<section><div class="between"><h2>As it happens</h2><p class=${state.isLost ? "status bad" : "status ok"}>${state.isLost ? "connection lost" : "live"}</p></div><br />
    ${state.error ? html`<${Failed} error=${state.error} />` : lines.length === 0 ? html`<${Empty} title="Quiet"><p>Tasks, providers, keys and money appear here as they move.</p><//>`
      : html`<div class="card"><ol class="line">${lines.map((line) => html`<li key=${line.key} class=${/fail|open|unconfirmed/.test(line.name) ? "bad" : "ok"}><div class="between"><p><strong>${line.name.replaceAll(/[._]/g, " ")}</strong> <span class="fine">${words(line.data)}</span></p><time class="fine">${clock(line.at)}</time></div></li>`)}</ol></div>`}</section>`;
}

/** The plain values of an event, in its own order. */
function words(data) {
  return Object.entries(data).filter(([name, value]) => !["at", "id", "object", "type"].includes(name) && value !== null && typeof value !== "object").map(([name, value]) => (name === "task_id" ? short(String(value)) : String(value))).join(" · ");
}
