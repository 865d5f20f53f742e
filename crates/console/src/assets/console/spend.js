// Spend: cost by group in a range of days, and the check of the ledger.

import { html } from "../vendor/preact-htm.js";
import { useAction } from "./act.js";
import { call, file, queryString, save } from "./api.js";
import { BarChart, MARKS, dayName } from "./chart.js";
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
  shortId,
  useLoad,
  usd,
} from "./ui.js";

const GROUPS = { model: "Model", key: "Key" };
/** The groups for all accounts. */
const ALL_GROUPS = { account: "Account", provider: "Provider", ...GROUPS, outcome: "Outcome" };

const DAY_MS = 86_400_000;
/** The longest range, in days, in which bars are stacked by group. */
const MAX_STACKED_DAYS = 100;

export function Spend({ query, hasScope }) {
  const from =
    query.get("from") || dayText(new Date(Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth(), 1)));
  const to = query.get("to") || dayText(new Date());
  const isAll = hasScope("admin") && query.get("of") !== "own";
  const groups = isAll ? ALL_GROUPS : GROUPS;
  const requested = query.get("by") || "";
  const by = Object.keys(groups).includes(requested) ? requested : Object.keys(groups)[0];
  const usagePath = (group_by, format) =>
    `/v1/${isAll ? "admin/usage" : "usage"}${queryString({ from, to, group_by, format })}`;
  const usage = useLoad(
    async (signal) => {
      const get = (path) => call("GET", path, undefined, { signal });
      // Only short ranges are stacked by group; long ones would have too many parts.
      const byDay = dayCount(from, to) <= MAX_STACKED_DAYS ? `day,${by}` : "day";
      const [account, days, sums] = await Promise.all([get("/v1/account"), get(usagePath(byDay)), get(usagePath(by))]);
      return { account, days, sums };
    },
    [from, to, by, isAll],
  );
  const saving = useAction();
  const csv = () => saving.run(async () => save(await file(usagePath(`day,${by}`, "csv")), `usage-${from}-${to}.csv`));
  const set = (name) => (event) => go(withQuery({ [name]: event.target.value }));
  return html`
    <${PageHeader}
      title="Spend"
      small=${isAll ? "Revenue and cost of all accounts, by day (UTC)." : "Cost of this account, by day (UTC)."}
    >
      <button type="button" class="quiet small" aria-disabled=${saving.busy} onClick=${csv}>
        Download CSV
      </button>
    <//>
    <${ErrorNotice} error=${saving.error} />
    ${usage.data && html`<${AccountFigures} account=${usage.data.account} />`}
    <div class="filters spend-filters">
      ${
        hasScope("admin") &&
        html`
          <${Field} name="of" label="Accounts">
            <select id="of" value=${isAll ? "all" : "own"} onChange=${set("of")}>
              <option value="all">all accounts</option>
              <option value="own">my account</option>
            </select>
          <//>
        `
      }
      <${Field} name="from" label="From">
        <input id="from" type="date" value=${from} max=${to} onChange=${set("from")} />
      <//>
      <${Field} name="to" label="To">
        <input id="to" type="date" value=${to} min=${from} onChange=${set("to")} />
      <//>
      <${Field} name="by" label="Grouped by">
        <select id="by" value=${by} onChange=${set("by")}>
          ${Object.entries(groups).map(
            ([group, name]) => html`
              <option key=${group} value=${group}>
                ${name}
              </option>
            `,
          )}
        </select>
      <//>
      <nav class="ranges" aria-label="Ranges">
        ${ranges().map(
          ([name, since, until]) => html`
            <a
              key=${name}
              href=${withQuery({ from: since, to: until })}
              aria-current=${since === from && until === to ? "true" : undefined}
            >
              ${name}
            </a>
          `,
        )}
      </nav>
    </div>
    <${Loader} load=${usage}>
      ${({ days, sums }) =>
        days.data.length === 0
          ? html`
            <${EmptyState} title="No tasks ended in this period">
              <p>A task counts on the day on which it ended.</p>
            <//>
          `
          : html`
            <div class="card">
              <${DayChart} days=${days.data} sums=${sums} by=${by} from=${from} to=${to} />
            </div>
            <section>
              <${Table}
                label="Totals"
                columns=${[
                  groups[by],
                  "#Tasks",
                  "#Succeeded",
                  "#Failed",
                  "#Cancelled",
                  "#Charged",
                  ...(isAll ? ["#Provider cost", "#Margin"] : []),
                ]}
                keyed=${(row) => name(row, by)}
                rows=${sums.data}
                total=${{ ...sums.total, isTotal: true }}
                row=${(row) => [
                  html`<strong>${row.isTotal ? "Total" : name(row, by)}</strong>`,
                  row.tasks,
                  row.succeeded,
                  row.failed,
                  row.cancelled,
                  usd(row.cost_usd),
                  ...(isAll ? margin(row) : []),
                ]}
              />
              ${isAll && html`<${UnknownCosts} sums=${sums.total} />`}
            </section>
          `}
    <//>
    ${hasScope("admin") && html`<${Ledger} after=${query.get("after") || ""} />`}
  `;
}

function name(row, by) {
  if (row.isTotal) return "";
  return by === "key" ? row.key_name || shortId(row.key_id) : row[by] || "–";
}

/** The cost of providers, and the margin. */
function margin(row) {
  const paid = Number(row.provider_cost_usd) + Number(row.failed_cost_usd);
  return [
    paid ? usd(paid.toFixed(6)) : "–",
    html`<span class=${row.margin_usd.startsWith("-") ? "wrong" : ""}>${usd(row.margin_usd)}</span>`,
  ];
}

function UnknownCosts({ sums }) {
  const count = sums.unknown_cost_jobs;
  if (!count) return "";
  return html`
    <p class="fine muted">
      The margin does not include ${count} ${count === 1 ? "job" : "jobs"} at providers, because the cost is
      unknown. Declare the <code>cost</code> of a route to include its successful jobs. The cost of failed jobs is
      known only to the provider.
    </p>
  `;
}

/** Every day of the range, including days without tasks: in dollars, or in tasks if all of them were free. */
function DayChart({ days, sums, by, from, to }) {
  const isFree = Number(sums.total.cost_usd) === 0;
  const value = (row) => (isFree ? row.tasks : Number(row.cost_usd));
  const largest = sums.data
    .toSorted((a, b) => value(b) - value(a))
    .slice(0, MARKS.length - 1)
    .map((row) => name(row, by));
  const mark = (row) => MARKS[largest.includes(name(row, by)) ? largest.indexOf(name(row, by)) : MARKS.length - 1];
  const isStacked = days.some((row) => name(row, by) !== "–");
  const rowsByDay = new Map();
  for (const row of days) rowsByDay.set(row.day, [...(rowsByDay.get(row.day) || []), row]);
  const bars = Array.from({ length: Math.min(dayCount(from, to), 400) }, (_, index) => {
    const date = dayText(new Date(Date.parse(from) + index * DAY_MS));
    const rows = rowsByDay.get(date) || [];
    const parts = MARKS.map((group, order) => ({
      mark: group,
      value: rows
        .filter((row) => (isStacked ? mark(row) === group : order === 0))
        .reduce((total, row) => total + value(row), 0),
    }));
    const tasks = rows.reduce((total, row) => total + row.tasks, 0);
    const paid = rows.reduce((total, row) => total + Number(row.cost_usd), 0);
    return {
      name: dayName(date),
      parts,
      label: rows.length ? `${usd(paid.toFixed(6))}, ${tasks} ${tasks === 1 ? "task" : "tasks"}` : "nothing",
    };
  });
  const legend = isStacked
    ? [
        ...largest.map((name, index) => ({ mark: MARKS[index], name })),
        ...(sums.data.length > largest.length ? [{ mark: "rest", name: "others" }] : []),
      ]
    : [];
  return html`
    <${BarChart}
      bars=${bars}
      legend=${legend}
      label=${`${isFree ? "Tasks" : "Dollars"} by day, ${from} to ${to}`}
      format=${(line) => (isFree ? String(line) : `${line} USD`)}
      sum=${html`
        <strong>${isFree ? sums.total.tasks : usd(sums.total.cost_usd)}</strong>${" "}
        ${isFree ? "tasks" : `in ${sums.total.tasks} tasks`}, ${dayName(from)} to ${dayName(to)}
      `}
    />
  `;
}

/** Number of days from one date to the other, both included. */
const dayCount = (from, to) => Math.max(1, Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS) + 1);

/** The usual ranges: their names, first and last days. */
function ranges() {
  const now = new Date();
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  const ago = (days) => dayText(new Date(now.getTime() - days * DAY_MS));
  const date = (...parts) => dayText(new Date(Date.UTC(.../** @type {[number, number, number]} */ (parts))));
  return [
    ["This month", date(year, month, 1), dayText(now)],
    ["Last month", date(year, month - 1, 1), date(year, month, 0)],
    ["7 days", ago(6), dayText(now)],
    ["30 days", ago(29), dayText(now)],
  ];
}

const dayText = (date) => date.toISOString().slice(0, 10);

function AccountFigures({ account }) {
  const isPrepaid = account.policy === "prepaid";
  const budgets = account.keys.filter((key) => key.budget_usd && !key.revoked_at);
  return html`
    <dl class="figures">
      ${
        isPrepaid &&
        html`
          <div>
            <dt>Balance</dt>
            <dd>${usd(account.balance_usd)}</dd>
          </div>
        `
      }
      <div>
        <dt>Total spent</dt>
        <dd>${usd(account.spent_usd)}</dd>
      </div>
      <div>
        <dt>Held for open tasks</dt>
        <dd>${usd(account.held_usd)}</dd>
      </div>
      <div>
        <dt>Available</dt>
        <dd>${account.available_usd === null ? "no limit" : usd(account.available_usd)}</dd>
      </div>
    </dl>
    ${
      account.ledger_mismatches > 0 &&
      html`
        <p class="notice bad" role="alert">
          <strong>
            The ledger has ${account.ledger_mismatches} ${account.ledger_mismatches === 1 ? "mismatch" : "mismatches"}.
          </strong>${" "}
          Run <code>mediagate ledger verify</code> for details.
        </p>
      `
    }
    ${
      budgets.length > 0 &&
      html`
        <section>
          <h2>Budgets</h2>
          <${Table}
            label="Budgets of keys"
            columns=${["Key", "Used", "#Left", "#Budget"]}
            rows=${budgets}
            row=${(key) => {
              const used = 1 - Number(key.available_usd) / (Number(key.budget_usd) || 1);
              return [
                html`<strong>${key.name}</strong>`,
                html`<span class="meter">
                  <meter min="0" max="1" high="0.9" value=${used} aria-label=${`Budget of ${key.name}`}></meter>${" "}
                  ${Math.round(100 * used)} %
                </span>`,
                usd(key.available_usd),
                `${usd(key.budget_usd)}${key.budget_period ? ` a ${key.budget_period}` : ""}`,
              ];
            }}
          />
        </section>
      `
    }
  `;
}

const amountText = (text) => (Number(text) ? usd(text) : "–");

function Ledger({ after }) {
  const list = useLoad(
    async (signal) => {
      const [entries, check] = await Promise.all([
        call("GET", `/v1/admin/ledger${queryString({ limit: 25, after })}`, undefined, { signal }),
        call("GET", "/v1/admin/ledger/verify", undefined, { signal }),
      ]);
      return { entries, check };
    },
    [after],
  );
  return html`
    <section>
      <div class="between">
        <h2>Ledger</h2>
        ${
          list.data &&
          html`
            <p class=${list.data.check.adds_up ? "status ok" : "status bad"}>
              ${list.data.check.adds_up ? "adds up" : "does not add up"}
            </p>
          `
        }
      </div>
      ${
        list.data?.check.mismatches.length > 0 &&
        html`
          <ul>
            ${list.data.check.mismatches.map(
              (mismatch) => html`
                <li key=${mismatch.what + mismatch.id}>
                  ${mismatch.what} <code>${mismatch.id}</code>: ${mismatch.why}
                </li>
              `,
            )}
          </ul>
        `
      }
      <${Loader} load=${list} rows=${3}>
        ${(loaded) =>
          loaded.entries.data.length === 0
            ? html`<${EmptyState} title="No ledger entries yet" />`
            : html`
              <${Table}
                label="Ledger, newest first"
                columns=${["When", "Kind", "Account", "Task or note", "#Held", "#Spent", "#Credited"]}
                rows=${loaded.entries.data}
                row=${(entry) => [
                  html`<${RelativeTime} time=${entry.created_at} />`,
                  entry.kind,
                  entry.account,
                  entry.task_id
                    ? html`
                      <a class="mono" href=${`/console/tasks/${entry.task_id}`}>
                        ${shortId(entry.task_id)}
                      </a>
                    `
                    : entry.note || "",
                  amountText(entry.held_usd),
                  amountText(entry.spent_usd),
                  amountText(entry.credit_usd),
                ]}
              />
              <${Pager}
                list=${loaded.entries}
                after=${after}
                newest=${withQuery({ after: undefined })}
                older=${withQuery({ after: loaded.entries.last_id })}
              />
            `}
      <//>
    </section>
  `;
}
