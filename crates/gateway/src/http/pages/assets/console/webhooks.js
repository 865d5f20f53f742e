import { html } from "../vendor/preact-htm.js"; export function Webhooks(){ return html`<h1>w</h1>`; } export function Endpoint(){return null}
