// The page that checks a file: sends it and tells what was found.

import { provenanceLines } from "./origin.js";

// Where the console keeps the key of this tab.
const KEY = "mediagate.key";
const at = (id) => document.getElementById(id);

const KINDS = { video: "video", song: "song", stem: "stem" };

const form = document.getElementById("check");
if (form) {
  at("key").value = sessionStorage.getItem(KEY) || "";
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    check(at("file").files[0]);
  });
  for (const name of ["dragenter", "dragover"]) form.addEventListener(name, (event) => mark(event, true));
  for (const name of ["dragleave", "drop"]) form.addEventListener(name, (event) => mark(event, false));
  form.addEventListener("drop", (event) => {
    if (event.dataTransfer.files.length) at("file").files = event.dataTransfer.files;
    check(at("file").files[0]);
  });
}

function mark(event, over) {
  event.preventDefault();
  form.classList.toggle("over", over);
}

async function check(file) {
  if (!file) return;
  at("found").replaceChildren();
  at("said").textContent = `Checking ${file.name} …`;
  const body = new FormData();
  body.append("file", file);
  const used = at("key").value.trim();
  const headers = used ? { Authorization: `Bearer ${used}` } : {};
  try {
    const response = await fetch("/v1/provenance/check", { method: "POST", headers, body, cache: "no-store" });
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) {
      at("said").textContent = (answer.error && answer.error.message) || `The gateway returned ${response.status}.`;
      // Whoever may not ask without a key can give one.
      if (response.status === 401) at("key-box").hidden = false;
      return;
    }
    at("said").textContent = verdict(answer);
    at("found").replaceChildren(facts(answer));
  } catch {
    at("said").textContent = "The gateway cannot be reached.";
  }
}

function verdict({ ours, matches }) {
  if (ours.exact) return "This gateway made this file.";
  if (ours.signed) return "This file has this gateway's signature and is unchanged since it was signed.";
  if (ours.watermarked) return "This file has this gateway's watermark.";
  if (matches.length) return "This file is similar to a result of this gateway.";
  return "No evidence was found that this gateway made this file.";
}

function facts(answer) {
  const lines = [
    ...provenanceLines(answer.provenance),
    ...answer.actions.map((step) => ["Action", [step.action, step.software, step.when].filter(Boolean).join(", ")]),
    ...(answer.prompt ? [["Prompt", answer.prompt]] : []),
    ...answer.ingredients.map((title) => ["Ingredient", title]),
    ...answer.matches.map((found) => ["Match", match(found)]),
    ...answer.notes.map((note) => ["Note", note]),
    ["SHA-256", answer.sha256],
  ];
  const list = element("dl", "");
  list.className = "found card";
  for (const [name, value] of lines) list.append(element("dt", name), element("dd", String(value)));
  return list;
}

function match(found) {
  const how = { exact: "identical file", watermark: "matched by its watermark", near: `similar ${found.of}` }[found.match];
  const what = `a ${KINDS[found.kind] || found.kind} of ${found.made_by === "hosted" ? "a hosted" : "an embedded"} model`;
  const own = found.own ? `, yours: ${found.clip_id || found.task_id}` : "";
  return `${what}, ${new Date(found.made_at).toLocaleString()}, ${how}${own}`;
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}
