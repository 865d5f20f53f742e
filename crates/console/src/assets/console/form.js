// The form of an order: what it holds, how it is filled again from a task, and the request that it makes. Knows no
// view.

import { address, brand, call, file, insist } from "./api.js";

/**
 * A picture or a song of an earlier task, until its file is here, or for good if it is not kept any more. An order
 * without it would be another one, so nothing is ordered while one is in the form.
 * @typedef {{id: string, state: "loading" | "gone", name: string}} Absent
 */

/** Whether something stands for a file that is not here. */
export const isAbsent = (/** @type {any} */ medium) => Boolean(medium) && !(medium instanceof File) && ["loading", "gone"].includes(medium.state);

/** Pictures that came from tasks, by their ids. @type {WeakMap<File, string>} */
const origins = new WeakMap();

/** What kind of form a model needs. */
export function kindOf(model) {
  if (model.kind === "video") return "video";
  const tasks = model.capabilities.tasks || [];
  return tasks.includes("gen_stem") || model.capabilities.stems ? "stems" : tasks.length ? "song" : undefined;
}

/** What a new form holds. `extra` are fields of the request for which the form has no place. */
export function start(model) {
  const groups = model.capabilities.stems || [];
  return { prompt: "", seconds: "", size: "", audio: "", negative: "", seed: "", picture: undefined, end: undefined, references: [], song: undefined, clip: undefined, split: "two", group: groups.includes("Vocals") ? "Vocals" : groups[0], tags: "", title: "", instrumental: "", extra: {} };
}

// Fields of a song's record that the form shows, or that the gateway settles.
const SHOWN = ["tags", "make_instrumental", "mv", "task", "prompt", "gpt_description_prompt", "callback_url", "notify_hook", "webhook_url"];

/** What a form must hold to make the same as a task. Its media are absent until `restored` has them. */
export function asked(task, model) {
  const { input = {} } = task;
  const can = model.capabilities;
  const text = (value) => (value === null || value === undefined ? "" : String(value));
  const size = can.sizes?.includes(input.size) ? input.size : "";
  const options = input.options || {};
  const found = { ...start(model), prompt: text(input.prompt), seconds: text(input.seconds), size, negative: text(input.negative_prompt), seed: text(input.seed), audio: text(input.audio), title: text(input.title), tags: text(options.tags), instrumental: options.make_instrumental === true ? "true" : "" };
  if (input.stem_task) Object.assign(found, { split: input.stem_task, group: input.stem_type_group_name || "Vocals" });
  const absent = (name, source) => source && { id: source.id, state: source.url ? "loading" : "gone", name };
  const kind = kindOf(model);
  if (kind === "video") {
    const references = (input.reference_images || []).map((one, at) => absent(`reference ${at + 1}`, one));
    Object.assign(found, { picture: absent("first frame", input.image), end: absent("last frame", input.end_image), references });
    if (Object.keys(input.provider_options || {}).length) found.extra = { provider_options: input.provider_options };
  } else if (kind === "stems") {
    // Whether a clip can still be used is asked for by its id.
    found.clip = input.clip && { id: input.clip.id, state: "loading", name: "song" };
  } else {
    const more = Object.entries(options).filter(([name]) => !SHOWN.includes(name));
    found.extra = clean({ ...Object.fromEntries(more), task: input.task === "generate" ? "" : input.task, persona_id: input.persona_id, negative_prompt: input.negative_prompt, seconds: input.seconds });
  }
  return found;
}

/**
 * Fetches the media of a form that was filled from a task; `change` is told of each what takes its place.
 * @param {any} form
 * @param {any} task
 * @param {(put: (form: any) => any) => void} change
 * @param {AbortSignal} signal
 */
export function restored(form, task, change, signal) {
  const { input = {} } = task;
  const patient = (action) => insist(action, { lost: () => {}, signal });
  const put = (id, medium) => {
    const swap = (one) => (one?.id === id && isAbsent(one) ? medium(one) : one);
    if (!signal.aborted) change((now) => ({ ...now, picture: swap(now.picture), end: swap(now.end), clip: swap(now.clip), references: now.references.map(swap) }));
  };
  const gone = (id) => put(id, (one) => ({ ...one, state: "gone" }));
  const sources = [input.image, input.end_image, ...(input.reference_images || [])].filter((one) => one?.url);
  for (const { id, url } of sources) {
    const path = address(url);
    if (!path) gone(id);
    else patient(() => file(path)).then((blob) => {
      const kind = blob.type.split("/")[1] || "png";
      const picture = new File([blob], `${id}.${kind === "jpeg" ? "jpg" : kind}`, { type: blob.type });
      origins.set(picture, id);
      put(id, () => picture);
    }, () => gone(id));
  }
  if (isAbsent(form.clip)) {
    const { id } = form.clip;
    const usable = (clip) => clip.status === "complete" && clip.audio_url && !clip.is_trashed;
    patient(() => call("GET", `/${brand}/clips/${encodeURIComponent(id)}`, undefined, { signal })).then((clip) => (usable(clip) ? put(id, () => clip) : gone(id)), () => gone(id));
  }
}

/** What tells one filled form from another; a file by what is known of it without reading it. */
export function markOf(form) {
  return JSON.stringify(form, (_, value) => {
    if (value instanceof File) return origins.get(value) || `${value.name}:${value.size}:${value.lastModified}`;
    return value && typeof value === "object" && "id" in value ? value.id : value;
  });
}

/** What is missing in a form, as the API would say it. */
export function check(kind, form) {
  const media = [["input_reference", form.picture], ["end_image", form.end], ...form.references.map((one) => ["reference_images", one]), ["continue_clip_id", !form.song && form.clip]];
  const [param, absent] = media.find(([, medium]) => isAbsent(medium)) || [];
  if (absent) return fail(param, absent.state === "loading" ? `The ${absent.name} of that task is still loading.` : `The ${absent.name} of that task is no longer available. Choose another, or remove it.`);
  if (kind === "stems") return form.song || form.clip ? undefined : fail("continue_clip_id", "Choose a song first.");
  return form.prompt.trim() ? undefined : fail("prompt", "Enter a prompt.");
}

const fail = (param, message) => Object.assign(new Error(message), { param });

/** The request of a form, and the same for code, in which files go by their names. */
export function body(kind, model, form) {
  if (kind === "video") {
    const files = [form.picture, form.end, ...form.references].filter(Boolean);
    const content = (put) => clean({ ...form.extra, model: model.id, prompt: form.prompt.trim(), seconds: form.seconds, size: form.size, audio: truth(form.audio), negative_prompt: form.negative, seed: form.seed ? Number(form.seed) : undefined, input_reference: form.picture && { image_url: put(form.picture) }, end_image: form.end && put(form.end), reference_images: form.references.length ? form.references.map(put) : undefined });
    const named = (one) => ({ file: one.name, type: one.type || "image/png" });
    return { path: "/v1/videos", body: files.length ? undefined : content(String), isQuotable: !files.some(isAbsent), files: files.length ? () => withFiles(files, content) : undefined, code: { path: "/v1/videos", body: content(named) } };
  }
  const path = `/${brand}/submit/music`;
  if (kind === "song") {
    const content = clean({ ...form.extra, mv: model.id, prompt: form.prompt.trim(), tags: form.tags, title: form.title, make_instrumental: truth(form.instrumental) });
    return { path, body: content, isQuotable: true, code: { path, body: content } };
  }
  const content = (clip) => clean({ task: "gen_stem", mv: model.id, continue_clip_id: clip, stem_task: form.split, stem_type_group_name: form.split === "two" ? form.group : "Twelve" });
  const isKnown = form.clip && !isAbsent(form.clip) && !form.song;
  const upload = isKnown ? undefined : form.song?.name || "song.wav";
  return { path, body: content(isKnown ? form.clip.id : undefined), isQuotable: isKnown, code: { path, body: content(isKnown ? form.clip.id : "@@CLIP@@"), upload, uploadPath: `/${brand}/uploads/audio` } };
}

const truth = (text) => (text === "" ? undefined : text === "true");

function clean(values) {
  return Object.fromEntries(Object.entries(values).filter(([name, value]) => name === "prompt" || (value !== undefined && value !== null && value !== "")));
}

/** @returns {Promise<string>} */
function dataUrl(chosen) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result)));
    reader.addEventListener("error", () => reject(new Error("The file could not be read.")));
    reader.readAsDataURL(chosen);
  });
}

async function withFiles(files, content) {
  const urls = new Map();
  for (const one of files) if (!urls.has(one)) urls.set(one, await dataUrl(one));
  return content((one) => urls.get(one));
}

/** The body with its files in it. */
export async function filled(wanted) {
  return wanted.files ? wanted.files() : wanted.body;
}
