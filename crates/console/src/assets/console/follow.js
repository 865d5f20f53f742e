// Orders: what a form asked for, sent once and followed to its end. Knows no view.
//
// Each filled form has one `Idempotency-Key`, drawn at the click that orders, before anything is read or sent. It is
// kept until the result has been shown: whoever sends the form again before that, while a song is handed in, after a
// lost connection or a reload, joins the task that there is.

import { ApiError, call, follow, insist, newIntent } from "./api.js";
import { ended } from "./ui.js";

const PREFIX = "mediagate.order.";
// Larger orders, those with a picture, are remembered by their task only.
const LARGEST = 500_000;

/**
 * `mark` tells forms apart; `body` is empty until all that goes into it is there.
 * @typedef {{intent: string, mark: string, path: string, body: string, task?: string}} Order
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
 * @param {string} mark
 * @returns {Order}
 */
export function ordered(place, path, mark) {
  const before = kept(place);
  if (before?.mark === mark) return before;
  const order = { intent: newIntent(), mark, path, body: "" };
  keep(place, order);
  return order;
}

/**
 * Fills and sends an order, unless it has its task already, and follows it to its end.
 * @param {string} place
 * @param {Order} order
 * @param {{fill: () => Promise<Record<string, any>>, seen: (task: any) => void, lost: (isLost: boolean) => void, signal: AbortSignal}} how
 *   `fill` reads and hands in what goes into the body
 */
export async function pursue(place, order, { fill, seen, lost, signal }) {
  let id = order.task;
  if (!id) {
    try {
      if (!order.body) {
        order.body = JSON.stringify(await fill());
        if (!signal.aborted) keep(place, order);
      }
      const made = await insist(() => call("POST", order.path, order.body, { intent: order.intent, signal }), { lost, signal });
      id = taskOf(made.id);
    } catch (error) {
      // A refused order made nothing: the next one is new.
      if (!signal.aborted && error instanceof ApiError && error.isRefusal) forget(place);
      throw error;
    }
    order.task = id;
    if (!signal.aborted) keep(place, order);
  }
  const path = `/v1/tasks/${encodeURIComponent(id)}`;
  let task;
  try {
    task = await insist(() => call("GET", path, undefined, { signal }), { lost, signal });
  } catch (error) {
    // Its record is gone: nobody can be led to it any more.
    if (!signal.aborted && error instanceof ApiError && error.isRefusal) forget(place);
    throw error;
  }
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
  if (ended(task) && !signal.aborted) forget(place);
  return task;
}

/** A video's id is its task's id without dashes behind `video_`. @param {string} id */
function taskOf(id) {
  const digits = id.replace(/^video_/, "");
  return /^[0-9a-f]{32}$/i.test(digits) ? digits.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5") : id;
}
