// The console's entry: who is here, the navigation, and which view the address asks for.

import { html, render, useEffect, useErrorBoundary, useState } from "../vendor/preact-htm.js";
import { ApiError, call, key, session, whenDenied } from "./api.js";
import { focusHeading, go, startRouter, useAddress } from "./router.js";
import { Accounts } from "./accounts.js";
import { Submit, useAction } from "./act.js";
import { Audit } from "./audit.js";
import { Clip } from "./clip.js";
import { Create } from "./create.js";
import { Keys } from "./keys.js";
import { Library } from "./library.js";
import { Now } from "./now.js";
import { Providers } from "./providers.js";
import { Spend } from "./spend.js";
import { TaskPage } from "./task.js";
import { Tasks } from "./tasks.js";
import { Dialog, Failed, Head } from "./ui.js";
import { Endpoint, Webhooks } from "./webhooks.js";

/** The views: their place, name, icon, key after `g`, and the scope without which they are of no use. */
const VIEWS = [
  { place: "create", name: "Create", icon: "M12 4v16M4 12h16", letter: "c" },
  { place: "library", name: "Library", icon: "M4 5h16v14H4zM10 9l5 3-5 3z", letter: "l", scope: "tasks:read" },
  { place: "tasks", name: "Tasks", icon: "M4 6h16M4 12h16M4 18h10", letter: "t", scope: "tasks:read" },
  { place: "spend", name: "Spend", icon: "M5 20v-7M10 20V6M15 20v-10M20 20V4", letter: "s", scope: "tasks:read" },
  { place: "keys", name: "Keys", icon: "M8 15a4 4 0 1 1 3.5-6H20v3h-2v3h-3v-3h-3.5A4 4 0 0 1 8 15z", letter: "k" },
  { place: "webhooks", name: "Webhooks", icon: "M4 12h10M10 7l5 5-5 5M18 5v14", letter: "w", scope: "webhooks:manage" },
  { place: "now", name: "Overview", icon: "M3 12h4l3-7 4 14 3-7h4", letter: "n", scope: "admin" },
  { place: "providers", name: "Providers", icon: "M5 5h14v5H5zM5 14h14v5H5zM8 7.5h.01M8 16.5h.01", letter: "p", scope: "admin" },
  { place: "accounts", name: "Accounts", icon: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2.5 19a5.5 5.5 0 0 1 11 0M16 11a3 3 0 1 0 0-6M16 14a5.5 5.5 0 0 1 5.5 5", letter: "a", scope: "admin" },
  { place: "audit", name: "Audit", icon: "M6 3h9l4 4v14H6zM9 12h7M9 16h7", letter: "u", scope: "admin" },
];
const ICON = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]")).href;
// A phone's bar has room for these; the others are behind "More".
const IN_BAR = 4;

/** Whether a key may do something. */
const may = (account, scope) => !scope || account.key.scopes.includes(scope) || account.key.scopes.includes("admin");

function Console() {
  const [who, setWho] = useState(/** @type {{account?: any, error?: any, isIn: boolean}} */ ({ isIn: Boolean(key.read()) || session.isKept() }));
  const enter = async () => {
    try {
      if (!key.read() && !session.token) await session.resume();
      setWho({ account: await call("GET", "/v1/account"), isIn: true });
    } catch (error) {
      if (error instanceof ApiError && error.status !== 401) setWho({ error, isIn: true });
      if (error instanceof ApiError && error.passes) setTimeout(() => (key.read() || session.isKept()) && enter(), 3000);
    }
  };
  useEffect(() => {
    whenDenied((error) => {
      key.forget();
      session.forget();
      setWho({ error, isIn: false });
    });
    if (who.isIn) enter();
  }, []);
  if (!who.isIn) return html`<${SignIn} error=${who.error} done=${() => { setWho({ isIn: true }); enter(); }} />`;
  if (!who.account) return html`<${Shell} account=${{ key: { scopes: [] } }} leave=${() => {}}>
    ${who.error ? html`<${Head} title="Console" /><${Failed} error=${who.error} again=${enter} />` : html`<div class="skeleton" role="status"><span class="unseen">Loading</span><div class="bone"></div><div class="bone"></div></div>`}
  <//>`;
  const leave = async () => {
    if (!key.read()) await session.end().catch(() => session.forget());
    key.forget();
    setWho({ isIn: false });
  };
  return html`<${Shell} account=${who.account} leave=${leave}><${View} account=${who.account} refresh=${enter} /><//>`;
}

function SignIn({ error, done }) {
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
      key.keep(value.trim());
      if (stays) await session.begin();
      else await call("GET", "/v1/account");
      done();
    });
  };
  const failed = action.error || error;
  return html`<main id="main" class="door"><form class="card" onSubmit=${submit}>
    <a class="brand" href="/"><img src=${ICON} width="32" height="32" alt="" /><span>Mediagate</span></a>
    <h1 tabindex="-1">Sign in</h1>
    <div class="field"><label for="key">API key</label>
      <input id="key" type="password" required autocomplete="off" spellcheck=${false} placeholder="sk-mg-…" aria-describedby="key-help"
        value=${value} onInput=${(event) => setValue(event.target.value)} /></div>
    <label class="check"><input type="checkbox" checked=${stays} onChange=${() => setStays(!stays)} /> Stay signed in for 12 hours, in every tab</label>
    <${Failed} error=${failed} />
    <${Submit} busy=${action.busy}>${action.busy ? "Signing in" : "Sign in"}<//>
    <p class="fine" id="key-help">${stays ? "The key is exchanged for a cookie that scripts cannot read. Signing out ends the session in every tab." : "The key stays in this tab and is sent only to this gateway. It is removed when you close the tab."}
      Create a key with <code>mediagate keys create --name me</code>.</p>
  </form></main>`;
}

function Shell({ account, leave, children }) {
  const { parts } = useAddress();
  const [isHelp, setHelp] = useState(false);
  const entries = VIEWS.filter((view) => may(account, view.scope));
  const [isMore, setMore] = useState(false);
  useEffect(() => setMore(false), [parts[0]]);
  useEffect(() => startKeys(entries, () => setHelp(true)), [entries.length]);
  const entry = (view) => html`<li key=${view.place}><a href=${`/console/${view.place}`} aria-current=${parts[0] === view.place ? "page" : undefined}>
    <svg viewBox="0 0 24 24" aria-hidden="true"><path d=${view.icon} /></svg><span>${view.name}</span></a></li>`;
  const isBeyond = entries.slice(IN_BAR).some((view) => view.place === parts[0]);
  return html`<a class="skip" href="#main">Skip to content</a><div class="shell">
    <nav class=${isMore ? "rail more-open" : "rail"} aria-label="Console">
      <a class="brand" href="/"><img src=${ICON} width="26" height="26" alt="" /><span>Mediagate</span></a>
      <ul>${entries.map(entry)}
        ${entries.length > IN_BAR && html`<li class="more"><button type="button" class=${isBeyond ? "here" : ""} aria-expanded=${String(isMore)} onClick=${() => setMore(!isMore)}>
          <svg class="dots" viewBox="0 0 24 24" aria-hidden="true"><path d="M5 12h.01M12 12h.01M19 12h.01" /></svg><span>More</span></button></li>`}</ul>
      <div class="rail-foot">
        ${account.handle && html`<p class="who" title=${account.display_name}><strong>${account.key.name}</strong><span>${account.handle}</span></p>`}
        <p><a href="/docs">Docs</a> <a href="/pricing">Models</a> <button type="button" class="plain" onClick=${() => setHelp(true)}>Shortcuts</button></p>
        ${account.handle && html`<button type="button" class="quiet small" onClick=${leave}>Sign out</button>`}
      </div>
    </nav>
    <main id="main" tabindex="-1">${children}</main>
  </div>${isHelp && html`<${Help} entries=${entries} close=${() => setHelp(false)} />`}`;
}

function View({ account, refresh }) {
  const { parts, query } = useAddress();
  const [broken, mend] = useErrorBoundary((error) => console.error(error));
  const [place, ...rest] = parts;
  useEffect(() => {
    if (!place) go("/console/create", { replace: true });
    if (broken) mend();
  }, [parts.join("/")]);
  if (broken) return html`<${Head} title="This page has failed" /><${Failed} error=${broken} again=${mend} />`;
  const props = { account, query, id: rest[0], may: (/** @type {string} */ scope) => may(account, scope), refresh };
  switch (place) {
    case undefined: return null;
    case "create": return html`<${Create} key=${rest[0]} ...${props} />`;
    case "library": return rest[0] === "clips" && rest[1] ? html`<${Clip} key=${rest[1]} ...${props} id=${rest[1]} />` : html`<${Library} ...${props} />`;
    case "tasks": return rest[0] ? html`<${TaskPage} key=${rest[0]} ...${props} />` : html`<${Tasks} ...${props} />`;
    case "spend": return html`<${Spend} ...${props} />`;
    case "keys": return html`<${Keys} ...${props} />`;
    case "webhooks": return rest[0] ? html`<${Endpoint} key=${rest[0]} ...${props} />` : html`<${Webhooks} ...${props} />`;
    case "now": return html`<${Now} ...${props} />`;
    case "providers": return html`<${Providers} ...${props} />`;
    case "accounts": return html`<${Accounts} ...${props} />`;
    case "audit": return html`<${Audit} ...${props} />`;
    default: return html`<${Head} title="Page not found" /><p><a href="/console/create">Create something</a> or see your <a href="/console/tasks">tasks</a>.</p>`;
  }
}

function Help({ entries, close }) {
  const lines = [["/", "Search"], ["?", "Show this list"], ["Esc", "Close"], ...entries.map((view) => [`g ${view.letter}`, view.name])];
  return html`<${Dialog} title="Keyboard shortcuts" close=${close}><dl class="facts keys-list">${lines.map(
    ([keys, what]) => html`<div key=${keys}><dt>${keys.split(" ").map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl><//>`;
}

/** Keys that work anywhere but in a field. */
function startKeys(entries, help) {
  let isGoing = false;
  const press = (/** @type {KeyboardEvent} */ event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea, dialog")) return;
    const view = isGoing && entries.find((one) => one.letter === event.key);
    isGoing = event.key === "g";
    if (view) return go(`/console/${view.place}`);
    if (event.key === "?") return help();
    if (event.key !== "/") return undefined;
    event.preventDefault();
    const search = /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"));
    if (search) return search.focus();
    go("/console/tasks");
    return void setTimeout(() => /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"))?.focus(), 50);
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}

/** What had the focus may vanish with an action; the focus then goes to the page's title, not to nowhere. */
function keepFocus(/** @type {Element} */ place) {
  /** @type {Element | null} */
  let last = null;
  document.addEventListener("focusin", (event) => (last = /** @type {Element} */ (event.target)));
  new MutationObserver(() => {
    if (document.activeElement === document.body && last && !last.isConnected) {
      last = null;
      focusHeading();
    }
  }).observe(place, { childList: true, subtree: true });
}

const place = /** @type {Element} */ (document.getElementById("app"));
place.replaceChildren();
startRouter();
keepFocus(place);
render(html`<${Console} />`, place);
