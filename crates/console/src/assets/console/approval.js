// Orders that wait for approval: what they would cost, and the buttons that decide.

import { html } from "../vendor/preact-htm.js";
import { ActionButton, useAction } from "./act.js";
import { safeUrl } from "./api.js";
import { ErrorNotice, RelativeTime, Table, shortId, usd } from "./ui.js";
import { taskTitle } from "./tasks.js";

/** The buttons for a task that waits for approval. `onDone` runs after a decision, and after one that was refused. */
export function ApprovalButtons({ task, onDone }) {
  const action = useAction();
  const decide = (decision) => (send) => send("POST", `/v1/tasks/${task.id}/${decision}`).finally(onDone);
  const label = `Approve ${taskTitle(task)}`;
  return html`
    <span>
      <span class="row">
        <${ActionButton} action=${action} kind="small" label=${label} request=${decide("approve")}>
          Approve
        <//>
        <${ActionButton}
          action=${action}
          kind="danger small"
          label=${`Reject ${taskTitle(task)}`}
          request=${decide("reject")}
        >
          Reject
        <//>
      </span>
      <${ErrorNotice} error=${action.error} />
    </span>
  `;
}

/** The tasks that wait for approval, with everything that the decision is about. */
export function PendingOrders({ tasks, hasMore, mayDecide, onDone }) {
  return html`
    <section>
      <h2>Waiting for approval</h2>
      <${Table}
        label="Orders that wait for approval"
        columns=${["Order", "Account", "Model", "#Price", "Expires", ""]}
        rows=${tasks}
        row=${(task) => [
          html`<div>
            <a href=${`/console/tasks/${task.id}`}>${taskTitle(task)}</a>
            <br />
            <span class="fine">${task.key.name} <span class="mono">${shortId(task.id)}</span></span>
            <${Pictures} input=${task.input} />
          </div>`,
          task.account,
          task.model,
          usd(task.billing.reserved_usd),
          html`<${RelativeTime} time=${task.approval.expires_at} />`,
          mayDecide && html`<${ApprovalButtons} task=${task} onDone=${onDone} />`,
        ]}
      />
      ${
        hasMore &&
        html`
          <p class="fine">
            More orders wait. They appear here when these are decided.
          </p>
        `
      }
      ${
        !mayDecide &&
        html`
          <p class="fine">
            A key with the scope approve can decide about them.
          </p>
        `
      }
    </section>
  `;
}

/** The pictures of an order. */
function Pictures({ input }) {
  const pictures = [
    ["First frame", input.image],
    ["Last frame", input.end_image],
    ...(input.reference_images || []).map((picture, index) => [`Reference ${index + 1}`, picture]),
  ].filter(([, picture]) => safeUrl(picture?.url));
  return (
    pictures.length > 0 &&
    html`
      <span class="row">
        ${pictures.map(
          ([name, picture]) => html`
            <a key=${name} href=${safeUrl(picture.url)}>
              <img class="thumb" src=${safeUrl(picture.url)} alt=${name} loading="lazy" />
            </a>
          `,
        )}
      </span>
    `
  );
}
