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
    assert.deepEqual(await cards.evaluateAll((all) => all.map((card) => card.dataset.model)), ["animatic-1", "stems-dsp-1"]);
    for (const word of await page.locator(".state .word").allInnerTexts()) assert.equal(word.toLowerCase(), "available");
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

see("an unknown address", DESKTOP, async (page, complaints) => {
  const response = await page.goto("/nowhere");
  assert.equal(response.status(), 404);
  await shoot(page, "not found");
  complaints.length = 0; // The browser reports the 404 itself.
});

see("docs", DESKTOP, async (page) => {
  await page.goto("/docs/");
  await page.locator(".opblock").first().waitFor();
  assert.ok((await page.locator(".opblock").count()) >= 20);
  assert.match(await page.locator(".title").first().innerText(), /Mediagate/);
  await shoot(page, "docs");
  const chat = page.locator(".opblock", { hasText: "/v1/chat/completions" });
  await chat.locator("button").first().click();
  await chat.getByText("Request body").waitFor();
  await shoot(page, "docs chat", {});
});

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
