// A gateway that dies while a video is made: the page says so, goes on following, and nothing is made twice.
//
// This test starts a gateway of its own, to kill it. MEDIAGATE_PROGRAM names the program; without it, the test is
// left out. CHROMIUM says which browser.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { chromium } from "playwright-core";

const PROGRAM = process.env.MEDIAGATE_PROGRAM;
const PATIENCE_MS = 120_000;

/** A port that was free a moment ago. */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

async function start(port, data) {
  const child = spawn(PROGRAM, ["serve", "--listen", `127.0.0.1:${port}`, "--data", data], { stdio: ["ignore", "pipe", "ignore"] });
  const printed = await new Promise((resolve, reject) => {
    let text = "";
    child.on("exit", () => reject(new Error(`the gateway ended: ${text}`)));
    child.stdout.on("data", (piece) => {
      text += piece;
      if (/ready at http/.test(text)) resolve(text);
    });
  });
  return { child, printed };
}

function dead(child) {
  return new Promise((resolve) => {
    child.removeAllListeners("exit");
    child.on("exit", resolve);
    child.kill("SIGKILL");
  });
}

test("a gateway that is killed while a video is made", { skip: !PROGRAM, timeout: 3 * PATIENCE_MS }, async () => {
  const data = mkdtempSync(path.join(tmpdir(), "mediagate-"));
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  let { child } = await start(port, data);
  const key = execFileSync(PROGRAM, ["keys", "create", "--name", "browser", "--data", data], { encoding: "utf8" }).trim();
  const tasks = async () => {
    const answer = await fetch(`${base}/v1/tasks?kind=video`, { headers: { Authorization: `Bearer ${key}` } });
    return (await answer.json()).data;
  };
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || execFileSync("which", ["chromium"], { encoding: "utf8" }).trim(),
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
  });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.goto(`${base}/console`);
    await page.getByLabel("API key").fill(key);
    await page.getByLabel("API key").press("Enter");
    const form = page.locator("#video-form");
    const result = form.locator(".result");
    const button = form.getByRole("button", { name: "Make the video" });
    const fill = async () => {
      await form.getByLabel("Prompt").fill("a lake at dawn");
      await form.getByLabel("Seconds").fill("12");
      await form.getByLabel("Size").fill("1280x720");
    };

    // The answer to the order is lost, and the gateway is away: the page asks again, with the same key.
    await page.getByRole("tab", { name: "Video" }).click();
    await fill();
    const keys = [];
    await page.route("**/v1/videos", async (route) => {
      keys.push(route.request().headers()["idempotency-key"]);
      if (keys.length > 1) return route.continue();
      await route.fetch();
      await dead(child);
      return route.abort("connectionreset");
    });
    await button.click();
    await result.getByText("connection lost, asking again").waitFor();
    assert.ok(await button.isDisabled(), "a second click makes nothing");
    ({ child } = await start(port, data));

    // Killed once more while it is made: the page follows the task on, even after a reload.
    await result.getByText(/queued|running/).waitFor();
    await dead(child);
    await result.getByText("connection lost, your task goes on").waitFor();
    assert.ok(await button.isDisabled());
    ({ child } = await start(port, data));
    await page.reload();
    await page.getByRole("tab", { name: "Video" }).click();
    await page.getByRole("dialog").locator("video").waitFor();
    await result.getByText("done").waitFor();

    assert.equal(new Set(keys).size, 1, "one key for one form");
    assert.match(keys[0], /^console-[0-9a-f]{32}-video$/);
    const made = await tasks();
    assert.deepEqual(made.map((task) => task.status), ["succeeded"], "one task, although it was asked for twice");

    // Its result is shown, so the next click is another order.
    await page.getByRole("button", { name: "Close" }).click();
    await fill();
    await button.click();
    await result.getByText(/queued|running|done/).waitFor();
    assert.equal((await tasks()).length, 2);
  } finally {
    await browser.close();
    await dead(child);
    rmSync(data, { recursive: true, force: true });
  }
});
