// The page that checks a file: sends it and shows the result.

import { provenanceLines } from "./origin.js";

// Where the console stores the key of this tab.
const KEY = "mediagate.key";
const byId = (id) => document.getElementById(id);

const KINDS = { video: "video", song: "song", stem: "stem" };

const form = document.getElementById("check");
if (form) {
  byId("key").value = sessionStorage.getItem(KEY) || "";
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    check(byId("file").files[0]);
  });
  for (const name of ["dragenter", "dragover"]) form.addEventListener(name, (event) => highlight(event, true));
  for (const name of ["dragleave", "drop"]) form.addEventListener(name, (event) => highlight(event, false));
  form.addEventListener("drop", (event) => {
    if (event.dataTransfer.files.length) byId("file").files = event.dataTransfer.files;
    check(byId("file").files[0]);
  });
}

function highlight(event, over) {
  event.preventDefault();
  form.classList.toggle("over", over);
}

async function check(file) {
  if (!file) return;
  byId("found").replaceChildren();
  byId("said").textContent = `Checking ${file.name} …`;
  const body = new FormData();
  body.append("file", file);
  const enteredKey = byId("key").value.trim();
  const headers = enteredKey ? { Authorization: `Bearer ${enteredKey}` } : {};
  try {
    const response = await fetch("/v1/provenance/check", { method: "POST", headers, body, cache: "no-store" });
    const report = await response.json().catch(() => ({}));
    if (!response.ok) {
      byId("said").textContent = (report.error && report.error.message) || `The gateway returned ${response.status}.`;
      // This installation requires a key; now one can be entered.
      if (response.status === 401) byId("key-box").hidden = false;
      return;
    }
    byId("said").textContent = verdict(report);
    byId("found").replaceChildren(facts(report));
  } catch {
    byId("said").textContent = "The gateway cannot be reached.";
  }
}

function verdict({ ours, matches }) {
  if (ours.exact) return "This gateway made this file.";
  if (ours.signed) return "This file has this gateway's signature and is unchanged since it was signed.";
  if (ours.watermarked) return "This file has this gateway's watermark.";
  if (matches.length) return "This file is similar to a result of this gateway.";
  return "No evidence was found that this gateway made this file.";
}

function facts(report) {
  const lines = [
    ...provenanceLines(report.provenance),
    ...report.actions.map((step) => ["Action", [step.action, step.software, step.when].filter(Boolean).join(", ")]),
    ...(report.prompt ? [["Prompt", report.prompt]] : []),
    ...report.ingredients.map((title) => ["Ingredient", title]),
    ...report.matches.map((match) => ["Match", matchText(match)]),
    ...report.notes.map((note) => ["Note", note]),
    ["SHA-256", report.sha256],
  ];
  const list = element("dl", "");
  list.className = "found card";
  for (const [name, value] of lines) list.append(element("dt", name), element("dd", String(value)));
  return list;
}

function matchText(match) {
  const methods = { exact: "identical file", watermark: "matched by its watermark", near: `similar ${match.of}` };
  const method = methods[match.match];
  const model = match.made_by === "hosted" ? "a hosted model" : "an embedded model";
  const result = `a ${KINDS[match.kind] || match.kind} of ${model}`;
  const owner = match.own ? `, yours: ${match.clip_id || match.task_id}` : "";
  return `${result}, ${new Date(match.made_at).toLocaleString()}, ${method}${owner}`;
}

function element(name, text) {
  const node = document.createElement(name);
  node.textContent = text;
  return node;
}
