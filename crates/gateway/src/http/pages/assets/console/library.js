import { html } from "../vendor/preact-htm.js"; export function Library(){ return html`<h1 tabindex='-1'>Library</h1>`; }
