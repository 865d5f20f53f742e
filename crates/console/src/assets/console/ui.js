// Shared parts of the views: loading, formats and elements.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.js";
import { ApiError } from "./api.js";
import { focusHeading } from "./router.js";

/** Loads data for a view; the old data stays while it is loaded again. `reload` resolves when the new data is shown. */
export function useLoad(
  /** @type {(signal: AbortSignal) => Promise<any>} */ load,
  /** @type {readonly unknown[]} */ dependencies,
) {
  const [state, setState] = useState(
    /** @type {{data: any, error: any, isLoading: boolean}} */ ({
      data: undefined,
      error: undefined,
      isLoading: true,
    }),
  );
  const [reloads, setReloads] = useState(0);
  const lastDependencies = useRef(dependencies);
  const failures = useRef(0);
  const waiting = useRef(/** @type {(() => void)[]} */ ([]));
  const settle = () => waiting.current.splice(0).forEach((resolve) => resolve());
  useEffect(() => settle, []);
  useEffect(() => {
    const controller = new AbortController();
    let timer = 0;
    // Data of another URL is not shown under this one.
    const isSame = lastDependencies.current.every((value, index) => value === dependencies[index]);
    lastDependencies.current = dependencies;
    setState((before) => ({
      ...before,
      data: isSame ? before.data : undefined,
      error: isSame ? before.error : undefined,
      isLoading: true,
    }));
    load(controller.signal).then(
      (data) => {
        failures.current = 0;
        if (controller.signal.aborted) return;
        setState({ data, error: undefined, isLoading: false });
        settle();
      },
      (error) => {
        if (controller.signal.aborted) return;
        setState((before) => ({ ...before, error, isLoading: false }));
        settle();
        if (!(error instanceof ApiError) || !error.isTemporary) return;
        failures.current += 1;
        const retry = () => (document.hidden ? (timer = setTimeout(retry, 1000)) : setReloads((count) => count + 1));
        timer = setTimeout(retry, Math.min(1000 * 2 ** failures.current, 15_000));
      },
    );
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [...dependencies, reloads]);
  const reload = () =>
    new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      waiting.current.push(resolve);
      setReloads((count) => count + 1);
    });
  return {
    ...state,
    reload,
    set: (/** @type {any} */ data) => setState({ data, error: undefined, isLoading: false }),
  };
}

/** The title of a view, which gets the focus when the view is opened. */
export function PageHeader({ title, small, children }) {
  useLayoutEffect(() => {
    document.title = `${title} · Mediagate`;
    // The page was opened before its title was known; until now the whole page had the focus.
    if (document.activeElement?.id === "main") focusHeading();
  }, [title]);
  return html`
    <div class="head">
      <div>
        <h1 tabindex="-1">${title}</h1>
        ${small && html`<p class="muted">${small}</p>`}
      </div>
      <div class="acts">${children}</div>
    </div>
  `;
}

/** Shows data, or a placeholder while it is loading, or the error. */
export function Loader({ load, rows = 5, children }) {
  if (load.data !== undefined && load.error)
    return html`
      <${ErrorNotice} error=${load.error} retry=${load.reload} />
      ${children(load.data)}
    `;
  if (load.data !== undefined) return children(load.data);
  if (load.error) return html`<${ErrorNotice} error=${load.error} retry=${load.reload} />`;
  return html`
    <div class="skeleton" role="status">
      <span class="unseen">Loading</span>
      ${Array.from({ length: rows }, (_, row) => html`<div key=${row} class="bone"></div>`)}
    </div>
  `;
}

export function ErrorNotice({ error, retry }) {
  if (!error) return null;
  const isRetried = error instanceof ApiError && error.isTemporary;
  return html`
    <div class="notice bad" role="alert">
      <p>
        <strong>${error.message}</strong>
        ${isRetried ? " Retrying automatically." : ""}
      </p>
      ${
        error.requestId &&
        html`
          <p class="fine">
            Request ${" "}
            <a href=${`/console/requests?q=${encodeURIComponent(error.requestId)}`}>
              <code>${error.requestId}</code>
            </a>
          </p>
        `
      }
      ${
        retry &&
        html`
          <button type="button" class="quiet small" onClick=${retry}>
            Try again
          </button>
        `
      }
    </div>
  `;
}

export function EmptyState({ title, children }) {
  return html`
    <div class="empty">
      <p class="empty-title">${title}</p>
      ${children}
    </div>
  `;
}

const MARKS = { succeeded: "ok", delivered: "ok", failed: "bad", cancelled: "off", held: "off" };

export function StatusBadge({ status, label }) {
  return html`<span class=${`status ${MARKS[status] || "open"}`}>${label || status}</span>`;
}

export function ProgressBar({ task }) {
  const isEstimated = task.progress_estimated;
  return html`
    <span class="progress">
      <progress
        max="100"
        value=${task.progress || 0}
        aria-label=${isEstimated ? "Progress, estimated" : "Progress"}
      ></progress>
      <span class="fine">
        ${isEstimated ? "about " : ""}
        ${task.progress || 0} %
      </span>
    </span>
  `;
}

/** Whether a task waits for approval. */
export const isPending = (/** @type {any} */ task) => task.status === "queued" && task.approval?.state === "pending";

/** How long ago; the exact time as its title. */
export function RelativeTime({ time }) {
  if (!time) return "–";
  return html`
    <time datetime=${time} title=${new Date(time).toLocaleString()}>
      ${relativeTime(time)}
    </time>
  `;
}

/** @param {string} at */
export function relativeTime(at) {
  const elapsed = Math.round((Date.now() - Date.parse(at)) / 1000);
  const distance = Math.abs(elapsed);
  const text =
    distance < 60
      ? `${distance} s`
      : distance < 3570
        ? `${Math.round(distance / 60)} min`
        : distance < 84_600
          ? `${Math.round(distance / 3600)} h`
          : `${Math.round(distance / 86_400)} d`;
  if (distance >= 30 * 86_400) return new Date(at).toLocaleDateString();
  return distance < 5 ? "just now" : elapsed < 0 ? `in ${text}` : `${text} ago`;
}

/** @param {string} at */
export const dateTime = (at) => new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });

/** @param {string} at */
export const timeOfDay = (at) =>
  new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** A length in seconds as text: `3 min 7 s`. */
export function durationText(/** @type {number} */ seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 60) return `${seconds < 10 ? Number(seconds.toFixed(1)) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** A length in seconds as players show it: `3:07`. */
export function timecode(/** @type {number} */ seconds) {
  const whole = Math.max(0, Math.floor(seconds || 0));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** Dollars from the API's decimal text, with at least two decimals. The text is never turned into a number. */
export function usd(/** @type {string | null | undefined} */ text) {
  if (text === null || text === undefined) return "";
  const [, sign, whole, decimals = ""] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text) || ["", "", text];
  return `${sign && "−"}${whole}.${decimals.replace(/0+$/, "").padEnd(2, "0")} USD`;
}

/** @param {string | null | undefined} text */
export const priceText = (text) => (!text || Number(text) === 0 ? "free" : usd(text));

/** @param {number} bytes */
export function sizeText(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${Math.round(bytes / 1000)} kB`;
  return bytes < 1_000_000_000 ? `${(bytes / 1_000_000).toFixed(1)} MB` : `${(bytes / 1_000_000_000).toFixed(1)} GB`;
}

/** The end of an id. Its beginning is the time, in which neighbouring ids hardly differ. */
export const shortId = (/** @type {string | null | undefined} */ id) => (id ? id.slice(-8) : "");

export const isEnded = (/** @type {{status: string}} */ task) =>
  ["succeeded", "failed", "cancelled"].includes(task.status);

export function CopyButton({ text, label = "Copy" }) {
  const [message, setMessage] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setMessage("Copied");
    } catch {
      setMessage("Copy failed");
    }
    setTimeout(() => setMessage(""), 1500);
  };
  // The clipboard exists on secure pages only; elsewhere the text can be selected and copied by hand.
  if (!navigator.clipboard) return null;
  return html`
    <button type="button" class="copy" onClick=${copy}>
      <span aria-live="polite">${message || label}</span>
    </button>
  `;
}

export function CodeBlock({ text, label }) {
  return html`
    <div class="code">
      <pre tabindex="0" role="region" aria-label=${label}>
        <code>${text}</code>
      </pre>
      <${CopyButton} text=${text} />
    </div>
  `;
}

/** What a task that made nothing costs, by its bill: a cancelled job may have been made by its provider. */
export function chargeText({ billing }) {
  if (billing?.status === "held")
    return `${usd(billing.reserved_usd)} stay reserved until the provider's job has ended.`;
  return Number(billing?.charged_usd) > 0 ? `${usd(billing.charged_usd)} were charged.` : "Nothing was charged.";
}

/** The API's message about a field, without the field's name, which is shown above it. */
export function fieldError(/** @type {any} */ error, /** @type {string} */ name) {
  if (!error?.param || error.param.split(/[.[]/)[0] !== name) return undefined;
  const message = error.message.replace(/^[a-z_]+(\[\d+\]|\.[a-z_]+)*: /, "");
  return message.charAt(0).toUpperCase() + message.slice(1);
}

/** A field with its name above it and a hint or an error below it. */
export function Field({ name, label, hint, error, children }) {
  const field = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const input = field.current?.querySelector("input, select, textarea");
    if (!input) return;
    input.toggleAttribute("aria-invalid", Boolean(error));
    if (error) input.setAttribute("aria-invalid", "true");
    if (hint || error) input.setAttribute("aria-describedby", `${name}-hint`);
  }, [hint, error]);
  return html`
    <div class="field" ref=${field}>
      <label for=${name}>${label}</label>
      ${children}
      ${
        (hint || error) &&
        html`
          <p id=${`${name}-hint`} class=${error ? "fine wrong" : "fine"}>
            ${error || hint}
          </p>
        `
      }
    </div>
  `;
}

/** @param {{name: string, tabs: [string, string][], chosen: string, choose: (id: string) => void}} tabs */
export function Tabs({ name, tabs, chosen, choose }) {
  const move = (/** @type {KeyboardEvent} */ event) => {
    const index = tabs.findIndex(([id]) => id === chosen);
    const steps = /** @type {Record<string, number>} */ ({
      ArrowRight: index + 1,
      ArrowLeft: index - 1,
      Home: 0,
      End: tabs.length - 1,
    });
    if (!(event.key in steps)) return;
    event.preventDefault();
    const [next] = tabs[(steps[event.key] + tabs.length) % tabs.length];
    choose(next);
    document.getElementById(`tab-${name}-${next}`)?.focus();
  };
  return html`
    <div class="tabs" role="tablist" aria-label=${name} onKeyDown=${move}>
      ${tabs.map(
        ([id, label]) => html`
          <button
            key=${id}
            type="button"
            role="tab"
            id=${`tab-${name}-${id}`}
            aria-selected=${String(id === chosen)}
            aria-controls=${`panel-${name}`}
            tabindex=${id === chosen ? 0 : -1}
            onClick=${() => choose(id)}
          >
            ${label}
          </button>
        `,
      )}
    </div>
  `;
}

/** A modal window; when it closes, the focus returns to where it was. */
export function Dialog({ title, close, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const isGone = useRef(false);
  useLayoutEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => {
      // Its `close` event arrives later, when another window may already be open.
      isGone.current = true;
      element?.close();
    };
  }, []);
  return html`
    <dialog ref=${dialog} aria-labelledby="dialog-title" onClose=${() => isGone.current || close()}>
      <div class="dialog-head">
        <h2 id="dialog-title">${title}</h2>
        <button type="button" class="quiet small" onClick=${() => dialog.current?.close()}>
          Close
        </button>
      </div>
      ${children}
    </dialog>
  `;
}

/**
 * A table that becomes a list of cards on a phone. Columns whose name begins with `#` contain numbers. A `dense`
 * table shows its cells in lines on a phone, without the columns' names.
 */
export function Table({
  label,
  columns,
  rows,
  row,
  total = undefined,
  dense = false,
  keyed = (/** @type {any} */ item) => item.id,
}) {
  const names = columns.map((/** @type {string} */ column) => column.replace(/^#/, ""));
  const classOf = (/** @type {number} */ index) =>
    names[index] === "" ? "act" : columns[index] !== names[index] ? "figure" : "";
  const cellsOf = (/** @type {any} */ cells) =>
    cells.map(
      (/** @type {any} */ cell, /** @type {number} */ index) => html`
        <td data-label=${names[index]} class=${classOf(index)}>
          ${cell}
        </td>
      `,
    );
  return html`
    <table class=${dense ? "list dense" : "list"}>
      <caption class="unseen">${label}</caption>
      <thead>
        <tr>
          ${names.map(
            (/** @type {string} */ name, /** @type {number} */ index) => html`
              <th key=${name} scope="col" class=${classOf(index)}>
                ${name || html`<span class="unseen">Actions</span>`}
              </th>
            `,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map((item) => html`<tr key=${keyed(item)}>${cellsOf(row(item))}</tr>`)}
      </tbody>
      ${
        total &&
        html`
          <tfoot>
            <tr>${cellsOf(row(total))}</tr>
          </tfoot>
        `
      }
    </table>
  `;
}

/** Links to the neighbouring pages; the URL contains the position. */
export function Pager({ list, after, older, newest }) {
  if (!after && !list.has_more) return null;
  return html`
    <nav class="pager" aria-label="Pages">
      ${
        after &&
        html`
          <a class="button quiet small" href=${newest}>
            Newest
          </a>
        `
      }
      ${
        list.has_more &&
        html`
          <a class="button quiet small" href=${older}>
            Older
          </a>
        `
      }
    </nav>
  `;
}

export function Facts({ facts }) {
  const lines = facts.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return html`
    <dl class="facts">
      ${lines.map(
        ([name, value]) => html`
          <div key=${name}>
            <dt>${name}</dt>
            <dd>${value}</dd>
          </div>
        `,
      )}
    </dl>
  `;
}
