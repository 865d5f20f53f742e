// The pages in a real browser, against a running gateway: what a person sees, hears and can do.
//
// MEDIAGATE_URL and MEDIAGATE_KEY say where and who, CHROMIUM which browser, and SCREENSHOTS
// names a folder for pictures of everything that is visited.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { MEDIAGATE_URL: URL_BASE, MEDIAGATE_KEY: KEY, SCREENSHOTS } = process.env;
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
const DESKTOP = { viewport: { width: 1280, height: 900 } };
// A separation and a video may take a while in an unoptimised build on a busy machine.
const PATIENCE_MS = 120_000;

let browser;

before(async () => {
  if (SCREENSHOTS) mkdirSync(SCREENSHOTS, { recursive: true });
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || execFileSync("which", ["chromium"], { encoding: "utf8" }).trim(),
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ],
  });
});
after(() => browser?.close());

/** A test with a page of its own, which must neither complain nor ask anyone else for anything. */
function see(name, options, visit) {
  test(name, async () => {
    const context = await browser.newContext({ baseURL: URL_BASE, locale: "en-GB", ...options });
    const page = await context.newPage();
    const complaints = [];
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("request", (request) => {
      const { protocol, origin } = new URL(request.url());
      if (!["data:", "blob:"].includes(protocol) && origin !== URL_BASE) complaints.push(`asks ${origin}`);
    });
    try {
      await visit(page, complaints);
      assert.deepEqual(complaints, []);
    } catch (error) {
      await shoot(page, `failed ${name}`);
      throw error;
    } finally {
      await context.close();
    }
  });
}

async function shoot(page, name, options = { fullPage: true }) {
  if (SCREENSHOTS) await page.screenshot({ path: path.join(SCREENSHOTS, `${name.replaceAll(" ", "-")}.png`), ...options });
}

/** Nothing may stand out to the right: a phone would scroll sideways. */
async function assertFits(page) {
  // Not `innerWidth`: that grows with what stands out.
  const { width, height } = page.viewportSize();
  for (const narrow of width < 500 ? [width, 320] : [width]) {
    await page.setViewportSize({ width: narrow, height });
    const content = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(content <= narrow, `the page is ${content} wide in a window of ${narrow}`);
  }
  await page.setViewportSize({ width, height });
}

const VIEWS = { desktop: DESKTOP, "desktop dark": { ...DESKTOP, colorScheme: "dark" }, phone: PHONE, "phone dark": { ...PHONE, colorScheme: "dark" } };

for (const [view, options] of Object.entries(VIEWS)) {
  see(`home ${view}`, options, async (page) => {
    await page.goto("/");
    assert.match(await page.locator("h1").innerText(), /Nobody pays twice/);
    assert.equal(await page.locator("pre").count(), 3);
    await assertFits(page);
    await shoot(page, `home ${view}`);
  });

  see(`pricing ${view}`, options, async (page) => {
    await page.goto("/pricing");
    const cards = page.locator("[data-model]");
    assert.deepEqual(await cards.evaluateAll((all) => all.map((card) => card.dataset.model)), ["animatic-1", "stems-dsp-1"]);
    for (const word of await page.locator(".state .word").allInnerTexts()) assert.equal(word.toLowerCase(), "available");
    for (const price of await page.locator(".price").allInnerTexts()) assert.equal(price.toLowerCase(), "free");
    await assertFits(page);
    await shoot(page, `pricing ${view}`);
    await page.getByLabel("Filter").fill("stems vocals");
    assert.equal(await page.locator("[data-model]:visible").count(), 1);
    assert.equal(await page.locator("#filter-count").innerText(), "1 of 2");
    assert.ok(!(await page.getByRole("heading", { name: /^Video/ }).isVisible()));
    await page.getByLabel("Filter").fill("");
    assert.equal(await page.locator("[data-model]:visible").count(), 2);
  });

  see(`console form ${view}`, options, async (page) => {
    await page.goto("/console");
    await page.getByLabel("API key").waitFor();
    await assertFits(page);
    await shoot(page, `console form ${view}`);
  });
}

see("an unknown address", DESKTOP, async (page, complaints) => {
  const response = await page.goto("/nowhere");
  assert.equal(response.status(), 404);
  await shoot(page, "not found");
  complaints.length = 0; // The browser reports the 404 itself.
});

for (const [view, options] of Object.entries(VIEWS)) {
  see(`docs ${view}`, options, async (page) => {
    await page.goto("/docs");
    await page.getByRole("link", { name: "Five-minute quickstart" }).waitFor();
    await assertFits(page);
    await shoot(page, `docs ${view}`);
    await page.getByRole("searchbox").fill("idempotency-key");
    await page.keyboard.press("Enter");
    await page.locator(".hits a").first().click();
    await page.locator("article h1").waitFor();
    assert.match(page.url(), /\/docs\/[a-z-]+#/);
    await assertFits(page);
    await page.goto("/docs/providers/fal");
    await assertFits(page);
    await shoot(page, `docs guide ${view}`);
    await page.goto("/docs/api#chat_complete");
    await page.locator("summary", { hasText: "Body: application/json" }).first().click();
    await page.getByText("messages[].content", { exact: true }).first().waitFor();
    await assertFits(page);
    await shoot(page, `docs api ${view}`, {});
  });
}

see("the links of the pages lead somewhere", DESKTOP, async (page) => {
  const addresses = new Set();
  for (const place of ["/", "/pricing", "/console"]) {
    await page.goto(place);
    for (const link of await page.locator("a[href]").evaluateAll((all) => all.map((a) => a.href))) addresses.add(link.split("#")[0]);
  }
  for (const address of addresses) {
    const response = await page.request.get(address);
    const wanted = address.endsWith("/v1/models") ? 401 : 200; // The one that wants a key.
    assert.equal(response.status(), wanted, address);
  }
});

see("the console makes a video, stems and a persona", DESKTOP, async (page, complaints) => {
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto("/console");

  await page.getByLabel("API key").fill("sk-mg-wrong");
  await page.getByRole("button", { name: "Open" }).click();
  await page.locator("#key-error").waitFor();
  await shoot(page, "console refused");
  assert.match(complaints.splice(0).join(), /^[^,]*401[^,]*$/);
  await page.getByLabel("API key").fill(KEY);
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByRole("heading", { name: "Recent tasks" }).waitFor();

  await page.getByRole("heading", { name: "Money" }).waitFor();
  assert.deepEqual(await page.locator("#money-figures dt").allInnerTexts(), ["Balance", "Held", "Spent"]);
  await page.locator("#keys-rows tr").first().getByText("sk-mg-").waitFor();
  assert.ok(!(await page.locator("#ledger-alarm").isVisible()));

  await page.getByLabel("Prompt").fill("A harbour at dusk, slow pan left, sound of waves");
  await page.locator("#video-form").getByLabel("Seconds").fill("1");
  await page.locator("#video-form").getByLabel("Size").fill("480x480");
  await page.getByRole("button", { name: "Make the video" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.locator("video").waitFor();
  const seen = await play(dialog.locator("video"));
  assert.deepEqual([seen.width, seen.height], [480, 480]);
  assert.ok(seen.sounds, "the waves are heard");
  assert.match(await dialog.locator("h2").innerText(), /succeeded/);
  await shoot(page, "console video", {});
  await page.getByRole("button", { name: "Close" }).click();
  const row = page.locator("#task-rows tr").first();
  assert.match(await row.innerText(), /succeeded/);
  assert.match(await row.innerText(), /free/);
  await page.locator("#usage-rows").getByText("animatic-1").waitFor();
  await shoot(page, "console tasks");

  await page.getByRole("tab", { name: "Video" }).press("ArrowRight");
  await shoot(page, "console stems form");
  const song = { name: "Night ferry.wav", mimeType: "audio/wav", buffer: wav() };
  await page.getByLabel(/^Song/).setInputFiles(song);
  await page.getByRole("button", { name: "Upload and separate" }).click();
  await dialog.locator("audio").first().waitFor();
  assert.equal(await dialog.locator("audio").count(), 2);
  const heard = await play(dialog.locator("audio").first());
  assert.ok(Math.abs(heard.duration - 4) < 0.1, `${heard.duration} s`);
  const type = await page.evaluate(async () => (await fetch(document.querySelector("dialog audio").src)).headers.get("content-type"));
  assert.equal(type, "audio/flac");
  await assertPictures(dialog);
  await shoot(page, "console stems", {});
  await page.getByRole("button", { name: "Close" }).click();

  await page.getByRole("tab", { name: "Persona" }).click();
  await page.locator("#persona-form option", { hasText: "Night ferry" }).first().waitFor({ state: "attached" });
  await page.getByLabel("Name", { exact: true }).fill("Night Ferry");
  await page.getByLabel("Description").fill("Close, warm, a little tired");
  await page.getByRole("button", { name: "Create the persona" }).click();
  await page.getByRole("heading", { name: "Night Ferry" }).waitFor();
  await assertPictures(page.locator("#persona-form"));
  await shoot(page, "console persona");

  await page.setViewportSize(PHONE.viewport);
  await assertFits(page);
  await shoot(page, "console phone");
  await page.emulateMedia({ colorScheme: "dark" });
  await page.locator("#task-rows .open").first().click();
  await dialog.locator("audio").first().waitFor();
  await assertFits(page);
  await shoot(page, "console phone dark dialog", {});
  await page.getByRole("button", { name: "Close" }).click();
  await page.setViewportSize(DESKTOP.viewport);

  await page.getByRole("tab", { name: "Video" }).click();
  await page.locator("#video-form").getByLabel("Seconds").fill("20");
  await page.locator("#video-form").getByLabel("Size").fill("1920x1080");
  await page.getByRole("button", { name: "Make the video" }).click();
  await row.getByRole("button", { name: /^Cancel/ }).click();
  await row.getByText("cancelled").first().waitFor();
  await page.locator("#video-form .result.bad").waitFor();
  await shoot(page, "console cancelled");
  await page.setViewportSize(PHONE.viewport);
  await assertFits(page);
  await shoot(page, "console cancelled phone");

  await page.reload();
  await page.getByRole("heading", { name: "Recent tasks" }).waitFor();
  await page.getByRole("button", { name: "Forget the key" }).click();
  await page.getByLabel("API key").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});

/** Plays a little of a video or a sound, and says what it is. */
async function play(media) {
  return media.evaluate(async (element) => {
    element.muted = true;
    await element.play();
    const until = Date.now() + 10_000;
    while (element.currentTime < 0.3) {
      if (element.error) throw new Error(element.error.message);
      if (Date.now() > until) throw new Error(`still at ${element.currentTime}, ready state ${element.readyState}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    element.pause();
    const { videoWidth: width, videoHeight: height, duration } = element;
    return { width, height, duration, sounds: element.webkitAudioDecodedByteCount > 0 };
  });
}

async function assertPictures(place) {
  const pictures = place.locator("img");
  assert.ok((await pictures.count()) > 0);
  for (const picture of await pictures.all()) {
    await picture.evaluate((img) => { img.loading = "eager"; return img.decode(); });
    assert.ok((await picture.evaluate((img) => img.naturalWidth)) > 10);
  }
}

/** Four seconds of a chord with a beat: 16-bit stereo WAV. */
function wav() {
  const rate = 44_100;
  const frames = 4 * rate;
  const data = Buffer.alloc(44 + 4 * frames);
  data.write("RIFF", 0);
  data.writeUInt32LE(data.length - 8, 4);
  data.write("WAVEfmt ", 8);
  data.writeUInt32LE(16, 16);
  data.writeUInt16LE(1, 20);
  data.writeUInt16LE(2, 22);
  data.writeUInt32LE(rate, 24);
  data.writeUInt32LE(4 * rate, 28);
  data.writeUInt16LE(4, 32);
  data.writeUInt16LE(16, 34);
  data.write("data", 36);
  data.writeUInt32LE(4 * frames, 40);
  for (let frame = 0; frame < frames; frame += 1) {
    const t = frame / rate;
    const chord = [220, 277.2, 329.6].reduce((sum, hertz) => sum + Math.sin(2 * Math.PI * hertz * t), 0);
    const beat = Math.exp(-30 * (t % 0.5)) * Math.sin(2 * Math.PI * 60 * t);
    const value = Math.round(5000 * chord + 12_000 * beat);
    data.writeInt16LE(value, 44 + 4 * frame);
    data.writeInt16LE(Math.round(0.8 * value), 46 + 4 * frame);
  }
  return data;
}
