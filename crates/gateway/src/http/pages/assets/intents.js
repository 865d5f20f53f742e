// One paid thing for each filled form: its `Idempotency-Key` is kept until its result is shown, so that a lost
// connection, a reload or a second click finds the task that is there instead of paying for another.

import { ApiError, call, wait } from "./api.js";

const PAUSE_MS = 1500;

/** What this form was sent as, and what came of it so far. */
export class Intent {
  /** The one that is kept for the form if it was filled in like this, else a new one. */
  static of(form) {
    const kept = read(form.id);
    const print = printOf(form);
    return kept && kept.print === print ? new Intent(form.id, kept) : new Intent(form.id, { print, key: newKey() });
  }

  /** One whose task is still to be shown, after a reload. */
  static unfinished(form) {
    const kept = read(form.id);
    return kept && kept.task ? new Intent(form.id, kept) : undefined;
  }

  constructor(name, kept) {
    this.name = name;
    this.kept = kept;
    this.write();
  }

  get task() {
    return this.kept.task;
  }

  set task(id) {
    this.kept.task = id;
    this.write();
  }

  write() {
    sessionStorage.setItem(place(this.name), JSON.stringify(this.kept));
  }

  /** Its result, or its refusal, is shown: the next click is another order. */
  done() {
    sessionStorage.removeItem(place(this.name));
  }

  /** Asks for what costs, until there is an answer; the same step is the same request, however often it is sent. */
  async ask(step, path, body, say) {
    for (;;) {
      try {
        return await call("POST", path, body, `${this.kept.key}-${step}`);
      } catch (error) {
        if (!isAway(error)) throw this.refused(error);
        say("connection lost, asking again; nothing is paid twice", true);
        await wait(PAUSE_MS);
      }
    }
  }

  /** Reads its task, for as long as it takes to reach the gateway. */
  async look(say) {
    for (;;) {
      try {
        return await call("GET", `/v1/tasks/${encodeURIComponent(this.task)}`);
      } catch (error) {
        if (!isAway(error) && error.status !== 429) throw this.refused(error);
        say("connection lost, your task goes on", true);
        await wait(PAUSE_MS);
      }
    }
  }

  // What another key or a minute's patience mends says nothing about the order.
  refused(error) {
    if (error instanceof ApiError && ![401, 429].includes(error.status)) this.done();
    return error;
  }
}

/** Whether the gateway, or what stands before it, could not be asked. */
function isAway(error) {
  if (!(error instanceof ApiError)) return false;
  return error.status === 0 || error.status === 502 || error.status === 504
    || (error.status === 503 && ["", "shutting_down", "overloaded"].includes(error.code));
}

function place(name) {
  return `mediagate.intent.${name}`;
}

function read(name) {
  try {
    return JSON.parse(sessionStorage.getItem(place(name)));
  } catch {
    return undefined;
  }
}

function printOf(form) {
  const fields = [...new FormData(form)].map(([name, value]) =>
    [name, value instanceof File ? [value.name, value.size, value.lastModified] : value]);
  return JSON.stringify(fields);
}

// Not `crypto.randomUUID`, which pages that came by plain HTTP do not have.
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
