// Official SDKs for JavaScript, unchanged, against the simulator: each completes
// an order. (xAI has no SDK of its own, so the one of the `ai` package is used.)
//
// SIMULATOR_URL is the simulator's address. What the SDKs sent is written to the
// file that is named as the argument.

import assert from "node:assert/strict";
import { File } from "node:buffer";
import { readFileSync, writeFileSync } from "node:fs";
import { after, test } from "node:test";

import { createXai } from "@ai-sdk/xai";
import { createFalClient } from "@fal-ai/client";
import OpenAI, { toFile } from "openai";
import Replicate from "replicate";

const URL = process.env.SIMULATOR_URL;
const KEY = "sk-check";
const PROMPT = "a lighthouse in a storm";
const PICTURE = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
const PICTURE_DATA = "data:image/png;base64,iVBORw0KGgo=";
const LARGE_PICTURE = new File([PICTURE, Buffer.alloc(5_000_000 - PICTURE.length)], "picture.png", {
  type: "image/png",
});
const VEO = { prompt: PROMPT, resolution: "720p", aspect_ratio: "16:9" };

const recorded = [];
after(() => writeFileSync(process.argv.at(-1), JSON.stringify(recorded)));

async function control(method, path, body) {
  const answer = await fetch(`${URL}/_/${path}`, { method, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
  return answer.status === 204 ? null : answer.json();
}

/** Runs one SDK at one provider. The name is that of one of our cases. */
function check(sdk, name, run) {
  const [provider] = name.split(":");
  test(`${sdk}, ${name}`, async () => {
    await control("POST", "reset");
    // The first poll finds the job running, the next one finished. A job to cancel stays queued.
    await control("POST", "plan", name.endsWith("cancel") ? { queued: 60_000 } : { queued: 0, running: 0, polls: 1 });
    await run(`${URL}/${provider}`);
    const version = JSON.parse(readFileSync(`node_modules/${sdk}/package.json`)).version;
    const journal = JSON.stringify(await control("GET", `journal?provider=${provider}`));
    recorded.push({ sdk, version, case: name, journal: JSON.parse(journal.replaceAll(URL, "SIMULATOR")) });
  });
}

function assertVideo(bytes) {
  assert.equal(Buffer.from(bytes).toString("latin1", 4, 8), "ftyp");
}

async function assertVideoAt(address) {
  const answer = await fetch(address);
  assertVideo(await answer.arrayBuffer());
}

// --- OpenAI -------------------------------------------------------------------

const SORA = { model: "sora-2", prompt: PROMPT, seconds: "4", size: "1280x720" };

function openai(name, options) {
  check("openai", name, async (baseURL) => {
    const { videos } = new OpenAI({ baseURL, apiKey: KEY });
    let video = await videos.create({ ...SORA, ...(await options()) });
    while (video.status !== "completed") {
      assert.match(video.status, /queued|in_progress/);
      await new Promise((resolve) => setTimeout(resolve, 50));
      video = await videos.retrieve(video.id);
    }
    assertVideo(await (await videos.downloadContent(video.id)).arrayBuffer());
  });
}

openai("openai-videos: text", () => ({}));
openai("openai-videos: picture", async () => ({
  input_reference: await toFile(PICTURE, "picture.png", { type: "image/png" }),
}));
check("openai", "openai-videos: cancel", async (baseURL) => {
  const { videos } = new OpenAI({ baseURL, apiKey: KEY });
  const video = await videos.create(SORA);
  assert.ok((await videos.delete(video.id)).deleted);
});

// --- fal ----------------------------------------------------------------------

/** The SDK's URLs cannot be set, so they are rewritten. */
function fal(base) {
  const requestMiddleware = async (request) => ({
    ...request,
    url: request.url.replace("https://queue.fal.run", base).replace(/https:\/\/rest\.[^/]+/, base),
  });
  return createFalClient({ credentials: `id:${KEY}`, requestMiddleware });
}

async function falFinish(client, endpoint, input) {
  const states = [];
  const result = await client.subscribe(endpoint, {
    input: { ...VEO, duration: "8s", ...input },
    pollInterval: 50,
    onQueueUpdate: (update) => states.push(update.status),
  });
  assert.ok(states.includes("IN_PROGRESS"));
  await assertVideoAt(result.data.video.url);
}

check("@fal-ai/client", "fal: text", (base) => falFinish(fal(base), "fal-ai/veo3.1", {}));
check("@fal-ai/client", "fal: picture", (base) =>
  falFinish(fal(base), "fal-ai/veo3.1/image-to-video", { image_url: PICTURE_DATA }),
);
check("@fal-ai/client", "fal: upload", async (base) => {
  const client = fal(base);
  const image_url = await client.storage.upload(LARGE_PICTURE);
  await falFinish(client, "fal-ai/veo3.1/image-to-video", { image_url });
});
check("@fal-ai/client", "fal: cancel", async (base) => {
  const { queue } = fal(base);
  const { request_id: requestId } = await queue.submit("fal-ai/veo3.1", { input: { ...VEO, duration: "8s" } });
  await queue.cancel("fal-ai/veo3.1", { requestId });
});

// --- Replicate ----------------------------------------------------------------

function replicate(name, input) {
  check("replicate", name, async (base) => {
    const client = new Replicate({ auth: KEY, baseUrl: `${base}/v1` });
    const model = "google/veo-3.1";
    let prediction = await client.predictions.create({ model, input: { ...VEO, duration: 8, ...input } });
    prediction = await client.wait(prediction, { interval: 50 });
    assert.equal(prediction.status, "succeeded", prediction.error);
    await assertVideoAt(prediction.output);
  });
}

replicate("replicate: text", {});
replicate("replicate: picture", { image: PICTURE_DATA });
replicate("replicate: upload", { image: LARGE_PICTURE });
check("replicate", "replicate: cancel", async (base) => {
  const client = new Replicate({ auth: KEY, baseUrl: `${base}/v1` });
  const { id } = await client.predictions.create({ model: "google/veo-3.1", input: { ...VEO, duration: 8 } });
  assert.equal((await client.predictions.cancel(id)).status, "canceled");
});

// --- xAI ----------------------------------------------------------------------

function xai(name, options, id = "grok-imagine-video") {
  check("@ai-sdk/xai", name, async (baseURL) => {
    const model = createXai({ baseURL, apiKey: KEY }).video(id);
    const { operation, warnings } = await model.doStart({
      prompt: PROMPT,
      n: 1,
      duration: 5,
      resolution: "1280x720",
      providerOptions: {},
      ...options,
    });
    assert.deepEqual(warnings, []);
    let told;
    do {
      told = await model.doStatus({ operation, providerOptions: {} });
    } while (told.status === "pending");
    assert.equal(told.status, "completed");
    await assertVideoAt(told.videos[0].url);
  });
}

const IMAGE = { type: "file", mediaType: "image/png", data: new Uint8Array(PICTURE) };
const frame = (frameType) => ({ frameType, image: IMAGE });

xai("xai: text", { aspectRatio: "16:9" });
xai("xai: picture", { image: IMAGE });
xai("xai: frames", { frameImages: [frame("first_frame"), frame("last_frame")] }, "grok-imagine-video-1.5");
