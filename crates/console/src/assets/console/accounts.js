// Accounts: their credit and budgets.

import { html, useState } from "../vendor/preact-htm.js";
import { Act, Submit, useAction } from "./act.js";
import { call, query as asQuery } from "./api.js";
import { EndedTasks } from "./keys.js";
import { withQuery } from "./router.js";
import { Dialog, Empty, Failed, Field, faultOf, Head, Load, Pager, Table, useLoad, usd } from "./ui.js";

export function Accounts({ query }) {
  const after = query.get("after") || "";
  const search = asQuery({ after, limit: 50 });
  const list = useLoad((signal) => call("GET", `/v1/admin/accounts${search}`, undefined, { signal }), [search]);
  const [window_, setWindow] = useState(/** @type {any} */ (undefined));
  const close = () => setWindow(undefined);
  const done = (account) => {
    setWindow(account?.tasks ? { closed: account } : undefined);
    list.reload();
  };
  return html`
    <div>
      <${Head} title="Accounts" small="Accounts pay for tasks. Each key belongs to an account.">
        <a class="button quiet" href="/console/spend?by=account">
          Margins
        </a>
        <button type="button" onClick=${() => setWindow({ edit: {} })}>
          New account
        </button>
      <//>
      <${Load} of=${list}>
        ${(page) =>
          page.data.length === 0
            ? html`<${Empty} title="No accounts" />`
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
                        onClick=${() => setWindow({ credit: account })}
                      >
                        Credit
                      </button>
                      <button
                        type="button"
                        class="quiet small"
                        aria-label=${`Edit ${account.handle}`}
                        onClick=${() => setWindow({ edit: account })}
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
                              onClick=${() => setWindow({ end: account })}
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
      ${window_?.edit && html`<${Edit} of=${window_.edit} close=${close} done=${done} />`}
      ${window_?.credit && html`<${Credit} of=${window_.credit} close=${close} done=${done} />`}
      ${window_?.end && html`<${End} of=${window_.end} close=${close} done=${done} />`}
      ${window_?.closed && html`<${Closed} of=${window_.closed} close=${close} done=${done} />`}
    </div>
  `;
}

function End({ of, close, done }) {
  const action = useAction();
  const [keeps, setKeeps] = useState(false);
  return html`
    <${Dialog} title=${`Close “${of.handle}”`} close=${close}>
      <div class="stack">
        <p>
          All ${of.keys} of its keys are revoked, and it gets no new ones. This cannot be undone. Its tasks that
          have not begun are cancelled. Its money, tasks and results remain.
        </p>
        <label class="row">
          <input type="checkbox" checked=${keeps} onChange=${() => setKeeps(!keeps)} />
          Let all its tasks continue
        </label>
        <${Failed} error=${action.error} />
        <div>
          <${Act}
            of=${action}
            kind="danger"
            does=${async (send) =>
              done(
                await send(
                  "DELETE",
                  `/v1/admin/accounts/${encodeURIComponent(of.handle)}${asQuery({ keep_tasks: keeps ? "true" : "" })}`,
                ),
              )}
          >
            Close the account
          <//>
        </div>
      </div>
    <//>
  `;
}

function Closed({ of, close, done }) {
  return html`
    <${Dialog} title=${`“${of.handle}” is closed`} close=${close}>
      <div class="stack">
        <${EndedTasks} of=${of.tasks} path=${`/v1/admin/accounts/${encodeURIComponent(of.handle)}`} done=${done} />
      </div>
    <//>
  `;
}

function Edit({ of, close, done }) {
  const isNew = !of.id;
  const [form, setForm] = useState({
    handle: of.handle || "",
    name: of.name || "",
    prepaid: Boolean(of.prepaid),
    budget_usd: of.budget_usd || "",
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
        `/v1/admin/accounts${isNew ? "" : `/${encodeURIComponent(of.handle)}`}`,
        body,
      );
      done();
    });
  };
  const fault = (name) => faultOf(action.error, name);
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
    <${Dialog} title=${isNew ? "New account" : `Edit “${of.handle}”`} close=${close}>
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
          html`<${Failed} error=${action.error} />`
        }
        <div>
          <${Submit} busy=${action.busy}>${isNew ? "Create account" : "Save"}<//>
        </div>
      </form>
    <//>
  `;
}

function Credit({ of, close, done }) {
  const [form, setForm] = useState({ amount_usd: "", note: "" });
  const action = useAction();
  const save = (event) => {
    event.preventDefault();
    action.run(async (send) => {
      await send("POST", `/v1/admin/accounts/${encodeURIComponent(of.handle)}/credits`, {
        amount_usd: form.amount_usd.trim(),
        note: form.note.trim() || undefined,
      });
      done();
    });
  };
  return html`
    <${Dialog} title=${`Add credit to “${of.handle}”`} close=${close}>
      <form class="stack" onSubmit=${save}>
        <${Field}
          name="amount"
          label="Amount in USD"
          hint="A negative amount withdraws credit."
          error=${faultOf(action.error, "amount_usd")}
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
        ${action.error && action.error.param !== "amount_usd" && html`<${Failed} error=${action.error} />`}
        <div>
          <${Submit} busy=${action.busy}>Add credit<//>
        </div>
      </form>
    <//>
  `;
}
