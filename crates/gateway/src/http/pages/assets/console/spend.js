import { html } from "../vendor/preact-htm.js"; export function Spend(){ return html`<h1 tabindex='-1'>Spend</h1>`; }
