// Create: a form with the options of the model, its price on the button, and beside it the result or example code.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.js";
import { SubmitButton } from "./act.js";
import { safeUrl, ApiError, brand, call, retryUntilResponse, newIntent, origin } from "./api.js";
import { forgetOrder, orderFor, sendAndFollow, storedOrder } from "./follow.js";
import {
  orderRequest,
  bodyWithFiles,
  validate,
  formFromTask,
  isAbsent,
  modelKind,
  loadMedia,
  formMark,
  emptyForm,
} from "./form.js";
import { provenanceLines } from "../origin.js";
import { go } from "./router.js";
import * as snippets from "./snippets.js";
import {
  chargeText,
  CodeBlock,
  EmptyState,
  Facts,
  ErrorNotice,
  Field,
  fieldError,
  PageHeader,
  Loader,
  ProgressBar,
  StatusBadge,
  Tabs,
  isPending,
  priceText,
  isEnded,
  sizeText,
  useLoad,
  usd,
} from "./ui.js";

const settings = document.body.dataset;
const QUOTE_AFTER_MS = 350;
const LANGUAGES = /** @type {[string, string][]} */ ([
  ["curl", "curl"],
  ["python", "Python"],
  ["typescript", "TypeScript"],
  ["go", "Go"],
]);

export function Create({ id, query, hasScope }) {
  const models = useLoad((signal) => call("GET", "/v1/models", undefined, { signal }), []);
  return html`
    <${Loader} load=${models}>
      ${(list) => {
        const usable = list.data.filter(
          (model) => modelKind(model) && hasScope(model.kind === "video" ? "video:create" : "music:create"),
        );
        if (!usable.length)
          return html`
            <${PageHeader} title="Create" />
            <${EmptyState} title="This key cannot create anything">
              <p>
                It needs the scope <code>video:create</code> or <code>music:create</code>.
              </p>
            <//>
          `;
        const model =
          usable.find((candidate) => candidate.id === id) ||
          (!id && (usable.find((candidate) => candidate.id === settings.videoModel) || usable[0]));
        if (!model)
          return html`
            <${PageHeader} title="Create" />
            <${EmptyState} title=${`There is no model "${id}"`}>
              <p>
                <a href="/console/create">Choose another model</a>
              </p>
            <//>
          `;
        return html`
          <${OrderForm} key=${model.id} model=${model} models=${usable} query=${query} hasScope=${hasScope} />
        `;
      }}
    <//>
  `;
}

function OrderForm({ model, models, query, hasScope }) {
  const kind = modelKind(model);
  const [form, setForm] = useState(() => emptyForm(model));
  const [state, setState] = useState(/** @type {any} */ ({ phase: "idle" }));
  const [tab, setTab] = useState("result");
  const [language, setLanguage] = useState("curl");
  const [loadError, setLoadError] = useState(/** @type {any} */ (undefined));
  // The order in progress, from the click on. A click on a form with the same `mark` joins it.
  const running = useRef(/** @type {{mark: string, stop: AbortController} | undefined} */ (undefined));
  const uploads = useRef(/** @type {WeakMap<File, string>} */ (new WeakMap()));
  const set = (changes) => setForm((before) => ({ ...before, ...changes }));
  const request = useMemo(() => orderRequest(kind, model, form), [kind, model, form]);
  const quote = useQuote(request);
  const from = query.get("from");
  const clip = query.get("clip");

  /** Fills the form with the values of a task. */
  const restore = (task, signal) => {
    const filled = formFromTask(task, model);
    setForm(filled);
    loadMedia(filled, task, setForm, signal);
    return filled;
  };
  useEffect(() => {
    const controller = new AbortController();
    if (from)
      call("GET", `/v1/tasks/${encodeURIComponent(from)}`, undefined, { signal: controller.signal }).then(
        (task) => restore(task, controller.signal),
        (error) => controller.signal.aborted || setLoadError(error),
      );
    return () => controller.abort();
  }, [from]);
  useEffect(
    () =>
      void (
        clip &&
        call("GET", `/${brand}/clips/${encodeURIComponent(clip)}`).then(
          (chosen) => set({ clip: chosen, song: undefined }),
          setLoadError,
        )
      ),
    [clip],
  );
  useEffect(() => {
    const stored = storedOrder(model.id);
    const controller = new AbortController();
    // After a reload the form is filled again, so that another click joins the stored order.
    const refill = (task) => {
      if (!from && !clip && running.current?.mark === stored?.mark)
        /** @type {any} */ (running.current).mark = formMark(restore(task, controller.signal));
    };
    if (stored?.task || stored?.body) track(stored, { onStart: refill });
    return () => {
      controller.abort();
      running.current?.stop.abort();
    };
  }, []);

  /**
   * Sends an order, or continues it. `onStart` is called once with the task.
   * @param {any} order
   * @param {object} options
   * @param {(options: any) => Promise<any>} [options.fill]
   * @param {boolean} [options.isFirst]
   * @param {(task: any) => void} [options.onStart]
   */
  const track = async (order, { fill = async () => ({}), isFirst = false, onStart = () => {} }) => {
    running.current?.stop.abort();
    const stop = new AbortController();
    const { signal } = stop;
    const run = { mark: order.mark, stop };
    running.current = run;
    const update = (changes) => !signal.aborted && setState((before) => ({ ...before, ...changes }));
    const onLost = (isLost) => update({ isLost });
    setTab("result");
    setState({ phase: "sending", isFirst });
    let isStarted = false;
    const onTask = (task) => {
      if (!isStarted && !signal.aborted) onStart(task);
      isStarted = true;
      update({ phase: "following", task });
    };
    try {
      const task = await sendAndFollow(model.id, order, {
        signal,
        onTask,
        onLost,
        fill: () => fill({ run, update, onLost, signal }),
      });
      update({ phase: "done", task, isLost: false });
    } catch (error) {
      update({ phase: "refused", error, isLost: false });
    } finally {
      if (running.current === run) running.current = undefined;
    }
  };

  /** One click is one order with all its steps; another click joins it until its result is shown. */
  const order = (chosen, isFirst = false) => {
    const mark = formMark(chosen);
    if (running.current?.mark === mark) return;
    const problem = validate(kind, chosen);
    if (problem) {
      setState({ phase: "refused", error: problem });
      return;
    }
    const request = orderRequest(kind, model, chosen);
    const entry = orderFor(model.id, request.path, mark);
    const fill = async ({ run, update, onLost, signal }) => {
      const content = await bodyWithFiles(request);
      if (!chosen.song) return content;
      update({ phase: "uploading" });
      // The song has a field of its own in the form, whatever the upload calls it.
      const uploaded = await uploadSong(chosen.song, entry.intent, { onLost, signal }).catch((error) => {
        throw error instanceof ApiError && error.isRefusal
          ? Object.assign(error, { param: "continue_clip_id" })
          : error;
      });
      const withClip = { ...chosen, clip: uploaded, song: undefined };
      entry.mark = formMark(withClip);
      run.mark = entry.mark;
      if (!signal.aborted)
        setForm((current) =>
          current.song === chosen.song ? { ...current, clip: uploaded, song: undefined } : current,
        );
      update({ phase: "sending" });
      return { ...content, continue_clip_id: uploaded.id };
    };
    track(entry, { fill, isFirst });
  };
  /** Uploads a song, with the same key for all attempts. */
  const uploadSong = (song, intent, { onLost, signal }) => {
    const key = uploads.current.get(song) || `${intent}-song`;
    uploads.current.set(song, key);
    const upload = new FormData();
    upload.append("file", song);
    return retryUntilResponse(() => call("POST", `/${brand}/uploads/audio`, upload, { intent: key, signal }), {
      onLost,
      signal,
    });
  };

  const submit = (event) => {
    event.preventDefault();
    order(form);
  };
  const again = () => {
    if (running.current) return;
    forgetOrder(model.id);
    order(form);
  };
  const isBusy = ["sending", "following", "uploading"].includes(state.phase);
  const fault = (name) => fieldError(state.error, name);
  // The code gets a new key whenever the form changes, because another form is another order.
  const codeKey = useMemo(() => newIntent("order"), [JSON.stringify(request.code)]);
  const code = (name) => snippets[name]({ origin, intent: codeKey, ...request.code });

  return html`
    <${PageHeader} title="Create" small=${model.summary}>
      <${Field} name="model" label=${html`<span class="unseen">Model</span>`}>
        <select
          id="model"
          value=${model.id}
          onChange=${(event) => go(`/console/create/${encodeURIComponent(event.target.value)}`)}
        >
          ${[
            ["video", "Video"],
            ["stems", "Stems"],
            ["song", "Songs"],
          ].map(([group, name]) => {
            const fitting = models.filter((option) => modelKind(option) === group);
            return (
              fitting.length > 0 &&
              html`
                <optgroup key=${group} label=${name}>
                  ${fitting.map(
                    (option) => html`
                      <option key=${option.id} value=${option.id}>
                        ${option.id}
                        ${option.available ? "" : " (not available)"}
                      </option>
                    `,
                  )}
                </optgroup>
              `
            );
          })}
        </select>
      <//>
    <//>
    ${
      hasScope("tasks:read") &&
      kind === "video" &&
      state.phase === "idle" &&
      html`
        <${SampleOffer}
          model=${model}
          make=${(prompt) => {
            set({ prompt });
            order({ ...form, prompt }, true);
          }}
        />
      `
    }
    ${loadError && html`<${ErrorNotice} error=${loadError} />`}
    ${
      !model.available &&
      html`
        <p class="notice bad">
          No provider of this model is available right now. An order is rejected unless one becomes available.
        </p>
      `
    }
    <div class="workbench">
      <form class="card" onSubmit=${submit} novalidate>
        <div class="form">
          ${kind === "video" && html`<${VideoFields} model=${model} form=${form} set=${set} fault=${fault} />`}
          ${kind === "stems" && html`<${StemFields} model=${model} form=${form} set=${set} fault=${fault} />`}
          ${kind === "song" && html`<${SongFields} form=${form} set=${set} fault=${fault} />`}
          <div class="make wide">
            <${SubmitButton} busy=${isBusy} joins>
              ${submitLabel(quote, request, model)}
            <//>
            <span class="fine" role="status">
              ${
                isBusy
                  ? "Request sent. Another click does not create a second task."
                  : quote.error
                    ? ""
                    : quote.data && !quote.data.affordable
                      ? "The price exceeds the remaining budget."
                      : quote.data?.needs_approval
                        ? "This order waits until somebody approves it."
                        : ""
              }
            </span>
          </div>
        </div>
      </form>
      <div class="card aside">
        <${Tabs}
          name="Outcome"
          chosen=${tab}
          choose=${setTab}
          tabs=${[
            ["result", "Result"],
            ["code", "Code"],
          ]}
        />
        <div role="tabpanel" id="panel-Outcome" aria-labelledby=${`tab-Outcome-${tab}`}>
          ${
            tab === "result"
              ? html`
                <${OrderProgress} state=${state} retry=${again} kind=${kind} />
                ${
                  state.isFirst &&
                  html`
                    <section>
                      <h2>The same request with curl</h2>
                      <${CodeBlock} text=${code("curl")} label="The form as curl" />
                      <p class="fine">
                        Set <code>MEDIAGATE_KEY</code> to your key first. The “Code” tab shows other languages.
                      </p>
                    </section>
                  `
                }
              `
              : html`
                <${Tabs} name="Language" tabs=${LANGUAGES} chosen=${language} choose=${setLanguage} />
                <div role="tabpanel" id="panel-Language" aria-labelledby=${`tab-Language-${language}`}>
                  <${CodeBlock} text=${code(language)} label=${`The form as ${language}`} />
                </div>
                <p class="fine">
                  This code sends the form as it is. Set <code>MEDIAGATE_KEY</code> to your key first. Running it
                  again does not create another task. To create another, change the <code>Idempotency-Key</code>.
                </p>
              `
          }
        </div>
      </div>
    </div>
  `;
}

/** One button for the first visit: it makes a short video and shows the command that does the same. */
function SampleOffer({ model, make }) {
  const tasks = useLoad((signal) => call("GET", "/v1/tasks?limit=1", undefined, { signal }), []);
  if (!tasks.data || tasks.data.data.length) return null;
  return html`
    <div class="card first">
      <div>
        <h2>No tasks yet</h2>
        <p>Create a short video with ${model.id}, and see the command that does the same.</p>
      </div>
      <button type="button" data-writes onClick=${() => make("A calm lake at sunrise, slow dolly in")}>
        Create a sample video
      </button>
    </div>
  `;
}

function VideoFields({ model, form, set, fault }) {
  const can = model.capabilities;
  return html`
    <div class="wide">
      <${Field} name="prompt" label="Prompt" error=${fault("prompt")}>
        <textarea
          id="prompt"
          rows="4"
          required
          placeholder="A lake at dawn, slow dolly in"
          value=${form.prompt}
          onInput=${(event) => set({ prompt: event.target.value })}
        ></textarea>
      <//>
    </div>
    ${
      (can.input?.includes("image") || form.picture) &&
      html`
        <${FileField}
          name="picture"
          half=${Boolean(can.end_image)}
          label=${can.needs_image ? "First frame" : "First frame (optional)"}
          accept="image/*"
          limit=${Number(settings.pictureBytes)}
          file=${form.picture}
          choose=${(picture) => set({ picture })}
          error=${fault("input_reference")}
        />
      `
    }
    ${
      (can.end_image || form.end) &&
      html`
        <${FileField}
          name="end"
          half
          label="Last frame (optional)"
          accept="image/*"
          limit=${Number(settings.pictureBytes)}
          file=${form.end}
          choose=${(end) => set({ end })}
          error=${fault("end_image")}
        />
      `
    }
    ${form.references.map(
      (reference, index) => html`
        <${FileField}
          key=${`reference-${index}`}
          name=${`reference-${index}`}
          half
          label=${`Reference ${index + 1}`}
          accept="image/*"
          limit=${Number(settings.pictureBytes)}
          file=${reference}
          error=${index === 0 && fault("reference_images")}
          choose=${(picture) => set({ references: form.references.toSpliced(index, 1, ...(picture ? [picture] : [])) })}
        />
      `,
    )}
    <${SecondsField} limits=${can} value=${form.seconds} set=${set} error=${fault("seconds")} />
    ${
      can.sizes?.length > 0 &&
      html`
        <${Field} name="size" label="Size" error=${fault("size")}>
          <select id="size" value=${form.size} onChange=${(event) => set({ size: event.target.value })}>
            <option value="">Default</option>
            ${can.sizes.map(
              (option) => html`
                <option key=${option} value=${option}>
                  ${option.replace("x", " × ")}
                </option>
              `,
            )}
          </select>
        <//>
      `
    }
    ${
      can.audio &&
      html`
        <${Field} name="audio" label="Sound" error=${fault("audio")}>
          <select id="audio" value=${form.audio} onChange=${(event) => set({ audio: event.target.value })}>
            <option value="">Default</option>
            <option value="true">With</option>
            <option value="false">Without</option>
          </select>
        <//>
      `
    }
    ${
      (can.negative_prompt || can.seed) &&
      html`
        <details class="wide" open=${Boolean(form.negative || form.seed)}>
          <summary>More options</summary>
          <div class="form">
            ${
              can.negative_prompt &&
              html`
                <div class="wide">
                  <${Field} name="negative" label="Negative prompt" error=${fault("negative_prompt")}>
                    <input
                      id="negative"
                      value=${form.negative}
                      onInput=${(event) => set({ negative: event.target.value })}
                    />
                  <//>
                </div>
              `
            }
            ${
              can.seed &&
              html`
                <${Field}
                  name="seed"
                  label="Seed"
                  hint="The same seed and input give the same video, if the model supports it."
                  error=${fault("seed")}
                >
                  <input
                    id="seed"
                    inputmode="numeric"
                    pattern="[0-9]*"
                    value=${form.seed}
                    onInput=${(event) => set({ seed: event.target.value.replace(/\D/g, "") })}
                  />
                <//>
              `
            }
          </div>
        </details>
      `
    }
    <${ExtraFields} form=${form} set=${set} fault=${fault} />
  `;
}

/** The fields of an earlier task's request that the form does not show. */
function ExtraFields({ form, set, fault }) {
  const fields = Object.entries(form.extra);
  if (!fields.length) return null;
  const message = fields.map(([name]) => fault(name)).find(Boolean);
  return html`
    <div class="wide">
      <p class="legend">More fields from that task</p>
      <${Facts}
        facts=${fields.map(([name, value]) => [
          name,
          html`<code>${typeof value === "object" ? JSON.stringify(value) : String(value)}</code>`,
        ])}
      />
      ${message && html`<p class="fine wrong">${message}</p>`}
      <p>
        <button type="button" class="quiet small" onClick=${() => set({ extra: {} })}>
          Remove these fields
        </button>
      </p>
    </div>
  `;
}

function SecondsField({ limits, value, set, error }) {
  const choose = (event) => set({ seconds: event.target.value });
  const maximum = limits.max_seconds;
  const list =
    limits.seconds ||
    (maximum && maximum - (limits.min_seconds || 1) < 30
      ? Array.from({ length: maximum - (limits.min_seconds || 1) + 1 }, (_, index) => (limits.min_seconds || 1) + index)
      : undefined);
  const defaultLabel = limits.default_seconds ? `Default (${limits.default_seconds} s)` : "Default";
  if (!list) {
    return html`
      <${Field}
        name="seconds"
        label="Seconds"
        error=${error}
        hint=${maximum ? `${limits.min_seconds || 1} to ${maximum}` : ""}
      >
        <input
          id="seconds"
          type="number"
          min=${limits.min_seconds || 1}
          max=${maximum}
          value=${value}
          onInput=${choose}
        />
      <//>
    `;
  }
  return html`
    <${Field} name="seconds" label="Length" error=${error}>
      <select id="seconds" value=${value} onChange=${choose}>
        <option value="">${defaultLabel}</option>
        ${list.map(
          (seconds) => html`
            <option key=${seconds} value=${seconds}>
              ${seconds} s
            </option>
          `,
        )}
      </select>
    <//>
  `;
}

function StemFields({ model, form, set, fault }) {
  const groups = model.capabilities.stems || ["Vocals"];
  return html`
    ${
      form.clip && !form.song && isAbsent(form.clip)
        ? html`
          <div class="wide">
            <${MediumNotice}
              medium=${form.clip}
              error=${fault("continue_clip_id")}
              drop=${() => set({ clip: undefined })}
            />
          </div>
        `
        : form.clip && !form.song
          ? html`
            <div class="wide">
              <p class="legend">Song</p>
              <div class="drop">
                <img src=${safeUrl(form.clip.image_url)} alt="" />
                <p>
                  <strong>${form.clip.title || "Untitled"}</strong>
                </p>
                <button type="button" class="quiet small" onClick=${() => set({ clip: undefined })}>
                  Choose another song
                </button>
              </div>
            </div>
          `
          : html`
            <${FileField}
              name="song"
              label="Song (WAV, AIFF, FLAC, MP3, M4A or OGG)"
              accept="audio/*"
              limit=${Number(settings.songBytes)}
              file=${form.song}
              choose=${(song) => set({ song })}
              error=${fault("continue_clip_id")}
            />
          `
    }
    <div class="wide">
      <${Choices}
        name="split"
        label="Split into"
        value=${form.split}
        choose=${(split) => set({ split })}
        options=${[
          ["two", "One stem and the rest"],
          ["twelve", "All stems of the model"],
        ]}
      />
    </div>
    ${
      form.split === "two" &&
      html`
        <div class="wide">
          <${Choices}
            name="group"
            label="The stem"
            value=${form.group}
            choose=${(group) => set({ group })}
            options=${groups.map((group) => [group, group.replaceAll("_", " ")])}
          />
        </div>
      `
    }
  `;
}

function SongFields({ form, set, fault }) {
  return html`
    <div class="wide">
      <${Field} name="prompt" label="Topic or lyrics" error=${fault("prompt")}>
        <textarea
          id="prompt"
          rows="6"
          required
          value=${form.prompt}
          onInput=${(event) => set({ prompt: event.target.value })}
        ></textarea>
      <//>
    </div>
    <${Field} name="tags" label="Style" hint="For example: slow, piano, female voice" error=${fault("tags")}>
      <input id="tags" value=${form.tags} onInput=${(event) => set({ tags: event.target.value })} />
    <//>
    <${Field} name="title" label="Title" error=${fault("title")}>
      <input id="title" value=${form.title} onInput=${(event) => set({ title: event.target.value })} />
    <//>
    <${Choices}
      name="instrumental"
      label="Voice"
      value=${form.instrumental}
      choose=${(instrumental) => set({ instrumental })}
      options=${[
        ["", "Sung"],
        ["true", "Instrumental"],
      ]}
    />
    <${ExtraFields} form=${form} set=${set} fault=${fault} />
  `;
}

/** The placeholder of a picture or a song that is loading or no longer available. */
function MediumNotice({ medium, error, drop }) {
  const text =
    medium.state === "loading"
      ? `The ${medium.name} of that task is loading.`
      : `The ${medium.name} of that task is no longer available.`;
  return html`
    <div
      class=${medium.state === "gone" ? "notice bad" : "notice"}
      role=${medium.state === "gone" ? "alert" : "status"}
    >
      <p>
        <strong>${text}</strong>
      </p>
      ${error && html`<p class="fine wrong">${error}</p>`}
      <button type="button" class="quiet small" onClick=${drop}>${`Remove the ${medium.name}`}</button>
    </div>
  `;
}

function Choices({ name, label, value, choose, options }) {
  return html`
    <fieldset>
      <legend>${label}</legend>
      <div class="choices">
        ${options.map(
          ([id, text]) => html`
            <label key=${id}>
              <input type="radio" name=${name} value=${id} checked=${value === id} onChange=${() => choose(id)} />
              ${text}
            </label>
          `,
        )}
      </div>
    </fieldset>
  `;
}

/** A field for a file, which can be dropped or chosen. */
function FileField({ name, label, accept, limit, file, choose, error, half = false }) {
  const [isOver, setOver] = useState(false);
  const [refusal, setRefusal] = useState("");
  const absent = isAbsent(file) ? file : undefined;
  const preview = useMemo(
    () => (file && !absent && file.type.startsWith("image/") ? URL.createObjectURL(file) : undefined),
    [file],
  );
  useEffect(
    () => () => {
      if (preview) URL.revokeObjectURL(preview);
    },
    [preview],
  );
  const chooseFile = (chosen) => {
    if (!chosen) return;
    const fits = chosen.size <= limit;
    setRefusal(fits ? "" : `“${chosen.name}” is ${sizeText(chosen.size)}. The maximum is ${sizeText(limit)}.`);
    if (fits) choose(chosen);
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    chooseFile(event.dataTransfer.files[0]);
  };
  return html`
    <div class=${half ? "half" : "wide"}>
      <${Field} name=${name} label=${label} error=${refusal || error}>
        <div
          class=${isOver ? "drop over" : "drop"}
          onDragOver=${(event) => {
            event.preventDefault();
            setOver(true);
          }}
          onDragLeave=${() => setOver(false)}
          onDrop=${drop}
        >
          ${preview && html`<img src=${preview} alt="" />`}
          <p>
            ${
              file && !absent
                ? html`<strong>${file.name}</strong> <span class="fine">${sizeText(file.size)}</span>`
                : html`Drop a file here, or <strong>choose one</strong>`
            }
          </p>
          <input
            id=${name}
            type="file"
            accept=${accept}
            onChange=${(event) => {
              chooseFile(event.target.files[0]);
              event.target.value = "";
            }}
          />
          ${
            file &&
            !absent &&
            html`
              <button type="button" class="quiet small" onClick=${() => choose(undefined)}>
                Remove
              </button>
            `
          }
        </div>
        ${absent && html`<${MediumNotice} medium=${absent} drop=${() => choose(undefined)} />`}
      <//>
    </div>
  `;
}

function OrderProgress({ state, retry, kind }) {
  const { phase, task, error, isLost } = state;
  if (phase === "idle")
    return html`
      <div class="waiting">
        <p class="muted">${kind === "stems" ? "The stems will appear here." : "The result will appear here."}</p>
      </div>
    `;
  if (phase === "refused") return html`<${ErrorNotice} error=${error} />`;
  const open =
    task &&
    html`
      <a class="button quiet small" href=${`/console/tasks/${task.id}`}>
        Open the task
      </a>
    `;
  if (phase !== "done" || !isEnded(task)) {
    return html`
      <div class="waiting" aria-live="polite">
        ${
          isLost
            ? html`
              <p class="wrong">
                <strong>${task ? "Connection lost. Your task continues." : "Connection lost."}</strong>${" "}
                ${
                  task
                    ? "This page reconnects automatically."
                    : `The gateway may not have received the order. This page sends it again with the same key, so it is
                      made only once.`
                }
              </p>
            `
            : html`
              <p>
                <strong>
                  ${
                    phase === "uploading"
                      ? "Uploading and decoding the song"
                      : task
                        ? isPending(task)
                          ? "Waiting for approval"
                          : task.status === "queued"
                            ? "Waiting in the queue"
                            : "In progress"
                        : "Sending"
                  }
                </strong>
              </p>
            `
        }
        ${
          task &&
          html`
            <${ProgressBar} task=${task} />
            ${open}
          `
        }
      </div>
    `;
  }
  const failed = task.status !== "succeeded";
  return html`
    <div class="result stack">
      ${
        failed
          ? html`
            <div class="notice bad" role="alert">
              <p>
                <strong>${task.status === "cancelled" ? "The task was cancelled." : task.error?.message}</strong>
              </p>
              <p class="fine">${chargeText(task)}</p>
            </div>
          `
          : html`<${ResultFiles} task=${task} />`
      }
      <div class="between">
        <p class="fine">
          <${StatusBadge} status=${task.status} /> · ${priceText(task.cost_usd)}
        </p>
        <div class="row">
          <button type="button" data-writes class="quiet small" onClick=${(event) => event.detail > 1 || retry()}>
            Run again
          </button>
          ${open}
          ${
            !failed &&
            html`
              <a
                class="button quiet small"
                href=${`/console/create/${encodeURIComponent(task.model)}?from=${task.id}`}
              >
                Vary
              </a>
            `
          }
        </div>
      </div>
    </div>
  `;
}

/** The results of a task, to be played and downloaded. */
export function ResultFiles({ task }) {
  const { videos = [], clips = [] } = task.output || {};
  return html`
    ${videos.map((video) => {
      const source = safeUrl(video.url);
      if (!source || video.removed)
        return html`
          <p key=${video.id} class="muted">
            The video is no longer stored.
          </p>
        `;
      return html`
        <div key=${video.id}>
          <video
            src=${source}
            poster=${safeUrl(video.poster_url)}
            controls
            playsinline
            preload="metadata"
            aria-label="The video"
          ></video>
          <p class="row fine">
            <a href=${source} download="">
              Download the MP4
            </a>${" "}
            ${video.width} × ${video.height} · ${video.seconds} s ·${video.codec ? ` ${video.codec} ·` : ""}${" "}
            ${video.linked ? "stored at its provider" : sizeText(video.bytes)}
          </p>
          <${Provenance} provenance=${video.provenance} />
        </div>
      `;
    })}
    ${
      clips.length > 0 &&
      html`
        <p class="row">
          <a class="button" href=${`/console/library/clips/${clips[0].id}?task=${task.id}`}>
            Open the mixer
          </a>
        </p>
      `
    }
    ${clips.map((clip) => {
      const source = safeUrl(clip.audio_url);
      const name = clip.title || clip.group || "Clip";
      return html`
        <div key=${clip.id}>
          <p>
            <strong>${name}</strong>
          </p>
          ${
            source && !clip.removed
              ? html`<audio src=${source} controls preload="metadata" aria-label=${name}></audio>`
              : html`<p class="muted">The file is no longer stored.</p>`
          }
          <${Provenance} provenance=${clip.provenance} />
        </div>
      `;
    })}
  `;
}

/** The provenance of a result, collapsed. */
function Provenance({ provenance }) {
  if (!provenance) return null;
  return html`
    <details>
      <summary class="fine">Origin: ${provenance.status}</summary>
      <${Facts} facts=${provenanceLines(provenance)} />
    </details>
  `;
}

/** The price of the form, requested when the form has not changed for a moment. */
function useQuote(request) {
  const [state, setState] = useState(/** @type {{data?: any, error?: any}} */ ({}));
  const text = JSON.stringify([request.path, request.code.body, request.isQuotable]);
  useEffect(() => {
    const controller = new AbortController();
    const timer = setTimeout(async () => {
      if (!request.isQuotable) return setState({});
      try {
        const content = await bodyWithFiles(request);
        const body = "prompt" in content ? { ...content, prompt: content.prompt || "…" } : content;
        setState({
          data: await call("POST", "/v1/quote", { endpoint: request.path, body }, { signal: controller.signal }),
        });
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

/** The text of the button. */
function submitLabel(quote, request, model) {
  if (quote.data) return `Generate · ${priceText(quote.data.cost_usd)}`;
  if (!model.price) return "Generate · free";
  return request.isQuotable
    ? "Generate"
    : `Generate · ${usd(model.price.usd)} per ${model.price.unit.replaceAll("_", " ")}`;
}
