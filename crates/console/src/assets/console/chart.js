// Bars over time, stacked by group. They are HTML boxes, not an image, so that the text keeps its size on a phone.
// Money becomes a number here only for the heights of bars, never for a sum.

import { html, useState } from "../vendor/preact-htm.js";

const LINES = 4;
/** Number of names below the bars; a phone shows every second one. */
const NAMES = 8;

/** The colours of groups, the largest first; all other groups share the last colour. */
export const MARKS = ["c1", "c2", "c3", "c4", "c5", "rest"];

/**
 * @typedef {{mark: string, value: number}} Part
 * @typedef {{name: string, parts: Part[], label: string}} Bar
 * @typedef {{mark: string, name: string}} LegendEntry
 */

/**
 * @param {{bars: Bar[], legend?: LegendEntry[], label: string, sum: any, format: (value: number) => string}} chart
 *   `sum` is shown above the bars while no bar is pointed at
 */
export function BarChart({ bars, legend = [], label, sum, format }) {
  const [pointedIndex, setPointedIndex] = useState(-1);
  const heights = bars.map((bar) => bar.parts.reduce((total, part) => total + part.value, 0));
  const step = lineDistance(Math.max(...heights, 0));
  const top = Math.max(step, Math.ceil(Math.max(...heights, 0) / step - 1e-9) * step);
  const lines = Array.from({ length: Math.round(top / step) + 1 }, (_, line) => line * step);
  const every = Math.ceil(bars.length / NAMES);
  const pointed = bars[pointedIndex];
  return html`
    <figure class="chart" role="img" aria-label=${label}>
      <div class="between chart-head">
        <p class="chart-sum">
          ${pointed ? html`<strong>${pointed.name}</strong> ${pointed.label}` : sum}
        </p>
        ${
          legend.length > 1 &&
          html`
            <ul class="legend">
              ${legend.map(
                (entry) => html`
                  <li key=${entry.name}>
                    <i class=${entry.mark}></i>
                    ${entry.name}
                  </li>
                `,
              )}
            </ul>
          `
        }
      </div>
      <div class="plot">
        ${lines.map(
          (line) => html`
            <span key=${line} class="line-at" style=${{ bottom: `${(100 * line) / top}%` }}>
              <span>${format(line)}</span>
            </span>
          `,
        )}
        <div class="bars" onMouseLeave=${() => setPointedIndex(-1)}>
          ${bars.map(
            (bar, index) => html`
              <div key=${bar.name} class="column" onMouseEnter=${() => setPointedIndex(index)}>
                ${bar.parts
                  .filter((part) => part.value > 0)
                  .map(
                    ({ mark, value }) =>
                      html`<b key=${mark} class=${mark} style=${{ height: `${(100 * value) / top}%` }}></b>`,
                  )}
              </div>
            `,
          )}
        </div>
      </div>
      <div class="axis">
        ${bars.map(
          (bar, index) =>
            index % every === 0 &&
            html`
              <span
                key=${bar.name}
                class=${(index / every) % 2 ? "second" : ""}
                style=${namePosition(index / bars.length, (index + 1) / bars.length)}
              >
                ${bar.name}
              </span>
            `,
        )}
      </div>
    </figure>
  `;
}

/**
 * The position of a bar's name: at the bar's left edge, or near the right end of the chart at its right edge.
 * @param {number} from
 * @param {number} to
 */
const namePosition = (from, to) => (from > 0.8 ? { right: `${100 * (1 - to)}%` } : { left: `${100 * from}%` });

/** The distance between the lines: 1, 2 or 5 times a power of ten. */
function lineDistance(/** @type {number} */ maximum) {
  if (maximum <= 0) return 1;
  const minimum = maximum / LINES;
  const power = 10 ** Math.floor(Math.log10(minimum));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= minimum - 1e-12) || 10);
}

/** A day as people write it: 24 Nov. @param {string} text as 2026-11-24 */
export const dayName = (text) =>
  new Date(`${text}T00:00:00Z`).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
