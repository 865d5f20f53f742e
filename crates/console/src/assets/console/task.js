// A task: its input, its attempts, its result and its cost.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { ActionButton, useAction } from "./act.js";
import { ApiError, safeUrl, call, follow, origin } from "./api.js";
import { ApprovalButtons } from "./approval.js";
import { ResultFiles } from "./create.js";
import { RequestLink } from "./requests.js";
import {
  CodeBlock,
  CopyButton,
  Facts,
  ErrorNotice,
  PageHeader,
  Loader,
  ProgressBar,
  RelativeTime,
  StatusBadge,
  Tabs,
  timeOfDay,
  isEnded,
  durationText,
  isPending,
  useLoad,
  usd,
} from "./ui.js";
import { taskTitle } from "./tasks.js";

export function TaskPage({ id, hasScope }) {
  const path = `/v1/tasks/${encodeURIComponent(id)}`;
  const task = useLoad((signal) => loadTask(path, id, hasScope("admin"), signal), [path]);
  const [isLost, setLost] = useState(false);
  const isOpen = task.data && !isEnded(task.data);
  useEffect(() => {
    if (!isOpen) return undefined;
    const controller = new AbortController();
    const onEvent = (name, data) => {
      if (name === "task") task.set(data);
      return name === "task" && isEnded(data);
    };
    follow(`${path}/events`, { onEvent, onLost: setLost, signal: controller.signal }).catch(() => {});
    return () => controller.abort();
  }, [path, isOpen]);
  return html`
    <${Loader} load=${task}>
      ${(data) => html`
        <${TaskDetails} task=${data} hasScope=${hasScope} isLost=${isLost} reload=${task.reload} path=${path} />
      `}
    <//>
    ${
      !task.data &&
      html`
        <p>
          <a href="/console/tasks">All tasks</a>
        </p>
      `
    }
  `;
}

/** Reads a task; for an operator also one of another account, with its attempts and deliveries. */
async function loadTask(path, id, isOperator, signal) {
  try {
    return await call("GET", path, undefined, { signal });
  } catch (error) {
    if (!isOperator || !(error instanceof ApiError) || error.status !== 404) throw error;
    return call("GET", `/v1/admin/tasks/${encodeURIComponent(id)}`, undefined, { signal });
  }
}

function TaskDetails({ task, hasScope, isLost, reload, path }) {
  const [tab, setTab] = useState("result");
  const cancel = useAction();
  const isOpen = !isEnded(task);
  const attempts = useLoad(
    (signal) =>
      task.attempts
        ? Promise.resolve(task.attempts)
        : listOrEmpty(call("GET", `${path}/attempts`, undefined, { signal })),
    [path, task.status],
  );
  const deliveries = useLoad(
    (signal) =>
      task.deliveries
        ? Promise.resolve(task.deliveries)
        : hasScope("webhooks:manage")
          ? listOrEmpty(call("GET", `${path}/deliveries`, undefined, { signal }))
          : Promise.resolve([]),
    [path, task.status],
  );
  const title = taskTitle(task);
  return html`
    <${PageHeader} title=${title.length > 90 ? `${title.slice(0, 90)}…` : title}>
      ${isPending(task) && hasScope("approve") && html`<${ApprovalButtons} task=${task} onDone=${reload} />`}
      ${
        isOpen &&
        hasScope("tasks:cancel") &&
        html`
          <${ActionButton}
            action=${cancel}
            kind="danger small"
            request=${(send) => send("POST", `${path}/cancel`).finally(reload)}
          >
            Cancel the task
          <//>
        `
      }
      <a class="button quiet small" href=${`/console/create/${encodeURIComponent(task.model)}?from=${task.id}`}>
        Vary
      </a>
    <//>
    <${ErrorNotice} error=${cancel.error} />
    <p class="row">
      <${StatusBadge} status=${task.status} /> ${isOpen && html`<${ProgressBar} task=${task} />`}${" "}
      <span class="fine mono">${task.id}</span>${" "}
      <${CopyButton} text=${task.id} label="Copy the id" />
    </p>
    ${
      isPending(task) &&
      html`
        <p class="notice">
          This order waits for approval. Nothing is sent before. Its price is ${usd(task.billing.reserved_usd)}, and it
          ends <${RelativeTime} time=${task.approval.expires_at} /> if nobody decides.
        </p>
      `
    }
    ${
      task.identical_task &&
      html`
        <p class="notice">
          The same order was placed before:${" "}
          <a href=${`/console/tasks/${task.identical_task}`}>task ${task.identical_task}</a>. Both were made
          ${task.cost_usd === "0.00" ? "" : ", and each has its own cost"}.
        </p>
      `
    }
    ${
      isLost &&
      html`
        <p class="notice bad" role="alert">
          <strong>Connection lost.</strong> The task continues. This page reconnects automatically.
        </p>
      `
    }
    <div class="two">
      <div>
        <div class="card">
          <${Tabs}
            name="Task"
            chosen=${tab}
            choose=${setTab}
            tabs=${[
              ["result", "Result"],
              ["json", "JSON"],
              ["curl", "curl"],
            ]}
          />
          <div role="tabpanel" id="panel-Task" aria-labelledby=${`tab-Task-${tab}`}>
            ${
              tab === "json"
                ? html`<${CodeBlock} label="Task record" text=${JSON.stringify(task, null, 2)} />`
                : tab === "curl"
                  ? html`
                    <${CodeBlock}
                      label="Request with curl"
                      text=${`curl ${origin}${path} \\\n  -H "Authorization: Bearer $MEDIAGATE_KEY"`}
                    />
                  `
                  : html`<${TaskResult} task=${task} />`
            }
          </div>
        </div>
        <div class="card">
          <h2>Task input</h2>
          <${TaskInput} task=${task} />
        </div>
      </div>
      <div>
        <div class="card">
          <h2>Timeline</h2>
          <ol class="line">
            ${taskEvents(task, attempts.data || [], deliveries.data || []).map(
              (event) => html`
                <li key=${event.key} class=${event.mark}>
                  <div class="between">
                    <p>${event.what}</p>
                    ${
                      event.at &&
                      html`
                        <time class="fine" datetime=${event.at} title=${new Date(event.at).toLocaleString()}>
                          ${timeOfDay(event.at)}
                        </time>
                      `
                    }
                  </div>
                  ${event.more && html`<p class="fine">${event.more}</p>`}
                </li>
              `,
            )}
          </ol>
        </div>
        <div class="card">
          <h2>Billing and origin</h2>
          <${Facts}
            facts=${[
              ...moneyFacts(task),
              ["Account", task.account],
              ["Key", task.key?.name],
              ["Provider", task.provider],
              ["Request", html`<${RequestLink} id=${task.request_id} isWide=${Boolean(task.account)} />`],
              ["User", task.user],
              ...Object.entries(task.metadata || {}).map(([name, value]) => [`metadata.${name}`, value]),
              ["Callback URL", task.callback_url],
            ]}
          />
        </div>
      </div>
    </div>
  `;
}

/** A list, or an empty one where this key may not read it. */
async function listOrEmpty(list) {
  try {
    return (await list).data;
  } catch (error) {
    if (error instanceof ApiError && [403, 404].includes(error.status)) return [];
    throw error;
  }
}

function TaskResult({ task }) {
  if (task.status === "succeeded")
    return html`
      <div class="stage stack">
        <${ResultFiles} task=${task} />
        ${task.billing?.partial && html`<p class="notice">${task.billing.partial}</p>`}
      </div>
    `;
  if (task.error)
    return html`
      <div class=${task.status === "cancelled" ? "notice" : "notice bad"}>
        <p>
          <strong>${task.error.message}</strong>
        </p>
        <p class="fine">
          <code>${task.error.code}</code>
        </p>
      </div>
    `;
  return html`
    <div class="waiting">
      <p class="muted">${task.status === "queued" ? "Waiting in the queue." : "In progress."}</p>
    </div>
  `;
}

function TaskInput({ task }) {
  const { input, output } = task;
  if (!input) return html`<p class="muted">The input is not recorded.</p>`;
  const options = { ...input.provider_options, ...input.options };
  const pictures = [
    ["First frame", input.image],
    ["Last frame", input.end_image],
    ...(input.reference_images || []).map((image, index) => [`Reference ${index + 1}`, image]),
  ].filter(([, image]) => image);
  return html`
    <${Facts}
      facts=${[
        ["Prompt", input.prompt],
        ["Understood", output?.direction?.join(", ")],
        ["Without effect", output?.not_understood?.join(", ")],
        ["Negative prompt", input.negative_prompt],
        ["Model", task.model],
        ["Title", input.title],
        ["Length", input.seconds && `${input.seconds} s`],
        ["Size", input.size],
        [
          "Seed",
          input.seed === null || input.seed === undefined
            ? ""
            : `${input.seed}${input.seed_drawn ? " (drawn at random)" : ""}`,
        ],
        ["Sound", input.audio === undefined || input.audio === null ? "" : input.audio ? "with" : "without"],
        ["Song", input.clip && html`<a href=${`/console/library/clips/${input.clip.id}`}>the clip</a>`],
        [
          "Split into",
          input.stem_task &&
            (input.stem_task === "two" ? `${input.stem_type_group_name || "Vocals"} and the rest` : "all stems"),
        ],
        ...pictures.map(([name, image]) => [
          name,
          safeUrl(image.url)
            ? html`
              <a href=${safeUrl(image.url)}>
                <img class="thumb" src=${safeUrl(image.url)} alt=${name} loading="lazy" />
              </a>
            `
            : "no longer stored",
        ]),
        ...Object.entries(options).map(([name, value]) => [
          name,
          typeof value === "object" ? JSON.stringify(value) : String(value),
        ]),
      ]}
    />
  `;
}

const ATTEMPT_TEXTS = {
  sending: "submission sent",
  accepted: "accepted",
  refused: "rejected",
  unconfirmed: "unconfirmed",
  found: "job found later",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
};

/** The timeline: the task, its attempts and its deliveries, in order. */
function taskEvents(task, attempts, deliveries) {
  const list = [{ key: "accepted", at: task.created_at, what: "Accepted", mark: "ok" }];
  if (task.started_at)
    list.push({
      key: "started",
      at: task.started_at,
      what: "Started",
      mark: "ok",
      more: `after ${elapsedText(task.created_at, task.started_at)}`,
    });
  for (const attempt of attempts) {
    const mark = ["refused", "failed", "unconfirmed"].includes(attempt.status)
      ? "bad"
      : ["succeeded", "cancelled", "found"].includes(attempt.status)
        ? "ok"
        : "open";
    const error = attempt.error && `${attempt.error.class.replaceAll("_", " ")}: ${attempt.error.message}`;
    const route = attempt.model ? `${attempt.provider} (${attempt.model})` : attempt.provider;
    list.push({
      key: attempt.id,
      at: attempt.ended_at || attempt.answered_at || attempt.sent_at,
      what: `${route}: ${ATTEMPT_TEXTS[attempt.status] || attempt.status}`,
      mark,
      more: [error, attempt.job_id && `job ${attempt.job_id}`].filter(Boolean).join("\n"),
    });
  }
  if (task.finished_at) {
    const what = { succeeded: "Stored", failed: "Failed", cancelled: "Cancelled" }[task.status];
    list.push({
      key: "end",
      at: task.finished_at,
      what,
      mark: task.status === "succeeded" ? "ok" : task.status === "failed" ? "bad" : "",
      more: task.started_at ? `${elapsedText(task.started_at, task.finished_at)} of work` : "",
    });
    const billing = task.billing || {};
    if (billing.status === "settled")
      list.push({
        key: "money",
        at: task.finished_at,
        what: `Settled: ${usd(billing.charged_usd)}`,
        mark: "ok",
        more: Number(billing.refunded_usd) ? `${usd(billing.refunded_usd)} refunded` : "",
      });
    if (billing.status === "released")
      list.push({
        key: "money",
        at: task.finished_at,
        what: `Released: ${usd(billing.reserved_usd)}`,
        mark: "",
        more: "Nothing was charged.",
      });
  } else
    list.push({
      key: "open",
      at: "",
      what: task.status === "queued" ? "Waiting in the queue" : "In progress",
      mark: "open",
      more: task.progress_estimated
        ? `about ${task.progress} %, estimated from the model's usual time`
        : `${task.progress} %`,
    });
  list.sort((a, b) => (a.at && b.at ? a.at.localeCompare(b.at) : a.at ? -1 : b.at ? 1 : 0));
  for (const delivery of deliveries)
    list.push({
      key: delivery.id,
      at: delivery.created_at,
      what: `Webhook to ${delivery.url}`,
      mark: delivery.state === "delivered" ? "ok" : delivery.state === "failed" ? "bad" : "open",
      more: `${delivery.state}, ${delivery.attempts} ${delivery.attempts === 1 ? "attempt" : "attempts"}`,
    });
  return list;
}

const elapsedText = (from, to) => durationText(Math.max(0, (Date.parse(to) - Date.parse(from)) / 1000));

/** The amounts held, charged and refunded, and how they were counted. */
function moneyFacts(task) {
  const billing = task.billing || {};
  if (!billing.status || billing.status === "free") return [["Cost", "free"]];
  const quantity =
    billing.unit && `${billing.quantity} × ${usd(billing.unit_price_usd)} per ${billing.unit.replaceAll("_", " ")}`;
  return [
    ["Cost", usd(task.cost_usd)],
    ["Quantity", quantity],
    ["Held", usd(billing.reserved_usd)],
    ["Charged", billing.charged_usd && usd(billing.charged_usd)],
    ["Refunded", Number(billing.refunded_usd) > 0 && usd(billing.refunded_usd)],
  ];
}
