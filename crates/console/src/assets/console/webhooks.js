// Webhooks: endpoints that get an event when a task ends, and the log of the deliveries.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { ActionButton, SubmitButton, useAction } from "./act.js";
import { call, queryString } from "./api.js";
import { go, withQuery } from "./router.js";
import {
  CodeBlock,
  CopyButton,
  Dialog,
  EmptyState,
  Facts,
  ErrorNotice,
  Field,
  fieldError,
  PageHeader,
  Loader,
  Pager,
  StatusBadge,
  Table,
  RelativeTime,
  shortId,
  useLoad,
} from "./ui.js";

const EVENTS = [
  "task.succeeded",
  "task.failed",
  "task.cancelled",
  "task.approval_requested",
  "budget.threshold",
  "endpoint.disabled",
];

export function Webhooks({ query }) {
  const after = query.get("after") || "";
  const search = queryString({ after, limit: 50 });
  const list = useLoad((signal) => call("GET", `/v1/webhooks${search}`, undefined, { signal }), [search]);
  const [dialog, setDialog] = useState(/** @type {any} */ (undefined));
  return html`
    <${PageHeader}
      title="Webhooks"
      small="Endpoints that get an event when a task ends. A request can also name its own callback."
    >
      <button type="button" onClick=${() => setDialog({ edit: {} })}>
        New endpoint
      </button>
    <//>
    <${Loader} load=${list}>
      ${(page) =>
        page.data.length === 0
          ? html`
            <${EmptyState} title="No endpoints yet">
              <p>
                An endpoint is a URL of yours. It gets a signed message when a task ends, so that you do not have
                to poll.
              </p>
              <p class="acts">
                <button type="button" onClick=${() => setDialog({ edit: {} })}>
                  Add an endpoint
                </button>
              </p>
            <//>
          `
          : html`
            <${Table}
              label="Endpoints"
              columns=${["Endpoint", "Events", "State", "Created"]}
              rows=${page.data}
              row=${(endpoint) => [
                html`<div>
                  <a href=${`/console/webhooks/${endpoint.id}`}>
                    <strong>${endpoint.url}</strong>
                  </a>
                  ${
                    endpoint.description &&
                    html`
                      <br />
                      <span class="fine">${endpoint.description}</span>
                    `
                  }
                </div>`,
                endpoint.events?.join(", ") || "all",
                html`<${EndpointState} webhook=${endpoint} />`,
                html`<${RelativeTime} time=${endpoint.created_at} />`,
              ]}
            />
            <${Pager}
              list=${page}
              after=${after}
              newest=${withQuery({ after: undefined })}
              older=${withQuery({ after: page.last_id })}
            />
          `}
    <//>
    ${
      dialog?.edit &&
      html`
        <${EndpointDialog}
          webhook=${{}}
          close=${() => setDialog(undefined)}
          onDone=${(made) => {
            setDialog({ made });
            list.reload();
          }}
        />
      `
    }
    ${dialog?.made && html`<${SecretDialog} webhook=${dialog.made} close=${() => setDialog(undefined)} />`}
  `;
}

function EndpointState({ webhook }) {
  if (!webhook.enabled)
    return html`
      <${StatusBadge}
        status="failed"
        label=${webhook.disabled_reason ? `disabled: ${webhook.disabled_reason.replaceAll("_", " ")}` : "disabled"}
      />
    `;
  return webhook.failures > 0
    ? html`<${StatusBadge} status="waiting" label=${`failing (${webhook.failures})`} />`
    : html`<${StatusBadge} status="succeeded" label="enabled" />`;
}

function SecretDialog({ webhook, close }) {
  return html`
    <${Dialog} title="The endpoint's secret" close=${close}>
      <div class="stack">
        <p class="notice">It is shown only now and after a rotation. Receivers use it to verify signatures.</p>
        <${CodeBlock} text=${webhook.secret || webhook.public_key || ""} label="The secret" />
      </div>
    <//>
  `;
}

export function Endpoint({ id, query }) {
  const path = `/v1/webhooks/${encodeURIComponent(id)}`;
  const endpoint = useLoad((signal) => call("GET", path, undefined, { signal }), [path]);
  return html`
    <${Loader} load=${endpoint}>
      ${(data) => html`
        <${EndpointDetails} webhook=${data} path=${path} query=${query} reload=${endpoint.reload} />
      `}
    <//>
    <p>
      <a href="/console/webhooks">All endpoints</a>
    </p>
  `;
}

function EndpointDetails({ webhook, path, query, reload }) {
  const state = query.get("state") || "";
  const after = query.get("after") || "";
  const search = queryString({ state, after, limit: 50 });
  const list = useLoad((signal) => call("GET", `${path}/deliveries${search}`, undefined, { signal }), [path, search]);
  const [dialog, setDialog] = useState(/** @type {any} */ (undefined));
  const action = useAction();
  const [message, setMessage] = useState("");
  const isWaiting = list.data?.data.some((delivery) => delivery.state === "waiting" && delivery.attempts === 0);
  // A new delivery takes a moment; the list is read again until it has been attempted.
  useEffect(() => {
    if (!isWaiting) return undefined;
    const timer = setTimeout(() => document.hidden || list.reload(), 1500);
    return () => clearTimeout(timer);
  }, [isWaiting, list.data]);
  const act = (text, run) => async (send) => {
    await run(send);
    setMessage(text);
    await Promise.all([reload(), list.reload()]);
  };
  return html`
    <${PageHeader} title=${webhook.url} small=${webhook.description}>
      <${ActionButton}
        action=${action}
        kind="quiet small"
        request=${act("A test event is being sent.", (send) => send("POST", `${path}/test`))}
      >
        Send a test event
      <//>
      <button type="button" class="quiet small" onClick=${() => setDialog({ edit: webhook })}>
        Edit
      </button>
      <button type="button" class="quiet small" onClick=${() => setDialog({ recover: true })}>
        Recover
      </button>
      <${ActionButton}
        action=${action}
        kind="quiet small"
        request=${async (send) => {
          setDialog({ made: await send("POST", `${path}/rotate`) });
          await reload();
        }}
      >
        Rotate the secret
      <//>
      <button type="button" class="danger small" onClick=${() => setDialog({ remove: true })}>
        Delete
      </button>
    <//>
    <${ErrorNotice} error=${action.error} />
    <p role="status" class=${message ? "notice good" : "unseen"}>
      ${message}
    </p>
    <div class="card">
      <${Facts}
        facts=${[
          ["State", html`<${EndpointState} webhook=${webhook} />`],
          ["Events", webhook.events?.join(", ") || "all"],
          ["Signed with", webhook.scheme],
          ["Public key", webhook.public_key && html`<code>${webhook.public_key}</code>`],
          ["Failing since", webhook.failing_since && html`<${RelativeTime} time=${webhook.failing_since} />`],
          [
            "Id",
            html`<span class="row">
              <code>${webhook.id}</code>
              <${CopyButton} text=${webhook.id} />
            </span>`,
          ],
        ]}
      />
      ${
        !webhook.enabled &&
        html`
          <p>
            <br />
            <${ActionButton}
              action=${action}
              request=${act("The endpoint is enabled. “Recover” sends the events that it missed.", (send) =>
                send("PATCH", path, { enabled: true }),
              )}
            >
              Enable
            <//>
          </p>
        `
      }
    </div>
    <section>
      <div class="between">
        <h2>Deliveries</h2>
        <${Field} name="state" label=${html`<span class="unseen">State</span>`}>
          <select
            id="state"
            value=${state}
            onChange=${(event) => go(withQuery({ state: event.target.value, after: undefined }))}
          >
            <option value="">All</option>
            ${["waiting", "delivered", "failed", "held"].map(
              (name) => html`
                <option key=${name} value=${name}>
                  ${name}
                </option>
              `,
            )}
          </select>
        <//>
      </div>
      <${Loader} load=${list}>
        ${(page) =>
          page.data.length === 0
            ? html`<${EmptyState} title=${state ? `No deliveries are ${state}` : "No deliveries yet"} />`
            : html`
              <${Table}
                label="Deliveries, newest first"
                columns=${["Event", "State", "#Attempts", "Task", "When", ""]}
                rows=${page.data}
                row=${(delivery) => [
                  html`<button type="button" class="plain" onClick=${() => setDialog({ delivery: delivery.id })}>
                    ${delivery.event.type}
                  </button>`,
                  html`<${StatusBadge} status=${delivery.state} />`,
                  delivery.attempts,
                  delivery.task_id
                    ? html`
                      <a class="mono" href=${`/console/tasks/${delivery.task_id}`}>
                        ${shortId(delivery.task_id)}
                      </a>
                    `
                    : "–",
                  html`<${RelativeTime} time=${delivery.created_at} />`,
                  html`<${ActionButton}
                    action=${action}
                    kind="quiet small"
                    label=${`Send ${delivery.event.type} again`}
                    request=${act("The event will be sent again.", (send) =>
                      send("POST", `/v1/webhooks/deliveries/${delivery.id}/redeliver`),
                    )}
                  >
                    Send again
                  <//>`,
                ]}
              />
              <${Pager}
                list=${page}
                after=${after}
                newest=${withQuery({ after: undefined })}
                older=${withQuery({ after: page.last_id })}
              />
            `}
      <//>
    </section>
    ${
      dialog?.edit &&
      html`
        <${EndpointDialog}
          webhook=${webhook}
          close=${() => setDialog(undefined)}
          onDone=${() => {
            setDialog(undefined);
            reload();
          }}
        />
      `
    }
    ${dialog?.made && html`<${SecretDialog} webhook=${dialog.made} close=${() => setDialog(undefined)} />`}
    ${dialog?.delivery && html`<${DeliveryDialog} id=${dialog.delivery} close=${() => setDialog(undefined)} />`}
    ${
      dialog?.recover &&
      html`
        <${RecoveryDialog}
          path=${path}
          close=${() => setDialog(undefined)}
          onDone=${(response) => {
            setDialog(undefined);
            setMessage(`${response.recovered} ${response.recovered === 1 ? "event" : "events"} will be sent again.`);
            list.reload();
          }}
        />
      `
    }
    ${
      dialog?.remove &&
      html`
        <${Dialog} title="Delete the endpoint" close=${() => setDialog(undefined)}>
          <div class="stack">
            <p>The endpoint gets no more events, and its delivery log is deleted.</p>
            <${ErrorNotice} error=${action.error} />
            <div>
              <${ActionButton}
                action=${action}
                kind="danger"
                request=${async (send) => {
                  await send("DELETE", path);
                  go("/console/webhooks");
                }}
              >
                Delete
              <//>
            </div>
          </div>
        <//>
      `
    }
  `;
}

function EndpointDialog({ webhook, close, onDone }) {
  const isNew = !webhook.id;
  const [form, setForm] = useState({
    url: webhook.url || "",
    description: webhook.description || "",
    events: webhook.events || EVENTS,
    scheme: "",
  });
  const action = useAction();
  const save = (event) => {
    event.preventDefault();
    action.run(async (send) => {
      const events = form.events.length === EVENTS.length && isNew ? undefined : form.events;
      const body = {
        url: form.url.trim(),
        description: form.description,
        events,
        ...(isNew && form.scheme ? { scheme: form.scheme } : {}),
      };
      onDone(await send(isNew ? "POST" : "PATCH", isNew ? "/v1/webhooks" : `/v1/webhooks/${webhook.id}`, body));
    });
  };
  const isUrl = action.error?.param === "url";
  return html`
    <${Dialog} title=${isNew ? "New endpoint" : "Edit the endpoint"} close=${close}>
      <form class="stack" onSubmit=${save}>
        <${Field} name="hook-url" label="URL (https)" error=${fieldError(action.error, "url")}>
          <input
            id="hook-url"
            type="url"
            required
            value=${form.url}
            onInput=${(event) => setForm({ ...form, url: event.target.value })}
          />
        <//>
        <${Field} name="hook-description" label="Description (optional)">
          <input
            id="hook-description"
            value=${form.description}
            onInput=${(event) => setForm({ ...form, description: event.target.value })}
          />
        <//>
        <fieldset>
          <legend>Events</legend>
          <div class="choices">
            ${EVENTS.map(
              (name) => html`
                <label key=${name}>
                  <input
                    type="checkbox"
                    checked=${form.events.includes(name)}
                    onChange=${() =>
                      setForm({
                        ...form,
                        events: form.events.includes(name)
                          ? form.events.filter((other) => other !== name)
                          : [...form.events, name],
                      })}
                  />
                  ${name}
                </label>
              `,
            )}
          </div>
        </fieldset>
        ${
          isNew &&
          html`
            <${Field} name="hook-scheme" label="Signed with">
              <select
                id="hook-scheme"
                value=${form.scheme}
                onChange=${(event) => setForm({ ...form, scheme: event.target.value })}
              >
                <option value="">a shared secret (HMAC)</option>
                <option value="ed25519">a key pair (Ed25519)</option>
              </select>
            <//>
          `
        }
        ${action.error && !isUrl && html`<${ErrorNotice} error=${action.error} />`}
        <div>
          <${SubmitButton} busy=${action.busy}>${isNew ? "Add endpoint" : "Save"}<//>
        </div>
      </form>
    <//>
  `;
}

function DeliveryDialog({ id, close }) {
  const delivery = useLoad(
    (signal) => call("GET", `/v1/webhooks/deliveries/${encodeURIComponent(id)}`, undefined, { signal }),
    [id],
  );
  return html`
    <${Dialog} title="Delivery" close=${close}>
      <${Loader} load=${delivery}>
        ${(loaded) => html`
          <div class="stack">
            <${Facts}
              facts=${[
                ["Event", loaded.event.type],
                ["State", html`<${StatusBadge} status=${loaded.state} />`],
                ["Message", html`<code>${loaded.event.id}</code>`],
                ["Next attempt", loaded.next_attempt_at && html`<${RelativeTime} time=${loaded.next_attempt_at} />`],
              ]}
            />
            ${
              loaded.attempts.length === 0
                ? html`<p class="muted">No attempts yet.</p>`
                : html`
                  <ol class="line">
                    ${loaded.attempts.map(
                      (attempt) => html`
                        <li key=${attempt.number} class=${attempt.error ? "bad" : "ok"}>
                          <div class="between">
                            <p>
                              ${attempt.error ? attempt.error.replaceAll("_", " ") : "Delivered"}
                              ${attempt.status ? ` · ${attempt.status}` : ""}
                            </p>
                            <span class="fine">
                              ${attempt.took_ms} ms · <${RelativeTime} time=${attempt.at} />
                            </span>
                          </div>
                          ${attempt.response && html`<${CodeBlock} text=${attempt.response} label="Response" />`}
                        </li>
                      `,
                    )}
                  </ol>
                `
            }
          </div>
        `}
      <//>
    <//>
  `;
}

function RecoveryDialog({ path, close, onDone }) {
  const action = useAction();
  const [since, setSince] = useState(() => new Date(Date.now() - 86_400_000).toISOString().slice(0, 16));
  const run = (event) => {
    event.preventDefault();
    action.run(async (send) => onDone(await send("POST", `${path}/recover`, { since: `${since}:00Z` })));
  };
  return html`
    <${Dialog} title="Recover" close=${close}>
      <form class="stack" onSubmit=${run}>
        <p>Sends failed and held deliveries again.</p>
        <${Field} name="since" label="Events since (UTC)">
          <input
            id="since"
            type="datetime-local"
            required
            value=${since}
            onInput=${(event) => setSince(event.target.value)}
          />
        <//>
        <${ErrorNotice} error=${action.error} />
        <div>
          <${SubmitButton} busy=${action.busy}>Send again<//>
        </div>
      </form>
    <//>
  `;
}
