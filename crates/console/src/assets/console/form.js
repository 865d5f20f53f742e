// The form of an order: its values, how it is filled from an earlier task, and its request. Independent of the views.

import { safeUrl, brand, call, file, retryUntilResponse } from "./api.js";

/**
 * A placeholder for a picture or a song of an earlier task: until its file is loaded, or permanently if it is no longer
 * stored. Without the file the order would be a different one, so a form with a placeholder cannot be sent.
 * @typedef {{id: string, state: "loading" | "gone", name: string}} Absent
 */

/** Whether a medium is only a placeholder. */
export const isAbsent = (/** @type {any} */ medium) =>
  Boolean(medium) && !(medium instanceof File) && ["loading", "gone"].includes(medium.state);

/** The ids of pictures that came from tasks. @type {WeakMap<File, string>} */
const origins = new WeakMap();

/** The kind of form that a model needs. */
export function modelKind(model) {
  if (model.kind === "video") return "video";
  const tasks = model.capabilities.tasks || [];
  return tasks.includes("gen_stem") || model.capabilities.stems ? "stems" : tasks.length ? "song" : undefined;
}

/** The values of a new form. `extra` contains fields of the request that the form does not show. */
export function emptyForm(model) {
  const groups = model.capabilities.stems || [];
  return {
    prompt: "",
    seconds: "",
    size: "",
    audio: "",
    negative: "",
    seed: "",
    picture: undefined,
    end: undefined,
    references: [],
    song: undefined,
    clip: undefined,
    split: "two",
    group: groups.includes("Vocals") ? "Vocals" : groups[0],
    tags: "",
    title: "",
    instrumental: "",
    extra: {},
  };
}

// Fields of a song's record that the form shows or that the gateway sets.
const HANDLED_FIELDS = [
  "tags",
  "make_instrumental",
  "mv",
  "task",
  "prompt",
  "gpt_description_prompt",
  "callback_url",
  "notify_hook",
  "webhook_url",
];

/** The values of a form that make the same request as a task. Its media are placeholders until `loadMedia` has them. */
export function formFromTask(task, model) {
  const { input = {} } = task;
  const can = model.capabilities;
  const text = (value) => (value === null || value === undefined ? "" : String(value));
  const size = can.sizes?.includes(input.size) ? input.size : "";
  const options = input.options || {};
  const form = {
    ...emptyForm(model),
    prompt: text(input.prompt),
    seconds: text(input.seconds),
    size,
    negative: text(input.negative_prompt),
    // A seed that the gateway drew is not part of the request: the same request makes another film.
    seed: input.seed_drawn ? "" : text(input.seed),
    audio: text(input.audio),
    title: text(input.title),
    tags: text(options.tags),
    instrumental: options.make_instrumental === true ? "true" : "",
  };
  if (input.stem_task) Object.assign(form, { split: input.stem_task, group: input.stem_type_group_name || "Vocals" });
  const placeholder = (name, source) => source && { id: source.id, state: source.url ? "loading" : "gone", name };
  const kind = modelKind(model);
  if (kind === "video") {
    const references = (input.reference_images || []).map((image, index) =>
      placeholder(`reference ${index + 1}`, image),
    );
    Object.assign(form, {
      picture: placeholder("first frame", input.image),
      end: placeholder("last frame", input.end_image),
      references,
    });
    if (Object.keys(input.provider_options || {}).length) form.extra = { provider_options: input.provider_options };
  } else if (kind === "stems") {
    // The clip is looked up by its id, because the task does not say whether the clip can still be used.
    form.clip = input.clip && { id: input.clip.id, state: "loading", name: "song" };
  } else {
    const others = Object.entries(options).filter(([name]) => !HANDLED_FIELDS.includes(name));
    form.extra = withoutEmpty({
      ...Object.fromEntries(others),
      task: input.task === "generate" ? "" : input.task,
      persona_id: input.persona_id,
      negative_prompt: input.negative_prompt,
      seconds: input.seconds,
    });
  }
  return form;
}

/**
 * Fetches the media of a form that was filled from a task; `change` replaces each placeholder in the form.
 * @param {any} form
 * @param {any} task
 * @param {(update: (form: any) => any) => void} change
 * @param {AbortSignal} signal
 */
export function loadMedia(form, task, change, signal) {
  const { input = {} } = task;
  const retried = (action) => retryUntilResponse(action, { onLost: () => {}, signal });
  const replace = (id, value) => {
    const swapped = (medium) => (medium?.id === id && isAbsent(medium) ? value(medium) : medium);
    if (!signal.aborted)
      change((current) => ({
        ...current,
        picture: swapped(current.picture),
        end: swapped(current.end),
        clip: swapped(current.clip),
        references: current.references.map(swapped),
      }));
  };
  const setGone = (id) => replace(id, (medium) => ({ ...medium, state: "gone" }));
  const sources = [input.image, input.end_image, ...(input.reference_images || [])].filter((medium) => medium?.url);
  for (const { id, url } of sources) {
    const path = safeUrl(url);
    if (!path) setGone(id);
    else
      retried(() => file(path)).then(
        (blob) => {
          const kind = blob.type.split("/")[1] || "png";
          const picture = new File([blob], `${id}.${kind === "jpeg" ? "jpg" : kind}`, { type: blob.type });
          origins.set(picture, id);
          replace(id, () => picture);
        },
        () => setGone(id),
      );
  }
  if (isAbsent(form.clip)) {
    const { id } = form.clip;
    const usable = (clip) => clip.status === "complete" && clip.audio_url && !clip.is_trashed;
    retried(() => call("GET", `/${brand}/clips/${encodeURIComponent(id)}`, undefined, { signal })).then(
      (clip) => (usable(clip) ? replace(id, () => clip) : setGone(id)),
      () => setGone(id),
    );
  }
}

/** A text that identifies a filled form. Files are identified without reading them. */
export function formMark(form) {
  return JSON.stringify(form, (_, value) => {
    if (value instanceof File) return origins.get(value) || `${value.name}:${value.size}:${value.lastModified}`;
    return value && typeof value === "object" && "id" in value ? value.id : value;
  });
}

/** What is missing in a form, as an error like those of the API. */
export function validate(kind, form) {
  const media = [
    ["input_reference", form.picture],
    ["end_image", form.end],
    ...form.references.map((reference) => ["reference_images", reference]),
    ["continue_clip_id", !form.song && form.clip],
  ];
  const [param, absent] = media.find(([, medium]) => isAbsent(medium)) || [];
  if (absent)
    return fieldFault(
      param,
      absent.state === "loading"
        ? `The ${absent.name} of that task is still loading.`
        : `The ${absent.name} of that task is no longer available. Choose another, or remove it.`,
    );
  if (kind === "stems")
    return form.song || form.clip ? undefined : fieldFault("continue_clip_id", "Choose a song first.");
  return form.prompt.trim() ? undefined : fieldFault("prompt", "Enter a prompt.");
}

const fieldFault = (param, message) => Object.assign(new Error(message), { param });

/** The request of a form, and the same for the code examples, in which files are given by name. */
export function orderRequest(kind, model, form) {
  if (kind === "video") {
    const files = [form.picture, form.end, ...form.references].filter(Boolean);
    const content = (encode) =>
      withoutEmpty({
        ...form.extra,
        model: model.id,
        prompt: form.prompt.trim(),
        seconds: form.seconds,
        size: form.size,
        audio: flag(form.audio),
        negative_prompt: form.negative,
        seed: form.seed ? Number(form.seed) : undefined,
        input_reference: form.picture && { image_url: encode(form.picture) },
        end_image: form.end && encode(form.end),
        reference_images: form.references.length ? form.references.map(encode) : undefined,
      });
    const byName = (file) => ({ file: file.name, type: file.type || "image/png" });
    return {
      path: "/v1/videos",
      body: files.length ? undefined : content(String),
      isQuotable: !files.some(isAbsent),
      files: files.length ? () => withFiles(files, content) : undefined,
      code: { path: "/v1/videos", body: content(byName) },
    };
  }
  const path = `/${brand}/submit/music`;
  if (kind === "song") {
    const content = withoutEmpty({
      ...form.extra,
      mv: model.id,
      prompt: form.prompt.trim(),
      tags: form.tags,
      title: form.title,
      make_instrumental: flag(form.instrumental),
    });
    return { path, body: content, isQuotable: true, code: { path, body: content } };
  }
  const content = (clip) =>
    withoutEmpty({
      task: "gen_stem",
      mv: model.id,
      continue_clip_id: clip,
      stem_task: form.split,
      stem_type_group_name: form.split === "two" ? form.group : "Twelve",
    });
  const isKnown = form.clip && !isAbsent(form.clip) && !form.song;
  const upload = isKnown ? undefined : form.song?.name || "song.wav";
  return {
    path,
    body: content(isKnown ? form.clip.id : undefined),
    isQuotable: isKnown,
    code: { path, body: content(isKnown ? form.clip.id : "@@CLIP@@"), upload, uploadPath: `/${brand}/uploads/audio` },
  };
}

const flag = (text) => (text === "" ? undefined : text === "true");

function withoutEmpty(values) {
  return Object.fromEntries(
    Object.entries(values).filter(
      ([name, value]) => name === "prompt" || (value !== undefined && value !== null && value !== ""),
    ),
  );
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
  for (const file of files) if (!urls.has(file)) urls.set(file, await dataUrl(file));
  return content((file) => urls.get(file));
}

/** The body of a request with the content of its files. */
export async function bodyWithFiles(request) {
  return request.files ? request.files() : request.body;
}
