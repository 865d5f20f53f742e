import { html } from "../vendor/preact-htm.js"; export function Accounts(){ return html`<h1 tabindex='-1'>Accounts</h1>`; }
