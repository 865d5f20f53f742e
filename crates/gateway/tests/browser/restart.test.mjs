// The console and a gateway that is killed, restarts, fails over and has many tasks. These tests start their own
// gateway, to kill it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { DESKTOP, assertAccessible, assertFits, play, shoot, visiting } from "./browser.mjs";
import { startProgram } from "./program.mjs";

const LOST = "Connection lost.";
let program;

before(async () => {
  program = await startProgram();
});
after(() => program?.stop());

const visit = (name, steps) => visiting(name, { ...DESKTOP, base: program.url, key: program.key }, steps);

test("a page follows its task although the gateway is killed, and the video is made once", () =>
  visit("killed", async (page, complaints) => {
    await page.goto("/console/create/animatic-1");
    const fill = async () => {
      await page.getByLabel("Prompt", { exact: true }).fill("A lake at dawn");
      await page.getByLabel("Length").selectOption("12");
    };
    const generate = page.getByRole("button", { name: /^Generate/ });
    await fill();
    await generate.waitFor();
    const keys = [];
    await page.route("**/v1/videos", async (route) => {
      keys.push(route.request().headers()["idempotency-key"]);
      if (keys.length > 1) return route.continue();
      await route.fetch();
      await program.kill();
      return route.abort("connectionreset");
    });
    await generate.click();
    await page.getByText(LOST).waitFor();
    await assertAccessible(page);
    await shoot(page, "console connection lost");
    await generate.click(); // It joins the first request.
    await program.start();

    // Killed once more while the video is made: the page follows the task, even after a reload.
    await page.getByText(/Waiting in the queue|In progress/).waitFor();
    await program.kill();
    await page.getByText(LOST).waitFor();
    await program.start();
    await page.reload();
    const video = await play(page.locator(".result video"));
    assert.ok(video.duration > 11, `${video.duration} s`);
    assert.equal(new Set(keys).size, 1, "one idempotency key for one form");
    const tasks = async () => (await program.call("GET", "/v1/tasks")).data;
    assert.deepEqual(
      (await tasks()).map((task) => task.status),
      ["succeeded"],
      "one task, although it was ordered twice",
    );

    // Its result was shown, so the next click is another order.
    await fill();
    await generate.click();
    await page.getByText(/Waiting in the queue|In progress/).waitFor();
    const [second] = await tasks();
    assert.equal((await tasks()).length, 2);
    await program.call("POST", `/v1/tasks/${second.id}/cancel`);
    await page.getByText("The task was cancelled.").waitFor();
    complaints.length = 0; // The browser reports the lost connections itself.
  }));

test("the price is on the button, and the timeline shows a provider that refused", () =>
  visit("failover", async (page) => {
    await fetch(`${program.simulator}/_/faults`, {
      method: "POST",
      body: JSON.stringify({ fault: { status: { status: 429 } }, provider: "fal", role: "submit", times: 20 }),
    });
    await page.goto("/console/create/veo");
    await page.getByLabel("Prompt", { exact: true }).fill("A kite over a dune");
    await page.getByLabel("Length").selectOption("8");
    await page.getByRole("button", { name: "Generate · 3.20 USD" }).click();
    await page.getByRole("link", { name: "Open the task" }).click();
    await page.getByText("Settled: 3.20 USD").waitFor();
    await page.getByText("acme (sora-2): succeeded").waitFor();
    const line = await page.locator(".line").innerText();
    assert.match(line, /fal \(fal-ai\/veo3\.1\): rejected[\s\S]*acme \(sora-2\): succeeded[\s\S]*Stored/);
    await assertAccessible(page);
    await shoot(page, "console task failover");
    await page.goto("/console/spend");
    await page.getByText("3.20 USD").first().waitFor();
  }));

test("an estimated progress is shown as an estimate", () =>
  visit("guess", async (page) => {
    const { id } = await program.call("POST", "/v1/videos", {
      model: "animatic-1",
      prompt: "A slow river",
      seconds: "12",
    });
    const task = id.replace("video_", "").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
    const estimate = { status: "running", progress: 37, progress_estimated: true };
    await page.route("**/v1/tasks?*", async (route) => {
      const list = await (await route.fetch()).json();
      return route.fulfill({
        json: { ...list, data: list.data.map((entry) => (entry.id === task ? { ...entry, ...estimate } : entry)) },
      });
    });
    await page.route(`**/v1/tasks/${task}`, async (route) =>
      route.fulfill({ json: { ...(await (await route.fetch()).json()), ...estimate } }),
    );
    await page.route(`**/v1/tasks/${task}/events*`, () => {}); // No event arrives.
    await page.goto("/console/tasks");
    await page.locator("tbody tr", { hasText: "A slow river" }).getByText("about 37 %").waitFor();
    await page.goto(`/console/tasks/${task}`);
    await page.getByText("about 37 %, estimated from the model's usual time").waitFor();
    await program.call("POST", `/v1/tasks/${task}/cancel`);
  }));

test("a view shows that its gateway is unreachable, and recovers by itself", () =>
  visit("gone", async (page, complaints) => {
    await page.goto("/console/tasks");
    await page.locator("table").waitFor();
    await program.kill();
    await page.getByRole("link", { name: "Webhooks" }).click();
    await page.getByText("The gateway cannot be reached.").waitFor();
    await assertAccessible(page);
    await assertFits(page);
    await shoot(page, "console gone");
    await program.start();
    await page.getByText("No endpoints yet").waitFor();
    complaints.length = 0; // The browser reports the lost connections itself.
  }));

test("a hidden tab sends no requests", () =>
  visit("hidden", async (page) => {
    const { id } = await program.call("POST", "/v1/videos", {
      model: "animatic-1",
      prompt: "A hidden valley",
      seconds: "8",
    });
    const task = id.replace("video_", "").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
    const hide = (value) =>
      page.evaluate((hidden) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event("visibilitychange"));
      }, value);
    await page.goto("/console/tasks");
    await page.locator("tbody tr").first().waitFor();
    await hide(true);
    const requests = [];
    page.on("request", (request) => requests.push(request.url()));
    let record;
    do record = await program.call("GET", `/v1/tasks/${task}?wait=60`);
    while (["queued", "running"].includes(record.status));
    assert.deepEqual(requests, []);
    await hide(false);
    await page.locator("tbody tr", { hasText: "A hidden valley" }).getByText("succeeded").waitFor();
  }));

test("a list of 100,000 tasks", () =>
  visit("many", async (page) => {
    await program.multiply(100_000);
    await page.goto("/console/tasks");
    await page.locator("tbody tr").first().waitFor();
    assert.equal(await page.locator("tbody tr").count(), 50);
    const first = await page.locator("tbody tr a").first().getAttribute("href");
    await page.getByRole("link", { name: "Older" }).click();
    await page.waitForURL(/after=/);
    await page.getByRole("link", { name: "Newest" }).waitFor();
    await page.waitForFunction((href) => document.querySelector("tbody tr a")?.getAttribute("href") !== href, first);
    await page.goBack();
    await page.waitForFunction((href) => document.querySelector("tbody tr a")?.getAttribute("href") === href, first);
    await page.getByLabel("Search").fill("kite");
    await page.waitForURL(/q=kite/);
    await page.locator("tbody tr", { hasText: "A kite over a dune" }).first().waitFor();
    await assertAccessible(page);
    await shoot(page, "console tasks many", {});
  }));
