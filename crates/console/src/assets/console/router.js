// Addresses: the address determines what is shown, and links change it without loading the page again.

import { useEffect, useState } from "../vendor/preact-htm.js";

const ROOT = "/console/";
/** @type {Set<() => void>} */
const watchers = new Set();

/** The parts of the address below `/console/`, and its query. */
export function here() {
  const path = location.pathname.startsWith(ROOT) ? location.pathname.slice(ROOT.length) : "";
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(location.search) };
}

/**
 * Shows another address. A change of the query alone leaves the focus where it is.
 * @param {string} address
 */
export function go(address, { replace = false } = {}) {
  const before = location.pathname;
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  changed(before);
}

/**
 * The current address with some of its query changed; an empty value removes a parameter.
 * @param {Record<string, string | undefined>} changes
 */
export function withQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  return location.pathname + (text ? `?${text}` : "");
}

/** The parts of the address; the component is drawn again when the address changes. */
export function useAddress() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const watch = () => redraw((count) => count + 1);
    watchers.add(watch);
    return () => void watchers.delete(watch);
  }, []);
  return here();
}

/** Handles links into the console, and Back and Forward. */
export function startRouter() {
  let shown = location.pathname;
  window.addEventListener("popstate", () => {
    changed(shown);
    shown = location.pathname;
  });
  watchers.add(() => (shown = location.pathname));
  document.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    const link = /** @type {HTMLAnchorElement | null} */ (target.closest("a[href]"));
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || !link.pathname.startsWith(ROOT) || link.hash) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}

/** @param {string} before */
function changed(before) {
  for (const watch of watchers) watch();
  if (location.pathname === before) return;
  window.scrollTo(0, 0);
  // Screen readers announce the new page's title, and the focus is not lost with the old page.
  requestAnimationFrame(() => focusHeading());
}

export function focusHeading() {
  const heading = /** @type {HTMLElement | null} */ (
    document.querySelector("main h1") || document.querySelector("main")
  );
  heading?.focus({ preventScroll: true });
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
