// Pictures of the console, light and dark; the README shows "create". SCREENS is the folder that they are written to;
// without it, they are discarded.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { visiting, wav } from "./browser.mjs";
import { startProgram } from "./program.mjs";

const { SCREENS } = process.env;
const MAX_BYTES = 400_000;
let program;

before(async () => {
  program = await startProgram();
});
after(() => program?.stop());

for (const colorScheme of ["light", "dark"]) {
  test(`screens, ${colorScheme}`, () =>
    visiting(
      `screens ${colorScheme}`,
      { base: program.url, key: program.key, viewport: { width: 1280, height: 800 }, colorScheme },
      async (page) => {
        const take = async (name) => {
          await page.locator(".skeleton").first().waitFor({ state: "detached" });
          await page.evaluate(() => Promise.all([...document.images].map((image) => image.decode().catch(() => {}))));
          const picture = await page.screenshot();
          assert.ok(picture.length < MAX_BYTES, `${name} has ${picture.length} bytes`);
          if (SCREENS) writeFileSync(path.join(SCREENS, `${name}-${colorScheme}.png`), picture);
        };
        for (const [prompt, seconds] of [
          ["A kite over a dune, slow pan left", "8"],
          ["Rain on a tin roof at night", "4"],
        ]) {
          const { id } = await program.call("POST", "/v1/videos", { model: "veo", prompt, seconds });
          await waitUntilSucceeded(id);
        }
        await page.goto("/console/create/stems-dsp-1");
        await page.getByLabel(/^Song/).setInputFiles({ name: "Night ferry.wav", mimeType: "audio/wav", buffer: wav() });
        await page.getByText("All stems").click();
        await page.getByRole("button", { name: /^Generate/ }).click();
        await page.getByRole("link", { name: "Open the mixer" }).click();
        await page.getByRole("button", { name: "Play" }).waitFor();
        await page.getByLabel("Position").fill("1.4");
        await take("mixer");

        await page.goto("/console/create/animatic-1");
        await page.getByLabel("Prompt", { exact: true }).fill("A harbour at dusk, slow pan left, sound of waves");
        await page.getByLabel("Length").selectOption("2");
        await page.getByLabel("Size").selectOption("854x480");
        await page.getByRole("button", { name: /^Generate/ }).click();
        await page.locator(".result video").waitFor();
        await page.locator(".result video").evaluate(
          (video) =>
            new Promise((resolve) => {
              video.addEventListener("seeked", resolve, { once: true });
              video.controls = false;
              video.currentTime = 0.5;
            }),
        );
        await take("create");

        await page.getByRole("link", { name: "Tasks" }).click();
        await page.locator("tbody tr").nth(3).waitFor();
        await take("tasks");
        await page.getByRole("link", { name: "A kite over a dune" }).first().click();
        await page.getByText(/^Settled/).waitFor();
        await take("task");
        await page.goto("/console/spend?by=provider");
        await page.getByRole("table", { name: "Totals" }).waitFor();
        await take("spend");
        await page.goto("/console/now");
        await page.getByText("adds up").waitFor();
        await take("now");
      },
    ));
}

async function waitUntilSucceeded(id) {
  const task = id.replace("video_", "").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
  let record;
  do record = await program.call("GET", `/v1/tasks/${task}?wait=60`);
  while (["queued", "running"].includes(record.status));
  assert.equal(record.status, "succeeded");
}
