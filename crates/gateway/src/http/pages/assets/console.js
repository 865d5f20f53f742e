// The console's entry: the key form, the tabs, and which of the two screens is shown.

import { at, call, key, tell, whenDenied } from "./api.js";
import { startMoney, stopMoney } from "./money.js";
import { startPlayground } from "./playground.js";
import { startRoutes, stopRoutes } from "./routes.js";
import { startTasks, stopTasks } from "./tasks.js";

function showForm(message) {
  stopTasks();
  stopRoutes();
  stopMoney();
  at("desk").hidden = true;
  at("key-section").hidden = false;
  at("key-error").hidden = !message;
  at("key-error").textContent = message || "";
  if (at("detail").open) at("detail").close();
  at("key").focus();
}

function showDesk() {
  at("key-section").hidden = true;
  at("desk").hidden = false;
  startTasks();
  startRoutes();
  startMoney();
  startPlayground();
}

async function open(event) {
  event.preventDefault();
  const button = event.target.querySelector("button");
  key.keep(at("key").value.trim());
  button.disabled = true;
  try {
    await call("GET", "/v1/tasks?limit=1");
    at("key").value = "";
    showDesk();
  } catch (error) {
    if (error.status === 403) showDesk();
    else {
      key.forget();
      showForm(tell(error));
    }
  } finally {
    button.disabled = false;
  }
}

function startTabs() {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const choose = (chosen) => {
    for (const tab of tabs) {
      const selected = tab === chosen;
      tab.setAttribute("aria-selected", String(selected));
      tab.tabIndex = selected ? 0 : -1;
      at(tab.getAttribute("aria-controls")).hidden = !selected;
    }
  };
  for (const [index, tab] of tabs.entries()) {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(index + step + tabs.length) % tabs.length];
      choose(next);
      next.focus();
    });
  }
}

whenDenied((error) => {
  key.forget();
  showForm(tell(error));
});
at("key-form").addEventListener("submit", open);
at("forget").addEventListener("click", () => {
  // What was being made, too.
  sessionStorage.clear();
  showForm();
});
startTabs();
if (key.read()) showDesk();
else showForm();
