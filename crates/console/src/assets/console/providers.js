// Providers: the state of each route, its last error, and what an operator can do about it.

import { html, useState } from "../vendor/preact-htm.js";
import { ActionButton, useAction } from "./act.js";
import { call } from "./api.js";
import {
  EmptyState,
  Facts,
  ErrorNotice,
  PageHeader,
  Loader,
  StatusBadge,
  RelativeTime,
  durationText,
  useLoad,
} from "./ui.js";

export function Providers() {
  const list = useLoad((signal) => call("GET", "/v1/admin/providers", undefined, { signal }), []);
  return html`
    <div>
      <${PageHeader} title="Providers" small="State, recent results and last error of each provider route.">
        <button type="button" class="quiet small" onClick=${list.reload}>
          Refresh
        </button>
      <//>
      <${Loader} load=${list}>
        ${(page) =>
          page.data.length === 0
            ? html`
              <${EmptyState} title="No provider is configured">
                <p>
                  Embedded models need no provider. Add providers to the configuration, under${" "}
                  <code>[providers]</code>.
                </p>
              <//>
            `
            : html`
              <div class="stack">
                ${page.data.map((route) => html`<${RouteCard} key=${route.id} route=${route} reload=${list.reload} />`)}
              </div>
            `}
      <//>
    </div>
  `;
}

function RouteCard({ route, reload }) {
  const action = useAction();
  const [message, setMessage] = useState("");
  const path = `/v1/admin/providers/${encodeURIComponent(route.provider)}/${encodeURIComponent(route.model)}`;
  const act = (verb, text) => async (send) => {
    await send("POST", `${path}/${verb}`);
    setMessage(text);
    // Until the new state is shown, a click would still mean the old one.
    await reload();
  };
  const isPaused = Boolean(route.paused_at);
  return html`
    <section class="card route-card">
      <div class="between">
        <div>
          <h2>
            ${route.provider} <span class="fine mono">${route.model}</span>
          </h2>
          <${RouteState} route=${route} />
        </div>
        <div class="row">
          <${ActionButton}
            key="try"
            action=${action}
            kind="quiet small"
            label=${`Try ${route.id}`}
            request=${act("try", "The next order will use this route.")}
          >
            Try
          <//>
          ${
            isPaused
              ? html`
                <${ActionButton}
                  key="resume"
                  action=${action}
                  kind="quiet small"
                  label=${`Resume ${route.id}`}
                  request=${act("resume", "The route accepts orders again.")}
                >
                  Resume
                <//>
              `
              : html`
                <${ActionButton}
                  key="pause"
                  action=${action}
                  kind="quiet small"
                  label=${`Pause ${route.id}`}
                  request=${act("pause", "The route gets no new orders until you resume it.")}
                >
                  Pause
                <//>
              `
          }
        </div>
      </div>
      <${ErrorNotice} error=${action.error} />
      <p role="status" class=${message ? "fine" : "unseen"}>
        ${message}
      </p>
      ${
        route.key_refused_at &&
        html`
          <p class="notice bad">
            <strong>The provider rejects the ${refusedPart(route)}</strong> since${" "}
            <${RelativeTime} time=${route.key_refused_at} />. This message stays until the provider accepts an order.
          </p>
        `
      }
      <div class="strips">
        <div>
          <p class="between fine">
            <span>Last hour</span>
            <span>${countsText(route.last_hour)}</span>
          </p>
          <${HourStrip} parts=${route.last_hour_by_minutes} />
        </div>
        <div>
          <p class="between fine">
            <span>Last day</span>
            <span>${countsText(route.last_day)}</span>
          </p>
          <${ResultStrip} counts=${route.last_day} />
        </div>
      </div>
      <${Facts}
        facts=${[
          ["Models", route.models.join(", ")],
          ["Open jobs", String(route.open_jobs)],
          [
            "Duration",
            route.p50_seconds !== null &&
              `median ${durationText(route.p50_seconds)}, 95 % within ${durationText(route.p95_seconds)}`,
          ],
          ["Next attempt", route.next_try_at && html`<${RelativeTime} time=${route.next_try_at} />`],
          [
            "Last error",
            route.last_error &&
              html`
                <span>
                  <em>${route.last_error.message}</em>${" "}
                  <span class="fine">
                    ${route.last_error.class.replaceAll("_", " ")}, <${RelativeTime} time=${route.last_error.at} />
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

/** What the provider rejects, if `key_refused_at` is set. */
export const refusedPart = (route) => (route.last_error?.class === "rejected" ? "model" : "key");

function RouteState({ route }) {
  if (route.key_refused_at && refusedPart(route) === "model")
    return html`<${StatusBadge} status="waiting" label="model rejected" />`;
  if (route.key_refused_at) return html`<${StatusBadge} status="failed" label="key rejected" />`;
  if (route.paused_at) return html`<${StatusBadge} status="cancelled" label="paused" />`;
  if (!route.available) return html`<${StatusBadge} status="failed" label=${stateText(route.breaker.state)} />`;
  if (refusesAll(route)) return html`<${StatusBadge} status="failed" label="rejects every order" />`;
  if (!isClosed(route))
    return html`<${StatusBadge} status="waiting" label=${stateText(route.breaker.state) + affectedProcesses(route)} />`;
  return html`<${StatusBadge} status="succeeded" label=${route.breaker.state === "trial" ? "testing" : "available"} />`;
}

const KINDS = /** @type {[string, string, string][]} */ ([
  ["succeeded", "ok", "succeeded"],
  ["failed", "bad", "failed"],
  ["refused", "bad", "rejected"],
  ["unconfirmed", "open", "unconfirmed"],
]);

/** A bar that shows each result's share of the orders. */
function ResultStrip({ counts }) {
  const total = KINDS.reduce((sum, [name]) => sum + counts[name], 0);
  return html`
    <div class="strip" aria-hidden="true">
      ${
        total === 0
          ? html`<span></span>`
          : KINDS.filter(([name]) => counts[name]).map(
              ([name, mark]) => html`<span key=${name} class=${mark} style=${{ flexGrow: counts[name] }}></span>`,
            )
      }
    </div>
  `;
}

/** The last hour in parts, the newest last. The colour shows whether all, some or none of the orders succeeded. */
function HourStrip({ parts }) {
  const mark = (part) => {
    const failures = part.failed + part.refused + part.unconfirmed;
    return !part.succeeded && !failures ? "" : !failures ? "ok" : part.succeeded ? "open" : "bad";
  };
  return html`
    <div class="strip parts-of" aria-hidden="true">
      ${parts.map(
        (part, index) => html`
          <span
            key=${index}
            class=${mark(part)}
            title=${`${5 * (parts.length - index)} to ${5 * (parts.length - index - 1)} min ago: ${countsText(part)}`}
          ></span>
        `,
      )}
    </div>
  `;
}

function countsText(counts) {
  const texts = KINDS.filter(([name]) => counts[name]).map(([name, , text]) => `${counts[name]} ${text}`);
  return texts.length ? texts.join(" · ") : "no orders";
}
