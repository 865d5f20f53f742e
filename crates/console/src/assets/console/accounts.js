// Accounts: their credit and budgets.

import { html, useState } from "../vendor/preact-htm.js";
import { ActionButton, SubmitButton, useAction } from "./act.js";
import { call, queryString } from "./api.js";
import { TaskSummary } from "./keys.js";
import { withQuery } from "./router.js";
import {
  Dialog,
  EmptyState,
  ErrorNotice,
  Field,
  fieldError,
  PageHeader,
  Loader,
  Pager,
  Table,
  useLoad,
  usd,
} from "./ui.js";

export function Accounts({ query }) {
  const after = query.get("after") || "";
  const search = queryString({ after, limit: 50 });
  const list = useLoad((signal) => call("GET", `/v1/admin/accounts${search}`, undefined, { signal }), [search]);
  const [dialog, setDialog] = useState(/** @type {any} */ (undefined));
  const close = () => setDialog(undefined);
  const done = (account) => {
    setDialog(account?.tasks ? { closed: account } : undefined);
    list.reload();
  };
  return html`
    <div>
      <${PageHeader} title="Accounts" small="Accounts pay for tasks. Each key belongs to an account.">
        <a class="button quiet" href="/console/spend?by=account">
          Margins
        </a>
        <button type="button" onClick=${() => setDialog({ edit: {} })}>
          New account
        </button>
      <//>
      <${Loader} load=${list}>
        ${(page) =>
          page.data.length === 0
            ? html`<${EmptyState} title="No accounts" />`
            : html`
              <div>
                <${Table}
                  label="Accounts"
                  columns=${["Account", "#Balance", "#Held", "#Spent", "#Budget", "#Keys", ""]}
                  rows=${page.data}
                  row=${(account) => [
                    html`<div>
                      <a href=${`/console/tasks?of=all&account=${encodeURIComponent(account.handle)}`}>
                        <strong>${account.name}</strong>
                      </a>
                      <br />
                      <span class="fine mono">${account.handle}</span>
                    </div>`,
                    account.prepaid ? usd(account.balance_usd) : "not prepaid",
                    usd(account.held_usd),
                    usd(account.spent_usd),
                    account.budget_usd
                      ? html`
                        <span>
                          ${usd(account.budget_usd)}
                          <br />
                          <span class="fine">${usd(account.available_usd)} left</span>
                        </span>
                      `
                      : "none",
                    account.keys,
                    html`<span class="row">
                      <button
                        type="button"
                        class="quiet small"
                        aria-label=${`Credit ${account.handle}`}
                        onClick=${() => setDialog({ credit: account })}
                      >
                        Credit
                      </button>
                      <button
                        type="button"
                        class="quiet small"
                        aria-label=${`Edit ${account.handle}`}
                        onClick=${() => setDialog({ edit: account })}
                      >
                        Edit
                      </button>
                      ${
                        account.closed_at
                          ? html`<span class="fine">closed</span>`
                          : html`
                            <button
                              type="button"
                              class="danger small"
                              aria-label=${`Close ${account.handle}`}
                              onClick=${() => setDialog({ end: account })}
                            >
                              Close
                            </button>
                          `
                      }
                    </span>`,
                  ]}
                />
                <${Pager}
                  list=${page}
                  after=${after}
                  newest=${withQuery({ after: undefined })}
                  older=${withQuery({ after: page.last_id })}
                />
              </div>
            `}
      <//>
      ${dialog?.edit && html`<${AccountDialog} account=${dialog.edit} close=${close} onDone=${done} />`}
      ${dialog?.credit && html`<${CreditDialog} account=${dialog.credit} close=${close} onDone=${done} />`}
      ${dialog?.end && html`<${CloseDialog} account=${dialog.end} close=${close} onDone=${done} />`}
      ${dialog?.closed && html`<${RemainingTasksDialog} account=${dialog.closed} close=${close} onDone=${done} />`}
    </div>
  `;
}

function CloseDialog({ account, close, onDone }) {
  const action = useAction();
  const [keeps, setKeeps] = useState(false);
  const search = queryString({ keep_tasks: keeps ? "true" : "" });
  return html`
    <${Dialog} title=${`Close “${account.handle}”`} close=${close}>
      <div class="stack">
        <p>
          All ${account.keys} of its keys are revoked, and it gets no new ones. This cannot be undone. Its tasks that
          have not begun are cancelled. Its money, tasks and results remain.
        </p>
        <label class="row">
          <input type="checkbox" checked=${keeps} onChange=${() => setKeeps(!keeps)} />
          Let all its tasks continue
        </label>
        <${ErrorNotice} error=${action.error} />
        <div>
          <${ActionButton}
            action=${action}
            kind="danger"
            request=${async (send) =>
              onDone(await send("DELETE", `/v1/admin/accounts/${encodeURIComponent(account.handle)}${search}`))}
          >
            Close the account
          <//>
        </div>
      </div>
    <//>
  `;
}

function RemainingTasksDialog({ account, close, onDone }) {
  return html`
    <${Dialog} title=${`“${account.handle}” is closed`} close=${close}>
      <div class="stack">
        <${TaskSummary}
          tasks=${account.tasks}
          path=${`/v1/admin/accounts/${encodeURIComponent(account.handle)}`}
          onDone=${onDone}
        />
      </div>
    <//>
  `;
}

function AccountDialog({ account, close, onDone }) {
  const isNew = !account.id;
  const [form, setForm] = useState({
    handle: account.handle || "",
    name: account.name || "",
    prepaid: Boolean(account.prepaid),
    budget_usd: account.budget_usd || "",
  });
  const action = useAction();
  const save = (event) => {
    event.preventDefault();
    action.run(async (send) => {
      const body = {
        name: form.name.trim() || undefined,
        prepaid: form.prepaid,
        budget_usd: form.budget_usd.trim() || (isNew ? undefined : null),
        ...(isNew ? { handle: form.handle.trim() } : {}),
      };
      await send(
        isNew ? "POST" : "PATCH",
        `/v1/admin/accounts${isNew ? "" : `/${encodeURIComponent(account.handle)}`}`,
        body,
      );
      onDone();
    });
  };
  const fault = (name) => fieldError(action.error, name);
  const text = (name, label, options = {}) => html`
    <${Field} name=${`account-${name}`} label=${label} hint=${options.hint} error=${fault(name)}>
      <input
        id=${`account-${name}`}
        required=${options.required}
        inputmode=${options.mode}
        placeholder=${options.placeholder}
        value=${form[name]}
        onInput=${(event) => setForm({ ...form, [name]: event.target.value })}
      />
    <//>
  `;
  return html`
    <${Dialog} title=${isNew ? "New account" : `Edit “${account.handle}”`} close=${close}>
      <form class="stack" onSubmit=${save}>
        ${isNew && text("handle", "Handle", { required: true, hint: "Short and unique. It cannot be changed later." })}
        ${text("name", "Name")}
        <div class="choices">
          <label>
            <input
              type="checkbox"
              checked=${form.prepaid}
              onChange=${() => setForm({ ...form, prepaid: !form.prepaid })}
            />
            Prepaid: the account can spend only its credit
          </label>
        </div>
        ${text("budget_usd", "Budget in USD", { mode: "decimal", placeholder: "none" })}
        ${
          action.error &&
          !["handle", "name", "budget_usd"].includes(action.error.param) &&
          html`<${ErrorNotice} error=${action.error} />`
        }
        <div>
          <${SubmitButton} busy=${action.busy}>${isNew ? "Create account" : "Save"}<//>
        </div>
      </form>
    <//>
  `;
}

function CreditDialog({ account, close, onDone }) {
  const [form, setForm] = useState({ amount_usd: "", note: "" });
  const action = useAction();
  const save = (event) => {
    event.preventDefault();
    action.run(async (send) => {
      await send("POST", `/v1/admin/accounts/${encodeURIComponent(account.handle)}/credits`, {
        amount_usd: form.amount_usd.trim(),
        note: form.note.trim() || undefined,
      });
      onDone();
    });
  };
  return html`
    <${Dialog} title=${`Add credit to “${account.handle}”`} close=${close}>
      <form class="stack" onSubmit=${save}>
        <${Field}
          name="amount"
          label="Amount in USD"
          hint="A negative amount withdraws credit."
          error=${fieldError(action.error, "amount_usd")}
        >
          <input
            id="amount"
            inputmode="decimal"
            required
            value=${form.amount_usd}
            onInput=${(event) => setForm({ ...form, amount_usd: event.target.value })}
          />
        <//>
        <${Field} name="note" label="Note (optional)">
          <input
            id="note"
            value=${form.note}
            onInput=${(event) => setForm({ ...form, note: event.target.value })}
          />
        <//>
        ${action.error && action.error.param !== "amount_usd" && html`<${ErrorNotice} error=${action.error} />`}
        <div>
          <${SubmitButton} busy=${action.busy}>Add credit<//>
        </div>
      </form>
    <//>
  `;
}
