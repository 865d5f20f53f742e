// How the routes to hosted providers stand, for keys that may see them.

import { at, call, make } from "./api.js";

const EVERY = 5000;
let timer;

function row(model, route) {
  const paused = route.paused_until ? `paused until ${new Date(route.paused_until).toLocaleTimeString()}` : "unreachable";
  const state = make("span", { className: `status ${route.available ? "succeeded" : "failed"}` }, route.available ? "works" : paused);
  const cell = (content) => make("td", {}, content);
  return make("tr", {}, cell(model), cell(route.provider), cell(route.model), cell(state));
}

async function refresh() {
  try {
    const models = await call("GET", "/v1/models");
    const rows = models.data.flatMap((model) => (model.routes || []).map((route) => row(model.id, route)));
    at("routes-section").hidden = rows.length === 0;
    at("route-rows").replaceChildren(...rows);
  } catch {
    // The task list tells of a gateway that cannot be reached.
  }
}

export function startRoutes() {
  stopRoutes();
  refresh();
  timer = setInterval(refresh, EVERY);
}

export function stopRoutes() {
  clearInterval(timer);
}
