// The console in a real browser: making, finding and downloading media, on every size of screen.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import {
  DESKTOP,
  KEY,
  PHONE,
  URL_BASE,
  VIEWS,
  assertAccessible,
  assertFits,
  assertPictures,
  play,
  see,
  shoot,
  signIn,
  tabTo,
  wav,
} from "./browser.mjs";

const SONG = { name: "Night ferry.wav", mimeType: "audio/wav", buffer: wav() };

for (const [view, options] of Object.entries(VIEWS)) {
  see(`sign in ${view}`, options, async (page) => {
    await page.goto("/console/tasks?status=failed");
    await page.getByLabel("API key").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.id), "key");
    await assertFits(page);
    await assertAccessible(page);
    await shoot(page, `console sign in ${view}`);
    await signIn(page);
    // The requested view is shown.
    await page.getByRole("heading", { name: "Tasks" }).waitFor();
    assert.equal(await page.getByLabel("Status").inputValue(), "failed");
  });
}

see("a refused key", DESKTOP, async (page, complaints) => {
  await page.goto("/console");
  await signIn(page, "sk-mg-wrong");
  await page.getByRole("alert").waitFor();
  await assertAccessible(page);
  assert.match(complaints.splice(0).join(), /^[^,]*401[^,]*$/);
  await signIn(page);
  await page.getByRole("heading", { name: "Create" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});

see("a video is made, found again and shown at its URL", { ...DESKTOP, key: KEY }, async (page) => {
  await page.goto("/console");
  await page.waitForURL("**/console/create");
  await page.getByLabel("Prompt", { exact: true }).fill("A harbour at dusk, slow pan left, sound of waves");
  await page.getByLabel("Length").selectOption("1");
  await page.getByLabel("Size").selectOption("854x480");
  await page.getByRole("button", { name: "Generate · free" }).click();
  const video = await play(page.locator(".result video"));
  assert.deepEqual([video.width, video.height], [854, 480]);
  assert.ok(video.sounds, "the video has sound");
  await shoot(page, "console create result");
  await page.getByRole("link", { name: "Open the task" }).click();
  await page.getByRole("heading", { name: "Timeline" }).waitFor();
  await page.getByText("Stored").waitFor();
  assert.match(page.url(), /\/console\/tasks\/[0-9a-f-]{36}$/);
  await page.waitForFunction(() => document.activeElement.tagName === "H1");
  await page.getByRole("tab", { name: "JSON" }).click();
  assert.match(await page.getByRole("region", { name: "Task record" }).innerText(), /"status": "succeeded"/);
  const id = page.url().split("/").pop();

  await page.goBack();
  await page.getByRole("heading", { name: "Create" }).waitFor();
  await page.getByRole("link", { name: "Tasks" }).click();
  await page.getByLabel("Search").fill("harbour dusk");
  await page.waitForURL(/q=harbour/);
  await page.getByLabel("Status").selectOption("succeeded");
  await page.waitForURL(/status=succeeded/);
  const row = page.locator("tbody tr", { hasText: "A harbour at dusk" }).first();
  await row.waitFor();
  assert.match(await row.innerText(), /free/);
  await page.reload();
  await row.waitFor();
  assert.equal(await page.getByLabel("Search").inputValue(), "harbour dusk");
  await page.getByLabel("Status").selectOption("cancelled");
  await page.waitForURL(/status=cancelled/);
  await page.goBack();
  await row.waitFor();
  await page.goto(`/console/tasks?q=${id}`);
  await row.waitFor();
  assert.equal(await page.locator("tbody tr").count(), 1);
  await page.goto("/console/tasks?q=nothing-has-these-words");
  await page.getByText("No task matches").waitFor();

  await page.goto(`/console/tasks/${id}`);
  await page.getByRole("link", { name: "Vary" }).click();
  await page.waitForFunction(() => document.querySelector("#prompt")?.value.startsWith("A harbour"));
  assert.equal(await page.getByLabel("Size").inputValue(), "854x480");
});

see("the code has the form's values", { ...DESKTOP, key: KEY }, async (page) => {
  await page.goto("/console/create/animatic-1");
  const prompt = 'Don\'t blink: $HOME, `ls` and \\ in a "garden"';
  await page.getByLabel("Prompt", { exact: true }).fill(prompt);
  await page.getByLabel("Length").selectOption("1");
  await page.getByRole("tab", { name: "Code" }).click();
  const code = page.getByRole("region", { name: /The form as/ });
  const curl = await code.innerText();
  const video = JSON.parse(
    execFileSync("sh", ["-c", curl], { env: { ...process.env, MEDIAGATE_KEY: KEY }, encoding: "utf8" }),
  );
  assert.equal(video.object, "video");
  assert.equal(video.seconds, "1");
  const task = video.id.replace("video_", "").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
  await page.goto(`/console/tasks/${task}`);
  await page.getByText("Task input").waitFor();
  await page.getByRole("definition").filter({ hasText: "Don't blink" }).waitFor();
  assert.equal(await page.getByRole("definition").filter({ hasText: "Don't blink" }).innerText(), prompt);

  await page.goto("/console/create/animatic-1");
  await page.getByLabel("Prompt", { exact: true }).fill(prompt);
  await page
    .getByLabel("First frame")
    .setInputFiles({ name: "it's.png", mimeType: "image/png", buffer: Buffer.from(PIXEL, "base64") });
  await page.getByRole("tab", { name: "Code" }).click();
  await page.getByRole("tab", { name: "Python" }).click();
  assert.match(await code.innerText(), /data_url\("it's\.png", "image\/png"\)/);
  await page.getByRole("tab", { name: "Python" }).press("ArrowRight");
  assert.match(await code.innerText(), /await dataUrl\("it's\.png", "image\/png"\)/);
  await page.keyboard.press("ArrowRight");
  assert.match(await code.innerText(), /^package main/);
  assert.match(await code.innerText(), /dataURL\("it's\.png", "image\/png"\)/);
  await assertAccessible(page);
});

see("a song is separated, mixed and downloaded", { ...DESKTOP, key: KEY, acceptDownloads: true }, async (page) => {
  await page.goto("/console/create/stems-dsp-1");
  await page.getByRole("button", { name: /^Generate/ }).click();
  await page.locator("#song-hint").getByText("Choose a song first.").waitFor();
  await page.getByLabel(/^Song/).setInputFiles(SONG);
  await page.getByText("All stems").click();
  await page.getByRole("button", { name: /^Generate/ }).click();
  await page.getByRole("link", { name: "Open the mixer" }).click();
  await page.getByRole("heading", { name: "Night ferry", exact: true }).waitFor();
  await page.getByRole("button", { name: "Play" }).waitFor();
  const tracks = page.locator(".track");
  assert.equal(await tracks.count(), 4);
  const clock = page.locator("[data-clock]");
  assert.equal(await clock.innerText(), "0:00 / 0:04");
  await page.getByRole("button", { name: "Play" }).click();
  await page.waitForFunction(() => document.querySelector("[data-position]").value > 0.5);
  await page.getByRole("button", { name: "Mute Vocals" }).click();
  await page.getByRole("button", { name: "Solo Drums" }).click();
  assert.deepEqual(
    await tracks.evaluateAll((all) =>
      all.filter((track) => !track.matches(".silent")).map((track) => track.getAttribute("aria-label")),
    ),
    ["Drums"],
  );
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByLabel("Position").press("End");
  assert.equal(await clock.innerText(), "0:04 / 0:04");
  await assertAccessible(page);
  await shoot(page, "console mixer");

  const [vocals] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: /^Download Vocals/ }).click(),
  ]);
  assert.equal(vocals.suggestedFilename(), "Night ferry – Vocals.flac");
  assert.ok(isFlac(readFileSync(await vocals.path())));
  const [all] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download all" }).click(),
  ]);
  assert.equal(all.suggestedFilename(), "Night ferry – stems.zip");
  const names = execFileSync(
    "python3",
    [
      "-c",
      `import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
print(*sorted(z.namelist()), sep="\\n")`,
      await all.path(),
    ],
    { encoding: "utf8" },
  );
  assert.deepEqual(
    names.trim().split("\n"),
    ["Bass", "Drums", "Other", "Vocals"].map((stem) => `Night ferry – ${stem}.flac`),
  );

  await page.getByRole("button", { name: "Create a persona" }).click();
  await assertAccessible(page);
  await page.getByLabel("Name").fill("Night Ferry");
  await page.getByLabel("Description").fill("Close, warm, a little tired");
  await page.getByRole("button", { name: "Create persona" }).click();
  await page.waitForURL(/show=personas/);
  await page.getByRole("link", { name: "Night Ferry" }).first().waitFor();
  await assertPictures(page.getByRole("tabpanel"));
  await page.getByRole("tab", { name: "Uploads" }).click();
  await page.getByRole("link", { name: "Night ferry" }).first().click();
  await page.getByRole("button", { name: "Play" }).waitFor();
});

see("every stem starts at the same moment of the audio clock", { ...DESKTOP, key: KEY }, async (page) => {
  await page.addInitScript(() => {
    globalThis.starts = [];
    const start = AudioBufferSourceNode.prototype.start;
    AudioBufferSourceNode.prototype.start = function (...when) {
      globalThis.starts.push(when);
      return start.apply(this, when);
    };
  });
  await page.goto("/console/create/stems-dsp-1");
  await page.getByLabel(/^Song/).setInputFiles(SONG);
  await page.getByRole("button", { name: /^Generate/ }).click();
  await page.getByRole("link", { name: "Open the mixer" }).click();
  await page.getByRole("button", { name: "Play" }).click();
  await page.getByLabel("Position").fill("2");
  await page.waitForFunction(() => globalThis.starts.length === 4);
  const [first, second, third, fourth] = await page.evaluate(() => globalThis.starts);
  assert.deepEqual(first, second);
  assert.deepEqual(third, fourth);
  assert.equal(third[1], 2);
});

see("with the keyboard alone", { ...DESKTOP, key: KEY, acceptDownloads: true }, async (page) => {
  await page.goto("/console/create/animatic-1");
  await page.getByLabel("Prompt", { exact: true }).waitFor();
  await tabTo(page, "Prompt");
  await page.keyboard.type("A kite above the keyboard");
  await tabTo(page, "Length");
  await page.keyboard.press("ArrowDown");
  await tabTo(page, "Generate");
  await page.keyboard.press("Enter");
  await page.locator(".result video").waitFor();
  await tabTo(page, "Open the task");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Timeline" }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await assertAccessible(page);
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.notEqual(await page.evaluate(() => document.activeElement.tagName), "BODY");
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement.matches("[data-search]"));
  await page.keyboard.type("kite keyboard");
  await page.waitForURL(/q=kite/);
  await page.getByRole("link", { name: "A kite above the keyboard" }).first().waitFor();
  await tabTo(page, "A kite above");
  await page.keyboard.press("Enter");
  await page.waitForURL(/tasks\/[0-9a-f-]{36}/);
  await page.keyboard.press("g");
  await page.keyboard.press("l");
  await page.getByRole("heading", { name: "Library" }).waitFor();
  await page.waitForFunction(() => document.activeElement.tagName === "H1");

  await page.goto("/console/library?show=clips");
  await page.locator(".tile").first().waitFor();
  await tabTo(page, "Night ferry (");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Play" }).waitFor();
  await tabTo(page, "Download all");
  const [all] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("Enter")]);
  assert.match(all.suggestedFilename(), /stems\.zip$/);
});

see("a task is cancelled, and the focus stays on the page", { ...DESKTOP, key: KEY }, async (page) => {
  await page.goto("/console/create/animatic-1");
  await page.getByLabel("Prompt", { exact: true }).fill("A long way down a river");
  await page.getByLabel("Length").selectOption("20");
  await page.getByLabel("Size").selectOption("1920x1080");
  await page.getByRole("button", { name: /^Generate/ }).click();
  await page.getByRole("link", { name: "Open the task" }).click();
  await page.getByRole("button", { name: "Cancel the task" }).press("Enter");
  await page.locator(".status.off").first().waitFor();
  await page.getByRole("button", { name: "Cancel the task" }).waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement !== document.body);
  await assertAccessible(page);
});

see("a webhook is added, tested and deleted", { ...DESKTOP, key: KEY }, async (page, complaints) => {
  await page.goto("/console/webhooks");
  await page.getByRole("button", { name: "New endpoint" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("URL").fill("https://127.0.0.1/hook");
  await dialog.getByRole("button", { name: "Add endpoint" }).click();
  await page.locator("#hook-url[aria-invalid]").waitFor();
  assert.match(complaints.splice(0).join(), /^[^,]*400[^,]*$/);
  await shoot(page, "console webhook refused");
  // No server listens there: the URL is accepted, and the delivery fails.
  for (const event of ["budget.threshold", "endpoint.disabled"]) assert.ok(await dialog.getByLabel(event).isChecked());
  await dialog.getByLabel("URL").fill("https://127.0.0.2/hook");
  await dialog.getByRole("button", { name: "Add endpoint" }).click();
  assert.match(await dialog.getByRole("region", { name: "The secret" }).innerText(), /^whsec_/);
  await assertAccessible(page);
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "https://127.0.0.2/hook" }).first().click();
  await page.getByRole("button", { name: "Send a test" }).click();
  await page.getByRole("button", { name: "test", exact: true }).first().click();
  await dialog.getByText("Message").waitFor();
  await assertAccessible(page);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.waitForURL(/\/webhooks$/);
});

/** Every view, with the selector of its content. */
const PLACES = {
  create: "form",
  "create/stems-dsp-1": "form",
  library: ".tile, .empty",
  "library?show=clips": ".tile, .empty",
  "library?show=uploads": ".tile, .empty",
  "library?show=personas": ".tile, .empty",
  tasks: "table",
  "tasks?q=nothing-has-these-words": ".empty",
  spend: ".figures",
  keys: "table",
  webhooks: "table, .empty",
  requests: "table, .empty",
  "requests?of=all": "table, .empty",
  now: ".figures",
  providers: ".card, .empty",
  accounts: "table",
  audit: "table",
};

see("the days below Spend's bars do not overflow, however many there are", { ...PHONE, key: KEY }, async (page) => {
  const headers = { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" };
  const order = {
    model: "animatic-1",
    messages: [{ role: "user", content: "a lake" }],
    video: { seconds: 1, size: "480x480" },
  };
  const response = await fetch(`${URL_BASE}/v1/chat/completions`, {
    method: "POST",
    headers,
    body: JSON.stringify(order),
  });
  assert.equal(response.status, 200, await response.text());
  const day = (/** @type {number} */ ago) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
  for (const days of [1, 2, 7, 8, 9, 10, 15, 17, 20, 22, 25, 26, 28, 31, 73]) {
    await page.goto(`/console/spend?from=${day(days - 1)}&to=${day(0)}`);
    await page.locator(".axis span").first().waitFor();
    await assertFits(page);
  }
});

for (const [view, options] of Object.entries(VIEWS)) {
  see(`every view, ${view}`, { ...options, key: KEY }, async (page) => {
    for (const [place, selector] of Object.entries(PLACES)) {
      await page.goto(`/console/${place}`);
      await page.locator(`main :is(${selector})`).first().waitFor();
      await page.locator(".skeleton").first().waitFor({ state: "detached" });
      assert.equal(await page.locator("main [role=alert]").count(), 0, place);
      await assertFits(page);
      await assertAccessible(page);
      await shoot(page, `console ${place.replace(/[?=]/g, " ")} ${view}`);
    }
  });
}

see("a phone's bar leads to every view", { ...PHONE, key: KEY }, async (page) => {
  await page.goto("/console/tasks");
  await page.getByRole("button", { name: "More" }).click();
  await assertAccessible(page);
  await shoot(page, "console more phone", {});
  await page.getByRole("link", { name: "Webhooks" }).click();
  await page.getByRole("heading", { name: "Webhooks" }).waitFor();
});

see("a key without scopes sees a message", DESKTOP, async (page) => {
  const response = await fetch(`${URL_BASE}/v1/admin/keys`, {
    method: "POST",
    headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" },
    body: JSON.stringify({ name: "reader", scopes: ["tasks:read"] }),
  });
  const { key } = await response.json();
  await page.goto("/console/create");
  await signIn(page, key);
  await page.getByText("This key cannot create anything").waitFor();
  const entries = await page.getByRole("navigation", { name: "Console" }).getByRole("link").allInnerTexts();
  assert.ok(
    entries.includes("Tasks") && !entries.includes("Providers") && !entries.includes("Webhooks"),
    entries.join(),
  );
  await page.getByRole("link", { name: "Keys" }).click();
  await page.getByText("reader").first().waitFor();
  await assertAccessible(page);
});

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** Whether this is FLAC. A signed file has its signature in an ID3 tag before the stream. */
function isFlac(file) {
  const hasTag = file.subarray(0, 3).toString() === "ID3";
  const tag = hasTag ? 10 + file.subarray(6, 10).reduce((length, byte) => (length << 7) | byte, 0) : 0;
  return file.subarray(tag, tag + 4).toString() === "fLaC";
}

/** The error codes of docs/errors.md that a form can get: the key is valid, and the console does not retry itself. */
const FORM_CODES = readFileSync(new URL("../../../../docs/errors.md", import.meta.url), "utf8")
  .split("\n")
  .map((line) => line.match(/^\| `([a-z_]+)` \| (\d{3}) \|/))
  .filter(Boolean)
  .map((row) => ({ code: row[1], status: Number(row[2]) }))
  .filter(({ code, status }) => status !== 401 && !["overloaded", "shutting_down"].includes(code));

see("a form shows the reason of every error, at its field", { ...DESKTOP, key: KEY }, async (page, complaints) => {
  assert.ok(FORM_CODES.length > 40);
  let response;
  await page.route("**/v1/videos", (route) => route.fulfill(response));
  await page.goto("/console/create/animatic-1");
  const prompt = page.getByLabel("Prompt", { exact: true });
  for (const [number, { code, status }] of FORM_CODES.entries()) {
    const param = number % 2 ? "prompt" : null;
    const reason = `This is why ${code} came.`;
    response = {
      status,
      headers: { "x-should-retry": "false" },
      json: { error: { message: param ? `${param}: ${reason}` : reason, code, param, request_id: `req_${code}` } },
    };
    await prompt.fill(`An order for ${code}`);
    await page.getByRole("button", { name: /^Generate/ }).click();
    await page.getByRole("alert").getByText(reason).waitFor();
    await page.getByText(`req_${code}`).waitFor();
    // The attribute is set after the next frame.
    await page.locator(param ? "#prompt[aria-invalid=true]" : "#prompt:not([aria-invalid])").waitFor();
    assert.equal(await page.getByText(/Nothing was charged|Your task continues/).count(), 0, code);
  }
  // The browser reports the refused requests itself.
  complaints.length = 0;
});
