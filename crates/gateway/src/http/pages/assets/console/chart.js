// Bars by day, as SVG. Money becomes a number here for the height of a bar, and nowhere for a sum.

import { html } from "../vendor/preact-htm.js";

const WIDTH = 720;
const HEIGHT = 170;
const FOOT = 20;

/** @param {{bars: {name: string, value: number, label: string}[], label: string}} chart */
export function Bars({ bars, label }) {
  const most = Math.max(...bars.map((bar) => bar.value), 0) || 1;
  const step = WIDTH / bars.length;
  const every = Math.ceil(bars.length / 8);
  return html`<svg class="chart" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${label}>
    <line class="base" x1="0" x2=${WIDTH} y1=${HEIGHT - FOOT} y2=${HEIGHT - FOOT} />
    ${bars.map((bar, at) => {
      const height = bar.value ? Math.max(2, (bar.value / most) * (HEIGHT - FOOT - 8)) : 0;
      return html`<g key=${bar.name}><title>${bar.name}: ${bar.label}</title>
        <rect x=${at * step + step * 0.14} y=${HEIGHT - FOOT - height} width=${Math.min(step * 0.72, 48)} height=${height} rx="3" />
        ${at % every === 0 && html`<text x=${at * step + step * 0.14} y=${HEIGHT - 4}>${bar.name.slice(5)}</text>`}</g>`;
    })}</svg>`;
}
