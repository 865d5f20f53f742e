// The program itself, and simulated providers, for tests that stop and start them.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const TARGET = process.env.MEDIAGATE_TARGET || path.resolve(import.meta.dirname, "../../../../target");

/** A gateway with its own data and two simulated providers of one model, `veo` at 0.40 USD a second. */
export async function startProgram() {
  const folder = mkdtempSync(path.join(tmpdir(), "mediagate-browser-"));
  const [providers, port] = [await freePort(), await freePort()];
  const simulator = spawn(path.join(TARGET, "debug/simulator"), ["--listen", `127.0.0.1:${providers}`], { stdio: "ignore" });
  writeFileSync(path.join(folder, "mediagate.toml"), `
[providers.fal]
protocol = "fal"
base_url = "http://127.0.0.1:${providers}/fal"
api_key  = "test:test"
[providers.acme]
protocol = "openai-videos"
base_url = "http://127.0.0.1:${providers}/openai-videos/v1"
api_key  = "test"
[models.veo]
kind   = "video"
price  = { unit = "second", usd = "0.40" }
routes = [{ provider = "fal", model = "fal-ai/veo3.1" }, { provider = "acme", model = "sora-2" }]
`);
  const program = { url: `http://127.0.0.1:${port}`, simulator: `http://127.0.0.1:${providers}`, key: "", process: undefined };
  const start = async () => {
    program.process = spawn(path.join(TARGET, "debug/mediagate"), ["serve", "--listen", `127.0.0.1:${port}`, "--data", path.join(folder, "data"), "--config", path.join(folder, "mediagate.toml")], { stdio: ["ignore", "pipe", "ignore"] });
    program.process.stdout.on("data", (text) => (program.key ||= /^ *(sk-mg-\w+)$/m.exec(String(text))?.[1] || ""));
    await until(async () => program.key && (await fetch(`${program.url}/readyz`)).ok);
  };
  const kill = async () => {
    const ended = new Promise((resolve) => program.process.once("exit", resolve));
    program.process.kill("SIGKILL");
    await ended;
  };
  await until(async () => (await fetch(program.simulator)).status > 0);
  await start();
  return Object.assign(program, {
    start,
    kill,
    /** Calls the API with the first key. */
    call: async (method, address, body) => {
      const response = await fetch(program.url + address, { method, headers: { Authorization: `Bearer ${program.key}`, "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
      return response.json();
    },
    stop: async () => {
      await kill();
      simulator.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  });
}

/** Waits until an action answers something true; what it throws is not yet true. */
export async function until(action, patience = 60_000) {
  const end = Date.now() + patience;
  for (;;) {
    try {
      const found = await action();
      if (found) return found;
    } catch (error) {
      if (Date.now() > end) throw error;
    }
    if (Date.now() > end) throw new Error(`still not: ${action}`);
    await pause(50);
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
