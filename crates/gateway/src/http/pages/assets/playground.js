// The playground's three forms. Each makes a task (or a persona) and leaves the rest to the list of tasks.

import { at, call, make, safeAddress, tell, wait } from "./api.js";
import { Intent } from "./intents.js";
import { openTask, refresh } from "./tasks.js";

const brand = document.body.dataset.brand;
let started = false;

export function startPlayground() {
  loadModels();
  loadClips();
  if (started) return;
  started = true;
  for (const [id, action] of [["video-form", makeVideo], ["stems-form", separate], ["persona-form", createPersona]]) {
    onSubmit(id, action);
  }
  at("tab-persona").addEventListener("click", loadClips);
  at("stems-form").elements.mv.addEventListener("change", offerStems);
}

let models = [];

async function loadModels() {
  try {
    models = (await call("GET", "/v1/models")).data || [];
  } catch {
    return; // The first submit will say what is wrong.
  }
  for (const select of document.querySelectorAll("select[data-kind]")) {
    const chosen = select.value || select.dataset.first;
    const fitting = models.filter((model) => model.kind === select.dataset.kind);
    select.replaceChildren(...fitting.map((model) => {
      const label = model.available === false ? `${model.id} (unavailable)` : model.id;
      return make("option", { value: model.id, selected: model.id === chosen }, label);
    }));
  }
  offerStems();
}

/** Offers the stems that the chosen model says it can tell apart. */
function offerStems() {
  const form = at("stems-form");
  const model = models.find((one) => one.id === form.elements.mv.value);
  const stems = model && model.capabilities && model.capabilities.stems;
  if (!Array.isArray(stems) || stems.length === 0) return;
  const select = form.elements.stem_type_group_name;
  const chosen = select.value;
  select.replaceChildren(...stems.map((stem) => make("option", { selected: stem === chosen }, String(stem))));
}

async function loadClips() {
  const select = at("persona-form").elements.root_clip_id;
  try {
    const clips = (await call("GET", `/${brand}/clips`)).data || [];
    const usable = clips.filter((clip) => clip.status === "complete" && !clip.is_trashed);
    const chosen = select.value;
    select.replaceChildren(...usable.map((clip) =>
      make("option", { value: clip.id, selected: clip.id === chosen }, `${clip.title || "untitled"} · ${clip.id.slice(-8)}`)));
    if (usable.length === 0) select.append(make("option", { value: "" }, "no clips yet: separate a song first"));
  } catch {
    select.replaceChildren(make("option", { value: "" }, "clips could not be loaded"));
  }
}

async function makeVideo(form, say, intent) {
  const fields = form.elements;
  const body = { model: fields.model.value, prompt: fields.prompt.value.trim() };
  if (fields.seconds.value) body.seconds = fields.seconds.value;
  if (fields.size.value) body.size = fields.size.value;
  const picture = fields.picture.files[0];
  if (picture) {
    const limit = Number(fields.picture.dataset.bytes);
    if (picture.size > limit) throw new Error(`The picture is larger than ${limit / 1e6} MB.`);
    body.input_reference = { image_url: await dataUrl(picture) };
  }
  say("submitting");
  const video = await intent.ask("video", "/v1/videos", body, say);
  await follow(taskOfVideo(video.id), say, intent);
}

async function separate(form, say, intent) {
  const fields = form.elements;
  const upload = new FormData();
  upload.append("file", fields.file.files[0]);
  say("uploading and decoding");
  const clip = await intent.ask("upload", `/${brand}/uploads/audio`, upload, say);
  say("submitting");
  const task = await intent.ask("stems", `/${brand}/submit/music`, {
    task: "gen_stem",
    mv: fields.mv.value || undefined,
    continue_clip_id: clip.id,
    stem_task: fields.stem_task.value,
    stem_type_group_name: fields.stem_type_group_name.value,
  }, say);
  await follow(task.id, say, intent);
  loadClips();
}

async function createPersona(form, say, intent) {
  const fields = form.elements;
  const persona = await intent.ask("persona", `/${brand}/persona/create`, {
    root_clip_id: fields.root_clip_id.value,
    name: fields.name.value.trim(),
    description: fields.description.value.trim() || undefined,
  }, say);
  intent.done();
  say("created");
  // The record's picture may be an address or a bare id; only the first can be shown.
  const candidates = [persona.image_url, persona.image_s3_id, persona.clip && persona.clip.image_url];
  const picture = candidates.find((one) => /^(https?:\/\/|\/)/.test(one || ""));
  const src = picture ? safeAddress(picture) : undefined;
  form.querySelector(".made").replaceChildren(make("div", { className: "persona" },
    src ? make("img", { src, alt: `Portrait of ${persona.name}` }) : undefined,
    make("div", {},
      make("h3", {}, persona.name),
      make("p", {}, persona.description || ""),
      make("p", { className: "mono" }, persona.id))));
}

/** Says how a task goes on and opens it when it has ended. */
async function follow(id, say, intent) {
  intent.task = id;
  refresh();
  for (;;) {
    const task = await intent.look(say);
    if (task.status === "succeeded") {
      intent.done();
      say("done");
      refresh();
      await openTask(id);
      return;
    }
    if (task.status === "failed" || task.status === "cancelled") {
      intent.done();
      refresh();
      throw new Error((task.error && task.error.message) || `The task was ${task.status}.`);
    }
    say(`${task.status}, ${task.progress_estimated ? "about " : ""}${task.progress || 0} %`);
    await wait(1000);
  }
}

/** A video's id is its task's id without dashes behind `video_`. */
function taskOfVideo(id) {
  const digits = id.replace(/^video_/, "");
  return /^[0-9a-f]{32}$/i.test(digits) ? digits.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5") : digits;
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(new Error("The picture could not be read.")));
    reader.readAsDataURL(file);
  });
}

function onSubmit(id, action) {
  const form = at(id);
  const button = form.querySelector("button[type=submit]");
  const result = form.querySelector(".result");
  const say = (text, bad = false) => {
    result.textContent = text;
    result.classList.toggle("bad", bad);
  };
  // Until what came of it is shown, a click or a reload leads to the same task.
  const run = async (work) => {
    button.disabled = true;
    say("");
    form.querySelector(".made").replaceChildren();
    try {
      await work();
    } catch (error) {
      say(tell(error), true);
    } finally {
      button.disabled = false;
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (button.disabled) return;
    const intent = Intent.of(form);
    run(() => action(form, say, intent));
  });
  const unfinished = Intent.unfinished(form);
  if (unfinished) run(() => follow(unfinished.task, say, unfinished));
}
