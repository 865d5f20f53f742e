// Keys: created, changed and revoked.

import { html, useState } from "../vendor/preact-htm.js";
import { Act, Submit, useAction } from "./act.js";
import { call, origin, query as asQuery } from "./api.js";
import { withQuery } from "./router.js";
import {
  Code,
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
  useLoad,
  usd,
} from "./ui.js";

const SCOPES = [
  "video:create",
  "music:create",
  "persona:create",
  "media:upload",
  "tasks:read",
  "tasks:cancel",
  "webhooks:manage",
  "admin",
];
const DEFAULT_SCOPES = SCOPES.slice(0, -1);

export function Keys({ account, query, may, refresh }) {
  return may("admin")
    ? html`<${All} account=${account} query=${query} refresh=${refresh} />`
    : html`<${Own} account=${account} />`;
}

function Own({ account }) {
  const { key } = account;
  const period = key.budget_period ? ` a ${key.budget_period}` : "";
  return html`
    <${Head} title="Keys" small="The key of this session. A key with the scope admin can manage all keys." />
    <div class="card">
      <h2>${key.name}</h2>
      <${Facts}
        of=${[
          ["Prefix", html`<code>${key.prefix}…</code>`],
          ["Scopes", key.scopes.join(", ")],
          ["Spent", usd(key.spent_usd)],
          ["Budget", key.budget_usd ? `${usd(key.budget_usd)}${period}, ${usd(key.available_usd)} left` : "none"],
          ["Requests per minute", String(key.limits.requests_per_minute)],
          ["Open tasks", `${key.limits.open_tasks} of ${key.limits.max_running_tasks}`],
          ["Expires", key.expires_at ? html`<${When} at=${key.expires_at} />` : "never"],
        ]}
      />
    </div>
  `;
}

function All({ account, query, refresh }) {
  const after = query.get("after") || "";
  const search = asQuery({ after, limit: 50 });
  const list = useLoad((signal) => call("GET", `/v1/admin/keys${search}`, undefined, { signal }), [search]);
  const [window_, setWindow] = useState(/** @type {any} */ (undefined));
  const close = () => setWindow(undefined);
  const done = (issued) => {
    const hasDependents = issued?.webhooks?.length || issued?.tasks?.cancelled || issued?.tasks?.continuing;
    setWindow(issued?.key ? { issued } : issued?.revoked_at && hasDependents ? { ended: issued } : undefined);
    list.reload();
    refresh();
  };
  return html`
    <${Head}
      title="Keys"
      small="Use one key for each program or person, so that you can revoke each one separately."
    >
      <button type="button" onClick=${() => setWindow({ edit: {} })}>
        New key
      </button>
    <//>
    <${Load} of=${list}>
      ${(page) =>
        page.data.length === 0
          ? html`<${Empty} title="No keys" />`
          : html`
            <${Table}
              label="Keys, newest first"
              columns=${["Key", "Account", "State", "#Spent", "#Budget", "Last used", ""]}
              rows=${page.data}
              row=${(key) => [
                html`<div>
                  <strong>${key.name}</strong>
                  <br />
                  <span class="fine mono">${key.prefix}…</span>
                </div>`,
                key.account,
                html`<${State} of=${key} />`,
                usd(key.spent_usd),
                key.budget_usd
                  ? html`
                    <span>
                      ${usd(key.budget_usd)}
                      ${key.budget_period ? ` a ${key.budget_period}` : ""}
                      <br />
                      <span class="fine">${usd(key.available_usd)} left</span>
                    </span>
                  `
                  : "none",
                key.last_used_at ? html`<${When} at=${key.last_used_at} />` : "never",
                key.revoked_at
                  ? ""
                  : html`
                    <span class="row">
                      <button
                        type="button"
                        class="quiet small"
                        aria-label=${`Edit ${key.name}`}
                        onClick=${() => setWindow({ edit: key })}
                      >
                        Edit
                      </button>
                      <button
                        type="button"
                        class="quiet small"
                        aria-label=${`Rotate ${key.name}`}
                        onClick=${() => setWindow({ rotate: key })}
                      >
                        Rotate
                      </button>
                      <button
                        type="button"
                        class="danger small"
                        aria-label=${`Revoke ${key.name}`}
                        onClick=${() => setWindow({ revoke: key })}
                      >
                        Revoke
                      </button>
                    </span>
                  `,
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
    ${window_?.edit && html`<${Edit} of=${window_.edit} close=${close} done=${done} />`}
    ${window_?.rotate && html`<${Rotate} of=${window_.rotate} close=${close} done=${done} />`}
    ${
      window_?.revoke &&
      html`
        <${Revoke} of=${window_.revoke} isOwn=${window_.revoke.id === account.key.id} close=${close} done=${done} />
      `
    }
    ${window_?.issued && html`<${Issued} of=${window_.issued} close=${close} />`}
    ${window_?.ended && html`<${Ended} of=${window_.ended} close=${close} done=${done} />`}
  `;
}

function State({ of }) {
  if (of.revoked_at) return html`<${Status} of="cancelled" label="revoked" />`;
  if (of.expires_at && Date.parse(of.expires_at) < Date.now()) return html`<${Status} of="failed" label="expired" />`;
  return html`
    <span>
      <${Status} of="succeeded" label="valid" />
      ${
        of.expires_at &&
        html`
          <br />
          <span class="fine">
            expires <${When} at=${of.expires_at} />
          </span>
        `
      }
    </span>
  `;
}

function Issued({ of, close }) {
  const call_ = `export MEDIAGATE_KEY=${of.key}

curl -sS ${origin}/v1/videos \\
  -H "Authorization: Bearer $MEDIAGATE_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"prompt": "A calm lake at sunrise, slow dolly in"}'`;
  return html`
    <${Dialog} title=${`The key “${of.name}”`} close=${close}>
      <div class="stack">
        <p class="notice">It is shown only now. Store it in a safe place.</p>
        <${Code} text=${of.key} label="The key" />
        <h3>Example request</h3>
        <${Code} text=${call_} label="Example request with the key" />
        <${Dependents} of=${of} />
      </div>
    <//>
  `;
}

// The sessions and webhook endpoints of a key that was rotated or revoked.
function Dependents({ of }) {
  const webhooks = of.webhooks || [];
  const states = {
    kept: "stays enabled",
    disabled: "is disabled; its deliveries are held until another key enables it",
    deleted: "is deleted",
  };
  return html`
    ${
      of.sessions_ended > 0 &&
      html`<p>${of.sessions_ended === 1 ? "One session" : `${of.sessions_ended} sessions`} of this key ended.</p>`
    }
    ${
      webhooks.length > 0 &&
      html`
        <div>
          <h3>Its webhook endpoints</h3>
          <ul>
            ${webhooks.map(
              (webhook) => html`
                <li key=${webhook.id}>
                  <code>${webhook.url}</code> ${states[webhook.state]}.
                </li>
              `,
            )}
          </ul>
        </div>
      `
    }
  `;
}

function Ended({ of, close, done }) {
  return html`
    <${Dialog} title=${`“${of.name}” is revoked`} close=${close}>
      <div class="stack">
        <${Dependents} of=${of} />
        <${EndedTasks} of=${of.tasks} path=${`/v1/admin/keys/${of.id}`} done=${done} />
      </div>
    <//>
  `;
}

// What became of the tasks of keys that were revoked. The request that ended them, repeated, cancels those that
// continue.
export function EndedTasks({ of, path, done }) {
  const action = useAction();
  const { cancelled, continuing, held_usd: held } = of;
  return html`
    <div class="stack">
      <p>
        ${cancelled === 0 ? "No task was" : cancelled === 1 ? "One task was" : `${cancelled} tasks were`}${" "}
        cancelled.
      </p>
      ${
        continuing > 0 &&
        html`
          <p>
            ${continuing === 1 ? "One task continues and holds" : `${continuing} tasks continue and hold`}${" "}
            ${usd(held)}. What their providers make anyway is charged.
          </p>
          <${Failed} error=${action.error} />
          <div>
            <${Act}
              of=${action}
              kind="danger"
              does=${async (send) => done(await send("DELETE", `${path}?cancel_running=true`))}
            >
              Cancel ${continuing === 1 ? "it" : "them"} too
            <//>
          </div>
        `
      }
    </div>
  `;
}

function EndWebhooks({ value, set }) {
  return html`
    <label class="row">
      <input type="checkbox" checked=${value} onChange=${() => set(!value)} />
      Delete its webhook endpoints too
    </label>
  `;
}

function Edit({ of, close, done }) {
  const isNew = !of.id;
  const [form, setForm] = useState(() => ({
    name: of.name || "",
    account: of.account || "",
    scopes: of.scopes || DEFAULT_SCOPES,
    budget_usd: of.budget_usd || "",
    budget_period: of.budget_period || "",
    rpm: String(of.rpm || ""),
    max_running: String(of.max_running || ""),
    models: (of.models || []).join(", "),
    networks: (of.networks || []).join(", "),
    expires: (of.expires_at || "").slice(0, 10),
    refuse_housekeeping: Boolean(of.refuse_housekeeping),
  }));
  const action = useAction();
  const set = (name) => (event) => setForm({ ...form, [name]: event.target.value });
  const list = (text) => text.split(/[\s,]+/).filter(Boolean);
  const save = (event) => {
    event.preventDefault();
    action.run(async (send) => {
      // An empty field removes the limit; a new key has none to remove.
      const none = isNew ? undefined : null;
      const body = {
        name: form.name.trim(),
        scopes: form.scopes,
        budget_usd: form.budget_usd.trim() || none,
        budget_period: form.budget_period || none,
        rpm: form.rpm ? Number(form.rpm) : none,
        max_running: form.max_running ? Number(form.max_running) : none,
        models: list(form.models).length ? list(form.models) : none,
        networks: list(form.networks).length ? list(form.networks) : none,
        expires_at: form.expires ? `${form.expires}T23:59:59Z` : none,
        refuse_housekeeping: form.refuse_housekeeping,
        ...(isNew && form.account.trim() ? { account: form.account.trim() } : {}),
      };
      done(await send(isNew ? "POST" : "PATCH", `/v1/admin/keys${isNew ? "" : `/${of.id}`}`, body));
    });
  };
  const fault = (name) => faultOf(action.error, name);
  const shownFields = [
    "name",
    "account",
    "budget_usd",
    "budget_period",
    "rpm",
    "max_running",
    "models",
    "networks",
    "expires_at",
  ];
  const text = (name, label, options = {}) => html`
    <${Field} name=${`key-${name}`} label=${label} hint=${options.hint} error=${fault(name)}>
      <input
        id=${`key-${name}`}
        value=${form[name]}
        onInput=${set(name)}
        required=${options.required}
        inputmode=${options.mode}
        placeholder=${options.placeholder}
      />
    <//>
  `;
  return html`
    <${Dialog} title=${isNew ? "New key" : `Edit “${of.name}”`} close=${close}>
      <form class="form" onSubmit=${save}>
        <div class="wide">
          ${text("name", "Name", { required: true, placeholder: "The program or person that uses it" })}
        </div>
        ${
          isNew &&
          html`
            <div class="wide">
              ${text("account", "Account", { placeholder: "default", hint: "A new handle creates a new account." })}
            </div>
          `
        }
        <fieldset class="wide">
          <legend>Scopes</legend>
          <div class="choices">
            ${SCOPES.map(
              (scope) => html`
                <label key=${scope}>
                  <input
                    type="checkbox"
                    checked=${form.scopes.includes(scope)}
                    onChange=${() =>
                      setForm({
                        ...form,
                        scopes: form.scopes.includes(scope)
                          ? form.scopes.filter((other) => other !== scope)
                          : [...form.scopes, scope],
                      })}
                  />
                  ${scope}
                </label>
              `,
            )}
          </div>
        </fieldset>
        ${text("budget_usd", "Budget in USD", { mode: "decimal", placeholder: "none" })}
        <${Field} name="key-period" label="Budget renews" error=${fault("budget_period")}>
          <select id="key-period" value=${form.budget_period} onChange=${set("budget_period")}>
            <option value="">never</option>
            <option value="day">every day</option>
            <option value="week">every week</option>
            <option value="month">every month</option>
          </select>
        <//>
        ${text("rpm", "Requests per minute", { mode: "numeric", placeholder: "600" })}
        ${text("max_running", "Maximum open tasks", { mode: "numeric", placeholder: "100" })}
        ${text("models", "Allowed models", { placeholder: "all" })}
        ${text("networks", "Allowed networks", { placeholder: "any", hint: "For example 10.0.0.0/8" })}
        <${Field} name="key-expires" label="Valid until" error=${fault("expires_at")}>
          <input id="key-expires" type="date" value=${form.expires} onChange=${set("expires")} />
        <//>
        <fieldset class="wide">
          <legend>Chat interfaces</legend>
          <div class="choices">
            <label>
              <input
                type="checkbox"
                checked=${form.refuse_housekeeping}
                onChange=${() => setForm({ ...form, refuse_housekeeping: !form.refuse_housekeeping })}
              />
              Reject requests that chat interfaces send on their own: titles, tags, follow-up questions
            </label>
          </div>
        </fieldset>
        <div class="wide">
          ${action.error && !shownFields.some((name) => fault(name)) && html`<${Failed} error=${action.error} />`}
          <${Submit} busy=${action.busy}>${isNew ? "Create key" : "Save"}<//>
        </div>
      </form>
    <//>
  `;
}

function Rotate({ of, close, done }) {
  const action = useAction();
  const [grace, setGrace] = useState("");
  const [ends, setEnds] = useState(false);
  const run = (event) => {
    event.preventDefault();
    action.run(async (send) =>
      done(
        await send("POST", `/v1/admin/keys/${of.id}/rotate`, {
          ...(grace ? { grace } : {}),
          ...(ends ? { end_webhooks: true } : {}),
        }),
      ),
    );
  };
  return html`
    <${Dialog} title=${`Rotate “${of.name}”`} close=${close}>
      <form class="stack" onSubmit=${run}>
        <p>A new key with the same name and limits replaces it.</p>
        <${Field} name="grace" label="The old key ends">
          <select id="grace" value=${grace} onChange=${(event) => setGrace(event.target.value)}>
            <option value="">at once</option>
            <option value="1h">in an hour</option>
            <option value="24h">in a day</option>
            <option value="7d">in a week</option>
          </select>
        <//>
        <p class="fine">Sessions end at once.</p>
        <${EndWebhooks} value=${ends} set=${setEnds} />
        <${Failed} error=${action.error} />
        <div>
          <${Submit} busy=${action.busy}>Rotate<//>
        </div>
      </form>
    <//>
  `;
}

function Revoke({ of, isOwn, close, done }) {
  const action = useAction();
  const [ends, setEnds] = useState(false);
  const [keeps, setKeeps] = useState(false);
  const options = asQuery({ end_webhooks: ends ? "true" : "", keep_tasks: keeps ? "true" : "" });
  const open = of.open_tasks;
  return html`
    <${Dialog} title=${`Revoke “${of.name}”`} close=${close}>
      <div class="stack">
        <p>
          The key stops working at once, everywhere. This cannot be undone.
          ${isOwn ? " You are using this key." : ""} Its sessions end, and its webhook endpoints get no more
          events. Its tasks that have not begun are cancelled.
        </p>
        ${
          open > 0 &&
          html`
            <p>
              It has ${open === 1 ? "one open task, which holds" : `${open} open tasks, which hold`}${" "}
              ${usd(of.held_usd)}.
            </p>
          `
        }
        <${EndWebhooks} value=${ends} set=${setEnds} />
        <label class="row">
          <input type="checkbox" checked=${keeps} onChange=${() => setKeeps(!keeps)} />
          Let all its tasks continue
        </label>
        <${Failed} error=${action.error} />
        <div>
          <${Act}
            of=${action}
            kind="danger"
            does=${async (send) => done(await send("DELETE", `/v1/admin/keys/${of.id}${options}`))}
          >
            Revoke the key
          <//>
        </div>
      </div>
    <//>
  `;
}
