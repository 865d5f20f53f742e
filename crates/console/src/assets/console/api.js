// The gateway's API as the console calls it. Independent of the views.

const KEY = "mediagate.key";
const SESSION = "mediagate.session";
const SLOWEST_MS = 5000;
const settings = document.body.dataset;

export const brand = settings.brand || "";
export const origin = settings.origin || location.origin;

/** An error of the API, with its message. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 if the gateway did not respond
   * @param {Record<string, any>} error
   * @param {string} [requestId]
   */
  constructor(status, error, requestId) {
    super(error.message || `The gateway returned ${status}.`);
    this.status = status;
    this.code = error.code || "";
    this.param = error.param || "";
    this.requestId = error.request_id || requestId || "";
  }

  /** Whether the same request may succeed a little later. */
  get isTemporary() {
    return this.status === 0 || ["shutting_down", "overloaded"].includes(this.code);
  }

  /** Whether it is certain that nothing was made. A proxy's 502 leaves that open. */
  get isRefusal() {
    return this.status >= 400 && this.status < 500;
  }
}

export const key = {
  // Session storage ends with the tab, and no other site can read it.
  read: () => sessionStorage.getItem(KEY),
  store: (/** @type {string} */ value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

/**
 * The other way to sign in: a cookie that no script can read, valid in every tab for twelve hours. Writes carry a
 * token that proves that they come from this page.
 */
export const session = {
  token: "",
  // Whether this browser may have a session, so that it is worth asking for one.
  isExpected: () => localStorage.getItem(SESSION) !== null,
  begin: async () => {
    const begun = await call("POST", "/v1/session");
    session.token = begun.csrf_token;
    localStorage.setItem(SESSION, begun.expires_at);
    key.forget();
  },
  resume: async () => {
    session.token = (await call("GET", "/v1/session")).csrf_token;
  },
  end: async () => {
    await call("DELETE", "/v1/session");
    session.forget();
  },
  forget: () => {
    session.token = "";
    localStorage.removeItem(SESSION);
  },
};

/** @type {(error: ApiError) => void} */
let onDenied = () => {};

/** Requests other than `GET` that are safe to repeat without an `Idempotency-Key`. */
const REPEATABLE = ["/v1/quote", "/v1/session"];

/** @param {(error: ApiError) => void} action called when the key is refused */
export function whenDenied(action) {
  onDenied = action;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {any} [body] sent as JSON, a form as it is
 * @param {{signal?: AbortSignal, intent?: string}} [options] `intent`: for every write, the same for all its attempts
 * @returns {Promise<any>}
 */
export async function call(method, path, body, options = {}) {
  const response = await request(method, path, body, options);
  if (response.status === 204) return {};
  try {
    return await response.json();
  } catch (error) {
    if (options.signal?.aborted) throw error;
    // The connection ended within the response, so its content is not known: the same as no response.
    throw new ApiError(0, { message: "The gateway's response was incomplete." });
  }
}

/**
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @param {{signal?: AbortSignal, intent?: string, headers?: Record<string, string>}} [options]
 */
async function request(method, path, body, { signal, intent, headers: extraHeaders } = {}) {
  if (method !== "GET" && !intent && !REPEATABLE.includes(path))
    throw new Error(`${method} ${path} could be done twice.`);
  const sentKey = key.read();
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", ...extraHeaders };
  if (sentKey) headers.Authorization = `Bearer ${sentKey}`;
  else if (method !== "GET") headers["X-CSRF-Token"] = session.token;
  if (intent) headers["Idempotency-Key"] = intent;
  let payload = body;
  if (body !== undefined && !(body instanceof FormData)) {
    headers["Content-Type"] = "application/json";
    payload = typeof body === "string" ? body : JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, { method, headers, body: payload, signal, cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { message: "The gateway cannot be reached." });
  }
  if (response.ok) return response;
  const content = await response.json().catch(() => ({}));
  const error = new ApiError(response.status, content.error || {}, response.headers.get("x-request-id") || "");
  // A response to an older key says nothing about the current one.
  if (response.status === 401 && sentKey === key.read()) onDenied(error);
  throw error;
}

/**
 * Fetches a file with the key.
 * @param {string} path
 */
export async function file(path) {
  const response = await request("GET", path, undefined, { headers: { Accept: "*/*" } });
  return response.blob();
}

/**
 * Hands a file of the API to the browser's downloads, under the name that the API gives it.
 * @param {string} path
 * @param {string} name used if the API gives none
 */
export async function download(path, name) {
  const response = await request("GET", path, undefined, { headers: { Accept: "*/*" } });
  const match = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("content-disposition") || "");
  save(await response.blob(), match ? decodeURIComponent(match[1]) : name);
}

/**
 * Hands a file to the browser's downloads.
 * @param {Blob} blob
 * @param {string} name
 */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * Follows a stream of server-sent events until `onEvent` returns true. A lost connection is resumed where it ended; a
 * hidden tab requests nothing.
 * @param {string} path
 * @param {object} options
 * @param {(name: string, data: any) => boolean | void} options.onEvent
 * @param {(isLost: boolean) => void} [options.onLost]
 * @param {AbortSignal} options.signal
 */
export async function follow(path, { onEvent, onLost = () => {}, signal }) {
  let lastId = "";
  let pause = 500;
  while (!signal.aborted) {
    await visible(signal);
    const connection = new AbortController();
    const stop = () => connection.abort();
    const hide = () => document.hidden && stop();
    signal.addEventListener("abort", stop);
    document.addEventListener("visibilitychange", hide);
    try {
      /** @type {Record<string, string>} */
      const headers = { Accept: "text/event-stream" };
      if (lastId) headers["Last-Event-ID"] = lastId;
      const response = await request("GET", path, undefined, { signal: connection.signal, headers });
      onLost(false);
      pause = 500;
      for await (const event of eventsIn(response)) {
        if (event.id) lastId = event.id;
        if (onEvent(event.name, JSON.parse(event.data))) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && !error.isTemporary) throw error;
      if (!document.hidden) onLost(true);
    } finally {
      signal.removeEventListener("abort", stop);
      document.removeEventListener("visibilitychange", hide);
    }
    if (!document.hidden) await sleep(pause, signal);
    pause = Math.min(2 * pause, SLOWEST_MS);
  }
}

/** @param {Response} response */
async function* eventsIn(response) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const blocks = text.split(/\r?\n\r?\n/);
      text = blocks.pop() || "";
      for (const block of blocks) {
        const event = { name: "message", id: "", data: "" };
        for (const line of block.split(/\r?\n/)) {
          const [, field, value] = /^([a-z]+): ?(.*)$/.exec(line) || [];
          if (field === "event") event.name = value;
          if (field === "id") event.id = value;
          if (field === "data") event.data += (event.data && "\n") + value;
        }
        if (event.data) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * Repeats an action until the gateway responds. The action must be safe to repeat.
 * @template T
 * @param {() => Promise<T>} action
 * @param {{onLost: (isLost: boolean) => void, signal: AbortSignal}} options
 * @returns {Promise<T>}
 */
export async function retryUntilResponse(action, { onLost, signal }) {
  for (let pause = 500; ; pause = Math.min(2 * pause, SLOWEST_MS)) {
    try {
      const result = await action();
      onLost(false);
      return result;
    } catch (error) {
      if (!(error instanceof ApiError) || !error.isTemporary || signal.aborted) throw error;
      onLost(true);
    }
    await sleep(pause, signal);
    await visible(signal);
  }
}

/**
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}

/**
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function visible(signal) {
  return new Promise((resolve) => {
    if (!document.hidden || signal.aborted) return resolve();
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      signal.removeEventListener("abort", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check);
  });
}

/** A value for `Idempotency-Key`; works on plain HTTP too, where `randomUUID` is missing. */
export function newIntent(name = "console") {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `${name}-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/**
 * A URL from a response, if a browser may follow it. The gateway writes its public name into URLs, but a page may load
 * only from its own origin. The signature covers only the path, so the path is requested from this origin.
 * @param {string | null | undefined} text
 */
export function safeUrl(text) {
  if (!text) return undefined;
  try {
    const parsed = new URL(text, location.href);
    if (parsed.pathname.startsWith("/media/")) return parsed.pathname + parsed.search;
    return ["http:", "https:"].includes(parsed.protocol) ? parsed.href : undefined;
  } catch {
    return undefined;
  }
}

/** @param {Record<string, any>} values */
export function queryString(values) {
  const present = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(present.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}
