// The list of recent tasks, kept up to date while the page is visible, and the dialog that shows one task.

import { at, call, make, safeAddress, tell } from "./api.js";
import { provenanceLines } from "./provenance.js";

const INTERVAL_MS = 2000;
let timer;
let asking = false;
let running = false;
let shown; // { id, mark }: the task in the dialog and the state it was drawn in
const rows = new Map(); // id -> { row, mark }

export function startTasks() {
  running = true;
  refresh();
}

export function stopTasks() {
  running = false;
  clearTimeout(timer);
  rows.clear();
  at("task-rows").replaceChildren();
}

/** Asks now instead of at the next tick. */
export async function refresh() {
  clearTimeout(timer);
  // Two answers under way could arrive in the wrong order; the one that is coming will do.
  if (!running || asking || document.hidden) return;
  asking = true;
  try {
    const answer = await call("GET", "/v1/tasks?limit=50");
    if (running) draw(answer.data || []);
  } catch (error) {
    at("tasks-error").textContent = tell(error);
    at("tasks-error").hidden = false;
    at("live").textContent = "not up to date";
  } finally {
    asking = false;
    if (running) timer = setTimeout(refresh, INTERVAL_MS);
  }
}

export async function openTask(id) {
  shown = { id, mark: "" };
  at("detail-title").textContent = "Task";
  at("detail-body").replaceChildren(make("p", { className: "muted" }, "loading"));
  if (!at("detail").open) at("detail").showModal();
  await drawDetail(id);
}

function draw(tasks) {
  at("tasks-error").hidden = true;
  at("no-tasks").hidden = tasks.length > 0;
  const open = tasks.filter((task) => !ended(task)).length;
  setText(at("live"), open ? `live · ${open} under way` : "live");
  const body = at("task-rows");
  const present = new Set(tasks.map((task) => task.id));
  for (const [id, kept] of rows) {
    if (present.has(id)) continue;
    kept.row.remove();
    rows.delete(id);
  }
  tasks.forEach((task, index) => {
    const kept = rows.get(task.id) || { row: make("tr"), mark: "" };
    rows.set(task.id, kept);
    const now = mark(task);
    // Untouched rows keep their elements, so that focus and selection survive the refresh.
    if (kept.mark !== now) {
      const focused = kept.row.contains(document.activeElement) && document.activeElement.className;
      kept.row.replaceChildren(...cells(task));
      kept.mark = now;
      if (focused) (kept.row.querySelector(`.${focused.split(" ")[0]}`) || kept.row.querySelector("button")).focus();
    }
    if (body.children[index] !== kept.row) body.insertBefore(kept.row, body.children[index] || null);
    if (shown && shown.id === task.id && at("detail").open && shown.mark && shown.mark !== now) drawDetail(task.id);
  });
}

function cells(task) {
  const open = make("button", { type: "button", className: "open", title: task.id }, shortId(task.id));
  open.addEventListener("click", () => openTask(task.id));
  const status = make("td", {}, make("span", { className: `status ${task.status}` }, state(task)));
  if (!ended(task)) status.append(bar(task));
  if (task.error && task.status !== "cancelled") status.append(make("span", { className: "why" }, reason(task.error)));
  if (task.billing && task.billing.partial) status.append(make("span", { className: "kind note" }, task.billing.partial));
  return [
    make("td", {}, open, make("span", { className: "kind" }, task.kind || "")),
    make("td", { className: "mono" }, task.model || ""),
    status,
    make("td", {}, cost(task), make("span", { className: "kind" }, money(task))),
    make("td", { className: "time" }, moment(task.created_at), duration(task)),
    make("td", { className: "act" }, ended(task) ? undefined : cancelButton(task)),
  ];
}

function cancelButton(task) {
  const button = make("button", { type: "button", className: "quiet cancel", "aria-label": `Cancel task ${shortId(task.id)}` }, "Cancel");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await call("POST", `/v1/tasks/${encodeURIComponent(task.id)}/cancel`);
      refresh();
      if (shown && shown.id === task.id && at("detail").open) drawDetail(task.id);
    } catch (error) {
      button.disabled = false;
      const place = button.closest("#detail-body") || at("tasks-error").parentElement;
      const notice = place.id ? place.appendChild(make("p", { className: "notice bad" })) : at("tasks-error");
      notice.textContent = tell(error);
      notice.hidden = false;
    }
  });
  return button;
}

async function drawDetail(id) {
  const body = at("detail-body");
  try {
    const task = await call("GET", `/v1/tasks/${encodeURIComponent(id)}`);
    if (!shown || shown.id !== id) return;
    shown.mark = mark(task);
    at("detail-title").textContent = `${capital(task.kind || "task")} · ${state(task)}`;
    body.replaceChildren(...[...outputs(task), ...progress(task), facts(task)]);
  } catch (error) {
    body.replaceChildren(make("p", { className: "notice bad" }, tell(error)));
  }
}

function progress(task) {
  const parts = [];
  if (!ended(task)) parts.push(bar(task), make("p", { className: "muted" }, `${task.progress || 0} %`), cancelButton(task));
  if (task.error) parts.push(make("p", { className: "notice bad" }, reason(task.error)));
  if (task.billing && task.billing.partial) parts.push(make("p", { className: "notice" }, task.billing.partial));
  return parts;
}

function outputs(task) {
  const output = task.output || {};
  const videos = (output.videos || []).map((video) => {
    const src = safeAddress(video.url);
    if (!src) return make("p", { className: "muted" }, "The video is no longer kept.");
    return make("div", {},
      make("video", { src, controls: true, playsInline: true, preload: "metadata" }),
      make("p", { className: "links" }, make("a", { href: src, download: "" }, "Download MP4"), ` ${shape(video)}`),
      origin(video.provenance));
  });
  const clips = (output.clips || []).map((clip) => {
    const src = clip.audio_url ? safeAddress(clip.audio_url) : undefined;
    const group = (clip.metadata && clip.metadata.stem_type_group_name) || clip.group || "";
    const picture = clip.image_url ? safeAddress(clip.image_url) : undefined;
    return make("div", { className: "clip" },
      picture ? make("img", { src: picture, alt: "", loading: "lazy" }) : make("span"),
      make("h3", {}, clip.title || group || "Clip", group && !(clip.title || "").includes(group) ? ` (${group})` : ""),
      src ? make("audio", { src, controls: true, preload: "none", "aria-label": clip.title || group }) : make("p", { className: "muted" }, clip.status || "no sound yet"),
      origin(clip.provenance));
  });
  return [...videos, ...clips];
}

// The mark of a result: what its file says of its origin, folded away.
function origin(told) {
  if (!told) return undefined;
  const list = make("dl", { className: "facts" });
  for (const [name, value] of provenanceLines(told)) list.append(make("dt", {}, name), make("dd", {}, value));
  return make("details", { className: "origin" }, make("summary", {}, `Origin: ${told.status}`), list);
}

function facts(task) {
  const lines = [
    ["Task", task.id], ["Model", task.model], ["Provider", task.provider], ...bill(task),
    ["Created", full(task.created_at)], ["Started", full(task.started_at)], ["Finished", full(task.finished_at)],
    ["Request", task.request_id],
  ];
  const list = make("dl", { className: "facts" });
  for (const [name, value] of lines) if (value) list.append(make("dt", {}, name), make("dd", {}, String(value)));
  return list;
}

// What was held, paid and given back, and how that was counted.
function bill(task) {
  const billing = task.billing || {};
  if (!billing.status || billing.status === "free") return [["Cost", "free"]];
  const unit = (billing.unit || "").replace("_", " ");
  const counted = billing.unit ? `${billing.quantity} × ${billing.unit_price_usd} USD per ${unit}` : "";
  return [
    ["Cost", `${cost(task)}, ${money(task)}`], ["Counted", counted], ["Held at first", `${billing.reserved_usd} USD`],
    ["Paid", billing.charged_usd && `${billing.charged_usd} USD`], ["Given back", billing.refunded_usd && `${billing.refunded_usd} USD`],
  ];
}

function bar(task) {
  return make("progress", { max: 100, value: task.progress || 0, "aria-label": "Progress" }, `${task.progress || 0} %`);
}

// What a person can see of a task. Addresses are left out: they are signed anew with each answer.
function mark(task) {
  const billing = task.billing || {};
  return [task.status, task.progress, task.cost_usd, billing.status, billing.partial, task.started_at, task.finished_at, task.error && task.error.code].join("|");
}

function setText(element, text) {
  // Writing the same text again would have a screen reader say it every two seconds.
  if (element.textContent !== text) element.textContent = text;
}

const ended = (task) => ["succeeded", "failed", "cancelled"].includes(task.status);
// The tail of a version 7 id differs between neighbours; its head is the clock.
const shortId = (id) => `…${String(id).slice(-8)}`;
const capital = (word) => word.charAt(0).toUpperCase() + word.slice(1);
// An order of which nobody can tell whether its provider took it is no common failure.
const state = (task) => (task.error && task.error.code === "submission_unconfirmed" ? `${task.status} · unconfirmed` : task.status);
const money = (task) => (task.billing ? { free: "free", held: "held", settled: "paid", released: "given back" }[task.billing.status] || "" : "");
const cost = (task) => (task.cost_usd === undefined || task.cost_usd === null ? "" : `${task.cost_usd} USD`);
const full = (time) => (time ? new Date(time).toLocaleString() : "");
const reason = (error) => (typeof error === "string" ? error : [error.message, error.code && `[${error.code}]`].filter(Boolean).join(" "));
const size = (bytes) => (bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);
const shape = (video) => [video.width && `${video.width}×${video.height}`, video.seconds && `${video.seconds} s`, video.bytes && size(video.bytes)].filter(Boolean).join(" · ");

function moment(time) {
  if (!time) return "";
  const date = new Date(time);
  const today = date.toDateString() === new Date().toDateString();
  return today ? date.toLocaleTimeString() : date.toLocaleString([], { dateStyle: "short", timeStyle: "short" });
}

function duration(task) {
  if (!task.started_at || !task.finished_at) return undefined;
  const seconds = (new Date(task.finished_at) - new Date(task.started_at)) / 1000;
  return make("span", { className: "kind" }, `took ${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`);
}

document.addEventListener("visibilitychange", refresh);
at("detail-close").addEventListener("click", () => at("detail").close());
at("detail").addEventListener("click", (event) => event.target === at("detail") && at("detail").close());
at("detail").addEventListener("close", () => {
  shown = undefined;
  // Emptying the dialog stops what was playing.
  at("detail-body").replaceChildren();
});
