// Webhook mode, against the real program.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, type TestContext, test } from "node:test";
import { InvalidArgumentError, type JSONValue } from "@ai-sdk/provider";
import { experimental_generateVideo as generateVideo } from "ai";
import { WebhookVerificationError } from "standardwebhooks";

import { createMediagate } from "../src/index.js";
import { Calls } from "./support/calls.js";
import { assertFilm, small } from "./support/films.js";
import { Gateway } from "./support/gateway.js";
import { Provider } from "./support/provider.js";
import { Receiver } from "./support/receiver.js";
import { signed } from "./support/signed.js";

interface Target {
  baseURL: string;
  key: string;
  secret: string;
  /** By the task's id. */
  cancel(id: string): Promise<void>;
  stop(): Promise<void>;
}

const LOOPBACK = `
  [fetch]
  allow_networks = ["127.0.0.0/8"]

  [webhooks]
  allow_http = true
`;

let target: Target;

before(async () => {
  target = await real();
});

after(async () => await target?.stop());

async function real(): Promise<Target> {
  const provider = await Provider.start(new Uint8Array());
  const gateway = await Gateway.start(LOOPBACK + provider.config);
  const { secret } = await gateway.get("/v1/webhooks/secret");
  return {
    baseURL: gateway.baseURL,
    key: gateway.key,
    secret,
    cancel: async (id) => await gateway.post(`/v1/tasks/${id}/cancel`),
    stop: async () => {
      await gateway.stop();
      await provider.close();
    },
  };
}

const another = () => `whsec_${randomBytes(32).toString("base64")}`;

/** Makes a film by webhook. */
async function make(t: TestContext, model: string, prompt: string, options: { secret?: string; parse?: boolean } = {}) {
  const calls = new Calls();
  const receiver = await Receiver.start();
  t.after(() => receiver.close());
  const received = options.parse
    ? receiver.received.then(({ headers, body }) => ({ headers, body: JSON.parse(body) as JSONValue }))
    : receiver.received;
  const mediagate = createMediagate({
    baseURL: target.baseURL,
    apiKey: target.key,
    fetch: calls.fetch,
    webhookSecret: options.secret,
  });
  const { poll, ...order } = small(mediagate.video(model), prompt);
  const webhook = async () => ({ url: receiver.url, received });
  const made = generateVideo({ ...order, poll: { timeoutMs: poll.timeoutMs }, webhook });
  made.catch(() => {}); // seen by the test, when it awaits it
  return { made, calls, receiver };
}

test("a webhook tells that the film is made, and nothing is polled", async (t) => {
  const { made, calls, receiver } = await make(t, "animatic-1", "a lake", { secret: target.secret });
  assertFilm((await made).video.uint8Array);
  const { type, data } = JSON.parse((await receiver.received).body);
  assert.deepEqual([type, data.status], ["task.succeeded", "succeeded"]);
  const asked = calls.seen.map(({ method, path }) => `${method} ${path.replace(/video_\w+/, "ID")}`);
  assert.deepEqual(asked, ["POST /v1/videos", "GET /v1/videos/ID", "GET /v1/videos/ID/content"]);
});

test("without a secret a parsed body will do, for what counts is what the gateway says when asked", async (t) => {
  const { made } = await make(t, "animatic-1", "a lake", { parse: true });
  assertFilm((await made).video.uint8Array);
});

test("a webhook tells of a failure", async (t) => {
  const { made, receiver } = await make(t, "acme-video", "refused", { secret: target.secret });
  await assert.rejects(made, / failed: .* \(content_policy\)$/);
  assert.equal(JSON.parse((await receiver.received).body).type, "task.failed");
});

test("a webhook tells of a cancellation", async (t) => {
  const { made, calls, receiver } = await make(t, "acme-video", "held", { secret: target.secret });
  await calls.until(({ method }) => method === "POST");
  await target.cancel(calls.taskId);
  await assert.rejects(made, / was cancelled: .* \(cancelled\)$/);
  assert.equal(JSON.parse((await receiver.received).body).type, "task.cancelled");
});

test("a webhook that is signed with another secret is not believed", async (t) => {
  const { made, calls } = await make(t, "animatic-1", "a lake", { secret: another() });
  await assert.rejects(made, WebhookVerificationError);
  assert.deepEqual(calls.statuses, [200]);
});

test("a parsed body cannot be verified", async (t) => {
  const { made } = await make(t, "animatic-1", "a lake", { secret: target.secret, parse: true });
  await assert.rejects(made, InvalidArgumentError);
});

test("only what was signed, with this secret and lately, is believed", async () => {
  const secret = another();
  const mediagate = createMediagate({ baseURL: target.baseURL, apiKey: target.key, webhookSecret: secret });
  const receive = async (headers: Record<string, string>, body: string) => {
    const webhook = async () => ({ url: "https://hooks.test/1", received: Promise.resolve({ headers, body }) });
    const { received } = await mediagate.video("animatic-1").handleWebhookOption!({ webhook });
    return await received;
  };
  // As the gateway writes numbers, which JavaScript would write otherwise.
  const body = '{"type":"task.succeeded","data":{"seconds":5.0}}';
  const good = signed(body, secret);
  assert.deepEqual((await receive(good, body)).body, JSON.parse(body));
  const rotated = `${signed(body, another())["webhook-signature"]} ${good["webhook-signature"]}`;
  await receive({ ...good, "webhook-signature": rotated }, body);
  const now = Math.floor(Date.now() / 1000);
  const bad: [Record<string, string>, string][] = [
    [good, body.replace("5.0", "6.0")],
    [signed(body, another()), body],
    [signed(body, secret, now - 600), body],
    [signed(body, secret, now + 600), body],
    [{ ...good, "webhook-id": "msg_other" }, body],
    [{ ...good, "webhook-signature": "v1," }, body],
    [{}, body],
  ];
  for (const [headers, text] of bad) await assert.rejects(receive(headers, text), WebhookVerificationError);
});
