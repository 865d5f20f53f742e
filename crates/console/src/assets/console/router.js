// The router: the URL determines what is shown, and links change it without loading the page again.

import { useEffect, useState } from "../vendor/preact-htm.js";

const ROOT = "/console/";
/** @type {Set<() => void>} */
const watchers = new Set();

/** The parts of the URL below `/console/`, and its query. */
export function currentLocation() {
  const path = location.pathname.startsWith(ROOT) ? location.pathname.slice(ROOT.length) : "";
  return { parts: path.split("/").filter(Boolean).map(decodePart), query: new URLSearchParams(location.search) };
}

/**
 * Shows another URL. A change of the query alone leaves the focus where it is.
 * @param {string} url
 */
export function go(url, { replace = false } = {}) {
  const before = location.pathname;
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  showLocation(before);
}

/**
 * The current URL with some of its query changed; an empty value removes a parameter.
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

/** The parts of the URL; the component is drawn again when it changes. */
export function useLocation() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const watch = () => redraw((count) => count + 1);
    watchers.add(watch);
    return () => void watchers.delete(watch);
  }, []);
  return currentLocation();
}

/** Handles links into the console, and Back and Forward. */
export function startRouter() {
  let shown = location.pathname;
  window.addEventListener("popstate", () => {
    showLocation(shown);
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
function showLocation(before) {
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
function decodePart(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
