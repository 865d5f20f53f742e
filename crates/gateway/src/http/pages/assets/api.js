// The gateway's API as this page calls it, and how page elements are made. Knows no screen.

const KEY = "mediagate.key";
let onDenied = () => {};

/** An error that the API answered, in its own words. */
export class ApiError extends Error {
  constructor(status, error, requestId) {
    super(error.message || `The gateway answered ${status}.`);
    this.status = status;
    this.code = error.code || "";
    this.requestId = error.request_id || requestId || "";
  }
}

export const key = {
  // Session storage ends with the tab, and no other tab or site can read it.
  read: () => sessionStorage.getItem(KEY),
  keep: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

/** What to do when the key is refused. */
export function whenDenied(action) {
  onDenied = action;
}

/** Calls the API with the key; answers the JSON, throws an ApiError. `intent` is an `Idempotency-Key`. */
export async function call(method, path, body, intent) {
  const used = key.read();
  const headers = { Accept: "application/json", Authorization: `Bearer ${used}` };
  if (intent) headers["Idempotency-Key"] = intent;
  let payload = body;
  if (body !== undefined && !(body instanceof FormData)) {
    headers["Content-Type"] = "application/json";
    payload = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, { method, headers, body: payload, cache: "no-store" });
  } catch {
    throw new ApiError(0, { message: "The gateway cannot be reached." });
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  const error = new ApiError(response.status, answer.error || {}, response.headers.get("x-request-id"));
  // An answer to an older key says nothing about the present one.
  if (response.status === 401 && used === key.read()) onDenied(error);
  throw error;
}

/** Fetches a file with the key and hands it to the browser's downloads. */
export async function download(path, name) {
  const response = await fetch(path, { headers: { Authorization: `Bearer ${key.read()}` }, cache: "no-store" });
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new ApiError(response.status, answer.error || {}, response.headers.get("x-request-id"));
  }
  const address = URL.createObjectURL(await response.blob());
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** One line that says what went wrong and what to quote to the operator. */
export function tell(error) {
  return error.requestId ? `${error.message} (request ${error.requestId})` : error.message;
}

/** An element with properties and children; text goes in as text, never as markup. */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [property, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (property.includes("-")) element.setAttribute(property, value);
    else element[property] = value;
  }
  element.append(...children.filter((child) => child !== undefined && child !== null && child !== ""));
  return element;
}

/** The element with this id. */
export function at(id) {
  return document.getElementById(id);
}

/** An address from an answer, or nothing when a browser should not follow it. */
export function safeAddress(text) {
  try {
    const address = new URL(text, location.href);
    return ["http:", "https:"].includes(address.protocol) ? sameGateway(address) : undefined;
  } catch {
    return undefined;
  }
}

// A gateway behind another name signs addresses with its public one; the page may only load from its own.
// The signature covers the path, so the path can be asked of this origin.
function sameGateway(address) {
  return address.pathname.startsWith("/media/") ? address.pathname + address.search : address.href;
}

export function wait(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
