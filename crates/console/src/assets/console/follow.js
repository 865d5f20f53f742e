// Orders: the request of a form, sent once and followed to its end. Independent of the views.
//
// Each filled form has one `Idempotency-Key`, generated at the click on the button, before anything is read or sent.
// The key is stored until the result has been shown. If the form is sent again before that (during an upload, after a
// lost connection or a reload), no second task is made; the existing one is followed.

import { ApiError, call, follow, retryUntilResponse, newIntent } from "./api.js";
import { isEnded } from "./ui.js";

const PREFIX = "mediagate.order.";
// Larger orders, those with a picture, are stored without their body.
const MAX_STORED_CHARS = 500_000;

/**
 * `mark` tells forms apart; `body` is empty until all of its parts are ready.
 * @typedef {{intent: string, mark: string, path: string, body: string, task?: string}} Order
 */

/** The order that a model's form still waits for. @param {string} modelId @returns {Order | undefined} */
export function storedOrder(modelId) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + modelId) || "null") || undefined;
  } catch {
    return undefined;
  }
}

/** @param {string} modelId @param {Order | undefined} order */
function storeOrder(modelId, order) {
  const name = PREFIX + modelId;
  if (!order) return sessionStorage.removeItem(name);
  const body = order.body.length > MAX_STORED_CHARS ? "" : order.body;
  return sessionStorage.setItem(name, JSON.stringify({ ...order, body }));
}

/** @param {string} modelId */
export function forgetOrder(modelId) {
  storeOrder(modelId, undefined);
}

/**
 * The order of a filled form: the stored one if the form has not changed since, otherwise a new one.
 * @param {string} modelId
 * @param {string} path
 * @param {string} mark
 * @returns {Order}
 */
export function orderFor(modelId, path, mark) {
  const stored = storedOrder(modelId);
  if (stored?.mark === mark) return stored;
  const order = { intent: newIntent(), mark, path, body: "" };
  storeOrder(modelId, order);
  return order;
}

/**
 * Fills and sends an order, unless it already has a task, and follows the task to its end.
 * @param {string} modelId
 * @param {Order} order
 * @param {object} options
 * @param {() => Promise<Record<string, any>>} options.fill reads and uploads the files and returns the body
 * @param {(task: any) => void} options.onTask
 * @param {(isLost: boolean) => void} options.onLost
 * @param {AbortSignal} options.signal
 */
export async function sendAndFollow(modelId, order, { fill, onTask, onLost, signal }) {
  let id = order.task;
  if (!id) {
    try {
      if (!order.body) {
        order.body = JSON.stringify(await fill());
        if (!signal.aborted) storeOrder(modelId, order);
      }
      const response = await retryUntilResponse(
        () => call("POST", order.path, order.body, { intent: order.intent, signal }),
        {
          onLost,
          signal,
        },
      );
      // With `submit_body = "job"` a music task's response has only its id, in `data`.
      id = taskId(response.id ?? response.data);
    } catch (error) {
      // A refused order made nothing, so the next attempt gets a new key.
      if (!signal.aborted && error instanceof ApiError && error.isRefusal) forgetOrder(modelId);
      throw error;
    }
    order.task = id;
    if (!signal.aborted) storeOrder(modelId, order);
  }
  const path = `/v1/tasks/${encodeURIComponent(id)}`;
  let task;
  try {
    task = await retryUntilResponse(() => call("GET", path, undefined, { signal }), { onLost, signal });
  } catch (error) {
    // The task no longer exists, so the order cannot be continued.
    if (!signal.aborted && error instanceof ApiError && error.isRefusal) forgetOrder(modelId);
    throw error;
  }
  onTask(task);
  if (!isEnded(task)) {
    await follow(`${path}/events`, {
      signal,
      onLost,
      onEvent: (name, data) => {
        if (name !== "task") return false;
        task = data;
        onTask(task);
        return isEnded(task);
      },
    });
  }
  if (isEnded(task) && !signal.aborted) forgetOrder(modelId);
  return task;
}

/**
 * The task id for the id in a response. A video's id is `video_` and its task's id without dashes.
 * @param {string} id
 */
function taskId(id) {
  const digits = id.replace(/^video_/, "");
  return /^[0-9a-f]{32}$/i.test(digits) ? digits.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5") : id;
}
