// Every action is done once: after double clicks, after clicks during a request, and when the code that the console
// shows runs twice. These tests have their own gateway.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { DESKTOP, assertAccessible, visiting, wav } from "./browser.mjs";
import { startProgram, until } from "./program.mjs";

const SONG = { name: "Night ferry.wav", mimeType: "audio/wav", buffer: wav() };
const PICTURE = {
  name: "lake.png",
  mimeType: "image/png",
  buffer: Buffer.from(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "base64",
  ),
};
/** How long every write request takes. */
const SLOW_MS = 150;
let program;

before(async () => {
  program = await startProgram();
});
after(() => program?.stop());

const visit = (name, steps) => visiting(name, { ...DESKTOP, base: program.url, key: program.key }, steps);
const fetchList = async (path) => (await program.call("GET", path)).data;
const idOf = (video) => video.id.replace("video_", "").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
const finished = (task) =>
  until(async () => {
    const record = await program.call("GET", `/v1/tasks/${task}?wait=30`);
    return !["queued", "running"].includes(record.status) && record;
  });

/** A finished separation, and its source clip. */
async function separation() {
  const form = new FormData();
  form.append("file", new Blob([SONG.buffer]), "Old ferry.wav");
  const clip = await (
    await fetch(`${program.url}/musicgen/uploads/audio`, {
      method: "POST",
      headers: { Authorization: `Bearer ${program.key}` },
      body: form,
    })
  ).json();
  const { id } = await program.call("POST", "/musicgen/submit/music", { task: "gen_stem", continue_clip_id: clip.id });
  return { clip, stems: await finished(id) };
}

/** The write requests that the page sends from now on. */
function recordWrites(page) {
  const sent = [];
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    if (request.method() === "GET" || ["/v1/quote", "/v1/session"].includes(pathname)) return;
    sent.push({ step: `${request.method()} ${pathname}`, key: request.headers()["idempotency-key"] });
  });
  return sent;
}

test("a first video is made once by a double click", () =>
  visit("first twice", async (page) => {
    const sent = recordWrites(page);
    await page.goto("/console/create");
    await page.getByRole("button", { name: "Create a sample video" }).dblclick();
    await page.locator(".result video").waitFor();
    assert.equal((await fetchList("/v1/tasks")).length, 1);
    const again = page.getByRole("button", { name: "Again" });
    await again.dblclick();
    await page.getByText(/Waiting in the queue|In progress/).waitFor();
    await again.waitFor();
    assert.equal((await fetchList("/v1/tasks")).length, 2);
    assert.deepEqual(
      sent.map(({ step }) => step),
      ["POST /v1/videos", "POST /v1/videos"],
    );
  }));

test("a song that is ordered again during its upload is one upload and one order", () =>
  visit("song twice", async (page) => {
    const sent = recordWrites(page);
    const before = (await fetchList("/v1/tasks")).length;
    let release;
    const released = new Promise((resolve) => (release = resolve));
    await page.route("**/uploads/audio", async (route) => {
      await released;
      return route.continue();
    });
    await page.goto("/console/create/stems-dsp-1");
    await page.getByLabel(/^Song/).setInputFiles(SONG);
    const generate = page.getByRole("button", { name: /^Generate/ });
    await generate.dblclick();
    await page.getByText("Uploading and decoding the song").waitFor();
    await page.locator("[data-writes][aria-busy=true]").waitFor();
    await assertAccessible(page);
    await generate.click();
    await generate.dblclick();
    release();
    await generate.click();
    await page.getByText(/Waiting in the queue|In progress/).waitFor();
    await generate.click();
    await page.getByRole("link", { name: "Open the mixer" }).waitFor();
    assert.deepEqual(
      sent.map(({ step }) => step),
      ["POST /musicgen/uploads/audio", "POST /musicgen/submit/music"],
    );
    assert.equal(new Set(sent.map(({ key }) => key)).size, 2, "each step has a key");
    const clips = await fetchList("/musicgen/clips?limit=100");
    assert.equal(clips.filter((clip) => clip.metadata.type === "upload").length, 1);
    assert.equal((await fetchList("/v1/tasks")).length, before + 1);
  }));

test("an upload whose response is lost is repeated with its key, and made once", () =>
  visit("lost upload", async (page, complaints) => {
    const count = async () =>
      (await fetchList("/musicgen/clips?limit=100")).filter((clip) => clip.metadata.type === "upload").length;
    const before = await count();
    const sent = recordWrites(page);
    let isLost = false;
    await page.route("**/uploads/audio", async (route) => {
      if (isLost) return route.continue();
      isLost = true;
      await route.fetch();
      return route.abort("connectionreset");
    });
    await page.goto("/console/create/stems-dsp-1");
    await page.getByLabel(/^Song/).setInputFiles({ ...SONG, name: "Day ferry.wav" });
    await page.getByRole("button", { name: /^Generate/ }).click();
    await page.getByRole("link", { name: "Open the mixer" }).waitFor();
    const uploads = sent.filter(({ step }) => step.endsWith("/uploads/audio"));
    assert.equal(uploads.length, 2);
    assert.equal(new Set(uploads.map(({ key }) => key)).size, 1);
    assert.equal(await count(), before + 1);
    complaints.length = 0; // The browser reports the lost connection itself.
  }));

test("a truncated response is none: a list is requested again, an order repeated with its key", () =>
  visit("cut short", async (page) => {
    await program.call("POST", "/v1/videos", { model: "animatic-1", prompt: "A lake", seconds: "1" });
    const before = (await fetchList("/v1/tasks")).length;
    const sent = recordWrites(page);
    const cut = [];
    await page.route(/\/v1\/(tasks|videos)(\?|$)/, async (route) => {
      const request = route.request();
      const step = `${request.method()} ${new URL(request.url()).pathname}`;
      if (cut.includes(step)) return route.continue();
      cut.push(step);
      // The gateway has done its work; the connection ends in the middle of the response.
      const response = await route.fetch();
      const text = await response.text();
      return route.fulfill({
        status: response.status(),
        contentType: "application/json",
        body: text.slice(0, text.length / 2),
      });
    });
    await page.goto("/console/tasks");
    await page.locator("main table").waitFor();
    await page.goto("/console/create/animatic-1");
    await page.getByLabel(/^Prompt/).fill("A slow river");
    await page.getByRole("button", { name: /^Generate/ }).click();
    await page.locator(".result video").waitFor();
    assert.deepEqual([...cut].sort(), ["GET /v1/tasks", "POST /v1/videos"]);
    assert.equal(sent.length, 2);
    assert.equal(new Set(sent.map(({ key }) => key)).size, 1);
    assert.equal((await fetchList("/v1/tasks")).length, before + 1);
  }));

test("no button writes twice, however it is clicked", () =>
  visit("every button", async (page) => {
    const { clip } = await separation();
    const hook = await program.call("POST", "/v1/webhooks", { url: "https://hooks.example.com/once" });
    await program.call("POST", `/v1/webhooks/${hook.id}/test`);
    await program.call("POST", "/v1/admin/keys", { name: "spare" });
    const sent = recordWrites(page);
    // Waits until no request is open and no next one begins.
    const openRequests = new Set();
    page.on("request", (request) => request.method() === "GET" || openRequests.add(request));
    for (const event of ["requestfinished", "requestfailed"]) page.on(event, (request) => openRequests.delete(request));
    // Between two requests of one action the page may work for long on a slow machine; its button is busy meanwhile.
    const isBusy = async () =>
      openRequests.size > 0 || (await page.locator("[data-pressed][aria-busy=true]").count()) > 0;
    const settled = async () => {
      for (let quiet = 0, checks = 0; quiet < 5 && checks < 200; checks += 1) {
        await pause(50);
        quiet = (await isBusy()) ? 0 : quiet + 1;
      }
    };
    await page.route("**/*", async (route) => {
      const request = route.request();
      if (request.method() === "GET") return route.fallback();
      await pause(SLOW_MS);
      // A request that would end the session or delete what the test uses is only counted.
      const isFulfilledHere = request.method() === "DELETE" || /\/admin\/keys\/[^/]+\/rotate$/.test(request.url());
      return isFulfilledHere ? route.fulfill({ json: {} }) : route.continue();
    });
    const links = async () => {
      await page.goto("/console/create");
      const rail = page.getByRole("navigation", { name: "Console" }).getByRole("link");
      await rail.nth(5).waitFor();
      return (await rail.evaluateAll((found) => found.map((link) => link.getAttribute("href")))).filter((href) =>
        href.startsWith("/console/"),
      );
    };
    const runningTask = async () => {
      const order = { model: "animatic-1", prompt: "A slow river", seconds: "20", size: "1920x1080" };
      return `/console/tasks/${idOf(await program.call("POST", "/v1/videos", order))}`;
    };
    const places = [
      ...(await links()),
      "/console/create/stems-dsp-1",
      "/console/create/veo",
      `/console/library/clips/${clip.id}`,
      `/console/webhooks/${hook.id}`,
      runningTask,
    ];
    const seen = new Set();
    const steps = new Set();
    const enter = async (place) => {
      await page.goto(place);
      await page.locator("main h1").waitFor();
      await page.locator(".skeleton").first().waitFor({ state: "detached" });
      await page.waitForLoadState("networkidle", { timeout: 2000 }).catch(() => {}); // A stream of events never ends.
    };
    for (const target of places) {
      const place = typeof target === "string" ? target : await target();
      await enter(place);
      const buttons = page.locator("main button:visible:not([role=tab])");
      const names = await buttons.evaluateAll((found) => found.map((element) => element.innerText));
      for (const [index, name] of names.entries()) {
        // One of each kind: rows have the same buttons.
        const kind = `${place} ${name}`;
        if (seen.has(kind)) continue;
        seen.add(kind);
        await enter(place);
        let writer = buttons.nth(index);
        if (!(await writer.count())) continue;
        if (!(await writer.evaluate((element) => element.matches("[data-writes]")))) {
          await writer.click();
          writer = page.locator("dialog [data-writes]").first();
          if (!(await writer.count())) continue;
        }
        // A filled form may have more buttons.
        await writer.evaluate((element) => element.setAttribute("data-pressed", ""));
        writer = page.locator("[data-pressed]");
        await fill(writer);
        sent.length = 0;
        await writer.dblclick();
        if (await writer.count()) await writer.click({ force: true, timeout: 1000 }).catch(() => {});
        await until(() => sent.length > 0).catch(() => assert.fail(`“${name}” at ${place} writes nothing`));
        await settled();
        for (const { step, key } of sent) {
          assert.ok(key, `${step} has a key`);
          assert.equal(sent.filter((write) => write.step === step).length, 1, `“${name}” at ${place}: ${step}`);
          steps.add(
            step.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID").replace(/(accounts|providers)\/.+\//, "$1/ID/"),
          );
        }
      }
    }
    for (const step of [
      "/v1/videos",
      "/musicgen/uploads/audio",
      "/musicgen/submit/music",
      "/musicgen/persona/create",
      "/v1/tasks/ID/cancel",
      "/v1/webhooks",
      "/v1/webhooks/ID/test",
      "/v1/webhooks/ID/rotate",
      "/v1/webhooks/ID/recover",
      "/v1/webhooks/deliveries/ID/redeliver",
      "/v1/admin/keys",
      "/v1/admin/keys/ID/rotate",
      "/v1/admin/accounts",
      "/v1/admin/accounts/ID/credits",
      "/v1/admin/providers/ID/try",
      "/v1/admin/providers/ID/pause",
    ]) {
      assert.ok(steps.has(`POST ${step}`), `nothing posted to ${step}; ${[...steps].join(", ")}`);
    }
  }));

test("a button writes nothing while the page still shows the state before", () =>
  visit("old state", async (page) => {
    await program.call("POST", "/v1/admin/providers/acme/sora-2/resume");
    const sent = recordWrites(page);
    await page.goto("/console/providers");
    const button = page.getByRole("button", { name: /^Pause acme/ });
    await button.waitFor();
    let release;
    const released = new Promise((resolve) => (release = resolve));
    await page.route("**/v1/admin/providers", async (route) => {
      await released;
      return route.fallback();
    });
    await button.click();
    await page.getByText("The route gets no new orders until you resume it.").waitFor();
    await button.click({ force: true });
    release();
    await page.getByRole("button", { name: /^Resume acme/ }).click();
    await button.waitFor();
    assert.deepEqual(
      sent.map(({ step }) => step.split("/").pop()),
      ["pause", "resume"],
    );
  }));

/** Fills the required fields of a button's form. */
async function fill(writer) {
  const form = writer.locator("xpath=ancestor::form");
  if (!(await form.count())) return;
  for (const field of await form.locator("input[required], textarea[required]").all()) {
    if (await field.inputValue()) continue;
    const kind = await field.evaluate((element) => (element.type === "url" ? "url" : element.inputMode));
    await field.fill({ url: "https://hooks.example.com/twice", decimal: "5" }[kind] || `twice-${Date.now()}`);
  }
  const song = form.locator("input[type=file][accept^=audio]");
  if (await song.count()) await song.setInputFiles({ ...SONG, name: `Song ${Date.now()}.wav` });
}

test("the shown code makes one order however often it runs", () =>
  visit("code twice", async (page) => {
    await page.goto("/console/create/animatic-1");
    await page.getByLabel("Prompt", { exact: true }).fill("A mill by a stream");
    await page.getByLabel("Length").selectOption("1");
    await page.getByRole("tab", { name: "Code" }).click();
    const code = page.getByRole("region", { name: /The form as/ });
    const curl = await code.innerText();
    const [, key] = /^KEY=(order-[0-9a-f]{32})$/m.exec(curl);
    assert.match(curl, /change the key/);
    const run = () =>
      JSON.parse(
        execFileSync("sh", ["-c", curl], { env: { ...process.env, MEDIAGATE_KEY: program.key }, encoding: "utf8" }),
      );
    const video = run();
    assert.equal(run().id, video.id);
    for (const language of ["Python", "TypeScript", "Go"]) {
      await page.getByRole("tab", { name: language }).click();
      const text = await code.innerText();
      assert.ok(text.includes(`"${key}"`), text);
      assert.match(text, /change the key/);
      assert.doesNotMatch(text, /uuid|random|rand\.|date \+/i);
    }
    // Another form is another order.
    await page.getByLabel("Prompt", { exact: true }).fill("A mill by a river");
    assert.ok(!(await code.innerText()).includes(key));
    await page.goto("/console/create/stems-dsp-1");
    await page.getByRole("tab", { name: "Code" }).click();
    assert.match(await code.innerText(), /Idempotency-Key: \$KEY-song/);
  }));

test("a task that is varied keeps its picture, also after a reload", () =>
  visit("vary", async (page) => {
    const picture = `data:image/png;base64,${PICTURE.buffer.toString("base64")}`;
    const first = idOf(
      await program.call("POST", "/v1/videos", {
        model: "animatic-1",
        prompt: "A boat on this lake",
        seconds: "1",
        size: "480x480",
        input_reference: picture,
      }),
    );
    assert.equal((await finished(first)).status, "succeeded");
    await page.goto(`/console/tasks/${first}`);
    await page.getByRole("link", { name: "Vary" }).click();
    const preview = page.locator(".drop img");
    await preview.waitFor();
    await page.reload();
    await preview.waitFor();
    assert.equal(await page.getByLabel("Prompt", { exact: true }).inputValue(), "A boat on this lake");
    await page.getByRole("button", { name: /^Generate/ }).click();
    await page.locator(".result video").waitFor();
    const [second] = await fetchList("/v1/tasks?limit=1");
    assert.notEqual(second.id, first);
    const { input } = await program.call("GET", `/v1/tasks/${second.id}`);
    assert.ok(input.image?.url, JSON.stringify(input));
  }));

test("a varied task keeps every medium, or nothing is ordered until it is replaced or removed", () =>
  visit("vary all", async (page, complaints) => {
    const picture = `data:image/png;base64,${PICTURE.buffer.toString("base64")}`;
    const source = await finished(
      idOf(
        await program.call("POST", "/v1/videos", {
          model: "animatic-1",
          prompt: "A boat",
          seconds: "1",
          size: "480x480",
          input_reference: picture,
        }),
      ),
    );
    const { image } = source.input;
    let isGone = false;
    await page.route(`**/v1/tasks/${source.id}`, async (route) => {
      const record = await (await route.fetch()).json();
      const medium = (id) => ({ id, url: isGone ? null : image.url });
      Object.assign(record.input, {
        image: medium("picture-1"),
        end_image: medium("picture-2"),
        reference_images: [medium("picture-3")],
      });
      return route.fulfill({ json: record });
    });
    const orders = [];
    await page.route("**/v1/videos", (route) => {
      orders.push(route.request().postDataJSON());
      return route.fulfill({ status: 400, json: { error: { message: "Not now.", code: "invalid_value" } } });
    });
    const generate = page.getByRole("button", { name: /^Generate/ });
    await page.goto(`/console/create/animatic-1?from=${source.id}`);
    await until(async () => (await page.locator(".drop img").count()) === 3);
    await generate.click();
    await until(() => orders.length === 1);
    const [body] = orders.splice(0);
    for (const url of [body.input_reference.image_url, body.end_image, ...body.reference_images])
      assert.match(url, /^data:image\/png;base64,/);
    assert.equal(body.reference_images.length, 1);

    isGone = true;
    await page.reload();
    for (const name of ["first frame", "last frame", "reference 1"]) {
      await page.getByText(`The ${name} of that task is no longer available.`, { exact: true }).waitFor();
      await assertAccessible(page);
      await generate.click();
      await page.getByText("Choose another, or remove it.").first().waitFor();
      assert.deepEqual(orders, [], "nothing is ordered without it");
      await page.getByRole("button", { name: `Remove the ${name}` }).click();
    }
    await generate.click();
    await until(() => orders.length === 1);
    assert.ok(!("input_reference" in orders[0] || "end_image" in orders[0] || "reference_images" in orders[0]));

    const { clip, stems } = await separation();
    await page.goto(`/console/create/${stems.model}?from=${stems.id}`);
    await page.getByText(clip.title).waitFor();
    await page.route(`**/musicgen/clips/${clip.id}`, (route) =>
      route.fulfill({ status: 404, json: { error: { message: "It is gone.", code: "clip_not_found" } } }),
    );
    const sent = recordWrites(page);
    await page.reload();
    await page.getByText("The song of that task is no longer available.", { exact: true }).waitFor();
    await generate.click();
    await page.getByText("Choose another, or remove it.").first().waitFor();
    assert.deepEqual(sent, []);
    complaints.length = 0; // The browser reports the refused requests itself.
  }));
