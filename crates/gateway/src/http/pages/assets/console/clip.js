import { html } from "../vendor/preact-htm.js"; export function Clip(){ return html`<h1 tabindex='-1'>Clip</h1>`; }
