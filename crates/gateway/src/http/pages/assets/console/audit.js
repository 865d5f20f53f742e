import { html } from "../vendor/preact-htm.js"; export function Audit(){ return html`<h1 tabindex='-1'>Audit</h1>`; }
