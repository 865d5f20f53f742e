// A clip: its stems, played in sync and each with its waveform, and what can be made from it.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.js";
import { SubmitButton, useAction } from "./act.js";
import { safeUrl, brand, call, download, queryString, save } from "./api.js";
import { Mixer, loadTracks } from "./mixer.js";
import { go } from "./router.js";
import {
  Dialog,
  EmptyState,
  Facts,
  ErrorNotice,
  Field,
  PageHeader,
  Loader,
  RelativeTime,
  durationText,
  sizeText,
  timecode,
  useLoad,
} from "./ui.js";

const MAX_PAGES = 5;

export function Clip({ id, query, hasScope }) {
  const task = query.get("task") || "";
  const clip = useLoad((signal) => loadClip(id, task, signal), [id, task]);
  return html`
    <${Loader} load=${clip}>${(loaded) => html`<${ClipDetails} loaded=${loaded} hasScope=${hasScope} />`}<//>
    ${
      !clip.data &&
      html`
        <p>
          <a href="/console/library?show=clips">All clips</a>
        </p>
      `
    }
  `;
}

/** A clip with the stems that belong to it. */
async function loadClip(id, task, signal) {
  const clip = await call("GET", `/${brand}/clips/${encodeURIComponent(id)}`, undefined, { signal });
  const root = clip.metadata.stem_from_id || clip.id;
  const source =
    root === clip.id
      ? clip
      : await call("GET", `/${brand}/clips/${root}`, undefined, { signal }).catch(() => undefined);
  let stems;
  if (task) {
    const record = await call("GET", `/${brand}/tasks/${encodeURIComponent(task)}`, undefined, { signal });
    stems = record.clips;
  } else {
    const all = await clips(signal);
    const allStems = all.filter(
      (stem) => stem.metadata.stem_from_id === root && stem.metadata.task === "gen_stem" && stem.status === "complete",
    );
    // All clips of a task have the same creation time.
    const moment = clip.metadata.stem_from_id ? clip.created_at : allStems[0]?.created_at;
    stems = allStems.filter((stem) => stem.created_at === moment);
  }
  stems = stems.filter((stem) => stem.status === "complete" && stem.audio_url);
  return { clip, source, stems };
}

/** The newest clips of the account. */
export async function clips(signal, filter = {}) {
  const all = [];
  let after = "";
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const list = await call("GET", `/${brand}/clips${queryString({ ...filter, limit: 100, after })}`, undefined, {
      signal,
    });
    all.push(...list.data);
    after = list.last_id;
    if (!list.has_more) break;
  }
  return all;
}

function ClipDetails({ loaded, hasScope }) {
  const { clip, source, stems } = loaded;
  const [isNaming, setNaming] = useState(false);
  const song = (source || clip).title || "Untitled";
  const isSong = stems.length > 0;
  const tracks = (isSong ? stems : [clip])
    .map((part) => ({ id: part.id, name: groupName(part) || song, url: safeUrl(part.audio_url) || "" }))
    .filter((track) => track.url);
  const model = encodeURIComponent(document.body.dataset.musicModel || "");
  return html`
    <${PageHeader}
      title=${isSong ? song : clip.title || "Untitled"}
      small=${isSong ? `${tracks.length} stems, played in sync` : "1 track"}
    >
      ${
        hasScope("music:create") &&
        html`
          <a
            class="button quiet small"
            href=${`/console/create/${model}?clip=${(source || clip).id}`}
          >
            Separate
          </a>
        `
      }
      ${
        hasScope("persona:create") &&
        html`
          <button type="button" class="quiet small" onClick=${() => setNaming(true)}>
            Create a persona
          </button>
        `
      }
    <//>
    ${
      tracks.length
        ? html`
          <${MixerLoader}
            key=${tracks.map((track) => track.id).join()}
            tracks=${tracks}
            song=${song}
            isSong=${isSong}
          />
        `
        : html`
          <${EmptyState} title="No audio">
            <p>${clip.status === "complete" ? "The files are no longer stored." : `Status: ${clip.status}`}</p>
          <//>
        `
    }
    <section class="card">
      <h2>Details</h2>
      <${Facts}
        facts=${[
          ["Title", clip.title],
          [
            "Kind",
            clip.metadata.type === "upload"
              ? "uploaded"
              : clip.metadata.task === "gen_stem"
                ? `stem: ${groupName(clip)}`
                : "generated",
          ],
          [
            "Source",
            source &&
              source.id !== clip.id &&
              html`<a href=${`/console/library/clips/${source.id}`}>${source.title || "the song"}</a>`,
          ],
          ["Length", durationText(clip.metadata.duration)],
          ["Model", clip.model_name],
          ["Created", html`<${RelativeTime} time=${clip.created_at} />`],
          ["Id", html`<code>${clip.id}</code>`],
        ]}
      />
    </section>
    ${isNaming && html`<${Persona} clip=${clip} close=${() => setNaming(false)} />`}
  `;
}

const groupName = (clip) => (clip.metadata.stem_type_group_name || "").replaceAll("_", " ");

function MixerLoader({ tracks, song, isSong }) {
  const loaded = useLoad((signal) => loadTracks(tracks, signal), []);
  return html`
    <${Loader} load=${loaded} rows=${tracks.length}>
      ${(loadedTracks) => html`<${MixerView} tracks=${loadedTracks} song=${song} isSong=${isSong} />`}
    <//>
  `;
}

function MixerView({ tracks, song, isSong }) {
  const [, redraw] = useState(0);
  const mixer = useMemo(() => new Mixer(tracks, () => redraw((count) => count + 1)), []);
  const [volumes, setVolumes] = useState(/** @type {Record<string, number>} */ ({}));
  const [muted, setMuted] = useState(/** @type {string[]} */ ([]));
  const [solos, setSolos] = useState(/** @type {string[]} */ ([]));
  const container = useRef(/** @type {HTMLElement | null} */ (null));
  const saving = useAction();
  const audible = (id) => (solos.length ? solos.includes(id) : !muted.includes(id));
  useEffect(() => () => mixer.close(), []);
  useEffect(() => {
    for (const { id } of tracks) mixer.setLevel(id, audible(id) ? (volumes[id] ?? 1) : 0);
  }, [volumes, muted, solos]);
  useEffect(() => {
    let frame = 0;
    const draw = () => {
      showPosition(container.current, mixer);
      if (mixer.isPlaying) frame = requestAnimationFrame(draw);
    };
    draw();
    return () => cancelAnimationFrame(frame);
  });
  const toggle = (list, set, id) => set(list.includes(id) ? list.filter((other) => other !== id) : [...list, id]);
  const name = (track) => fileName(isSong ? `${song} – ${track.name}` : song, track.blob);
  const downloadAll = () =>
    saving.run(() => download(`/${brand}/clips/${tracks[0].id}/stems.zip`, `${song} – stems.zip`));
  return html`
    <div class="mixer" ref=${container}>
      <div class="card transport">
        <button type="button" class="play" onClick=${() => (mixer.isPlaying ? mixer.pause() : mixer.play())}>
          ${mixer.isPlaying ? "Pause" : "Play"}
        </button>
        <input
          type="range"
          min="0"
          max=${mixer.seconds}
          step="0.01"
          aria-label="Position"
          data-position
          onInput=${(event) =>
            mixer.seek(Number(event.target.value)).then(() => showPosition(container.current, mixer))}
        />
        <span class="mono fine" data-clock>
          0:00 / ${timecode(mixer.seconds)}
        </span>
        ${
          isSong &&
          html`
            <button type="button" class="quiet small" aria-disabled=${saving.busy} onClick=${downloadAll}>
              Download all (zip)
            </button>
          `
        }
      </div>
      <${ErrorNotice} error=${saving.error} />
      ${tracks.map(
        (track) => html`
          <div
            key=${track.id}
            class=${audible(track.id) ? "track" : "track silent"}
            role="group"
            aria-label=${track.name}
          >
            <div>
              <h2>${track.name}</h2>
              <div class="knobs">
                <button
                  type="button"
                  class="toggle"
                  aria-pressed=${String(muted.includes(track.id))}
                  aria-label=${`Mute ${track.name}`}
                  onClick=${() => toggle(muted, setMuted, track.id)}
                >
                  M
                </button>
                <button
                  type="button"
                  class="toggle"
                  aria-pressed=${String(solos.includes(track.id))}
                  aria-label=${`Solo ${track.name}`}
                  onClick=${() => toggle(solos, setSolos, track.id)}
                >
                  S
                </button>
                <input
                  type="range"
                  min="0"
                  max="1"
                  step="0.01"
                  value=${volumes[track.id] ?? 1}
                  aria-label=${`Volume of ${track.name}`}
                  onInput=${(event) => setVolumes({ ...volumes, [track.id]: Number(event.target.value) })}
                />
              </div>
            </div>
            <${Wave} track=${track} mixer=${mixer} />
            <button
              type="button"
              class="quiet small"
              aria-label=${`Download ${track.name}, ${sizeText(track.blob.size)}`}
              onClick=${() => save(track.blob, name(track))}
            >
              Download
            </button>
          </div>
        `,
      )}
    </div>
  `;
}

/** The waveform. A click on it seeks; for the keyboard, the position slider above does the same. */
function Wave({ track, mixer }) {
  const path = useMemo(() => {
    const top = track.peaks.map((peak, index) => `${index} ${(50 - 48 * peak).toFixed(1)}`);
    const bottom = track.peaks.map((peak, index) => `${index} ${(50 + 48 * peak).toFixed(1)}`).reverse();
    return `M${[...top, ...bottom].join("L")}Z`;
  }, [track]);
  const share = track.buffer.duration / mixer.seconds;
  const seek = (event) => {
    const rectangle = event.currentTarget.getBoundingClientRect();
    mixer.seek(((event.clientX - rectangle.left) / rectangle.width) * mixer.seconds);
  };
  return html`
    <div class="wave" onClick=${seek}>
      <svg viewBox=${`0 0 ${track.peaks.length / share} 100`} preserveAspectRatio="none" aria-hidden="true">
        <path d=${path} />
      </svg>
      <i data-head></i>
    </div>
  `;
}

/** Updates the playheads, the position slider and the clock without drawing the view again. */
function showPosition(container, mixer) {
  if (!container) return;
  const { position, seconds } = mixer;
  for (const head of container.querySelectorAll("[data-head]"))
    head.style.transform = `translateX(${(position / (seconds || 1)) * head.parentElement.clientWidth}px)`;
  container.querySelector("[data-position]").value = String(position);
  container.querySelector("[data-position]").setAttribute("aria-valuetext", timecode(position));
  container.querySelector("[data-clock]").textContent = `${timecode(position)} / ${timecode(seconds)}`;
}

const EXTENSIONS = {
  "audio/flac": "flac",
  "audio/wav": "wav",
  "audio/mpeg": "mp3",
  "audio/mp4": "m4a",
  "audio/ogg": "ogg",
};

/** A name that is valid on every file system. */
function fileName(name, blob) {
  const extension = EXTENSIONS[blob.type.split(";")[0]] || "flac";
  return `${name.replace(/[\\/:*?"<>|\p{Cc}]+/gu, " ").trim()}.${extension}`;
}

function Persona({ clip, close }) {
  const action = useAction();
  const [form, setForm] = useState({ name: "", description: "" });
  const make = (event) => {
    event.preventDefault();
    action.run(async (send) => {
      await send("POST", `/${brand}/persona/create`, {
        root_clip_id: clip.id,
        name: form.name.trim(),
        description: form.description.trim() || undefined,
      });
      go("/console/library?show=personas");
    });
  };
  return html`
    <${Dialog} title="Create a persona" close=${close}>
      <form class="stack" onSubmit=${make}>
        <p class="muted">A voice based on “${clip.title || "this clip"}”, with its own picture.</p>
        <${Field} name="persona-name" label="Name">
          <input
            id="persona-name"
            maxlength="80"
            required
            value=${form.name}
            onInput=${(event) => setForm({ ...form, name: event.target.value })}
          />
        <//>
        <${Field} name="persona-description" label="Description (optional)">
          <textarea
            id="persona-description"
            maxlength="1000"
            value=${form.description}
            onInput=${(event) => setForm({ ...form, description: event.target.value })}
          ></textarea>
        <//>
        <${ErrorNotice} error=${action.error} />
        <div>
          <${SubmitButton} busy=${action.busy}>Create persona<//>
        </div>
      </form>
    <//>
  `;
}
