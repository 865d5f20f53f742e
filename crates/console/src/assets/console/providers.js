// Providers: the state of each route, its last error, and what an operator can do about it.

import { html, useState } from "../vendor/preact-htm.js";
import { Act, useAction } from "./act.js";
import { call } from "./api.js";
import { Empty, Facts, Failed, Head, Load, Status, When, lasting, useLoad } from "./ui.js";

export function Providers() {
  const list = useLoad((signal) => call("GET", "/v1/admin/providers?limit=100", undefined, { signal }), []);
  return html`
    <div>
      <${Head} title="Providers" small="State, recent results and last error of each provider route.">
        <button type="button" class="quiet small" onClick=${list.reload}>
          Refresh
        </button>
      <//>
      <${Load} of=${list}>
        ${(page) =>
          page.data.length === 0
            ? html`
              <${Empty} title="No provider is configured">
                <p>
                  Embedded models need no provider. Add providers to the configuration, under${" "}
                  <code>[providers]</code>.
                </p>
              <//>
            `
            : html`
              <div class="stack">
                ${page.data.map((route) => html`<${Route} key=${route.id} of=${route} reload=${list.reload} />`)}
              </div>
            `}
      <//>
    </div>
  `;
}

function Route({ of, reload }) {
  const action = useAction();
  const [message, setMessage] = useState("");
  const path = `/v1/admin/providers/${encodeURIComponent(of.provider)}/${encodeURIComponent(of.model)}`;
  const act = (verb, text) => async (send) => {
    await send("POST", `${path}/${verb}`);
    setMessage(text);
    // Until the new state is shown, a click would still mean the old one.
    await reload();
  };
  const isPaused = Boolean(of.paused_at);
  return html`
    <section class="card route-card">
      <div class="between">
        <div>
          <h2>
            ${of.provider} <span class="fine mono">${of.model}</span>
          </h2>
          <${RouteState} of=${of} />
        </div>
        <div class="row">
          <${Act}
            key="try"
            of=${action}
            kind="quiet small"
            label=${`Try ${of.id}`}
            does=${act("try", "The next order will use this route.")}
          >
            Try
          <//>
          ${
            isPaused
              ? html`
                <${Act}
                  key="resume"
                  of=${action}
                  kind="quiet small"
                  label=${`Resume ${of.id}`}
                  does=${act("resume", "The route accepts orders again.")}
                >
                  Resume
                <//>
              `
              : html`
                <${Act}
                  key="pause"
                  of=${action}
                  kind="quiet small"
                  label=${`Pause ${of.id}`}
                  does=${act("pause", "The route gets no new orders until you resume it.")}
                >
                  Pause
                <//>
              `
          }
        </div>
      </div>
      <${Failed} error=${action.error} />
      <p role="status" class=${message ? "fine" : "unseen"}>
        ${message}
      </p>
      ${
        of.key_refused_at &&
        html`
          <p class="notice bad">
            <strong>The provider rejects the key</strong> since <${When} at=${of.key_refused_at} />. This message stays
            until the provider accepts an order.
          </p>
        `
      }
      <div class="strips">
        <div>
          <p class="between fine">
            <span>Last hour</span>
            <span>${counts(of.last_hour)}</span>
          </p>
          <${Minutes} of=${of.last_hour_by_minutes} />
        </div>
        <div>
          <p class="between fine">
            <span>Last day</span>
            <span>${counts(of.last_day)}</span>
          </p>
          <${Strip} of=${of.last_day} />
        </div>
      </div>
      <${Facts}
        of=${[
          ["Models", of.models.join(", ")],
          ["Open jobs", String(of.open_jobs)],
          [
            "Duration",
            of.p50_seconds !== null && `median ${lasting(of.p50_seconds)}, 95 % within ${lasting(of.p95_seconds)}`,
          ],
          ["Next attempt", of.next_try_at && html`<${When} at=${of.next_try_at} />`],
          [
            "Last error",
            of.last_error &&
              html`
                <span>
                  <em>${of.last_error.message}</em>${" "}
                  <span class="fine">
                    ${of.last_error.class.replaceAll("_", " ")}, <${When} at=${of.last_error.at} />
                  </span>
                </span>
              `,
          ],
        ]}
      />
    </section>
  `;
}

const STATE_TEXTS = {
  open: "suspended after failures",
  busy: "throttled by the provider",
  unreachable: "unreachable",
  trial: "testing",
};

/** A breaker's state as text. */
export const stateText = (state) => STATE_TEXTS[state] || state;

/** Whether every process uses the route. */
export const isClosed = (route) => route.available && ["closed", "trial"].includes(route.breaker.state);

/** Whether the route took none of its orders: its model may not exist at the provider. */
const refusesAll = ({ last_hour: { succeeded, failed, unconfirmed, refused } }) =>
  refused > 0 && succeeded + failed + unconfirmed === 0;

/** How many processes do not use the route, if others do. */
export function affectedProcesses(route) {
  const count = route.breaker.processes.filter((process) => process.state !== "closed").length;
  return route.available && count ? ` in ${count} ${count === 1 ? "process" : "processes"}; others use the route` : "";
}

function RouteState({ of }) {
  if (of.key_refused_at) return html`<${Status} of="failed" label="key rejected" />`;
  if (of.paused_at) return html`<${Status} of="cancelled" label="paused" />`;
  if (!of.available) return html`<${Status} of="failed" label=${stateText(of.breaker.state)} />`;
  if (refusesAll(of)) return html`<${Status} of="failed" label="rejects every order" />`;
  if (!isClosed(of))
    return html`<${Status} of="waiting" label=${stateText(of.breaker.state) + affectedProcesses(of)} />`;
  return html`<${Status} of="succeeded" label=${of.breaker.state === "trial" ? "testing" : "available"} />`;
}

const KINDS = /** @type {[string, string, string][]} */ ([
  ["succeeded", "ok", "succeeded"],
  ["failed", "bad", "failed"],
  ["refused", "bad", "rejected"],
  ["unconfirmed", "open", "unconfirmed"],
]);

/** A bar that shows each result's share of the orders. */
function Strip({ of }) {
  const total = KINDS.reduce((sum, [name]) => sum + of[name], 0);
  return html`
    <div class="strip" aria-hidden="true">
      ${
        total === 0
          ? html`<span></span>`
          : KINDS.filter(([name]) => of[name]).map(
              ([name, mark]) => html`<span key=${name} class=${mark} style=${{ flexGrow: of[name] }}></span>`,
            )
      }
    </div>
  `;
}

/** The last hour in parts, the newest last. The colour shows whether all, some or none of the orders succeeded. */
function Minutes({ of }) {
  const mark = (part) => {
    const failures = part.failed + part.refused + part.unconfirmed;
    return !part.succeeded && !failures ? "" : !failures ? "ok" : part.succeeded ? "open" : "bad";
  };
  return html`
    <div class="strip parts-of" aria-hidden="true">
      ${of.map(
        (part, index) => html`
          <span
            key=${index}
            class=${mark(part)}
            title=${`${5 * (of.length - index)} to ${5 * (of.length - index - 1)} min ago: ${counts(part)}`}
          ></span>
        `,
      )}
    </div>
  `;
}

function counts(of) {
  const texts = KINDS.filter(([name]) => of[name]).map(([name, , text]) => `${of[name]} ${text}`);
  return texts.length ? texts.join(" · ") : "no orders";
}
