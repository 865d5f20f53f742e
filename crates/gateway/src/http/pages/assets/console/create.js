// Create: a form made from what the model offers, its price on the button, its code, and the result beside it.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.js";
import { ApiError, address, brand, call, origin } from "./api.js";
import { forget, kept, ordered, pursue } from "./follow.js";
import { provenanceLines } from "../origin.js";
import { go } from "./router.js";
import * as snippets from "./snippets.js";
import { Code, Empty, Facts, Failed, Field, faultOf, Head, Load, Progress, Status, Tabs, cost, ended, size, useLoad, usd } from "./ui.js";

const settings = document.body.dataset;
const QUOTE_AFTER_MS = 350;
const LANGUAGES = /** @type {[string, string][]} */ ([["curl", "curl"], ["python", "Python"], ["typescript", "TypeScript"], ["go", "Go"]]);

export function Create({ id, query, may }) {
  const models = useLoad((signal) => call("GET", "/v1/models", undefined, { signal }), []);
  return html`<${Load} of=${models}>${(list) => {
    const usable = list.data.filter((model) => kindOf(model) && may(model.kind === "video" ? "video:create" : "music:create"));
    if (!usable.length) return html`<${Head} title="Create" /><${Empty} title="This key may not make anything"><p>It needs the scope <code>video:create</code> or <code>music:create</code>.</p><//>`;
    const model = usable.find((one) => one.id === id) || (!id && (usable.find((one) => one.id === settings.videoModel) || usable[0]));
    if (!model) return html`<${Head} title="Create" /><${Empty} title=${`There is no model "${id}"`}><p><a href="/console/create">Start with another one</a></p><//>`;
    return html`<${Bench} key=${model.id} model=${model} models=${usable} query=${query} may=${may} />`;
  }}<//>`;
}

/** What kind of form a model needs. */
function kindOf(model) {
  if (model.kind === "video") return "video";
  const tasks = model.capabilities.tasks || [];
  return tasks.includes("gen_stem") || model.capabilities.stems ? "stems" : tasks.length ? "song" : undefined;
}

function Bench({ model, models, query, may }) {
  const kind = kindOf(model);
  const [form, setForm] = useState(() => start(model));
  const [state, setState] = useState(/** @type {any} */ ({ phase: "idle" }));
  const [tab, setTab] = useState("result");
  const [language, setLanguage] = useState("curl");
  const running = useRef(/** @type {{order: any, stop: AbortController} | undefined} */ (undefined));
  const set = (changes) => setForm((before) => ({ ...before, ...changes }));
  const withClip = ({ input }) => input?.clip && call("GET", `/${brand}/clips/${encodeURIComponent(input.clip.id)}`).then((clip) => set({ clip }), () => {});
  const wanted = useMemo(() => body(kind, model, form), [kind, model, form]);
  const quote = useQuote(wanted);
  const from = query.get("from");
  const clip = query.get("clip");

  useEffect(() => void (from && call("GET", `/v1/tasks/${encodeURIComponent(from)}`).then((task) => { set(asked(task, model)); withClip(task); }, () => {})), [from]);
  useEffect(() => void (clip && call("GET", `/${brand}/clips/${encodeURIComponent(clip)}`).then((found) => set({ clip: found, song: undefined }), () => {})), [clip]);
  useEffect(() => {
    const before = kept(model.id);
    if (before?.task || before?.body) track(before);
    return () => running.current?.stop.abort();
  }, []);

  const track = async (order, isFirst = false) => {
    // The form that is being made: another click joins it.
    if (running.current?.order.intent === order.intent) return;
    running.current?.stop.abort();
    const stop = new AbortController();
    running.current = { order, stop };
    const { signal } = stop;
    const say = (changes) => !signal.aborted && setState((before) => ({ ...before, ...changes }));
    setTab("result");
    setState({ phase: "sending", isFirst });
    try {
      const task = await pursue(model.id, order, { signal, seen: (task) => say({ phase: "following", task }), lost: (isLost) => say({ isLost }) });
      say({ phase: "done", task, isLost: false });
    } catch (error) {
      say({ phase: "refused", error, isLost: false });
    } finally {
      if (running.current?.stop === stop) running.current = undefined;
    }
  };

  const submit = async (event) => {
    event.preventDefault();
    const faults = check(kind, form);
    if (faults) {
      setState({ phase: "refused", error: faults });
      return;
    }
    try {
      let content = await filled(wanted);
      if (form.song) {
        setTab("result");
        setState({ phase: "uploading" });
        const upload = new FormData();
        upload.append("file", form.song);
        const stored = await call("POST", `/${brand}/uploads/audio`, upload);
        set({ clip: stored, song: undefined });
        content = { ...content, continue_clip_id: stored.id };
      }
      await track(await ordered(model.id, wanted.path, content));
    } catch (error) {
      setState({ phase: "refused", error });
    }
  };
  const again = async () => {
    forget(model.id);
    await track(await ordered(model.id, wanted.path, await filled(wanted)));
  };
  const isBusy = ["sending", "following", "uploading"].includes(state.phase);
  const wrong = state.error instanceof ApiError ? state.error.param : state.error?.param;
  const fault = (name) => faultOf(state.error, name);
  const code = snippets[language]({ origin, ...wanted.code });

  return html`<${Head} title="Create" small=${model.summary}>
      <${Field} name="model" label=${html`<span class="unseen">Model</span>`}><select id="model" value=${model.id} onChange=${(event) => go(`/console/create/${encodeURIComponent(event.target.value)}`)}>
        ${[["video", "Video"], ["stems", "Stems"], ["song", "Songs"]].map(([group, name]) => {
          const fitting = models.filter((one) => kindOf(one) === group);
          return fitting.length > 0 && html`<optgroup key=${group} label=${name}>${fitting.map((one) => html`<option key=${one.id} value=${one.id}>${one.id}${one.available ? "" : " (not available)"}</option>`)}</optgroup>`;
        })}</select><//><//>
    ${may("tasks:read") && kind === "video" && state.phase === "idle" && html`<${First} set=${set} track=${track} model=${model} />`}
    ${!model.available && html`<p class="notice bad">No provider of this model is available right now. You can order; it is refused if none comes back.</p>`}
    <div class="workbench">
      <form class="card" onSubmit=${submit} novalidate><div class="form">
        ${kind === "video" && html`<${VideoFields} model=${model} form=${form} set=${set} fault=${fault} />`}
        ${kind === "stems" && html`<${StemFields} model=${model} form=${form} set=${set} fault=${fault} />`}
        ${kind === "song" && html`<${SongFields} form=${form} set=${set} fault=${fault} />`}
        <div class="make wide"><button type="submit">${label(quote, wanted, model)}</button>
          <span class="fine" role="status">${isBusy ? "Under way. Another click joins it." : quote.error ? "" : quote.data && !quote.data.affordable ? "More than the budget has left." : ""}</span></div>
      </div></form>
      <div class="card aside"><${Tabs} name="Outcome" chosen=${tab} choose=${setTab} tabs=${[["result", "Result"], ["code", "Code"]]} />
        <div role="tabpanel" id="panel-Outcome" aria-labelledby=${`tab-Outcome-${tab}`}>
          ${tab === "result" ? html`<${Outcome} state=${state} again=${again} kind=${kind} isNamed=${Boolean(fault(wrong?.split(/[.[]/)[0]))} />
            ${state.isFirst && html`<section><h2>The same from a terminal</h2><${Code} text=${snippets.curl({ origin, ...wanted.code })} label="The form as curl" /><p class="fine">Set <code>MEDIAGATE_KEY</code> to your key first. The tab “Code” has it in other languages.</p></section>`}`
            : html`<${Tabs} name="Language" tabs=${LANGUAGES} chosen=${language} choose=${setLanguage} />
              <div role="tabpanel" id="panel-Language" aria-labelledby=${`tab-Language-${language}`}><${Code} text=${code} label=${`The form as ${language}`} /></div>
              <p class="fine">Exactly what the form holds. Set <code>MEDIAGATE_KEY</code> to your key first.</p>`}
        </div></div>
    </div>`;
}

/** One button for the first visit: a video in seconds, and the command that makes the same. */
function First({ set, track, model }) {
  const tasks = useLoad((signal) => call("GET", "/v1/tasks?limit=1", undefined, { signal }), []);
  if (!tasks.data || tasks.data.data.length) return null;
  const prompt = "A calm lake at sunrise, slow dolly in";
  const make = async () => {
    set({ prompt });
    await track(await ordered(model.id, "/v1/videos", { model: model.id, prompt }), true);
  };
  return html`<div class="card first"><div><h2>Nothing made yet</h2><p>One click makes a short video with ${model.id}, and shows the command that does the same.</p></div>
    <button type="button" onClick=${make}>Make a first video</button></div>`;
}

function VideoFields({ model, form, set, fault }) {
  const can = model.capabilities;
  return html`
    <div class="wide"><${Field} name="prompt" label="Prompt" error=${fault("prompt")}><textarea id="prompt" rows="4" required placeholder="A lake at dawn, slow dolly in" value=${form.prompt} onInput=${(event) => set({ prompt: event.target.value })}></textarea><//></div>
    ${can.input?.includes("image") && html`<${Drop} name="picture" half=${Boolean(can.end_image)} label=${can.needs_image ? "First frame" : "First frame (optional)"} accept="image/*" limit=${Number(settings.pictureBytes)}
      file=${form.picture} choose=${(picture) => set({ picture })} error=${fault("input_reference")} />`}
    ${can.end_image && html`<${Drop} name="end" half label="Last frame (optional)" accept="image/*" limit=${Number(settings.pictureBytes)} file=${form.end} choose=${(end) => set({ end })} error=${fault("end_image")} />`}
    <${Seconds} can=${can} value=${form.seconds} set=${set} error=${fault("seconds")} />
    ${can.sizes?.length > 0 && html`<${Field} name="size" label="Size" error=${fault("size")}><select id="size" value=${form.size} onChange=${(event) => set({ size: event.target.value })}>
      <option value="">Default</option>${can.sizes.map((one) => html`<option key=${one} value=${one}>${one.replace("x", " × ")}</option>`)}</select><//>`}
    ${can.audio && html`<${Field} name="audio" label="Sound" error=${fault("audio")}><select id="audio" value=${form.audio} onChange=${(event) => set({ audio: event.target.value })}>
      <option value="">Default</option><option value="true">With</option><option value="false">Without</option></select><//>`}
    ${(can.negative_prompt || can.seed) && html`<details class="wide" open=${Boolean(form.negative || form.seed)}><summary>More</summary><div class="form">
      ${can.negative_prompt && html`<div class="wide"><${Field} name="negative" label="What it must not show" error=${fault("negative_prompt")}><input id="negative" value=${form.negative} onInput=${(event) => set({ negative: event.target.value })} /><//></div>`}
      ${can.seed && html`<${Field} name="seed" label="Seed" hint="The same seed and form make the same video, where the model can." error=${fault("seed")}><input id="seed" inputmode="numeric" pattern="[0-9]*" value=${form.seed} onInput=${(event) => set({ seed: event.target.value.replace(/\D/g, "") })} /><//>`}
    </div></details>`}`;
}

function Seconds({ can, value, set, error }) {
  const choose = (event) => set({ seconds: event.target.value });
  const most = can.max_seconds;
  const list = can.seconds || (most && most - (can.min_seconds || 1) < 30 ? Array.from({ length: most - (can.min_seconds || 1) + 1 }, (_, at) => (can.min_seconds || 1) + at) : undefined);
  const usual = can.default_seconds ? `Default (${can.default_seconds} s)` : "Default";
  if (!list) {
    return html`<${Field} name="seconds" label="Seconds" error=${error} hint=${most ? `${can.min_seconds || 1} to ${most}` : ""}>
      <input id="seconds" type="number" min=${can.min_seconds || 1} max=${most} value=${value} onInput=${choose} /><//>`;
  }
  return html`<${Field} name="seconds" label="Length" error=${error}><select id="seconds" value=${value} onChange=${choose}>
    <option value="">${usual}</option>${list.map((one) => html`<option key=${one} value=${one}>${one} s</option>`)}</select><//>`;
}

function StemFields({ model, form, set, fault }) {
  const groups = model.capabilities.stems || ["Vocals"];
  return html`
    ${form.clip && !form.song
      ? html`<div class="wide"><p class="legend">Song</p><div class="drop"><img src=${address(form.clip.image_url)} alt="" /><p><strong>${form.clip.title || "Untitled"}</strong></p>
          <button type="button" class="quiet small" onClick=${() => set({ clip: undefined })}>Another song</button></div></div>`
      : html`<${Drop} name="song" label="Song (WAV, FLAC, MP3, M4A or OGG)" accept="audio/*" limit=${Number(settings.songBytes)} file=${form.song} choose=${(song) => set({ song })} error=${fault("continue_clip_id")} />`}
    <div class="wide"><${Choices} name="split" label="Split into" value=${form.split} choose=${(split) => set({ split })} options=${[["two", "One stem and the rest"], ["twelve", "Every stem the model knows"]]} /></div>
    ${form.split === "two" && html`<div class="wide"><${Choices} name="group" label="The stem" value=${form.group} choose=${(group) => set({ group })} options=${groups.map((group) => [group, group.replaceAll("_", " ")])} /></div>`}`;
}

function SongFields({ form, set, fault }) {
  return html`
    <div class="wide"><${Field} name="prompt" label="What it is about, or its lyrics" error=${fault("prompt")}><textarea id="prompt" rows="6" required value=${form.prompt} onInput=${(event) => set({ prompt: event.target.value })}></textarea><//></div>
    <${Field} name="tags" label="Style" hint="For example: slow, piano, female voice" error=${fault("tags")}><input id="tags" value=${form.tags} onInput=${(event) => set({ tags: event.target.value })} /><//>
    <${Field} name="title" label="Title" error=${fault("title")}><input id="title" value=${form.title} onInput=${(event) => set({ title: event.target.value })} /><//>
    <${Choices} name="instrumental" label="Voice" value=${form.instrumental} choose=${(instrumental) => set({ instrumental })} options=${[["", "Sung"], ["true", "Instrumental"]]} />`;
}

function Choices({ name, label, value, choose, options }) {
  return html`<fieldset><legend>${label}</legend><div class="choices">${options.map(([id, words]) => html`<label key=${id}><input type="radio" name=${name} value=${id} checked=${value === id} onChange=${() => choose(id)} />${words}</label>`)}</div></fieldset>`;
}

/** A place for a file: dropped, or chosen. */
function Drop({ name, label, accept, limit, file, choose, error, half = false }) {
  const [isOver, setOver] = useState(false);
  const [refusal, setRefusal] = useState("");
  const preview = useMemo(() => (file && file.type.startsWith("image/") ? URL.createObjectURL(file) : undefined), [file]);
  useEffect(() => () => { if (preview) URL.revokeObjectURL(preview); }, [preview]);
  const take = (chosen) => {
    if (!chosen) return;
    const fits = chosen.size <= limit;
    setRefusal(fits ? "" : `“${chosen.name}” has ${size(chosen.size)}; the most is ${size(limit)}.`);
    if (fits) choose(chosen);
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer.files[0]);
  };
  return html`<div class=${half ? "half" : "wide"}><${Field} name=${name} label=${label} error=${refusal || error}>
    <div class=${isOver ? "drop over" : "drop"} onDragOver=${(event) => { event.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
      ${preview && html`<img src=${preview} alt="" />`}
      <p>${file ? html`<strong>${file.name}</strong> <span class="fine">${size(file.size)}</span>` : html`Drop it here, or <strong>choose a file</strong>`}</p>
      <input id=${name} type="file" accept=${accept} onChange=${(event) => { take(event.target.files[0]); event.target.value = ""; }} />
      ${file && html`<button type="button" class="quiet small" onClick=${() => choose(undefined)}>Remove</button>`}
    </div><//></div>`;
}

function Outcome({ state, again, kind, isNamed }) {
  const { phase, task, error, isLost } = state;
  if (phase === "idle") return html`<div class="waiting"><p class="muted">${kind === "stems" ? "The stems appear here, ready to mix." : "What you make appears here."}</p></div>`;
  if (phase === "refused") return html`${isNamed ? html`<p class="notice bad" role="alert">Something in the form is not right.</p>` : html`<${Failed} error=${error} />`}`;
  const open = task && html`<a class="button quiet small" href=${`/console/tasks/${task.id}`}>Open the task</a>`;
  if (phase !== "done" || !ended(task)) {
    return html`<div class="waiting" aria-live="polite">${isLost ? html`<p class="wrong"><strong>Connection lost. Your task goes on.</strong> This page follows it as soon as the gateway answers.</p>` : html`<p><strong>${phase === "uploading" ? "Uploading and decoding the song" : task ? (task.status === "queued" ? "Waiting for its turn" : "Being made") : "Sending"}</strong></p>`}
      ${task && html`<${Progress} task=${task} />${open}`}</div>`;
  }
  const failed = task.status !== "succeeded";
  return html`<div class="result stack">
    ${failed ? html`<div class="notice bad" role="alert"><p><strong>${task.status === "cancelled" ? "It was cancelled." : task.error?.message}</strong></p><p class="fine">Nothing was charged.</p></div>` : html`<${Made} task=${task} />`}
    <div class="between"><p class="fine"><${Status} of=${task.status} /> · ${cost(task.cost_usd)}</p>
      <div class="row"><button type="button" class="quiet small" onClick=${again}>Again</button>${open}
        ${!failed && html`<a class="button quiet small" href=${`/console/create/${encodeURIComponent(task.model)}?from=${task.id}`}>Vary</a>`}</div></div></div>`;
}

/** What a task made, to be watched, heard and taken home. */
export function Made({ task }) {
  const { videos = [], clips = [] } = task.output || {};
  return html`${videos.map((video) => {
    const source = address(video.url);
    if (!source || video.removed) return html`<p key=${video.id} class="muted">The video is no longer kept.</p>`;
    return html`<div key=${video.id}><video src=${source} poster=${address(video.poster_url)} controls playsinline preload="metadata" aria-label="The video"></video>
      <p class="row fine"><a href=${source} download="">Download the MP4</a> ${video.width} × ${video.height} · ${video.seconds} s · ${video.linked ? "kept by its provider" : size(video.bytes)}</p><${Origin} of=${video.provenance} /></div>`;
  })}${clips.length > 0 && html`<p class="row"><a class="button" href=${`/console/library/clips/${clips[0].id}?task=${task.id}`}>Open the mixer</a></p>`}
  ${clips.map((clip) => {
    const source = address(clip.audio_url);
    const name = clip.title || clip.group || "Clip";
    return html`<div key=${clip.id}><p><strong>${name}</strong></p>${source && !clip.removed ? html`<audio src=${source} controls preload="metadata" aria-label=${name}></audio>` : html`<p class="muted">It is no longer kept.</p>`}<${Origin} of=${clip.provenance} /></div>`;
  })}`;
}

/** The mark of a result: what its file says of its origin, folded away. */
function Origin({ of }) {
  if (!of) return null;
  return html`<details><summary class="fine">Origin: ${of.status}</summary><${Facts} of=${provenanceLines(of)} /></details>`;
}

/** What a new form holds. */
function start(model) {
  const groups = model.capabilities.stems || [];
  return { prompt: "", seconds: "", size: "", audio: "", negative: "", seed: "", picture: undefined, end: undefined, song: undefined, clip: undefined, split: "two", group: groups.includes("Vocals") ? "Vocals" : groups[0], tags: "", title: "", instrumental: "" };
}

/** What a form must hold to make the same as a task, as far as this model has it. */
function asked(task, model) {
  const { input = {} } = task;
  const can = model.capabilities;
  const text = (value) => (value === null || value === undefined ? "" : String(value));
  const size = can.sizes?.includes(input.size) ? input.size : "";
  const found = { prompt: text(input.prompt), seconds: text(input.seconds), size, negative: text(input.negative_prompt), seed: text(input.seed), audio: text(input.audio), title: text(input.title), tags: text(input.options?.tags) };
  if (input.stem_task) Object.assign(found, { split: input.stem_task, group: input.stem_type_group_name || "Vocals" });
  return found;
}

/** What is missing in a form, as the API would say it. */
function check(kind, form) {
  if (kind === "stems") return form.song || form.clip ? undefined : fail("continue_clip_id", "Choose a song first.");
  return form.prompt.trim() ? undefined : fail("prompt", "Say what it should show.");
}

const fail = (param, message) => Object.assign(new Error(message), { param });

/** The request of a form, and the same for code, in which files go by their names. */
function body(kind, model, form) {
  if (kind === "video") {
    const content = (file) => clean({ model: model.id, prompt: form.prompt.trim(), seconds: form.seconds, size: form.size, audio: truth(form.audio), negative_prompt: form.negative, seed: form.seed ? Number(form.seed) : undefined, input_reference: form.picture && { image_url: file(form.picture) }, end_image: form.end && file(form.end) });
    const named = (file) => ({ file: file.name, type: file.type || "image/png" });
    const hasFiles = Boolean(form.picture || form.end);
    return { path: "/v1/videos", body: hasFiles ? undefined : content(String), isQuotable: true, files: hasFiles ? () => withFiles(form, content) : undefined, code: { path: "/v1/videos", body: content(named) } };
  }
  const path = `/${brand}/submit/music`;
  if (kind === "song") {
    const content = clean({ mv: model.id, prompt: form.prompt.trim(), tags: form.tags, title: form.title, make_instrumental: truth(form.instrumental) });
    return { path, body: content, isQuotable: true, code: { path, body: content } };
  }
  const content = (clip) => clean({ task: "gen_stem", mv: model.id, continue_clip_id: clip, stem_task: form.split, stem_type_group_name: form.split === "two" ? form.group : "Twelve" });
  const isKnown = form.clip && !form.song;
  const upload = isKnown ? undefined : form.song?.name || "song.wav";
  return { path, body: content(form.clip?.id), isQuotable: isKnown, code: { path, body: content(isKnown ? form.clip.id : "@@CLIP@@"), upload, uploadPath: `/${brand}/uploads/audio` } };
}

const truth = (text) => (text === "" ? undefined : text === "true");

function clean(values) {
  return Object.fromEntries(Object.entries(values).filter(([name, value]) => name === "prompt" || (value !== undefined && value !== "")));
}

/** @returns {Promise<string>} */
function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result)));
    reader.addEventListener("error", () => reject(new Error("The file could not be read.")));
    reader.readAsDataURL(file);
  });
}

async function withFiles(form, content) {
  const urls = new Map();
  for (const file of [form.picture, form.end]) if (file) urls.set(file, await dataUrl(file));
  return content((file) => urls.get(file));
}

/** The body with its files in it. */
async function filled(wanted) {
  return wanted.files ? wanted.files() : wanted.body;
}

/** What the form would cost, asked for when it has not changed for a moment. */
function useQuote(wanted) {
  const [state, setState] = useState(/** @type {{data?: any, error?: any}} */ ({}));
  const text = JSON.stringify([wanted.path, wanted.code.body, wanted.isQuotable]);
  useEffect(() => {
    const controller = new AbortController();
    const timer = setTimeout(async () => {
      if (!wanted.isQuotable) return setState({});
      try {
        const content = await filled(wanted);
        const body = "prompt" in content ? { ...content, prompt: content.prompt || "…" } : content;
        setState({ data: await call("POST", "/v1/quote", { endpoint: wanted.path, body }, { signal: controller.signal }) });
      } catch (error) {
        if (!controller.signal.aborted) setState({ error });
      }
      return undefined;
    }, QUOTE_AFTER_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [text]);
  return state;
}

/** The words of the button. */
function label(quote, wanted, model) {
  if (quote.data) return `Make it · ${cost(quote.data.cost_usd)}`;
  if (!model.price) return "Make it · free";
  return wanted.isQuotable ? "Make it" : `Make it · ${usd(model.price.usd)} per ${model.price.unit.replaceAll("_", " ")}`;
}
