// Bars over time, stacked by group. They are boxes and no drawing, so that their words keep their size on a
// phone. Money becomes a number here for the height of a bar, and nowhere for a sum.

import { html, useState } from "../vendor/preact-htm.js";

const LINES = 4;
/** So many names below the bars; a phone shows every second one. */
const NAMES = 8;

/** The colours of groups, in the order of the largest; what is left has the last. */
export const MARKS = ["c1", "c2", "c3", "c4", "c5", "rest"];

/**
 * @param {{bars: {name: string, parts: {mark: string, value: number}[], label: string}[], legend?: {mark: string, name: string}[],
 *   label: string, sum: any, say: (value: number) => string}} chart `sum` stands above the bars until one is pointed at
 */
export function Bars({ bars, legend = [], label, sum, say }) {
  const [at, setAt] = useState(-1);
  const heights = bars.map((bar) => bar.parts.reduce((all, part) => all + part.value, 0));
  const step = stepOf(Math.max(...heights, 0));
  const top = Math.max(step, Math.ceil(Math.max(...heights, 0) / step - 1e-9) * step);
  const lines = Array.from({ length: Math.round(top / step) + 1 }, (_, line) => line * step);
  const every = Math.ceil(bars.length / NAMES);
  const pointed = bars[at];
  return html`<figure class="chart" role="img" aria-label=${label}>
    <div class="between chart-head"><p class="chart-sum">${pointed ? html`<strong>${pointed.name}</strong> ${pointed.label}` : sum}</p>
      ${legend.length > 1 && html`<ul class="legend">${legend.map((one) => html`<li key=${one.name}><i class=${one.mark}></i>${one.name}</li>`)}</ul>`}</div>
    <div class="plot">${lines.map((line) => html`<span key=${line} class="line-at" style=${{ bottom: `${(100 * line) / top}%` }}><span>${say(line)}</span></span>`)}
      <div class="bars" onMouseLeave=${() => setAt(-1)}>${bars.map((bar, place) => html`<div key=${bar.name} class="column" onMouseEnter=${() => setAt(place)}>
        ${bar.parts.filter((part) => part.value > 0).map((part) => html`<b key=${part.mark} class=${part.mark} style=${{ height: `${(100 * part.value) / top}%` }}></b>`)}</div>`)}</div></div>
    <div class="axis">${bars.map((bar, place) => place % every === 0 && html`<span key=${bar.name} class=${(place / every) % 2 ? "second" : ""} style=${nameAt(place / bars.length, (place + 1) / bars.length)}>${bar.name}</span>`)}</div>
  </figure>`;
}

/** Where a bar's name stands: from where the bar begins, and near the right edge up to where it ends. @param {number} from @param {number} to */
const nameAt = (from, to) => (from > 0.8 ? { right: `${100 * (1 - to)}%` } : { left: `${100 * from}%` });

/** The distance of the lines: 1, 2 or 5 with zeros. */
function stepOf(/** @type {number} */ most) {
  if (most <= 0) return 1;
  const raw = most / LINES;
  const ten = 10 ** Math.floor(Math.log10(raw));
  return ten * ([1, 2, 5, 10].find((one) => one * ten >= raw - 1e-12) || 10);
}

/** A day as people write it: 24 Nov. @param {string} text as 2026-11-24 */
export const dayName = (text) => new Date(`${text}T00:00:00Z`).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
