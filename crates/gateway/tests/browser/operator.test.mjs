// The operator's views in a real browser: keys, accounts, providers, the audit log, and sessions by cookie. These
// tests have their own gateway, with simulated providers.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { DESKTOP, VIEWS, assertAccessible, assertFits, shoot, signIn, visiting } from "./browser.mjs";
import { startProgram, until } from "./program.mjs";

let program;

before(async () => {
  program = await startProgram();
});
after(() => program?.stop());

const visit = (name, steps, options = {}) =>
  visiting(name, { ...DESKTOP, base: program.url, key: program.key, ...options }, steps);

test("a key is created, works, is changed, rotated and revoked", () =>
  visit("keys", async (page, complaints) => {
    await page.goto("/console/keys");
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "New key" }).click();
    await dialog.getByLabel("Name").fill("Nightly build");
    await dialog.getByLabel("Budget in USD").fill("five");
    await dialog.getByRole("button", { name: "Create key" }).click();
    await page.locator("#key-budget_usd[aria-invalid]").waitFor();
    assert.match(complaints.splice(0).join(), /^[^,]*400[^,]*$/);
    await assertAccessible(page);
    await dialog.getByLabel("Budget in USD").fill("5");
    await dialog.getByLabel("Budget renews").selectOption("month");
    await dialog.getByRole("button", { name: "Create key" }).click();
    const key = await dialog.getByRole("region", { name: "The key", exact: true }).innerText();
    const statusWith = async (secret) =>
      (await fetch(`${program.url}/v1/account`, { headers: { Authorization: `Bearer ${secret}` } })).status;
    assert.equal(await statusWith(key), 200);
    await assertAccessible(page);
    await shoot(page, "console key made", {});
    await page.keyboard.press("Escape");
    const row = page.locator("tbody tr", { hasText: "Nightly build" });
    await row.getByText("5.00 USD a month").waitFor();

    await page.getByRole("button", { name: "Edit Nightly build" }).click();
    await dialog.getByLabel("Requests per minute").fill("30");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Rotate Nightly build" }).click();
    await dialog.getByRole("button", { name: "Rotate" }).click();
    const next = await dialog.getByRole("region", { name: "The key", exact: true }).innerText();
    assert.notEqual(next, key);
    assert.equal(await statusWith(next), 200);
    await until(async () => (await statusWith(key)) === 401);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Revoke Nightly build" }).first().click();
    await dialog.getByRole("button", { name: "Revoke the key" }).click();
    await dialog.waitFor({ state: "detached" });
    await until(async () => (await statusWith(next)) === 401);
    assert.notEqual(await page.evaluate(() => document.activeElement.tagName), "BODY");

    await page.goto("/console/audit?action=key.create");
    await page.locator("tbody tr", { hasText: "key.create" }).first().waitFor();
    await page.getByLabel("Action").fill("key.revoke");
    await page.getByLabel("Action").press("Enter");
    await page.waitForURL(/action=key\.revoke/);
    await page.locator("tbody tr", { hasText: "key.revoke" }).first().waitFor();
  }));

test("an account is created and credited, and the ledger adds up", () =>
  visit("accounts", async (page) => {
    await page.goto("/console/accounts");
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "New account" }).click();
    await dialog.getByLabel("Handle").fill("studio");
    await dialog.getByLabel("Prepaid").check();
    await dialog.getByRole("button", { name: "Create account" }).click();
    await page.getByRole("button", { name: "Credit studio" }).click();
    await dialog.getByLabel("Amount in USD").fill("12.5");
    await dialog.getByRole("button", { name: "Add credit" }).click();
    await page.locator("tbody tr", { hasText: "studio" }).getByText("12.50 USD").first().waitFor();
    // An account that may spend without limit shows no negative balance.
    await page.getByText("not prepaid").waitFor();
    assert.doesNotMatch(await page.locator("main").innerText(), /[-−–]\s?\d/);
    await page.getByRole("link", { name: "Margins" }).click();
    await page.getByText("adds up").waitFor();
    assert.equal(await page.getByLabel("Grouped by").inputValue(), "account");
    await page.locator(".figures").getByText("no limit").waitFor();
    await page.locator("tbody tr", { hasText: "studio" }).getByText("credit", { exact: true }).waitFor();
    await assertAccessible(page);
  }));

test("a provider that refuses is shown, paused and resumed", () =>
  visit("providers", async (page) => {
    await fetch(`${program.simulator}/_/faults`, {
      method: "POST",
      body: JSON.stringify({ fault: { status: { status: 401 } }, provider: "fal", role: "submit", times: 50 }),
    });
    const { id } = await program.call("POST", "/v1/videos", { model: "veo", prompt: "A locked door", seconds: "4" });
    const task = id.replace("video_", "").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
    let record;
    do record = await program.call("GET", `/v1/tasks/${task}?wait=60`);
    while (["queued", "running"].includes(record.status));
    await page.goto("/console/providers");
    await page.getByText("key rejected").waitFor();
    assert.equal(await page.locator(".route-card").first().locator(".parts-of span").count(), 12);
    await page.getByText("The provider rejects the key").waitFor();
    await assertAccessible(page);
    await shoot(page, "console providers refused");
    await page.getByRole("button", { name: "Pause acme/sora-2" }).click();
    await page.getByText("paused", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Resume acme/sora-2" }).click();
    await page.getByText("paused", { exact: true }).waitFor({ state: "detached" });
    await page.goto("/console/audit");
    await page.locator("tbody tr", { hasText: /pause/ }).first().waitFor();
  }));

test("an order above the limit of its key waits in the overview until it is approved or rejected", () =>
  visit("approval", async (page) => {
    const limited = await program.call("POST", "/v1/admin/keys", { name: "Editor", approve_above_usd: "1.00" });
    const order = async (prompt) => {
      const response = await fetch(`${program.url}/v1/videos`, {
        method: "POST",
        headers: { Authorization: `Bearer ${limited.key}`, "Content-Type": "application/json" },
        body: JSON.stringify({ model: "veo", prompt, seconds: "4" }),
      });
      return response.headers.get("x-task-id");
    };
    const [first, second] = [await order("A dear lighthouse"), await order("A dear harbour")];
    await page.goto("/console/now");
    const table = page.getByRole("table", { name: "Orders that wait for approval" });
    const row = (prompt) => table.locator("tbody tr", { hasText: prompt });
    await row("A dear lighthouse").getByText("1.60 USD").waitFor();
    await row("A dear lighthouse").getByText("Editor").waitFor();
    await assertAccessible(page);
    await shoot(page, "console approval");
    await page.getByRole("button", { name: "Reject A dear harbour" }).click();
    await row("A dear harbour").waitFor({ state: "detached" });
    assert.equal((await program.call("GET", `/v1/tasks/${second}`)).error.code, "approval_rejected");
    await page.goto(`/console/tasks/${first}`);
    await page.getByText("This order waits for approval").waitFor();
    await page.getByRole("button", { name: "Approve A dear lighthouse" }).click();
    await page.getByText("This order waits for approval").waitFor({ state: "detached" });
    await until(async () => (await program.call("GET", `/v1/tasks/${first}`)).status === "succeeded");
    await page.goto("/console/now");
    await page.getByRole("heading", { name: "Newest tasks of all accounts" }).waitFor();
    await table.waitFor({ state: "detached" });
  }));

test("charges and provider costs are shown for every account", () =>
  visit("margin", async (page) => {
    const { id } = await program.call("POST", "/v1/videos", { model: "veo", prompt: "A fair price", seconds: "4" });
    const task = id.replace("video_", "").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
    let record;
    do record = await program.call("GET", `/v1/tasks/${task}?wait=60`);
    while (["queued", "running"].includes(record.status));
    const { total } = await program.call("GET", "/v1/admin/usage");
    assert.ok(Number(total.provider_cost_usd) >= 1, JSON.stringify(total));
    await page.goto("/console/spend?by=provider");
    const sum = page.getByRole("table", { name: "Totals" }).locator("tfoot tr", { hasText: "Total" });
    await sum.getByText(`${Number(total.margin_usd).toFixed(2)} USD`).waitFor();
    await page.getByLabel("Grouped by").selectOption("account");
    await page.waitForURL(/by=account/);
    await page.getByRole("table", { name: "Totals" }).locator("tbody tr", { hasText: "default" }).waitFor();
    await assertAccessible(page);
    await page.getByLabel("Accounts", { exact: true }).selectOption("own");
    await page.waitForURL(/of=own/);
    await page.getByRole("columnheader", { name: "Margin" }).waitFor({ state: "detached" });
  }));

test("a range of days is in the URL, and its bars are distinguished by group", () =>
  visit(
    "spend",
    async (page) => {
      await page.goto("/console/spend?by=model");
      const chart = page.getByRole("img", { name: /^Dollars by day/ });
      await chart.waitFor();
      await page.getByRole("link", { name: "7 days" }).click();
      await page.waitForURL(/from=/);
      await page.getByRole("link", { name: "7 days", exact: true }).and(page.locator("[aria-current]")).waitFor();
      const bars = chart.locator(".column");
      await page.waitForFunction(() => document.querySelectorAll(".column").length === 7);
      await bars.last().hover();
      await chart.getByText(/USD, \d+ tasks?/).waitFor();
      await page.goBack();
      await page.waitForFunction(() => document.querySelectorAll(".column").length !== 7);
      const [csv] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Download CSV" }).click(),
      ]);
      assert.match(csv.suggestedFilename(), /^usage-.*\.csv$/);
    },
    { acceptDownloads: true },
  ));

test("an idle tab sends no requests", () =>
  visit("idle", async (page) => {
    await page.clock.install();
    const requests = [];
    for (const place of [
      "create",
      "library",
      "tasks",
      "tasks?of=all",
      "spend",
      "keys",
      "webhooks",
      "requests",
      "requests?of=all",
      "now",
      "providers",
      "accounts",
      "audit",
    ]) {
      await page.goto(`/console/${place}`);
      await page.locator("main :is(table, .card, .figures, .tile, .empty)").first().waitFor();
      await page.locator(".skeleton").first().waitFor({ state: "detached" });
      // The price of an untouched form is requested once.
      await page.clock.runFor(2000);
      const record = (request) => requests.push(`${place}: ${request.url()}`);
      page.on("request", record);
      await page.clock.runFor(120_000);
      page.off("request", record);
    }
    assert.deepEqual(requests, []);
  }));

test("a refused request is found by its id, and its error is counted", () =>
  visit("requests", async (page) => {
    const headers = { Authorization: `Bearer ${program.key}`, "x-request-id": "r-browser" };
    const refused = await fetch(`${program.url}/v1/tasks?nothing=1`, { headers });
    assert.equal(refused.status, 400);
    await until(async () => (await program.call("GET", "/v1/requests?q=r-browser")).data.length === 1);
    await page.goto("/console/requests?q=r-browser");
    const requests = page.getByRole("table", { name: "Requests, newest first" });
    await requests.getByRole("link", { name: "unsupported_value" }).waitFor();
    await page.getByRole("table", { name: "Errors, the most frequent first" }).waitFor();
    await assertAccessible(page);
    await page.getByLabel("Error code").fill("budget_exceeded");
    await page.getByLabel("Error code").press("Enter");
    await page.getByText("No request matches").waitFor();
    assert.match(page.url(), /code=budget_exceeded/);
  }));

test("events are shown as they happen", () =>
  visit("now", async (page) => {
    await page.goto("/console/now");
    await page.getByText("adds up").waitFor();
    await program.call("POST", "/v1/videos", { model: "animatic-1", prompt: "A live wire", seconds: "1" });
    await page.getByRole("link", { name: "A live wire" }).waitFor();
    await program.call("POST", "/v1/admin/accounts", { handle: "newcomers" });
    await page.getByRole("table", { name: "Newest changes" }).getByText("newcomers").waitFor();
    await page.getByRole("img", { name: /^Tasks that ended, by hour: \d+ succeeded/ }).waitFor();
    await assertAccessible(page);
    await shoot(page, "console now live");
  }));

for (const [view, options] of Object.entries(VIEWS)) {
  test(`the operator's views, ${view}`, () =>
    visit(
      `operator ${view}`,
      async (page) => {
        for (const place of ["now", "providers", "accounts", "audit", "requests?of=all", "keys", "spend"]) {
          await page.goto(`/console/${place}`);
          await page.locator("main :is(table, .card, .figures)").first().waitFor();
          await page.locator(".skeleton").first().waitFor({ state: "detached" });
          await assertFits(page);
          await assertAccessible(page);
          await shoot(page, `operator ${place} ${view}`);
        }
      },
      options,
    ));
}

test("a session by cookie opens the console in every tab, until it is ended", () =>
  visit(
    "session",
    async (page) => {
      await page.goto("/console/tasks");
      await page.getByLabel("Stay signed in").check();
      await signIn(page, program.key);
      await page.getByRole("heading", { name: "Tasks" }).waitFor();
      assert.equal(await page.evaluate(() => sessionStorage.length), 0, "no script holds the key");
      const other = await page.context().newPage();
      await other.goto(`${program.url}/console/webhooks`);
      await other.getByRole("button", { name: "New endpoint" }).click();
      await other.getByRole("dialog").getByLabel("URL").fill("https://hooks.example.com/media");
      await other.getByRole("dialog").getByRole("button", { name: "Add endpoint" }).click();
      await other.getByRole("region", { name: "The secret" }).waitFor();
      await other.close();
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByLabel("API key").waitFor();
      assert.deepEqual(
        (await page.context().cookies()).filter((cookie) => cookie.value),
        [],
      );
    },
    { key: undefined },
  ));

test("a revocation says which tasks continue, and cancels them if asked to", () =>
  visit("revocation", async (page) => {
    const order = { model: "animatic-1", prompt: "A slow river", seconds: "20", size: "1920x1080" };
    const dialog = page.getByRole("dialog");
    const openTasks = async (handle) => {
      const keys = await program.call("GET", `/v1/admin/keys?account=${handle}`);
      return keys.data.reduce((sum, key) => sum + key.open_tasks, 0);
    };
    /** Orders six long films with a new key of the account, and waits until one of them runs. */
    const orderFilms = async (handle) => {
      const { key } = await program.call("POST", "/v1/admin/keys", { name: `Key of ${handle}`, account: handle });
      for (let number = 0; number < 6; number++) {
        const response = await fetch(`${program.url}/v1/videos`, {
          method: "POST",
          headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
          body: JSON.stringify({ ...order, prompt: `${order.prompt} ${number}` }),
        });
        assert.equal(response.status, 200);
      }
      await until(
        async () => (await program.call("GET", `/v1/admin/tasks?account=${handle}&status=running`)).data.length > 0,
      );
    };
    const endAndCancel = async (button) => {
      await dialog.getByRole("button", { name: button }).click();
      await dialog.getByText(/(One task was|\d tasks were) cancelled/).waitFor();
      await dialog.getByText(/(One task continues and holds|\d tasks continue and hold) 0\.00 USD/).waitFor();
      await assertAccessible(page);
      const offer = dialog.getByRole("button", { name: /^Cancel (it|them) too$/ });
      await offer.click();
      await offer.waitFor({ state: "detached" });
      await dialog.getByText(/(One task was|\d tasks were) cancelled/).waitFor();
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
    };

    await orderFilms("leaky");
    await page.goto("/console/keys");
    await page.getByRole("button", { name: "Revoke Key of leaky" }).click();
    await dialog.getByText(/6 open tasks, which hold 0\.00 USD/).waitFor();
    await assertAccessible(page);
    await endAndCancel("Revoke the key");
    assert.equal(await openTasks("leaky"), 0);

    await orderFilms("leaving");
    await page.goto("/console/accounts");
    await page.getByRole("button", { name: "Close leaving" }).click();
    await assertAccessible(page);
    await endAndCancel("Close the account");
    assert.equal(await openTasks("leaving"), 0);
    await page.locator("tbody tr", { hasText: "leaving" }).getByText("closed").waitFor();
  }));

test("an unconfirmed submission is resolved in the overview", () =>
  visit("unconfirmed", async (page) => {
    await fetch(`${program.simulator}/_/faults`, {
      method: "POST",
      body: JSON.stringify({ fault: "drop_before", role: "submit", times: 1 }),
    });
    const { id } = await program.call("POST", "/v1/videos", { model: "veo", prompt: "A lost letter", seconds: "4" });
    const task = id.replace("video_", "").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
    let record;
    do record = await program.call("GET", `/v1/tasks/${task}?wait=60`);
    while (["queued", "running"].includes(record.status));
    await page.goto("/console/now");
    const table = page.getByRole("table", { name: "Unconfirmed submissions" });
    await table.getByRole("button", { name: /^Resolve/ }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Note").fill("It is not in the list.");
    await assertAccessible(page);
    await dialog.getByRole("button", { name: "Resolve" }).click();
    await dialog.waitFor({ state: "detached" });
    await table.waitFor({ state: "detached" });
    await page.goto("/console/audit?action=submission.resolve");
    await page.locator("tbody tr", { hasText: "submission.resolve" }).first().waitFor();
  }));
