// Library: results and uploads, shown with their pictures.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { safeUrl, brand, call, queryString } from "./api.js";
import { clips } from "./clip.js";
import { go, withQuery } from "./router.js";
import { EmptyState, PageHeader, Loader, Pager, Tabs, RelativeTime, timecode, useLoad } from "./ui.js";
import { taskTitle } from "./tasks.js";

const SHOWS = /** @type {[string, string][]} */ ([
  ["videos", "Videos"],
  ["clips", "Clips"],
  ["uploads", "Uploads"],
  ["personas", "Personas"],
]);
const SEARCH_AFTER_MS = 350;

export function Library({ query }) {
  const show = SHOWS.some(([id]) => id === query.get("show")) ? query.get("show") : "videos";
  const words = query.get("q") || "";
  const [text, setText] = useState(words);
  const [timer, setTimer] = useState(0);
  useEffect(() => setText(words), [words]);
  const type = (event) => {
    const { value } = event.target;
    setText(value);
    clearTimeout(timer);
    setTimer(
      setTimeout(() => go(withQuery({ q: value.trim(), after: undefined }), { replace: true }), SEARCH_AFTER_MS),
    );
  };
  const Show = { videos: Videos, clips: Clips, uploads: Clips, personas: Personas }[show];
  return html`
    <${PageHeader} title="Library" small="Results, uploads and personas." />
    <div class="filters" role="search">
      <div class="field grow">
        <label for="library-q">Search</label>
        <input
          id="library-q"
          type="search"
          data-search
          value=${text}
          onInput=${type}
          placeholder=${show === "videos" ? "Words from the prompt" : "Words from the title"}
        />
      </div>
    </div>
    <${Tabs}
      name="Library"
      tabs=${SHOWS}
      chosen=${show}
      choose=${(id) => go(withQuery({ show: id, after: undefined }))}
    />
    <div role="tabpanel" id="panel-Library" aria-labelledby=${`tab-Library-${show}`}>
      <${Show} key=${show} show=${show} words=${words} after=${query.get("after") || ""} />
    </div>
  `;
}

function Videos({ words, after }) {
  const search = queryString({ kind: "video", status: "succeeded", q: words, after, limit: 24 });
  const list = useLoad((signal) => call("GET", `/v1/tasks${search}`, undefined, { signal }), [search]);
  return html`
    <${Loader} load=${list}>
      ${(page) =>
        page.data.length === 0
          ? html`<${NoItems} words=${words} what="video" />`
          : html`
            <ul class="tiles-grid">
              ${page.data.map((task) => {
                const video = task.output?.videos?.[0];
                const poster = safeUrl(task.poster_url);
                const source = video && !video.removed && safeUrl(video.url);
                return html`
                  <li key=${task.id} class="tile">
                    ${
                      poster
                        ? html`<img src=${poster} alt="" loading="lazy" />`
                        : source
                          ? html`
                            <video
                              src=${`${source}#t=0.1`}
                              preload="metadata"
                              muted
                              aria-hidden="true"
                              tabindex="-1"
                            ></video>
                          `
                          : html`<span class="thumb">no longer stored</span>`
                    }
                    <div>
                      <a href=${`/console/tasks/${task.id}`}>${taskTitle(task)}</a>
                      <span class="fine">
                        ${task.model} · <${RelativeTime} time=${task.created_at} />
                      </span>
                    </div>
                  </li>
                `;
              })}
            </ul>
            <${Pager}
              list=${page}
              after=${after}
              newest=${withQuery({ after: undefined })}
              older=${withQuery({ after: page.last_id })}
            />
          `}
    <//>
  `;
}

function Clips({ show, words }) {
  const list = useLoad((signal) => clips(signal), [show]);
  return html`
    <${Loader} load=${list}>
      ${(all) => {
        const matching = all.filter(
          (clip) => (clip.metadata.type === "upload") === (show === "uploads") && matches(clip.title, words),
        );
        if (!matching.length) return html`<${NoItems} words=${words} what=${show === "uploads" ? "upload" : "clip"} />`;
        return html`
          <ul class="tiles-grid">
            ${matching.map((clip) => {
              const picture = safeUrl(clip.image_large_url || clip.image_url);
              return html`
                <li key=${clip.id} class="tile square">
                  ${
                    picture
                      ? html`<img src=${picture} alt="" loading="lazy" />`
                      : html`<span class="thumb">${clip.status}</span>`
                  }
                  <div>
                    <a href=${`/console/library/clips/${clip.id}`}>${clip.title || "Untitled"}</a>
                    <span class="fine">
                      ${clip.metadata.duration ? `${timecode(clip.metadata.duration)} · ` : ""}
                      <${RelativeTime} time=${clip.created_at} />
                    </span>
                  </div>
                </li>
              `;
            })}
          </ul>
          ${all.length >= 500 && html`<p class="fine">Only the newest 500 clips are searched.</p>`}
        `;
      }}
    <//>
  `;
}

function Personas({ words, after }) {
  const search = queryString({ limit: 50, after });
  const list = useLoad((signal) => call("GET", `/${brand}/personas${search}`, undefined, { signal }), [search]);
  return html`
    <${Loader} load=${list}>
      ${(page) => {
        const matching = page.data.filter((persona) => matches(`${persona.name} ${persona.description}`, words));
        if (!matching.length) return html`<${NoItems} words=${words} what="persona" />`;
        return html`
          <ul class="tiles-grid">
            ${matching.map((persona) => {
              const picture = [persona.image_s3_id, persona.clip?.image_large_url, persona.clip?.image_url].find(
                (url) => /^(https?:|\/)/.test(url || ""),
              );
              return html`
                <li key=${persona.id} class="tile square">
                  ${picture && html`<img src=${safeUrl(picture)} alt="" loading="lazy" />`}
                  <div>
                    <a href=${`/console/library/clips/${persona.root_clip_id}`}>${persona.name}</a>
                    <span class="fine">${persona.description || "No description"}</span>
                  </div>
                </li>
              `;
            })}
          </ul>
          <${Pager}
            list=${page}
            after=${after}
            newest=${withQuery({ after: undefined })}
            older=${withQuery({ after: page.last_id })}
          />
        `;
      }}
    <//>
  `;
}

function NoItems({ words, what }) {
  if (words) return html`<${EmptyState} title=${`No ${what} matches “${words}”`} />`;
  const hints = {
    video: ["Your videos appear here.", "/console/create", "Create a video"],
    clip: [
      "Your songs and stems appear here.",
      `/console/create/${document.body.dataset.musicModel}`,
      "Separate a song",
    ],
    upload: [
      "The songs that you upload appear here.",
      `/console/create/${document.body.dataset.musicModel}`,
      "Upload a song",
    ],
    persona: [
      "A persona is a voice based on a clip. Open a clip and choose “Create a persona”.",
      "/console/library?show=clips",
      "Open the clips",
    ],
  }[what];
  return html`
    <${EmptyState} title=${`No ${what}s yet`}>
      <p>${hints[0]}</p>
      <p class="acts">
        <a class="button" href=${hints[1]}>
          ${hints[2]}
        </a>
      </p>
    <//>
  `;
}

const matches = (text, words) =>
  words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => (text || "").toLowerCase().includes(word));
