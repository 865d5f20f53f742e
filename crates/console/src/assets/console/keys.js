// Keys: created, changed and revoked.

import { html, useState } from "../vendor/preact-htm.js";
import { ActionButton, SubmitButton, useAction } from "./act.js";
import { call, origin, queryString } from "./api.js";
import { withQuery } from "./router.js";
import {
  CodeBlock,
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
  "approve",
  "admin",
];
const DEFAULT_SCOPES = SCOPES.slice(0, -2);

export function Keys({ account, query, hasScope, refresh }) {
  return hasScope("admin")
    ? html`<${KeyList} account=${account} query=${query} refresh=${refresh} />`
    : html`<${OwnKey} account=${account} />`;
}

function OwnKey({ account }) {
  const { key } = account;
  const period = key.budget_period ? ` a ${key.budget_period}` : "";
  return html`
    <${PageHeader} title="Keys" small="The key of this session. A key with the scope admin can manage all keys." />
    <div class="card">
      <h2>${key.name}</h2>
      <${Facts}
        facts=${[
          ["Prefix", html`<code>${key.prefix}…</code>`],
          ["Scopes", key.scopes.join(", ")],
          ["Spent", usd(key.spent_usd)],
          ["Budget", key.budget_usd ? `${usd(key.budget_usd)}${period}, ${usd(key.available_usd)} left` : "none"],
          ["Requests per minute", String(key.limits.requests_per_minute)],
          ["Open tasks", `${key.limits.open_tasks} of ${key.limits.max_running_tasks}`],
          ["Expires", key.expires_at ? html`<${RelativeTime} time=${key.expires_at} />` : "never"],
        ]}
      />
    </div>
  `;
}

function KeyList({ account, query, refresh }) {
  const after = query.get("after") || "";
  const search = queryString({ after, limit: 50 });
  const list = useLoad((signal) => call("GET", `/v1/admin/keys${search}`, undefined, { signal }), [search]);
  const [dialog, setDialog] = useState(/** @type {any} */ (undefined));
  const close = () => setDialog(undefined);
  const done = (issued) => {
    const hasDependents = issued?.webhooks?.length || issued?.tasks?.cancelled || issued?.tasks?.continuing;
    setDialog(issued?.key ? { issued } : issued?.revoked_at && hasDependents ? { ended: issued } : undefined);
    list.reload();
    refresh();
  };
  return html`
    <${PageHeader}
      title="Keys"
      small="Use one key for each program or person, so that you can revoke each one separately."
    >
      <button type="button" onClick=${() => setDialog({ edit: {} })}>
        New key
      </button>
    <//>
    <${Loader} load=${list}>
      ${(page) =>
        page.data.length === 0
          ? html`<${EmptyState} title="No keys" />`
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
                html`<${KeyState} apiKey=${key} />`,
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
                key.last_used_at ? html`<${RelativeTime} time=${key.last_used_at} />` : "never",
                key.revoked_at
                  ? ""
                  : html`
                    <span class="row">
                      <button
                        type="button"
                        class="quiet small"
                        aria-label=${`Edit ${key.name}`}
                        onClick=${() => setDialog({ edit: key })}
                      >
                        Edit
                      </button>
                      <button
                        type="button"
                        class="quiet small"
                        aria-label=${`Rotate ${key.name}`}
                        onClick=${() => setDialog({ rotate: key })}
                      >
                        Rotate
                      </button>
                      <button
                        type="button"
                        class="danger small"
                        aria-label=${`Revoke ${key.name}`}
                        onClick=${() => setDialog({ revoke: key })}
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
    ${dialog?.edit && html`<${KeyDialog} apiKey=${dialog.edit} close=${close} onDone=${done} />`}
    ${dialog?.rotate && html`<${RotationDialog} apiKey=${dialog.rotate} close=${close} onDone=${done} />`}
    ${
      dialog?.revoke &&
      html`
        <${RevocationDialog}
          apiKey=${dialog.revoke}
          isOwn=${dialog.revoke.id === account.key.id}
          close=${close}
          onDone=${done}
        />
      `
    }
    ${dialog?.issued && html`<${NewKeyDialog} apiKey=${dialog.issued} close=${close} />`}
    ${dialog?.ended && html`<${RevokedKeyDialog} apiKey=${dialog.ended} close=${close} onDone=${done} />`}
  `;
}

function KeyState({ apiKey }) {
  if (apiKey.revoked_at) return html`<${StatusBadge} status="cancelled" label="revoked" />`;
  if (apiKey.expires_at && Date.parse(apiKey.expires_at) < Date.now())
    return html`<${StatusBadge} status="failed" label="expired" />`;
  return html`
    <span>
      <${StatusBadge} status="succeeded" label="valid" />
      ${
        apiKey.expires_at &&
        html`
          <br />
          <span class="fine">
            expires <${RelativeTime} time=${apiKey.expires_at} />
          </span>
        `
      }
    </span>
  `;
}

function NewKeyDialog({ apiKey, close }) {
  const command = `export MEDIAGATE_KEY=${apiKey.key}

curl -sS ${origin}/v1/videos \\
  -H "Authorization: Bearer $MEDIAGATE_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"prompt": "A calm lake at sunrise, slow dolly in"}'`;
  return html`
    <${Dialog} title=${`The key “${apiKey.name}”`} close=${close}>
      <div class="stack">
        <p class="notice">It is shown only now. Store it in a safe place.</p>
        <${CodeBlock} text=${apiKey.key} label="The key" />
        <h3>Example request</h3>
        <${CodeBlock} text=${command} label="Example request with the key" />
        <${Dependents} apiKey=${apiKey} />
      </div>
    <//>
  `;
}

// The sessions and webhook endpoints of a key that was rotated or revoked.
function Dependents({ apiKey }) {
  const webhooks = apiKey.webhooks || [];
  const sessions = apiKey.sessions_ended;
  const states = {
    kept: "stays enabled",
    disabled: "is disabled; its deliveries are held until another key enables it",
    deleted: "is deleted",
  };
  return html`
    ${sessions > 0 && html`<p>${sessions === 1 ? "One session" : `${sessions} sessions`} of this key ended.</p>`}
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

function RevokedKeyDialog({ apiKey, close, onDone }) {
  return html`
    <${Dialog} title=${`“${apiKey.name}” is revoked`} close=${close}>
      <div class="stack">
        <${Dependents} apiKey=${apiKey} />
        <${TaskSummary} tasks=${apiKey.tasks} path=${`/v1/admin/keys/${apiKey.id}`} onDone=${onDone} />
      </div>
    <//>
  `;
}

// What became of the tasks of keys that were revoked. The request that ended them, repeated, cancels those that
// continue.
export function TaskSummary({ tasks, path, onDone }) {
  const action = useAction();
  const { cancelled, continuing, held_usd: held } = tasks;
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
          <${ErrorNotice} error=${action.error} />
          <div>
            <${ActionButton}
              action=${action}
              kind="danger"
              request=${async (send) => onDone(await send("DELETE", `${path}?cancel_running=true`))}
            >
              Cancel ${continuing === 1 ? "it" : "them"} too
            <//>
          </div>
        `
      }
    </div>
  `;
}

function WebhookChoice({ value, set }) {
  return html`
    <label class="row">
      <input type="checkbox" checked=${value} onChange=${() => set(!value)} />
      Delete its webhook endpoints too
    </label>
  `;
}

function KeyDialog({ apiKey, close, onDone }) {
  const isNew = !apiKey.id;
  const [form, setForm] = useState(() => ({
    name: apiKey.name || "",
    account: apiKey.account || "",
    scopes: apiKey.scopes || DEFAULT_SCOPES,
    budget_usd: apiKey.budget_usd || "",
    budget_period: apiKey.budget_period || "",
    approve_above_usd: apiKey.approve_above_usd || "",
    rpm: String(apiKey.rpm || ""),
    max_running: String(apiKey.max_running || ""),
    models: (apiKey.models || []).join(", "),
    networks: (apiKey.networks || []).join(", "),
    expires: (apiKey.expires_at || "").slice(0, 10),
    refuse_housekeeping: Boolean(apiKey.refuse_housekeeping),
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
        approve_above_usd: form.approve_above_usd.trim() || none,
        rpm: form.rpm ? Number(form.rpm) : none,
        max_running: form.max_running ? Number(form.max_running) : none,
        models: list(form.models).length ? list(form.models) : none,
        networks: list(form.networks).length ? list(form.networks) : none,
        expires_at: form.expires ? `${form.expires}T23:59:59Z` : none,
        refuse_housekeeping: form.refuse_housekeeping,
        ...(isNew && form.account.trim() ? { account: form.account.trim() } : {}),
      };
      onDone(await send(isNew ? "POST" : "PATCH", `/v1/admin/keys${isNew ? "" : `/${apiKey.id}`}`, body));
    });
  };
  const fault = (name) => fieldError(action.error, name);
  const shownFields = [
    "name",
    "account",
    "budget_usd",
    "budget_period",
    "approve_above_usd",
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
    <${Dialog} title=${isNew ? "New key" : `Edit “${apiKey.name}”`} close=${close}>
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
        ${text("approve_above_usd", "Approval above, in USD", {
          mode: "decimal",
          placeholder: "never",
          hint: "Dearer orders wait for approval.",
        })}
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
          ${action.error && !shownFields.some((name) => fault(name)) && html`<${ErrorNotice} error=${action.error} />`}
          <${SubmitButton} busy=${action.busy}>${isNew ? "Create key" : "Save"}<//>
        </div>
      </form>
    <//>
  `;
}

function RotationDialog({ apiKey, close, onDone }) {
  const action = useAction();
  const [grace, setGrace] = useState("");
  const [ends, setEnds] = useState(false);
  const run = (event) => {
    event.preventDefault();
    action.run(async (send) =>
      onDone(
        await send("POST", `/v1/admin/keys/${apiKey.id}/rotate`, {
          ...(grace ? { grace } : {}),
          ...(ends ? { end_webhooks: true } : {}),
        }),
      ),
    );
  };
  return html`
    <${Dialog} title=${`Rotate “${apiKey.name}”`} close=${close}>
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
        <${WebhookChoice} value=${ends} set=${setEnds} />
        <${ErrorNotice} error=${action.error} />
        <div>
          <${SubmitButton} busy=${action.busy}>Rotate<//>
        </div>
      </form>
    <//>
  `;
}

function RevocationDialog({ apiKey, isOwn, close, onDone }) {
  const action = useAction();
  const [ends, setEnds] = useState(false);
  const [keeps, setKeeps] = useState(false);
  const options = queryString({ end_webhooks: ends ? "true" : "", keep_tasks: keeps ? "true" : "" });
  const open = apiKey.open_tasks;
  return html`
    <${Dialog} title=${`Revoke “${apiKey.name}”`} close=${close}>
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
              ${usd(apiKey.held_usd)}.
            </p>
          `
        }
        <${WebhookChoice} value=${ends} set=${setEnds} />
        <label class="row">
          <input type="checkbox" checked=${keeps} onChange=${() => setKeeps(!keeps)} />
          Let all its tasks continue
        </label>
        <${ErrorNotice} error=${action.error} />
        <div>
          <${ActionButton}
            action=${action}
            kind="danger"
            request=${async (send) => onDone(await send("DELETE", `/v1/admin/keys/${apiKey.id}${options}`))}
          >
            Revoke the key
          <//>
        </div>
      </div>
    <//>
  `;
}
