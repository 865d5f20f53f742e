// The public pages in a real browser, against a running gateway.

import assert from "node:assert/strict";
import { DESKTOP, VIEWS, assertAccessible, assertFits, see, shoot } from "./browser.mjs";

for (const [view, options] of Object.entries(VIEWS)) {
  see(`home ${view}`, options, async (page) => {
    await page.goto("/");
    assert.match(await page.locator("h1").innerText(), /Nobody pays twice/);
    assert.equal(await page.locator("pre").count(), 3);
    await assertFits(page);
    await assertAccessible(page);
    await shoot(page, `home ${view}`);
  });

  see(`pricing ${view}`, options, async (page) => {
    await page.goto("/pricing");
    const cards = page.locator("[data-model]");
    assert.deepEqual(await cards.evaluateAll((all) => all.map((card) => card.dataset.model)), [
      "animatic-1",
      "stems-dsp-1",
    ]);
    for (const word of await page.locator(".state .word").allInnerTexts())
      assert.equal(word.toLowerCase(), "available");
    for (const price of await page.locator(".price").allInnerTexts()) assert.equal(price.toLowerCase(), "free");
    await assertFits(page);
    await assertAccessible(page);
    await shoot(page, `pricing ${view}`);
    await page.getByLabel("Filter").fill("stems vocals");
    assert.equal(await page.locator("[data-model]:visible").count(), 1);
    assert.equal(await page.locator("#filter-count").innerText(), "1 of 2");
    assert.ok(!(await page.getByRole("heading", { name: /^Video/ }).isVisible()));
    await page.getByLabel("Filter").fill("");
    assert.equal(await page.locator("[data-model]:visible").count(), 2);
  });
}

see("an unknown path", DESKTOP, async (page, complaints) => {
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
    await page.goto("/docs/api#video_complete");
    const chat = page.locator(".endpoint", { has: page.locator("#video_complete") });
    await chat.locator("summary", { hasText: "Body: application/json" }).click();
    await chat.getByText("messages[].content", { exact: true }).first().waitFor();
    await assertFits(page);
    await shoot(page, `docs api ${view}`, {});
  });
}

see("the links of the pages work", DESKTOP, async (page) => {
  const links = new Set();
  for (const place of ["/", "/pricing", "/console"]) {
    await page.goto(place);
    for (const link of await page.locator("a[href]").evaluateAll((all) => all.map((a) => a.href)))
      links.add(link.split("#")[0]);
  }
  for (const link of links) {
    const response = await page.request.get(link);
    const expected = link.endsWith("/v1/models") ? 401 : 200; // This one needs a key.
    assert.equal(response.status(), expected, link);
  }
});
