// Actions of buttons and forms: each runs once, however often it is pressed.

import { html, useRef, useState } from "../vendor/preact-htm.js";
import { ApiError, call, newIntent } from "./api.js";

/**
 * Sends a write. A repeated write has the same `Idempotency-Key` until the action that it belongs to has succeeded.
 * @typedef {(method: string, path: string, body?: any) => Promise<any>} Send
 */

/**
 * Runs one action at a time; its error is shown beside the button. The writes of an action get their keys at the first
 * click: a click after a lost response sends them again with the same keys, and nothing is made twice.
 */
export function useAction() {
  const [state, setState] = useState(/** @type {{busy: boolean, error: any}} */ ({ busy: false, error: undefined }));
  const busy = useRef(false);
  const intents = useRef(/** @type {Map<string, string>} */ (new Map()));
  /** @type {Send} */
  const send = async (method, path, body) => {
    const step = JSON.stringify([method, path, body]);
    const intent = intents.current.get(step) || newIntent();
    intents.current.set(step, intent);
    try {
      return await call(method, path, body, { intent });
    } catch (error) {
      // A refused step made nothing, so the next attempt gets a new key.
      if (error instanceof ApiError && error.isRefusal) intents.current.delete(step);
      throw error;
    }
  };
  const run = async (/** @type {(send: Send) => Promise<any>} */ action) => {
    if (busy.current) return undefined;
    busy.current = true;
    setState({ busy: true, error: undefined });
    try {
      const result = await action(send);
      intents.current.clear();
      setState({ busy: false, error: undefined });
      return result;
    } catch (error) {
      setState({ busy: false, error });
      return undefined;
    } finally {
      busy.current = false;
    }
  };
  return { ...state, run };
}

/** Whether a click is the second one of a double click, which must have no effect of its own. */
const isRepeated = (/** @type {MouseEvent} */ event) => event.detail > 1;

/** A button that sends a write and shows when it is in progress. */
export function ActionButton({ action, request, kind = "", label = undefined, children }) {
  const [isMine, setMine] = useState(false);
  const isBusy = action.busy && isMine;
  const press = (/** @type {MouseEvent} */ event) => {
    if (isRepeated(event) || isBusy) return;
    setMine(true);
    action.run(request).finally(() => setMine(false));
  };
  return html`
    <button
      type="button"
      data-writes
      class=${kind}
      aria-label=${label}
      aria-disabled=${action.busy}
      aria-busy=${isBusy}
      onClick=${press}
    >
      ${children}
    </button>
  `;
}

/** The button of a form that sends a write. With `joins` it can be pressed again while the write is in progress. */
export function SubmitButton({ busy, joins = false, children }) {
  const press = (/** @type {MouseEvent} */ event) => {
    if (isRepeated(event)) event.preventDefault();
  };
  return html`
    <button type="submit" data-writes aria-disabled=${busy && !joins} aria-busy=${busy} onClick=${press}>
      ${children}
    </button>
  `;
}
