import { html } from "../vendor/preact-htm.js"; export function Now(){ return html`<h1 tabindex='-1'>Now</h1>`; }
