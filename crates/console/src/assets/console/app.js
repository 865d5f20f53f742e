// The console's entry: the sign-in, the navigation, and the view that belongs to the URL.

import { html, render, useEffect, useErrorBoundary, useState } from "../vendor/preact-htm.js";
import { ApiError, call, key, session, whenDenied } from "./api.js";
import { focusHeading, go, startRouter, useLocation } from "./router.js";
import { Accounts } from "./accounts.js";
import { SubmitButton, useAction } from "./act.js";
import { Audit } from "./audit.js";
import { Clip } from "./clip.js";
import { Create } from "./create.js";
import { Keys } from "./keys.js";
import { Library } from "./library.js";
import { Overview } from "./now.js";
import { Providers } from "./providers.js";
import { Requests } from "./requests.js";
import { Spend } from "./spend.js";
import { TaskPage } from "./task.js";
import { Tasks } from "./tasks.js";
import { Dialog, ErrorNotice, PageHeader } from "./ui.js";
import { Endpoint, Webhooks } from "./webhooks.js";

/** The views: their path, name, icon, letter for the shortcut with `g`, and the scope that they need. */
const VIEWS = [
  { path: "create", name: "Create", icon: "M12 4v16M4 12h16", letter: "c" },
  { path: "library", name: "Library", icon: "M4 5h16v14H4zM10 9l5 3-5 3z", letter: "l", scope: "tasks:read" },
  { path: "tasks", name: "Tasks", icon: "M4 6h16M4 12h16M4 18h10", letter: "t", scope: "tasks:read" },
  { path: "spend", name: "Spend", icon: "M5 20v-7M10 20V6M15 20v-10M20 20V4", letter: "s", scope: "tasks:read" },
  { path: "keys", name: "Keys", icon: "M8 15a4 4 0 1 1 3.5-6H20v3h-2v3h-3v-3h-3.5A4 4 0 0 1 8 15z", letter: "k" },
  {
    path: "webhooks",
    name: "Webhooks",
    icon: "M4 12h10M10 7l5 5-5 5M18 5v14",
    letter: "w",
    scope: "webhooks:manage",
  },
  {
    path: "requests",
    name: "Requests",
    icon: "M4 7h13M13 3l4 4-4 4M20 17H7M11 13l-4 4 4 4",
    letter: "r",
    scope: "tasks:read",
  },
  { path: "now", name: "Overview", icon: "M3 12h4l3-7 4 14 3-7h4", letter: "n", scope: "admin" },
  {
    path: "providers",
    name: "Providers",
    icon: "M5 5h14v5H5zM5 14h14v5H5zM8 7.5h.01M8 16.5h.01",
    letter: "p",
    scope: "admin",
  },
  {
    path: "accounts",
    name: "Accounts",
    icon: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2.5 19a5.5 5.5 0 0 1 11 0M16 11a3 3 0 1 0 0-6M16 14a5.5 5.5 0 0 1 5.5 5",
    letter: "a",
    scope: "admin",
  },
  { path: "audit", name: "Audit", icon: "M6 3h9l4 4v14H6zM9 12h7M9 16h7", letter: "u", scope: "admin" },
];
const ICON = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]")).href;
// A phone's bar has room for this many entries; the others are behind "More".
const IN_BAR = 4;

/** Whether the key has a scope; `admin` includes all but `approve`. */
const hasScope = (account, scope) =>
  !scope || account.key.scopes.includes(scope) || (scope !== "approve" && account.key.scopes.includes("admin"));

function Console() {
  const [state, setState] = useState(
    /** @type {{account?: any, error?: any, isSignedIn: boolean}} */ ({
      isSignedIn: Boolean(key.read()) || session.isExpected(),
    }),
  );
  const enter = async () => {
    try {
      if (!key.read() && !session.token) await session.resume();
      setState({ account: await call("GET", "/v1/account"), isSignedIn: true });
    } catch (error) {
      if (error instanceof ApiError && error.status !== 401) setState({ error, isSignedIn: true });
      if (error instanceof ApiError && error.isTemporary)
        setTimeout(() => (key.read() || session.isExpected()) && enter(), 3000);
    }
  };
  useEffect(() => {
    whenDenied((error) => {
      key.forget();
      session.forget();
      setState({ error, isSignedIn: false });
    });
    if (state.isSignedIn) enter();
  }, []);
  if (!state.isSignedIn)
    return html`
      <${SignIn}
        error=${state.error}
        onDone=${() => {
          setState({ isSignedIn: true });
          enter();
        }}
      />
    `;
  if (!state.account)
    return html`
      <${Shell} account=${{ key: { scopes: [] } }} leave=${() => {}}>
        ${
          state.error
            ? html`
              <${PageHeader} title="Console" />
              <${ErrorNotice} error=${state.error} retry=${enter} />
            `
            : html`
              <div class="skeleton" role="status">
                <span class="unseen">Loading</span>
                <div class="bone"></div>
                <div class="bone"></div>
              </div>
            `
        }
      <//>
    `;
  const leave = async () => {
    if (!key.read()) await session.end().catch(() => session.forget());
    key.forget();
    setState({ isSignedIn: false });
  };
  return html`
    <${Shell} account=${state.account} leave=${leave}>
      <${View} account=${state.account} refresh=${enter} />
    <//>
  `;
}

function SignIn({ error, onDone }) {
  const action = useAction();
  const [value, setValue] = useState("");
  const [stays, setStays] = useState(false);
  useEffect(() => {
    document.title = "Sign in · Mediagate";
    document.getElementById("key")?.focus();
  }, []);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    action.run(async () => {
      key.store(value.trim());
      if (stays) await session.begin();
      else await call("GET", "/v1/account");
      onDone();
    });
  };
  const failed = action.error || error;
  return html`
    <main id="main" class="door">
      <form class="card" onSubmit=${submit}>
        <a class="brand" href="/">
          <img src=${ICON} width="32" height="32" alt="" />
          <span>Mediagate</span>
        </a>
        <h1 tabindex="-1">Sign in</h1>
        <div class="field">
          <label for="key">API key</label>
          <input
            id="key"
            type="password"
            required
            autocomplete="off"
            spellcheck=${false}
            placeholder="sk-mg-…"
            aria-describedby="key-help"
            value=${value}
            onInput=${(event) => setValue(event.target.value)}
          />
        </div>
        <label class="check">
          <input type="checkbox" checked=${stays} onChange=${() => setStays(!stays)} /> Stay signed in for 12 hours,
          in every tab
        </label>
        <${ErrorNotice} error=${failed} />
        <${SubmitButton} busy=${action.busy}>${action.busy ? "Signing in" : "Sign in"}<//>
        <p class="fine" id="key-help">
          ${
            stays
              ? "The key is exchanged for a cookie that scripts cannot read. Signing out ends the session in every tab."
              : "The key stays in this tab and is sent only to this gateway. It is removed when you close the tab."
          }
          Create a key with <code>mediagate keys create --name me</code>.
        </p>
      </form>
    </main>
  `;
}

function Shell({ account, leave, children }) {
  const { parts } = useLocation();
  const [isHelp, setHelp] = useState(false);
  const entries = VIEWS.filter((view) => hasScope(account, view.scope));
  const [isMore, setMore] = useState(false);
  useEffect(() => setMore(false), [parts[0]]);
  useEffect(() => startShortcuts(entries, () => setHelp(true)), [entries.length]);
  const entry = (view) => html`
    <li key=${view.path}>
      <a href=${`/console/${view.path}`} aria-current=${parts[0] === view.path ? "page" : undefined}>
        <svg viewBox="0 0 24 24" aria-hidden="true">
          <path d=${view.icon} />
        </svg>
        <span>${view.name}</span>
      </a>
    </li>
  `;
  const isBeyond = entries.slice(IN_BAR).some((view) => view.path === parts[0]);
  return html`
    <a class="skip" href="#main">
      Skip to content
    </a>
    <div class="shell">
      <nav class=${isMore ? "rail more-open" : "rail"} aria-label="Console">
        <a class="brand" href="/">
          <img src=${ICON} width="26" height="26" alt="" />
          <span>Mediagate</span>
        </a>
        <ul>
          ${entries.map(entry)}
          ${
            entries.length > IN_BAR &&
            html`
              <li class="more">
                <button
                  type="button"
                  class=${isBeyond ? "here" : ""}
                  aria-expanded=${String(isMore)}
                  onClick=${() => setMore(!isMore)}
                >
                  <svg class="dots" viewBox="0 0 24 24" aria-hidden="true">
                    <path d="M5 12h.01M12 12h.01M19 12h.01" />
                  </svg>
                  <span>More</span>
                </button>
              </li>
            `
          }
        </ul>
        <div class="rail-foot">
          ${
            account.handle &&
            html`
              <p class="who" title=${account.display_name}>
                <strong>${account.key.name}</strong>
                <span>${account.handle}</span>
              </p>
            `
          }
          <p>
            <a href="/docs">Docs</a> <a href="/pricing">Models</a>${" "}
            <button type="button" class="plain" onClick=${() => setHelp(true)}>
              Shortcuts
            </button>
          </p>
          ${
            account.handle &&
            html`
              <button type="button" class="quiet small" onClick=${leave}>
                Sign out
              </button>
            `
          }
        </div>
      </nav>
      <main id="main" tabindex="-1">
        ${children}
      </main>
    </div>
    ${isHelp && html`<${ShortcutHelp} entries=${entries} close=${() => setHelp(false)} />`}
  `;
}

function View({ account, refresh }) {
  const { parts, query } = useLocation();
  const [error, reset] = useErrorBoundary((error) => console.error(error));
  const [name, ...rest] = parts;
  useEffect(() => {
    if (!name) go("/console/create", { replace: true });
    if (error) reset();
  }, [parts.join("/")]);
  if (error)
    return html`
      <${PageHeader} title="This page has failed" />
      <${ErrorNotice} error=${error} retry=${reset} />
    `;
  const props = {
    account,
    query,
    id: rest[0],
    hasScope: (/** @type {string} */ scope) => hasScope(account, scope),
    refresh,
  };
  switch (name) {
    case undefined:
      return null;
    case "create":
      return html`<${Create} key=${rest[0]} ...${props} />`;
    case "library":
      return rest[0] === "clips" && rest[1]
        ? html`<${Clip} key=${rest[1]} ...${props} id=${rest[1]} />`
        : html`<${Library} ...${props} />`;
    case "tasks":
      return rest[0] ? html`<${TaskPage} key=${rest[0]} ...${props} />` : html`<${Tasks} ...${props} />`;
    case "spend":
      return html`<${Spend} ...${props} />`;
    case "keys":
      return html`<${Keys} ...${props} />`;
    case "webhooks":
      return rest[0] ? html`<${Endpoint} key=${rest[0]} ...${props} />` : html`<${Webhooks} ...${props} />`;
    case "requests":
      return html`<${Requests} ...${props} />`;
    case "now":
      return html`<${Overview} ...${props} />`;
    case "providers":
      return html`<${Providers} ...${props} />`;
    case "accounts":
      return html`<${Accounts} ...${props} />`;
    case "audit":
      return html`<${Audit} ...${props} />`;
    default:
      return html`
        <${PageHeader} title="Page not found" />
        <p>
          <a href="/console/create">Create something</a> or see your <a href="/console/tasks">tasks</a>.
        </p>
      `;
  }
}

function ShortcutHelp({ entries, close }) {
  const lines = [
    ["/", "Search"],
    ["?", "Show this list"],
    ["Esc", "Close"],
    ...entries.map((view) => [`g ${view.letter}`, view.name]),
  ];
  return html`
    <${Dialog} title="Keyboard shortcuts" close=${close}>
      <dl class="facts keys-list">
        ${lines.map(
          ([keys, description]) => html`
            <div key=${keys}>
              <dt>
                ${keys.split(" ").map((part) => html`<kbd>${part}</kbd>${" "}`)}
              </dt>
              <dd>${description}</dd>
            </div>
          `,
        )}
      </dl>
    <//>
  `;
}

/** Keyboard shortcuts, which work everywhere except in a field. */
function startShortcuts(entries, help) {
  let isAfterG = false;
  const press = (/** @type {KeyboardEvent} */ event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea, dialog")) return;
    const view = isAfterG && entries.find((entry) => entry.letter === event.key);
    isAfterG = event.key === "g";
    if (view) return go(`/console/${view.path}`);
    if (event.key === "?") return help();
    if (event.key !== "/") return undefined;
    event.preventDefault();
    const search = /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"));
    if (search) return search.focus();
    go("/console/tasks");
    return void setTimeout(
      () => /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"))?.focus(),
      50,
    );
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}

/** An action may remove the element that has the focus; then the focus goes to the page's title. */
function keepFocus(/** @type {Element} */ root) {
  /** @type {Element | null} */
  let focused = null;
  document.addEventListener("focusin", (event) => (focused = /** @type {Element} */ (event.target)));
  new MutationObserver(() => {
    if (document.activeElement === document.body && focused && !focused.isConnected) {
      focused = null;
      focusHeading();
    }
  }).observe(root, { childList: true, subtree: true });
}

const root = /** @type {Element} */ (document.getElementById("app"));
root.replaceChildren();
startRouter();
keepFocus(root);
render(html`<${Console} />`, root);
