// The program itself, and simulated providers, for tests that stop and start them.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const PROGRAM =
  process.env.MEDIAGATE_PROGRAM || fileURLToPath(new URL("../../../../target/debug/mediagate", import.meta.url));
// Built into the same folder.
const SIMULATOR = path.join(path.dirname(PROGRAM), "simulator");

/** A gateway with its own data and two simulated providers of one model, `veo` at 0.40 USD a second. */
export async function startProgram() {
  const folder = mkdtempSync(path.join(tmpdir(), "mediagate-browser-"));
  const [providers, port] = [await freePort(), await freePort()];
  const simulator = spawn(SIMULATOR, ["--listen", `127.0.0.1:${providers}`], { stdio: "ignore" });
  writeFileSync(
    path.join(folder, "mediagate.toml"),
    `
[providers.fal]
protocol = "fal"
base_url = "http://127.0.0.1:${providers}/fal"
api_key  = "test:test"
[providers.acme]
protocol = "openai-videos"
base_url = "http://127.0.0.1:${providers}/openai-videos"
api_key  = "test"
[models.veo]
kind   = "video"
price  = { unit = "second", usd = "0.40" }
routes = [
  { provider = "fal", model = "fal-ai/veo3.1", cost = { unit = "second", usd = "0.25" } },
  { provider = "acme", model = "sora-2", cost = { unit = "second", usd = "0.30" } },
]
`,
  );
  const program = {
    url: `http://127.0.0.1:${port}`,
    simulator: `http://127.0.0.1:${providers}`,
    key: "",
    process: undefined,
  };
  const start = async () => {
    program.process = spawn(
      PROGRAM,
      [
        "serve",
        "--listen",
        `127.0.0.1:${port}`,
        "--data",
        path.join(folder, "data"),
        "--config",
        path.join(folder, "mediagate.toml"),
      ],
      { stdio: ["ignore", "pipe", "ignore"] },
    );
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
      const response = await fetch(program.url + address, {
        method,
        headers: { Authorization: `Bearer ${program.key}`, "Content-Type": "application/json" },
        body: body && JSON.stringify(body),
      });
      return response.json();
    },
    /** Stops the gateway, copies a finished free task this number of times with earlier times, and starts it again. */
    multiply: async (times) => {
      await kill();
      execFileSync("python3", ["-c", MULTIPLY, path.join(folder, "data/mediagate.db"), String(times)]);
      await start();
    },
    stop: async () => {
      await kill();
      simulator.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  });
}

const MULTIPLY = `
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.row_factory = sqlite3.Row
free = "SELECT * FROM tasks WHERE state = 'succeeded' AND money = 'free' ORDER BY id LIMIT 1"
row = dict(database.execute(free).fetchone())
begin = row["created_at"] // 1000 - 40 * 86400000
def copies():
    for number in range(int(sys.argv[2])):
        at = begin + number * 20000
        stamp = f"{at:012x}"
        times = {name: at * 1000 for name in ("created_at", "started_at", "finished_at")}
        copy = {**row, "id": f"{stamp[:8]}-{stamp[8:]}-7000-8000-{number:012x}", **times}
        yield list(copy.values())
database.executemany(f"INSERT INTO tasks ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", copies())
database.commit()
`;

/** Waits until an action returns something truthy; an exception counts as not yet. */
export async function until(action, timeout = 60_000) {
  const deadline = Date.now() + timeout;
  for (;;) {
    try {
      const result = await action();
      if (result) return result;
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
    if (Date.now() > deadline) throw new Error(`timed out: ${action}`);
    await pause(50);
  }
}

/**
 * A port below those that the kernel hands out (32768 and up): a connection cannot take it before
 * its server listens. Other tests see the reservation, which lasts as long as this process.
 */
async function freePort() {
  for (let attempt = 0; attempt < 1000; attempt++) {
    const port = 10_000 + Math.floor(Math.random() * 22_768);
    const reservation = await listen(port, "127.77.0.1");
    const probe = reservation && (await listen(port, "127.0.0.1"));
    if (!probe) continue;
    await new Promise((closed) => probe.close(closed));
    return port;
  }
  throw new Error("no port is free");
}

/** A listener that does not keep the process alive; none if the address is taken. */
function listen(port, host) {
  return new Promise((resolve) => {
    const server = createServer().unref();
    server.once("error", () => resolve(undefined));
    server.listen(port, host, () => resolve(server));
  });
}
