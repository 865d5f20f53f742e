// Poll mode against the real program.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";
import { APICallError, type JSONValue } from "@ai-sdk/provider";
import {
  experimental_generateVideo as generateVideo,
  experimental_getVideoStatus as getVideoStatus,
  experimental_startVideo as startVideo,
} from "ai";

import { createMediagate } from "../src/index.js";
import { Calls } from "./support/calls.js";
import { assertFilm, film, small } from "./support/films.js";
import { Gateway } from "./support/gateway.js";
import { LossyProxy } from "./support/lossy.js";
import { Provider } from "./support/provider.js";
import { Server } from "./support/server.js";

// Red, 16 by 16 pixels.
const PICTURE =
  "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFklEQVR42mM4oWFDEmIY1TCqYfhqAAAKBCwQThTXOAAAAABJRU5ErkJggg==";

let gateway: Gateway;
let provider: Provider;

before(async () => {
  const plain = await Gateway.start();
  provider = await Provider.start(await film(mediagate(plain).video("animatic-1")));
  await plain.stop();
  gateway = await Gateway.start(provider.config);
});

after(async () => {
  await gateway?.stop();
  await provider?.close();
});

function mediagate({ baseURL, key }: { baseURL: string; key: string }, calls = new Calls()) {
  return createMediagate({ baseURL, apiKey: key, fetch: calls.fetch });
}

test("a prompt becomes a film", async () => {
  const { video, warnings, providerMetadata, responses } = await generateVideo(
    small(mediagate(gateway).video("animatic-1")),
  );
  assertFilm(video.uint8Array);
  assert.equal(video.mediaType, "video/mp4");
  assert.deepEqual(warnings, []);
  assert.equal(responses[0]?.modelId, "animatic-1");
  const [made] = providerMetadata["mediagate"]?.["videos"] as Record<string, JSONValue>[];
  assert.ok(made);
  assert.deepEqual([made["width"], made["height"], made["bytes"]], [480, 480, video.uint8Array.length]);
  assert.equal(made["sha256"], createHash("sha256").update(video.uint8Array).digest("hex"));
});

test("a picture is the first frame", async () => {
  const model = mediagate(gateway).video("animatic-1");
  const plain = small(model);
  const { video } = await generateVideo({ ...plain, prompt: { text: plain.prompt, image: PICTURE }, seed: 7 });
  assertFilm(video.uint8Array);
});

test("several films are several tasks", async () => {
  const tasks = await gateway.tasks();
  const { videos, providerMetadata } = await generateVideo({
    ...small(mediagate(gateway).video("animatic-1")),
    n: 2,
  });
  assert.equal(videos.length, 2);
  const made = providerMetadata["mediagate"]?.["videos"] as { id: string }[];
  assert.equal(new Set(made.map(({ id }) => id)).size, 2);
  assert.equal(await gateway.tasks(), tasks + 2);
});

test("a start whose answer was lost is repeated and makes one task", async (t) => {
  const tasks = await gateway.tasks();
  const proxy = await LossyProxy.start(gateway.url, 1);
  t.after(() => proxy.close());
  const model = mediagate({ baseURL: proxy.baseURL, key: gateway.key }).video("animatic-1");
  const { video } = await generateVideo(small(model));
  assertFilm(video.uint8Array);
  assert.equal(proxy.keys.length, 2);
  assert.match(proxy.keys[0] ?? "", /^aisdk_vid_/);
  assert.equal(proxy.keys[0], proxy.keys[1]);
  assert.equal(await gateway.tasks(), tasks + 1);
});

test("a gateway that is killed and started again goes on where it was", async (t) => {
  const mine = await Gateway.start(provider.config);
  t.after(() => mine.stop());
  const calls = new Calls();
  const order = small(mediagate(mine, calls).video("acme-video"));
  const made = generateVideo({ ...order, maxRetries: 5 });
  made.catch(() => {}); // seen below, when it is awaited
  const job = await provider.job(order.prompt);
  await mine.kill();
  await calls.until(({ status }) => status === undefined);
  await mine.restart();
  job.status = "completed";
  assertFilm((await made).video.uint8Array);
  assert.equal(await mine.tasks(), 1);
  assert.equal(await provider.job(order.prompt), job);
});

test("a job that failed says why, and is not ordered again", async () => {
  const calls = new Calls();
  const model = mediagate(gateway, calls).video("acme-video");
  await assert.rejects(generateVideo(small(model, "refused")), / failed: .*Not with us\..* \(content_policy\)$/);
  assert.equal(calls.seen.filter(({ method }) => method === "POST").length, 1);
});

test("a video that is started here is asked for elsewhere, and a cancelled one says so", async () => {
  const { poll: _, ...order } = small(mediagate(gateway).video("acme-video"));
  const { operation, response } = await startVideo(order);
  const kept = JSON.parse(JSON.stringify(operation)) as JSONValue;
  const elsewhere = mediagate(gateway).video("acme-video");
  assert.equal((await getVideoStatus(elsewhere, { operation: kept })).status, "pending");
  await gateway.post(`/v1/tasks/${response.headers?.["x-task-id"]}/cancel`);
  const status = await getVideoStatus(elsewhere, { operation: kept });
  assert.equal(status.status, "error");
  assert.match(status.error, /was cancelled: .* \(cancelled\)$/);
  assert.equal((status.providerMetadata?.["mediagate"]?.["error"] as { code: string }).code, "cancelled");
});

test("what a repetition cannot mend is not repeated", async () => {
  const cases = [
    { key: "sk-mg-wrong", model: "animatic-1", duration: 1, status: 401, code: "invalid_api_key" },
    { key: gateway.key, model: "no-such-model", duration: 1, status: 404, code: "model_not_found" },
    { key: gateway.key, model: "animatic-1", duration: 900, status: 400, code: "unsupported_value" },
  ];
  for (const { key, model, duration, status, code } of cases) {
    const calls = new Calls();
    const order = small(mediagate({ baseURL: gateway.baseURL, key }, calls).video(model));
    await assert.rejects(generateVideo({ ...order, duration }), (error) => {
      assert.ok(APICallError.isInstance(error));
      assert.deepEqual([error.statusCode, error.isRetryable], [status, false]);
      assert.equal((error.data as { error: { code: string } }).error.code, code);
      return true;
    });
    assert.deepEqual(calls.statuses, [status]);
  }
});

test("too many requests may be repeated when the gateway says", async () => {
  const key = gateway.newKey("--rpm", "1");
  const order = small(mediagate({ baseURL: gateway.baseURL, key }).video("animatic-1"));
  const { poll: _, ...once } = order;
  await startVideo(once);
  await assert.rejects(startVideo({ ...once, maxRetries: 0 }), (error) => {
    assert.ok(APICallError.isInstance(error));
    assert.deepEqual([error.statusCode, error.isRetryable], [429, true]);
    assert.ok(Number(error.responseHeaders?.["retry-after"]) > 0);
    return true;
  });
});

test("an abort ends the waiting, not the job", async () => {
  const calls = new Calls();
  const abort = new AbortController();
  const order = small(mediagate(gateway, calls).video("acme-video"));
  const ended = assert.rejects(generateVideo({ ...order, abortSignal: abort.signal }), { name: "AbortError" });
  const job = await provider.job(order.prompt);
  await calls.until(({ method }) => method === "GET");
  abort.abort();
  await ended;
  const asked = calls.seen.length;
  job.status = "completed";
  assert.equal((await gateway.get(`/v1/tasks/${calls.taskId}?wait=60`)).status, "succeeded");
  assert.equal(calls.seen.length, asked);
});

test("an abort ends a start that is not answered", async (t) => {
  const abort = new AbortController();
  const silent = await Server.start(() => abort.abort());
  t.after(() => silent.close());
  const model = mediagate({ baseURL: `${silent.url}/v1`, key: "sk-mg-any" }).video("animatic-1");
  await assert.rejects(generateVideo({ ...small(model), abortSignal: abort.signal }), { name: "AbortError" });
});
