// The support of every browser test: a browser, pages that must report no errors, and checks for every page.
//
// MEDIAGATE_URL and MEDIAGATE_KEY are the gateway and its key, CHROMIUM is the browser, and SCREENSHOTS is a folder for
// screenshots of every visited page.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

export const { MEDIAGATE_URL: URL_BASE, MEDIAGATE_KEY: KEY } = process.env;
const { SCREENSHOTS } = process.env;
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

export const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
export const DESKTOP = { viewport: { width: 1280, height: 900 } };
export const VIEWS = {
  desktop: DESKTOP,
  "desktop dark": { ...DESKTOP, colorScheme: "dark" },
  phone: PHONE,
  "phone dark": { ...PHONE, colorScheme: "dark" },
};
// A separation and a video may take a while in an unoptimised build on a busy machine.
export const PATIENCE_MS = 120_000;

let browser;

before(async () => {
  if (SCREENSHOTS) mkdirSync(SCREENSHOTS, { recursive: true });
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || execFileSync("which", ["chromium"], { encoding: "utf8" }).trim(),
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--autoplay-policy=no-user-gesture-required",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
});
after(() => browser?.close());

/**
 * A test with its own page, which must report no errors and send no request to another origin. `base` is the gateway,
 * if not the usual one, and `key` signs the page in.
 */
export function see(name, { base = URL_BASE, key, ...options }, visit) {
  test(name, () => visiting(name, { base, key, ...options }, visit));
}

/** Like `see`, inside a test. */
export async function visiting(name, { base = URL_BASE, key, ...options }, visit) {
  const context = await browser.newContext({ baseURL: base, locale: "en-GB", ...options });
  await context.addInitScript({ path: AXE });
  if (key) await context.addInitScript((value) => sessionStorage.setItem("mediagate.key", value), key);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (!["data:", "blob:"].includes(protocol) && origin !== base) complaints.push(`a request to ${origin}`);
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
}

export async function shoot(page, name, options = { fullPage: true }) {
  if (SCREENSHOTS)
    await page.screenshot({ path: path.join(SCREENSHOTS, `${name.replaceAll(/[ /]/g, "-")}.png`), ...options });
}

/** Asserts that nothing overflows to the right, where a phone would scroll sideways. */
export async function assertFits(page) {
  // Not `innerWidth`, which grows with overflowing content.
  const { width, height } = page.viewportSize();
  for (const narrow of width < 500 ? [width, 320] : [width]) {
    await page.setViewportSize({ width: narrow, height });
    const [content, overflowing] = await page.evaluate((narrow) => {
      const overflowing = [...document.querySelectorAll("body *")].filter(
        (element) => element.getBoundingClientRect().right > narrow,
      );
      return [
        document.documentElement.scrollWidth,
        overflowing.slice(0, 8).map((element) => element.outerHTML.slice(0, 80)),
      ];
    }, narrow);
    assert.ok(content <= narrow, `the page is ${content} wide in a window of ${narrow}: ${overflowing.join("\n")}`);
  }
  await page.setViewportSize({ width, height });
}

/** Asserts that axe finds no accessibility violation. */
export async function assertAccessible(page) {
  const messages = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run();
    return violations.flatMap((violation) =>
      violation.nodes.map(
        (node) => `${violation.id} at ${node.target}: ${[...node.any, ...node.all, ...node.none][0]?.message}`,
      ),
    );
  });
  assert.deepEqual(messages, []);
}

/** Presses Tab until an element whose name starts with `name` has the focus. */
export async function tabTo(page, name) {
  for (let presses = 0; presses < 80; presses += 1) {
    await page.keyboard.press("Tab");
    const focused = await page.evaluate(() => {
      const { activeElement: at, body } = document;
      if (at === body) return null;
      return at.getAttribute("aria-label") || at.labels?.[0]?.innerText || at.innerText || at.title || at.tagName;
    });
    if (focused === null) continue; // The browser's own controls come between the last element and the first.
    if (focused.trim().startsWith(name)) return;
  }
  assert.fail(`no Tab leads to “${name}”`);
}

/** Plays the start of a video or a sound, and returns its size, its duration and whether it has sound. */
export async function play(media) {
  return media.evaluate(async (element) => {
    element.muted = true;
    await element.play();
    const deadline = Date.now() + 10_000;
    while (element.currentTime < 0.3) {
      if (element.error) throw new Error(element.error.message);
      if (Date.now() > deadline) throw new Error(`still at ${element.currentTime}, ready state ${element.readyState}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    element.pause();
    const { videoWidth: width, videoHeight: height, duration } = element;
    return { width, height, duration, sounds: element.webkitAudioDecodedByteCount > 0 };
  });
}

export async function assertPictures(container) {
  const pictures = container.locator("img");
  assert.ok((await pictures.count()) > 0);
  for (const picture of await pictures.all()) {
    await picture.evaluate((img) => {
      img.loading = "eager";
      return img.decode();
    });
    assert.ok((await picture.evaluate((img) => img.naturalWidth)) > 10);
  }
}

/** Four seconds of a chord with a beat: 16-bit stereo WAV. */
export function wav() {
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

/** Signs in to the console with a key, as a person does. */
export async function signIn(page, key = KEY) {
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
}
