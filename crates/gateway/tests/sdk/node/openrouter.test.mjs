// OpenRouter's SDK and its provider for the AI SDK, unchanged, against a gateway of their own: each film is paid once,
// and each is had.
//
// MEDIAGATE_PROGRAM is the program.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { createOpenRouter } from "@openrouter/ai-sdk-provider";
import { OpenRouter } from "@openrouter/sdk";
import * as errors from "@openrouter/sdk/models/errors";
import { experimental_generateVideo as generateVideo, generateText } from "ai";
import { Gateway, Relay } from "./gateway.mjs";

let gateway;

before(async () => {
  gateway = await Gateway.start();
});

after(() => gateway?.stop());

const sdk = ({ url } = gateway) => new OpenRouter({ apiKey: gateway.key, serverURL: `${url}/api/v1` });
const order = () => ({ model: "animatic-1", prompt: `A lake ${randomUUID()}`, duration: 1, size: "480x480" });
const isOrder = ({ method, url }) => method === "POST" && url === "/api/v1/videos";

/** Runs `make`, which must cost one film of a second, and checks the bytes of the film that it returns. */
async function onePaid(make) {
  const [tasks, spent] = [await gateway.tasks(), await gateway.spent()];
  const film = await make();
  assert.equal(Buffer.from(film).toString("latin1", 4, 8), "ftyp");
  assert.equal(await gateway.tasks(), tasks + 1);
  assert.equal(((await gateway.spent()) - spent).toFixed(2), "0.10");
}

async function finished(client, { id }) {
  for (;;) {
    const video = await client.videoGeneration.getGeneration({ jobId: id });
    if (!["pending", "in_progress"].includes(video.status)) return video;
    await wait(100);
  }
}

async function film(client, options) {
  const started = await client.videoGeneration.generate({ videoGenerationRequest: order() }, options);
  const video = await finished(client, started);
  assert.deepEqual([video.status, video.error, video.usage], ["completed", undefined, { cost: 0.1, isByok: false }]);
  const stream = await client.videoGeneration.getVideoContent({ jobId: video.id });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const downloaded = Buffer.concat(chunks);
  const unsigned = await fetch(video.unsignedUrls[0]);
  assert.ok(downloaded.equals(Buffer.from(await unsigned.arrayBuffer())));
  return downloaded;
}

test("a film is ordered, polled and downloaded", () => onePaid(() => film(sdk())));

test("with a key an answer may be lost at any time", () =>
  onePaid(async () => {
    const relay = await Relay.start(gateway, isOrder, { isAnswerRead: true });
    try {
      const made = await film(sdk(relay), { headers: { "Idempotency-Key": randomUUID() } });
      assert.equal(relay.losses, 1);
      return made;
    } finally {
      relay.stop();
    }
  }));

test("models and what they offer are listed", async () => {
  const { data } = await sdk().videoGeneration.listVideosModels();
  const model = data.find(({ id }) => id === "animatic-1");
  assert.deepEqual(model.pricingSkus, { duration_seconds: "0.10" });
  assert.ok(model.supportedDurations.includes(1) && model.supportedSizes.includes("480x480"));
  const names = [];
  for await (const page of await sdk().models.list()) {
    names.push(...page.result.data.map(({ id }) => id));
  }
  assert.ok(names.includes("animatic-1") && names.includes("stems-dsp-1"), names.join());
});

test("errors have their classes, and say our code and the request", async () => {
  const generate = (body, client = sdk()) => client.videoGeneration.generate({ videoGenerationRequest: body });
  const stranger = new OpenRouter({ apiKey: "sk-mg-wrong", serverURL: `${gateway.url}/api/v1` });
  const cases = [
    [errors.UnauthorizedResponseError, () => generate(order(), stranger), "invalid_api_key"],
    [errors.BadRequestResponseError, () => generate({ ...order(), duration: 900 }), "unsupported_value"],
    [errors.NotFoundResponseError, () => generate({ ...order(), model: "no-such-model" }), "model_not_found"],
    [errors.NotFoundResponseError, () => sdk().videoGeneration.getGeneration({ jobId: "job-1" }), "task_not_found"],
  ];
  for (const [kind, call, code] of cases) {
    await assert.rejects(call, (error) => {
      assert.ok(error instanceof kind, `${error.constructor.name} instead of ${kind.name}`);
      assert.deepEqual([error.error.code, error.error.metadata.code], [error.statusCode, code]);
      assert.equal(error.error.metadata.request_id, error.headers.get("x-request-id"));
      return true;
    });
  }
});

test("a chat is answered, streamed, and joined after a lost answer", async () => {
  const messages = () => [{ role: "user", content: `A lake, 2 seconds ${randomUUID()}` }];
  const chat = (client, options) =>
    client.chat.send({ chatRequest: { model: "animatic-1", messages: messages(), ...options } });
  const tasks = await gateway.tasks();
  const relay = await Relay.start(gateway, ({ url }) => url === "/api/v1/chat/completions");
  try {
    const completion = await chat(sdk(relay), { stream: false });
    assert.match(completion.choices[0].message.content, /\.mp4$/);
    assert.ok(completion.usage.cost > 0);
    assert.equal(relay.losses, 1);
  } finally {
    relay.stop();
  }
  const chunks = [];
  for await (const chunk of await chat(sdk(), { stream: true })) chunks.push(chunk);
  assert.match(chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? "")).join(""), /\.mp4$/);
  assert.ok(chunks.at(-1).usage.cost > 0);
  assert.equal(await gateway.tasks(), tasks + 2);
});

// The AI SDK downloads no file from a private address by itself, as this gateway's is. It sends no key.
async function download({ url }) {
  const response = await fetch(url);
  assert.equal(response.status, 200);
  return { data: new Uint8Array(await response.arrayBuffer()), mediaType: response.headers.get("content-type") };
}

async function generated({ url } = gateway, options = {}) {
  const provider = createOpenRouter({ apiKey: gateway.key, baseURL: `${url}/api/v1` });
  const { model, prompt, duration, size } = order();
  const { video, providerMetadata } = await generateVideo({
    model: provider.videoModel(model, { pollIntervalMs: 100 }),
    prompt,
    duration,
    resolution: size,
    download,
    ...options,
  });
  assert.equal(providerMetadata.openrouter.cost ?? providerMetadata.openrouter.videos?.[0]?.cost, 0.1);
  return video.uint8Array;
}

test("the AI SDK makes a film", () => onePaid(() => generated()));

// When a poll fails, the AI SDK orders the film again. Only a key tells the gateway that it is the same one.
test("with a key the AI SDK may lose a poll", () =>
  onePaid(async () => {
    const relay = await Relay.start(gateway, ({ method, url }) => method === "GET" && url.includes("/videos/video_"), {
      isAnswerRead: true,
    });
    try {
      return await generated(relay, { headers: { "Idempotency-Key": randomUUID() } });
    } finally {
      assert.equal(relay.losses, 1);
      relay.stop();
    }
  }));

test("the AI SDK chats", async () => {
  const provider = createOpenRouter({ apiKey: gateway.key, baseURL: `${gateway.url}/api/v1` });
  const { text } = await generateText({ model: provider("animatic-1"), prompt: `A lake, 2 seconds ${randomUUID()}` });
  assert.match(text, /\.mp4$/);
});
