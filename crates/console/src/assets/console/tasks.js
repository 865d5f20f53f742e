// Tasks: the list, with its filters and pages in the URL.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { safeUrl, call, follow, queryString } from "./api.js";
import { go, withQuery } from "./router.js";
import {
  EmptyState,
  Field,
  PageHeader,
  Loader,
  Pager,
  ProgressBar,
  StatusBadge,
  Table,
  RelativeTime,
  priceText,
  isEnded,
  shortId,
  useLoad,
} from "./ui.js";

// Icons, as paths of SVG.
const FILM = "M4 5h16v14H4zM10 9l5 3-5 3z";
const NOTE = "M9 18V6l10-2v12M9 18a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0zM19 16a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0z";

const FILTERS = ["q", "kind", "status", "model", "key", "error", "since", "until"];
// Further filters for operators, who can see every account.
const OPERATOR_FILTERS = ["account", "provider"];
const SEARCH_AFTER_MS = 350;
const REFRESH_MS = 2000;

export function Tasks({ query, hasScope }) {
  const isWide = hasScope("admin") && query.get("of") === "all";
  const names = isWide ? [...FILTERS, ...OPERATOR_FILTERS] : FILTERS;
  const filters = Object.fromEntries(names.map((name) => [name, query.get(name) || ""]));
  const after = query.get("after") || "";
  const search = queryString({
    ...filters,
    since: instant(filters.since),
    until: instant(filters.until, 1),
    after,
    limit: 50,
  });
  const path = isWide ? "/v1/admin/tasks" : "/v1/tasks";
  const list = useLoad((signal) => call("GET", `${path}${search}`, undefined, { signal }), [path, search]);
  useLive(list, after, !isWide);
  const isFiltered = names.some((name) => filters[name]);
  return html`
    <${PageHeader} title="Tasks" small="All tasks with their status and cost.">
      <button type="button" class="quiet small" onClick=${list.reload}>
        Refresh
      </button>
    <//>
    <${Filters} filters=${filters} hasScope=${hasScope} isWide=${isWide} />
    <${Loader} load=${list} rows=${8}>
      ${(page) =>
        page.data.length === 0
          ? html`
            <${EmptyState} title=${isFiltered || after ? "No task matches" : "No tasks yet"}>
              ${
                isFiltered || after
                  ? html`
                    <p class="acts">
                      <a class="button quiet small" href="/console/tasks">
                        Show all tasks
                      </a>
                    </p>
                  `
                  : html`
                    <p>Tasks of this account appear here.</p>
                    <p class="acts">
                      <a class="button" href="/console/create">
                        Create something
                      </a>
                    </p>
                  `
              }
            <//>
          `
          : html`
            <${Table}
              dense
              label="Tasks, newest first"
              columns=${["Task", "Model", "Status", "#Cost", isWide ? "Account" : "Key", "#Created"]}
              rows=${page.data}
              row=${(task) => taskCells(task, isWide)}
            />
            <${Pager}
              list=${page}
              after=${after}
              newest=${withQuery({ after: undefined })}
              older=${withQuery({ after: page.last_id })}
            />
          `}
    <//>
  `;
}

function Filters({ filters, hasScope, isWide }) {
  const [text, setText] = useState(filters.q);
  const [timer, setTimer] = useState(0);
  // A phone shows only the search until all filters are opened.
  const [isAll, setAll] = useState(false);
  useEffect(() => setText(filters.q), [filters.q]);
  const choose = (name, value) => go(withQuery({ [name]: value, after: undefined }), { replace: false });
  const type = (event) => {
    const { value } = event.target;
    setText(value);
    clearTimeout(timer);
    setTimer(
      setTimeout(() => go(withQuery({ q: value.trim(), after: undefined }), { replace: true }), SEARCH_AFTER_MS),
    );
  };
  const select = (name, label, options) => html`
    <${Field} name=${`filter-${name}`} label=${label}>
      <select id=${`filter-${name}`} value=${filters[name]} onChange=${(event) => choose(name, event.target.value)}>
        <option value="">All</option>
        ${options.map(
          (option) => html`
            <option key=${option} value=${option}>
              ${option}
            </option>
          `,
        )}
      </select>
    <//>
  `;
  const models = useLoad((signal) => call("GET", "/v1/models", undefined, { signal }), []);
  const names = [
    ...new Set([...(models.data?.data || []).map((model) => model.id), ...(filters.model ? [filters.model] : [])]),
  ];
  const set = Object.keys(filters).filter((name) => name !== "q" && filters[name]);
  const others = ["error", "key", ...OPERATOR_FILTERS].filter((name) => filters[name]);
  return html`
    <form class=${isAll ? "filters all" : "filters"} role="search" onSubmit=${(event) => event.preventDefault()}>
      <div class="field grow all">
        <label for="filter-q">Search</label>
        <input
          id="filter-q"
          type="search"
          data-search
          value=${text}
          onInput=${type}
          placeholder=${isWide && !filters.account ? "An id" : "Words from the prompt, or an id"}
        />
      </div>
      <button
        type="button"
        class="quiet small more-filters"
        aria-expanded=${String(isAll)}
        onClick=${() => setAll(!isAll)}
      >
        Filters${set.length ? ` (${set.length})` : ""}
      </button>
      ${select("status", "Status", ["queued", "running", "succeeded", "failed", "cancelled"])}
      ${select("kind", "Kind", ["video", "music"])}
      ${select("model", "Model", names)}
      <${Field} name="filter-since" label="From">
        <input
          id="filter-since"
          type="date"
          value=${filters.since}
          onChange=${(event) => choose("since", event.target.value)}
        />
      <//>
      <${Field} name="filter-until" label="To">
        <input
          id="filter-until"
          type="date"
          value=${filters.until}
          onChange=${(event) => choose("until", event.target.value)}
        />
      <//>
      ${
        hasScope("admin") &&
        html`
          <${Field} name="filter-of" label="Accounts">
            <select
              id="filter-of"
              value=${isWide ? "all" : ""}
              onChange=${(event) =>
                go(withQuery({ of: event.target.value, after: undefined, account: undefined, provider: undefined }))}
            >
              <option value="">this account</option>
              <option value="all">all accounts</option>
            </select>
          <//>
        `
      }
      ${others.map(
        (name) => html`
          <button key=${name} type="button" class="quiet small" onClick=${() => choose(name, "")}>
            ${name}: ${filters[name]} ×
          </button>
        `,
      )}
    </form>
  `;
}

/** The moment at which a day begins, or the day that is `days` later. */
function instant(day, days = 0) {
  const start = day ? new Date(`${day}T00:00:00`) : undefined;
  if (!start || Number.isNaN(start.getTime())) return "";
  start.setDate(start.getDate() + days);
  return start.toISOString();
}

function taskCells(task, isWide) {
  return [
    html`<${TaskTitle} task=${task} />`,
    html`<a class="plain" href=${withQuery({ model: task.model, after: undefined })}>
      ${task.model}
    </a>`,
    html`
      <${StatusBadge} status=${task.status} />
      ${!isEnded(task) && task.status !== "queued" && html` <${ProgressBar} task=${task} />`}
      ${
        task.error &&
        task.status === "failed" &&
        html`
          <br />
          <a class="plain fine wrong" href=${withQuery({ error: task.error.code, after: undefined })}>
            ${task.error.code}
          </a>
        `
      }
    `,
    priceText(task.cost_usd),
    isWide
      ? html`
        <a class="plain" href=${withQuery({ account: task.account, after: undefined })}>
          ${task.account}
        </a>
      `
      : task.key
        ? html`
          <a class="plain" href=${withQuery({ key: task.key.id, after: undefined })}>
            ${task.key.name || shortId(task.key.id)}
          </a>
        `
        : "",
    html`<${RelativeTime} time=${task.created_at} />`,
  ];
}

/** A task with its picture and its title. */
export function TaskTitle({ task }) {
  const poster = safeUrl(task.poster_url);
  return html`
    <div class="thing">
      ${
        poster
          ? html`<img class="thumb" src=${poster} alt="" loading="lazy" />`
          : html`
            <span class="thumb" aria-hidden="true">
              <svg viewBox="0 0 24 24">
                <path
                  d=${task.kind === "music" ? NOTE : FILM}
                />
              </svg>
            </span>
          `
      }
      <div>
        <a href=${`/console/tasks/${task.id}`}>${taskTitle(task)}</a>
        <span class="fine mono">${shortId(task.id)}</span>
      </div>
    </div>
  `;
}

/** The title of a task. */
export function taskTitle(task) {
  const { input = {} } = task;
  const clipTitle = task.output?.clips?.[0]?.title;
  return (
    input.title ||
    input.prompt ||
    (input.task === "gen_stem" ? clipTitle && `Stems of ${clipTitle.replace(/ \([^)]*\)$/, "")}` : "") ||
    (task.kind === "music" ? "Music" : "Video")
  );
}

/**
 * Follows the oldest open task of the page. The list is read again when that task makes progress; the first page also
 * when a hidden tab becomes visible.
 */
function useLive(list, after, isOwn) {
  const open = isOwn && list.data?.data.filter((task) => !isEnded(task)).at(-1)?.id;
  useEffect(() => {
    if (!open) return undefined;
    const controller = new AbortController();
    let lastReload = Date.now();
    const onEvent = (name, task) => {
      if (name !== "task") return false;
      if (isEnded(task) || Date.now() - lastReload > REFRESH_MS) {
        lastReload = Date.now();
        list.reload();
      }
      return isEnded(task);
    };
    follow(`/v1/tasks/${open}/events`, { onEvent, signal: controller.signal }).catch(() => {});
    return () => controller.abort();
  }, [open]);
  useEffect(() => {
    const reload = () => document.hidden || after || list.reload();
    document.addEventListener("visibilitychange", reload);
    return () => document.removeEventListener("visibilitychange", reload);
  }, [after]);
}
