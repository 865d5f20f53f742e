import { html } from "../vendor/preact-htm.js"; export function Keys(){ return html`<h1 tabindex='-1'>Keys</h1>`; }
