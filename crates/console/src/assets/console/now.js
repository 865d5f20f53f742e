// Overview: the state of the gateway, open jobs, failures, unconfirmed submissions and the newest tasks.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { SubmitButton, useAction } from "./act.js";
import { call, follow } from "./api.js";
import { PendingOrders } from "./approval.js";
import { AuditTarget } from "./audit.js";
import { BarChart } from "./chart.js";
import { affectedProcesses, isClosed, refusedPart, stateText } from "./providers.js";
import {
  Dialog,
  EmptyState,
  ErrorNotice,
  Field,
  PageHeader,
  Loader,
  ProgressBar,
  StatusBadge,
  Table,
  RelativeTime,
  fieldError,
  priceText,
  isEnded,
  shortId,
  usd,
  useLoad,
} from "./ui.js";
import { TaskTitle } from "./tasks.js";

/** Events come in bursts; the data is read again once for each burst. */
const PAUSE_MS = 1000;
/** How many alerts about budgets are shown. */
const MOST_ALERTS = 5;

const get = (path, signal) => call("GET", path, undefined, { signal });
/** The data of the page, and the events after which each part is read again. */
const PARTS = {
  routes: {
    events: ["route", "task"],
    read: async (signal) => (await get("/v1/admin/providers", signal)).data,
  },
  unconfirmed: {
    events: ["task", "change"],
    read: (signal) => get("/v1/admin/submissions?state=unconfirmed&limit=20", signal),
  },
  approvals: {
    events: ["task", "change"],
    read: (signal) => get("/v1/admin/tasks?status=queued&approval=pending&order=asc&limit=20", signal),
  },
  tasks: { events: ["task"], read: async (signal) => (await get("/v1/admin/tasks?limit=15", signal)).data },
  hours: {
    events: ["task"],
    read: async (signal) =>
      (
        await get(
          `/v1/admin/usage?group_by=hour&from=${new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)}`,
          signal,
        )
      ).data,
  },
  changes: { events: ["change"], read: async (signal) => (await get("/v1/admin/audit?limit=5", signal)).data },
};

const readAll = (names, /** @type {AbortSignal | undefined} */ signal = undefined) =>
  Promise.all(names.map(async (name) => [name, await PARTS[name].read(signal)]));

export function Overview({ hasScope }) {
  const [newer, setNewer] = useState(/** @type {Record<string, any>} */ ({}));
  const [alerts, setAlerts] = useState(/** @type {any[]} */ ([]));
  const [isLost, setLost] = useState(false);
  const state = useLoad(async (signal) => {
    const [books, parts] = await Promise.all([
      get("/v1/admin/ledger/verify", signal),
      readAll(Object.keys(PARTS), signal),
    ]);
    return { books, ...Object.fromEntries(parts) };
  }, []);
  const isLoaded = Boolean(state.data);
  useEffect(() => {
    if (!isLoaded) return undefined;
    const controller = new AbortController();
    const outdated = new Set();
    let timer = 0;
    const refresh = async () => {
      const names = [...outdated];
      outdated.clear();
      const updates = await readAll(names, controller.signal).catch(() => []);
      timer = 0;
      if (controller.signal.aborted) return;
      setNewer((before) => ({ ...before, ...Object.fromEntries(updates) }));
      if (outdated.size) timer = setTimeout(refresh, PAUSE_MS);
    };
    const onEvent = (subject, event) => {
      if (subject === "budget") setAlerts((before) => [event.budget, ...before].slice(0, MOST_ALERTS));
      for (const [name, part] of Object.entries(PARTS))
        if (subject === "missed" || part.events.includes(subject)) outdated.add(name);
      if (!timer) timer = setTimeout(refresh, PAUSE_MS);
    };
    follow("/v1/admin/events", { onEvent, onLost: setLost, signal: controller.signal }).catch(() => setLost(true));
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [isLoaded]);
  const readAgain = async (names) => {
    const updates = await readAll(names).catch(() => []);
    setNewer((before) => ({ ...before, ...Object.fromEntries(updates) }));
  };
  return html`
    <div>
      <${PageHeader} title="Overview" small="The current state of the gateway, updated live." />
      ${
        isLost &&
        html`
          <p class="notice" role="status">
            Connection lost. Reconnecting.
          </p>
        `
      }
      ${alerts.map((alert) => html`<p key=${alertText(alert)} class="notice">${alertText(alert)}</p>`)}
      <${Loader} load=${state}>
        ${(loaded) => html`
          <${HealthFigures}
            overview=${{ ...loaded, ...newer }}
            mayDecide=${hasScope("approve")}
            onDecided=${() => readAgain(["approvals", "tasks"])}
            onResolved=${() => readAgain(["unconfirmed"])}
          />
        `}
      <//>
    </div>
  `;
}

const OWNERS = {
  key: (alert) => `key ${shortId(alert.key_id)}`,
  user: (alert) => `end user ${alert.user}`,
  account: () => "the account",
};

/** Whose budget an alert is about, and how much of it is used. */
function alertText(alert) {
  const used = `${usd(alert.used_usd)} of ${usd(alert.budget_usd)}`;
  return `${alert.account}: ${alert.percent} % of the budget of ${OWNERS[alert.owner](alert)} are used, ${used}.`;
}

const HOURS = 24;
const HOUR_MS = 3_600_000;
const ENDS = /** @type {[string, string][]} */ ([
  ["succeeded", "good"],
  ["failed", "bad"],
  ["cancelled", "rest"],
]);

/** The last day by hour: how many tasks ended, and with which result. */
function HourChart({ hours }) {
  const rowsByHour = new Map(hours.map((row) => [Date.parse(row.hour), row]));
  const first = Math.floor(Date.now() / HOUR_MS) - HOURS + 1;
  const rows = Array.from({ length: HOURS }, (_, index) => ({
    at: (first + index) * HOUR_MS,
    row: rowsByHour.get((first + index) * HOUR_MS),
  }));
  const sum = (name) => rows.reduce((total, { row }) => total + (row ? row[name] : 0), 0);
  const bars = rows.map(({ at, row }) => ({
    name: new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }),
    parts: ENDS.map(([name, mark]) => ({ mark, value: row ? row[name] : 0 })),
    label: row
      ? ENDS.filter(([name]) => row[name])
          .map(([name]) => `${row[name]} ${name}`)
          .join(", ")
      : "nothing",
  }));
  const legend = ENDS.filter(([name]) => sum(name)).map(([name, mark]) => ({
    mark,
    name: `${sum(name)} ${name}`,
  }));
  return html`
    <section>
      <h2>Last ${HOURS} hours</h2>
      <div class="card">
        <${BarChart}
          bars=${bars}
          legend=${legend}
          label=${`Tasks that ended, by hour: ${legend.map((entry) => entry.name).join(", ") || "none"}`}
          format=${String}
          sum=${html`<strong>${ENDS.reduce((total, [name]) => total + sum(name), 0)}</strong> tasks ended`}
        />
      </div>
    </section>
  `;
}

const problemText = (route) =>
  route.key_refused_at
    ? `the provider rejects the ${refusedPart(route)}`
    : route.paused_at
      ? "paused by an operator"
      : `${stateText(route.breaker.state)}${affectedProcesses(route)}`;

/** The submissions that nobody could confirm, and the dialog that resolves one by hand. */
function UnconfirmedSubmissions({ submissions, onDone }) {
  const [chosen, setChosen] = useState(/** @type {any} */ (undefined));
  return html`
    <section>
      <h2>Unconfirmed submissions</h2>
      <${Table}
        label="Unconfirmed submissions"
        columns=${["Provider", "State", "Task", "Account", "Sent", "Error", ""]}
        rows=${submissions}
        row=${(submission) => [
          html`<span>
            <strong>${submission.provider}</strong> ${submission.model}
          </span>`,
          html`<${StatusBadge}
            status=${submission.state === "found" ? "failed" : "waiting"}
            label=${submission.state === "found" ? "job found" : "unknown"}
          />`,
          html`<a class="mono" href=${`/console/tasks/${submission.task_id}`}>
            ${shortId(submission.task_id)}
          </a>`,
          submission.account,
          html`<${RelativeTime} time=${submission.sent_at} />`,
          submission.error?.message || "",
          html`<button
            type="button"
            class="quiet small"
            aria-label=${`Resolve ${shortId(submission.id)}`}
            onClick=${() => setChosen(submission)}
          >
            Resolve
          </button>`,
        ]}
      />
      ${
        chosen &&
        html`
          <${ResolutionDialog}
            submission=${chosen}
            close=${() => setChosen(undefined)}
            onDone=${() => {
              setChosen(undefined);
              onDone();
            }}
          />
        `
      }
    </section>
  `;
}

function ResolutionDialog({ submission, close, onDone }) {
  const [form, setForm] = useState({ note: "", job: submission.job || "" });
  const action = useAction();
  const save = (event) => {
    event.preventDefault();
    action.run(async (send) => {
      await send("POST", `/v1/admin/submissions/${submission.id}/resolve`, {
        note: form.note.trim(),
        job: form.job.trim() || undefined,
      });
      onDone();
    });
  };
  return html`
    <${Dialog} title="Resolve the submission" close=${close}>
      <form class="stack" onSubmit=${save}>
        <p>
          Look for the job in the list of ${submission.provider} first. The submission leaves this list, and no money
          moves.
        </p>
        <${Field} name="resolution-note" label="Note" error=${fieldError(action.error, "note")}>
          <input
            id="resolution-note"
            required
            maxlength="500"
            value=${form.note}
            onInput=${(event) => setForm({ ...form, note: event.target.value })}
          />
        <//>
        <${Field}
          name="resolution-job"
          label="The provider's job (optional)"
          error=${fieldError(action.error, "job")}
        >
          <input
            id="resolution-job"
            maxlength="200"
            value=${form.job}
            onInput=${(event) => setForm({ ...form, job: event.target.value })}
          />
        <//>
        ${
          action.error &&
          !["note", "job"].includes(action.error.param) &&
          html`<${ErrorNotice} error=${action.error} />`
        }
        <div>
          <${SubmitButton} busy=${action.busy}>Resolve<//>
        </div>
      </form>
    <//>
  `;
}

function HealthFigures({ overview, mayDecide, onDecided, onResolved }) {
  const sum = (pick) => overview.routes.reduce((total, route) => total + pick(route), 0);
  const waiting = overview.unconfirmed.data.filter((submission) => submission.state !== "ended");
  const faults = overview.routes.filter((route) => route.key_refused_at || route.paused_at || !isClosed(route));
  return html`
    <div>
      <dl class="figures">
        <div>
          <dt>Jobs at providers</dt>
          <dd>${sum((route) => route.open_jobs)}</dd>
        </div>
        <div>
          <dt>Succeeded in the last hour</dt>
          <dd>${sum((route) => route.last_hour.succeeded)}</dd>
        </div>
        <div>
          <dt>Failed or rejected in the last hour</dt>
          <dd>${sum((route) => route.last_hour.failed + route.last_hour.refused)}</dd>
        </div>
        <div>
          <dt>Unconfirmed</dt>
          <dd class=${waiting.length ? "wrong" : ""}>
            ${waiting.length}
            ${overview.unconfirmed.has_more ? "+" : ""}
          </dd>
        </div>
        <div>
          <dt>Ledger</dt>
          <dd>${overview.books.adds_up ? "adds up" : html`<span class="wrong">does not add up</span>`}</dd>
        </div>
      </dl>
      ${faults.map(
        (route) => html`
          <p key=${route.id} class=${route.paused_at ? "notice" : "notice bad"}>
            <strong>
              ${route.provider} (${route.model}):
            </strong>${" "}
            ${problemText(route)}. <a href="/console/providers">Open the providers</a>
          </p>
        `,
      )}
      ${
        overview.approvals.data.length > 0 &&
        html`
          <${PendingOrders}
            tasks=${overview.approvals.data}
            hasMore=${overview.approvals.has_more}
            mayDecide=${mayDecide}
            onDone=${onDecided}
          />
        `
      }
      <${HourChart} hours=${overview.hours} />
      ${waiting.length > 0 && html`<${UnconfirmedSubmissions} submissions=${waiting} onDone=${onResolved} />`}
      <section>
        <div class="between">
          <h2>Newest tasks of all accounts</h2>
          <a class="button quiet small" href="/console/tasks?of=all">
            All tasks
          </a>
        </div>
        ${
          overview.tasks.length === 0
            ? html`
              <${EmptyState} title="No tasks yet">
                <p>New tasks appear here.</p>
              <//>
            `
            : html`
              <${Table}
                dense
                label="Newest tasks"
                columns=${["Task", "Account", "Provider", "Status", "#Cost", "#Created"]}
                rows=${overview.tasks}
                row=${(task) => [
                  html`<${TaskTitle} task=${task} />`,
                  task.account,
                  task.provider,
                  html`<span>
                    <${StatusBadge} status=${task.status} />
                    ${
                      isEnded(task)
                        ? task.error && task.status === "failed"
                          ? html`
                            <br />
                            <span class="fine wrong">${task.error.code}</span>
                          `
                          : ""
                        : html`
                          ${" "}
                          <${ProgressBar} task=${task} />
                        `
                    }
                  </span>`,
                  priceText(task.cost_usd),
                  html`<${RelativeTime} time=${task.created_at} />`,
                ]}
              />
            `
        }
      </section>
      <section>
        <div class="between">
          <h2>Newest changes</h2>
          <a class="button quiet small" href="/console/audit">
            All changes
          </a>
        </div>
        ${
          overview.changes.length === 0
            ? html`<p class="muted">No changes yet.</p>`
            : html`
              <${Table}
                dense
                label="Newest changes"
                columns=${["Action", "Target", "Actor", "#When"]}
                rows=${overview.changes}
                row=${(change) => [
                  html`<code>${change.action}</code>`,
                  html`<${AuditTarget} entry=${change} />`,
                  change.actor.name,
                  html`<${RelativeTime} time=${change.at} />`,
                ]}
              />
            `
        }
      </section>
    </div>
  `;
}
