// Orders: what a form asked for, sent once and followed to its end. Knows no view.
//
// Each filled form has one `Idempotency-Key`, which is kept until its result has been shown: whoever sends
// the form again before that, after a lost connection or a reload, joins the task that there is.

import { ApiError, call, follow, insist, newIntent } from "./api.js";
import { ended } from "./ui.js";

const PREFIX = "mediagate.order.";
// Larger orders, those with a picture, are remembered by their task only.
const LARGEST = 500_000;

/**
 * @typedef {{intent: string, path: string, body: string, mark: string, task?: string}} Order
 */

/** What a form at this place still waits for. @param {string} place @returns {Order | undefined} */
export function kept(place) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + place) || "null") || undefined;
  } catch {
    return undefined;
  }
}

/** @param {string} place @param {Order | undefined} order */
function keep(place, order) {
  const name = PREFIX + place;
  if (!order) return sessionStorage.removeItem(name);
  const body = order.body.length > LARGEST ? "" : order.body;
  return sessionStorage.setItem(name, JSON.stringify({ ...order, body }));
}

/** @param {string} place */
export function forget(place) {
  keep(place, undefined);
}

/**
 * The order of a filled form: the one that is kept, if the form has not changed since.
 * @param {string} place
 * @param {string} path
 * @param {Record<string, any>} body
 * @returns {Promise<Order>}
 */
export async function ordered(place, path, body) {
  const text = JSON.stringify(body);
  const mark = await digest(path + text);
  const before = kept(place);
  if (before?.mark === mark) return { ...before, body: text };
  const order = { intent: newIntent(), path, body: text, mark };
  keep(place, order);
  return order;
}

/**
 * Sends an order, unless it has its task already, and follows it to its end.
 * @param {string} place
 * @param {Order} order
 * @param {{seen: (task: any) => void, lost: (isLost: boolean) => void, signal: AbortSignal}} how
 */
export async function pursue(place, order, { seen, lost, signal }) {
  let id = order.task;
  if (!id) {
    try {
      const made = await insist(() => call("POST", order.path, order.body, { intent: order.intent, signal }), { lost, signal });
      id = taskOf(made.id);
    } catch (error) {
      // A refused order made nothing: the next one is new.
      if (!signal.aborted && error instanceof ApiError && !error.passes) forget(place);
      throw error;
    }
    if (!signal.aborted) keep(place, { ...order, task: id });
  }
  const path = `/v1/tasks/${encodeURIComponent(id)}`;
  let task = await insist(() => call("GET", path, undefined, { signal }), { lost, signal });
  seen(task);
  if (!ended(task)) {
    await follow(`${path}/events`, {
      signal,
      lost,
      seen: (name, data) => {
        if (name !== "task") return false;
        task = data;
        seen(task);
        return ended(task);
      },
    });
  }
  if (ended(task)) forget(place);
  return task;
}

/** A video's id is its task's id without dashes behind `video_`. @param {string} id */
function taskOf(id) {
  const digits = id.replace(/^video_/, "");
  return /^[0-9a-f]{32}$/i.test(digits) ? digits.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5") : id;
}

/** Tells forms apart; `crypto.subtle` is missing on plain HTTP. @param {string} text */
async function digest(text) {
  if (!crypto.subtle) return `${text.length}:${[...text].reduce((hash, one) => Math.imul(hash, 31) + one.charCodeAt(0), 7) >>> 0}`;
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
