import { html } from "../vendor/preact-htm.js"; export function Providers(){ return html`<h1 tabindex='-1'>Providers</h1>`; }
