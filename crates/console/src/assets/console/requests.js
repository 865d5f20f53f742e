// Requests: what happened to a request, by its id, and who gets which errors. The filters are in the URL.

import { html } from "../vendor/preact-htm.js";
import { call, queryString } from "./api.js";
import { go, withQuery } from "./router.js";
import { EmptyState, Field, PageHeader, Loader, Pager, Table, RelativeTime, shortId, useLoad } from "./ui.js";

/** The filters in fields: their name, label and an example. */
const FIELDS = /** @type {[string, string, string][]} */ ([
  ["q", "Request id", "req_…"],
  ["status", "Status", "402 or 4xx"],
  ["code", "Error code", "budget_exceeded"],
  ["route", "Route", "/v1/videos"],
  ["model", "Model", "animatic-1"],
  ["since", "Since", "2026-01-31T12:00:00Z"],
  ["until", "Until", "2026-02-01"],
]);
/** Further filters, which are set by links. */
const LINKED = ["key"];
const OPERATOR_FIELD = /** @type {[string, string, string]} */ (["account", "Account", "handle"]);
const COUNTED = 10;

/** A request's id as a link to what happened to it. */
export function RequestLink({ id, isWide = false }) {
  return html`<a href=${`/console/requests${queryString({ q: id, of: isWide ? "all" : "" })}`}><code>${id}</code></a>`;
}

export function Requests({ query, hasScope }) {
  const isWide = hasScope("admin") && query.get("of") === "all";
  const fields = isWide ? [...FIELDS, OPERATOR_FIELD] : FIELDS;
  const names = [...fields.map(([name]) => name), ...LINKED];
  const filters = Object.fromEntries(names.map((name) => [name, query.get(name) || ""]));
  const after = query.get("after") || "";
  const path = isWide ? "/v1/admin/requests" : "/v1/requests";
  const search = queryString({ ...filters, after, limit: 50 });
  const list = useLoad((signal) => call("GET", `${path}${search}`, undefined, { signal }), [path, search]);
  const sums = queryString({ ...filters, group_by: isWide ? "code,account,key,model" : "code,key,model" });
  const counts = useLoad((signal) => call("GET", `${path}${sums}`, undefined, { signal }), [path, sums]);
  const isFiltered = names.some((name) => filters[name]);
  return html`
    <div>
      <${PageHeader} title="Requests" small="Those that failed, and those that made or changed something.">
        <button
          type="button"
          class="quiet small"
          onClick=${() => {
            list.reload();
            counts.reload();
          }}
        >
          Refresh
        </button>
      <//>
      <${RequestFilters} fields=${fields} filters=${filters} hasScope=${hasScope} isWide=${isWide} />
      ${counts.data?.data.length > 0 && html`<${ErrorCounts} counts=${counts.data} isWide=${isWide} />`}
      <${Loader} load=${list} rows=${8}>
        ${(page) =>
          page.data.length === 0
            ? html`
              <${EmptyState} title=${isFiltered || after ? "No request matches" : "No requests yet"}>
                ${
                  isFiltered &&
                  html`
                    <p class="acts">
                      <a class="button quiet small" href="/console/requests">
                        Show all requests
                      </a>
                    </p>
                  `
                }
              <//>
            `
            : html`
              <div>
                <${Table}
                  label="Requests, newest first"
                  columns=${["When", "Response", "Request", isWide ? "Account and key" : "Key", "Task", "#ms"]}
                  rows=${page.data}
                  row=${(entry) => requestCells(entry, isWide)}
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
    </div>
  `;
}

function RequestFilters({ fields, filters, hasScope, isWide }) {
  const choose = (name, value) => go(withQuery({ [name]: value, after: undefined }));
  return html`
    <form class="filters all" role="search" onSubmit=${(event) => event.preventDefault()}>
      ${fields.map(
        ([name, label, example], index) => html`
          <${Field} key=${name} name=${`requests-${name}`} label=${label}>
            <input
              id=${`requests-${name}`}
              type="search"
              data-search=${index === 0 ? "" : undefined}
              placeholder=${example}
              value=${filters[name]}
              onChange=${(event) => choose(name, event.target.value.trim())}
            />
          <//>
        `,
      )}
      ${
        hasScope("admin") &&
        html`
          <${Field} name="requests-of" label="Accounts">
            <select
              id="requests-of"
              value=${isWide ? "all" : ""}
              onChange=${(event) => go(withQuery({ of: event.target.value, after: undefined, account: undefined }))}
            >
              <option value="">this account</option>
              <option value="all">all accounts</option>
            </select>
          <//>
        `
      }
      ${LINKED.filter((name) => filters[name]).map(
        (name) => html`
          <button key=${name} type="button" class="quiet small" onClick=${() => choose(name, "")}>
            ${name}: ${shortId(filters[name])} ×
          </button>
        `,
      )}
    </form>
  `;
}

/** The largest groups of errors among what the filters select; each links to its requests. */
function ErrorCounts({ counts, isWide }) {
  return html`
    <div class="card">
      <h2>Errors</h2>
      <${Table}
        dense
        label="Errors, the most frequent first"
        columns=${["Code", isWide ? "Account and key" : "Key", "Model", "#Number", "Last"]}
        rows=${counts.data.slice(0, COUNTED)}
        row=${(group) => [
          html`
            <a
              href=${withQuery({
                code: group.code,
                account: group.account,
                key: group.key?.id,
                model: group.model,
                after: undefined,
              })}
            >
              ${group.code || "none"}
            </a>
          `,
          html`<${Owner} of=${group} isWide=${isWide} />`,
          group.model || "–",
          group.count,
          html`<${RelativeTime} time=${group.last_time} />`,
        ]}
      />
      ${
        counts.data.length > COUNTED &&
        html`<p class="fine">${COUNTED} of ${counts.data.length} groups; ${counts.total} errors in all.</p>`
      }
    </div>
  `;
}

function Owner({ of: { account, key }, isWide }) {
  const name = key ? key.name || shortId(key.id) : "no valid key";
  if (!isWide || !account) return html`<span>${name}</span>`;
  return html`
    <span>
      ${account}
      <br />
      <span class="fine">${name}</span>
    </span>
  `;
}

function TaskLink({ id }) {
  return html`<a class="mono fine" href=${`/console/tasks/${id}`}>${shortId(id)}</a>`;
}

function requestCells(entry, isWide) {
  return [
    html`<${RelativeTime} time=${entry.time} />`,
    html`
      <span>
        <strong>${entry.status}</strong>
        ${
          entry.code &&
          html`
            ${" "}
            <a class="plain wrong" href=${withQuery({ code: entry.code, after: undefined })}>
              ${entry.code}
            </a>
          `
        }
        ${
          entry.message &&
          html`
            <br />
            <span class="fine">${entry.message}</span>
          `
        }
      </span>
    `,
    html`
      <span>
        ${entry.method} ${entry.route || "an address without an endpoint"}
        <br />
        <span class="fine"><${RequestLink} id=${entry.request_id} isWide=${isWide} /></span>
      </span>
    `,
    html`<${Owner} of=${entry} isWide=${isWide} />`,
    html`
      <span>
        ${entry.task ? html`<${TaskLink} id=${entry.task} />` : "–"}
        ${
          entry.model &&
          html`
            <br />
            <span class="fine">${entry.model}</span>
          `
        }
      </span>
    `,
    entry.milliseconds,
  ];
}
