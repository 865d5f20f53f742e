// Webhooks: endpoints that get an event when a task ends, and the log of the deliveries.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { Act, Submit, useAction } from "./act.js";
import { call, query as asQuery } from "./api.js";
import { go, withQuery } from "./router.js";
import {
  Code,
  Copy,
  Dialog,
  Empty,
  Facts,
  Failed,
  Field,
  faultOf,
  Head,
  Load,
  Pager,
  Status,
  Table,
  When,
  short,
  useLoad,
} from "./ui.js";

const EVENTS = ["task.succeeded", "task.failed", "task.cancelled"];

export function Webhooks({ query }) {
  const after = query.get("after") || "";
  const search = asQuery({ after, limit: 50 });
  const list = useLoad((signal) => call("GET", `/v1/webhooks${search}`, undefined, { signal }), [search]);
  const [window_, setWindow] = useState(/** @type {any} */ (undefined));
  return html`
    <${Head}
      title="Webhooks"
      small="Endpoints that get an event when a task ends. A request can also name its own callback."
    >
      <button type="button" onClick=${() => setWindow({ edit: {} })}>
        New endpoint
      </button>
    <//>
    <${Load} of=${list}>
      ${(page) =>
        page.data.length === 0
          ? html`
            <${Empty} title="No endpoints yet">
              <p>
                An endpoint is a URL of yours. It gets a signed message when a task ends, so that you do not have
                to poll.
              </p>
              <p class="acts">
                <button type="button" onClick=${() => setWindow({ edit: {} })}>
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
                html`<${State} of=${endpoint} />`,
                html`<${When} at=${endpoint.created_at} />`,
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
      window_?.edit &&
      html`
        <${Edit}
          of=${{}}
          close=${() => setWindow(undefined)}
          done=${(made) => {
            setWindow({ made });
            list.reload();
          }}
        />
      `
    }
    ${window_?.made && html`<${Secret} of=${window_.made} close=${() => setWindow(undefined)} />`}
  `;
}

function State({ of }) {
  if (!of.enabled)
    return html`
      <${Status}
        of="failed"
        label=${of.disabled_reason ? `disabled: ${of.disabled_reason.replaceAll("_", " ")}` : "disabled"}
      />
    `;
  return of.failures > 0
    ? html`<${Status} of="waiting" label=${`failing (${of.failures})`} />`
    : html`<${Status} of="succeeded" label="enabled" />`;
}

function Secret({ of, close }) {
  return html`
    <${Dialog} title="The endpoint's secret" close=${close}>
      <div class="stack">
        <p class="notice">It is shown only now and after a rotation. Receivers use it to verify signatures.</p>
        <${Code} text=${of.secret || of.public_key || ""} label="The secret" />
      </div>
    <//>
  `;
}

export function Endpoint({ id, query }) {
  const path = `/v1/webhooks/${encodeURIComponent(id)}`;
  const endpoint = useLoad((signal) => call("GET", path, undefined, { signal }), [path]);
  return html`
    <${Load} of=${endpoint}>
      ${(loaded) => html`<${Shown} of=${loaded} path=${path} query=${query} reload=${endpoint.reload} />`}
    <//>
    <p>
      <a href="/console/webhooks">All endpoints</a>
    </p>
  `;
}

function Shown({ of, path, query, reload }) {
  const state = query.get("state") || "";
  const after = query.get("after") || "";
  const search = asQuery({ state, after, limit: 50 });
  const list = useLoad((signal) => call("GET", `${path}/deliveries${search}`, undefined, { signal }), [path, search]);
  const [window_, setWindow] = useState(/** @type {any} */ (undefined));
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
    <${Head} title=${of.url} small=${of.description}>
      <${Act}
        of=${action}
        kind="quiet small"
        does=${act("A test event is being sent.", (send) => send("POST", `${path}/test`))}
      >
        Send a test event
      <//>
      <button type="button" class="quiet small" onClick=${() => setWindow({ edit: of })}>
        Edit
      </button>
      <button type="button" class="quiet small" onClick=${() => setWindow({ recover: true })}>
        Recover
      </button>
      <${Act}
        of=${action}
        kind="quiet small"
        does=${async (send) => {
          setWindow({ made: await send("POST", `${path}/rotate`) });
          await reload();
        }}
      >
        Rotate the secret
      <//>
      <button type="button" class="danger small" onClick=${() => setWindow({ remove: true })}>
        Delete
      </button>
    <//>
    <${Failed} error=${action.error} />
    <p role="status" class=${message ? "notice good" : "unseen"}>
      ${message}
    </p>
    <div class="card">
      <${Facts}
        of=${[
          ["State", html`<${State} of=${of} />`],
          ["Events", of.events?.join(", ") || "all"],
          ["Signed with", of.scheme],
          ["Public key", of.public_key && html`<code>${of.public_key}</code>`],
          ["Failing since", of.failing_since && html`<${When} at=${of.failing_since} />`],
          [
            "Id",
            html`<span class="row">
              <code>${of.id}</code>
              <${Copy} text=${of.id} />
            </span>`,
          ],
        ]}
      />
      ${
        !of.enabled &&
        html`
          <p>
            <br />
            <${Act}
              of=${action}
              does=${act("The endpoint is enabled. “Recover” sends the events that it missed.", (send) =>
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
      <${Load} of=${list}>
        ${(page) =>
          page.data.length === 0
            ? html`<${Empty} title=${state ? `No deliveries are ${state}` : "No deliveries yet"} />`
            : html`
              <${Table}
                label="Deliveries, newest first"
                columns=${["Event", "State", "#Attempts", "Task", "When", ""]}
                rows=${page.data}
                row=${(delivery) => [
                  html`<button type="button" class="plain" onClick=${() => setWindow({ delivery: delivery.id })}>
                    ${delivery.event.type}
                  </button>`,
                  html`<${Status} of=${delivery.state} />`,
                  delivery.attempts,
                  delivery.task_id
                    ? html`
                      <a class="mono" href=${`/console/tasks/${delivery.task_id}`}>
                        ${short(delivery.task_id)}
                      </a>
                    `
                    : "–",
                  html`<${When} at=${delivery.created_at} />`,
                  html`<${Act}
                    of=${action}
                    kind="quiet small"
                    label=${`Send ${delivery.event.type} again`}
                    does=${act("The event will be sent again.", (send) =>
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
      window_?.edit &&
      html`
        <${Edit}
          of=${of}
          close=${() => setWindow(undefined)}
          done=${() => {
            setWindow(undefined);
            reload();
          }}
        />
      `
    }
    ${window_?.made && html`<${Secret} of=${window_.made} close=${() => setWindow(undefined)} />`}
    ${window_?.delivery && html`<${Delivery} id=${window_.delivery} close=${() => setWindow(undefined)} />`}
    ${
      window_?.recover &&
      html`
        <${Recover}
          path=${path}
          close=${() => setWindow(undefined)}
          done=${(answer) => {
            setWindow(undefined);
            setMessage(`${answer.recovered} ${answer.recovered === 1 ? "event" : "events"} will be sent again.`);
            list.reload();
          }}
        />
      `
    }
    ${
      window_?.remove &&
      html`
        <${Dialog} title="Delete the endpoint" close=${() => setWindow(undefined)}>
          <div class="stack">
            <p>The endpoint gets no more events, and its delivery log is deleted.</p>
            <${Failed} error=${action.error} />
            <div>
              <${Act}
                of=${action}
                kind="danger"
                does=${async (send) => {
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

function Edit({ of, close, done }) {
  const isNew = !of.id;
  const [form, setForm] = useState({
    url: of.url || "",
    description: of.description || "",
    events: of.events || EVENTS,
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
      done(await send(isNew ? "POST" : "PATCH", isNew ? "/v1/webhooks" : `/v1/webhooks/${of.id}`, body));
    });
  };
  const isUrl = action.error?.param === "url";
  return html`
    <${Dialog} title=${isNew ? "New endpoint" : "Edit the endpoint"} close=${close}>
      <form class="stack" onSubmit=${save}>
        <${Field} name="hook-url" label="URL (https)" error=${faultOf(action.error, "url")}>
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
        ${action.error && !isUrl && html`<${Failed} error=${action.error} />`}
        <div>
          <${Submit} busy=${action.busy}>${isNew ? "Add endpoint" : "Save"}<//>
        </div>
      </form>
    <//>
  `;
}

function Delivery({ id, close }) {
  const delivery = useLoad(
    (signal) => call("GET", `/v1/webhooks/deliveries/${encodeURIComponent(id)}`, undefined, { signal }),
    [id],
  );
  return html`
    <${Dialog} title="Delivery" close=${close}>
      <${Load} of=${delivery}>
        ${(loaded) => html`
          <div class="stack">
            <${Facts}
              of=${[
                ["Event", loaded.event.type],
                ["State", html`<${Status} of=${loaded.state} />`],
                ["Message", html`<code>${loaded.event.id}</code>`],
                ["Next attempt", loaded.next_attempt_at && html`<${When} at=${loaded.next_attempt_at} />`],
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
                              ${attempt.took_ms} ms · <${When} at=${attempt.at} />
                            </span>
                          </div>
                          ${attempt.response && html`<${Code} text=${attempt.response} label="Response" />`}
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

function Recover({ path, close, done }) {
  const action = useAction();
  const [since, setSince] = useState(() => new Date(Date.now() - 86_400_000).toISOString().slice(0, 16));
  const run = (event) => {
    event.preventDefault();
    action.run(async (send) => done(await send("POST", `${path}/recover`, { since: `${since}:00Z` })));
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
        <${Failed} error=${action.error} />
        <div>
          <${Submit} busy=${action.busy}>Send again<//>
        </div>
      </form>
    <//>
  `;
}
