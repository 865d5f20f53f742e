// Audit: who changed what, when, and from where.

import { html } from "../vendor/preact-htm.js";
import { useAction } from "./act.js";
import { call, file, queryString, save } from "./api.js";
import { go, withQuery } from "./router.js";
import {
  EmptyState,
  ErrorNotice,
  Field,
  PageHeader,
  Loader,
  Pager,
  Table,
  RelativeTime,
  dateTime,
  shortId,
  useLoad,
} from "./ui.js";

const FILTERS = /** @type {[string, string, string][]} */ ([
  ["action", "Action", "key.create"],
  ["target", "Target", "id or handle"],
  ["actor", "Actor", "key name"],
]);

export function Audit({ query }) {
  const after = query.get("after") || "";
  const filters = Object.fromEntries(FILTERS.map(([name]) => [name, query.get(name) || ""]));
  const search = queryString({ ...filters, after, limit: 50 });
  const list = useLoad((signal) => call("GET", `/v1/admin/audit${search}`, undefined, { signal }), [search]);
  const saving = useAction();
  const csv = () =>
    saving.run(async () =>
      save(await file(`/v1/admin/audit${queryString({ ...filters, format: "csv", limit: 10_000 })}`), "audit.csv"),
    );
  return html`
    <div>
      <${PageHeader} title="Audit" small="Changes made with the console, a command or the configuration.">
        <button type="button" class="quiet small" aria-disabled=${saving.busy} onClick=${csv}>
          Download CSV
        </button>
      <//>
      <${ErrorNotice} error=${saving.error} />
      <div class="filters" role="search">
        ${FILTERS.map(
          ([name, label, example], index) => html`
            <${Field} key=${name} name=${`audit-${name}`} label=${label}>
              <input
                id=${`audit-${name}`}
                type="search"
                data-search=${index === 0 ? "" : undefined}
                placeholder=${example}
                value=${filters[name]}
                onChange=${(event) => go(withQuery({ [name]: event.target.value.trim(), after: undefined }))}
              />
            <//>
          `,
        )}
      </div>
      <${Loader} load=${list} rows=${8}>
        ${(page) =>
          page.data.length === 0
            ? html`
              <${EmptyState}
                title=${
                  search.includes("action=") || search.includes("target=") || search.includes("actor=")
                    ? "No change matches"
                    : "No changes yet"
                }
              />
            `
            : html`
              <div>
                <${Table}
                  label="Changes, newest first"
                  columns=${["When", "Actor", "Action", "Target", "Change", "Address"]}
                  rows=${page.data}
                  row=${(entry) => [
                    html`<${RelativeTime} time=${entry.at} />`,
                    html`<span>
                      ${entry.actor.name}
                      <br />
                      <span class="fine">${entry.actor.kind}</span>
                    </span>`,
                    html`<strong>${entry.action}</strong>`,
                    html`<${AuditTarget} entry=${entry} />`,
                    html`<${ChangeList} entry=${entry} />`,
                    html`<span class="fine">${entry.address || "–"}</span>`,
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
    </div>
  `;
}

/** The object that was changed, by its name if it has one. */
export function AuditTarget({ entry }) {
  const name = entry.after?.name || entry.before?.name;
  const isId = /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(entry.target);
  const text = html`
    <span class="mono fine" title=${entry.target}>
      ${isId ? shortId(entry.target) : entry.target}
    </span>
  `;
  return isId && name
    ? html`
      <span>
        ${name}
        <br />
        ${text}
      </span>
    `
    : text;
}

/** The differences between before and after. */
function ChangeList({ entry }) {
  const before = entry.before || {};
  const after = entry.after || {};
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  );
  if (!names.length) return "–";
  const format = (value) => {
    if (value === null || value === undefined) return "none";
    if (Array.isArray(value)) return value.length ? value.join(", ") : "none";
    if (typeof value === "object") return JSON.stringify(value);
    return /^\d{4}-\d\d-\d\dT/.test(value) ? dateTime(value) : String(value);
  };
  const lines = names.map(
    (name) => html`
      <li key=${name}>
        ${name.replaceAll("_", " ")}: ${entry.before ? html`${format(before[name])} → ` : ""}
        ${format(after[name])}
      </li>
    `,
  );
  const list = html`<ul class="plain-list fine">${lines}</ul>`;
  return names.length < 4
    ? list
    : html`
      <details>
        <summary>${names.length} fields</summary>
        ${list}
      </details>
    `;
}
