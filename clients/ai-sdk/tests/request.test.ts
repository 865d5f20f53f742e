// What is sent for each option, and what is warned of.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  APICallError,
  type Experimental_VideoModelV4CallOptions as CallOptions,
  InvalidArgumentError,
  NoSuchModelError,
} from "@ai-sdk/provider";
import { createProviderRegistry, experimental_startVideo as startVideo } from "ai";

import { createMediagate, type MediagateSettings, type MediagateVideoOptions } from "../src/index.js";

const VIDEO = { id: "video_1", model: "acme", status: "queued", progress: 0 };
const PNG = "iVBORw0KGgo=";

const NOTHING: CallOptions = {
  prompt: "a lake",
  n: 1,
  aspectRatio: undefined,
  resolution: undefined,
  duration: undefined,
  fps: undefined,
  seed: undefined,
  image: undefined,
  frameImages: undefined,
  inputReferences: undefined,
  generateAudio: undefined,
  providerOptions: {},
};

/** A model whose gateway gives always the same answer, and what it was sent. */
function answered(answer: () => Response, settings: Partial<MediagateSettings> = {}) {
  const sent: { url: string; headers: Headers; body: any }[] = [];
  const mediagate = createMediagate({
    baseURL: "http://gateway.test/v1/",
    apiKey: "sk-mg-test",
    fetch: async (url, init) => {
      const body = init?.body == null ? undefined : JSON.parse(String(init.body));
      sent.push({ url: String(url), headers: new Headers(init?.headers), body });
      return answer();
    },
    ...settings,
  });
  return { model: mediagate.video("acme"), mediagate, sent };
}

async function start(options: Partial<CallOptions> & { webhookUrl?: string }, settings?: Partial<MediagateSettings>) {
  const { model, sent } = answered(() => Response.json(VIDEO), settings);
  const { warnings } = await model.doStart!({ ...NOTHING, ...options });
  assert.equal(sent.length, 1);
  return { ...sent[0]!, warnings };
}

test("nothing but the model and the prompt is sent when nothing else is said", async () => {
  const { url, headers, body, warnings } = await start({});
  assert.equal(url, "http://gateway.test/v1/videos");
  assert.equal(headers.get("authorization"), "Bearer sk-mg-test");
  assert.deepEqual(body, { model: "acme", prompt: "a lake" });
  assert.deepEqual(warnings, []);
});

test("options have the gateway's names", async () => {
  const mediagate: MediagateVideoOptions = {
    negativePrompt: "people",
    user: "u-1",
    providerOptions: { style: "ink", input: { steps: 40 } },
  };
  const { body, warnings } = await start({
    resolution: "1280x720",
    aspectRatio: "16:9",
    duration: 4,
    seed: 0,
    generateAudio: false,
    providerOptions: { mediagate },
    webhookUrl: "https://hooks.test/1",
  });
  assert.deepEqual(body, {
    model: "acme",
    prompt: "a lake",
    size: "1280x720",
    seconds: 4,
    seed: 0,
    audio: false,
    negative_prompt: "people",
    user: "u-1",
    provider_options: { style: "ink", input: { steps: 40 } },
    callback_url: "https://hooks.test/1",
  });
  assert.deepEqual(warnings, []);
});

test("a shape and a fineness stand in place of a size", async () => {
  const providerOptions = { mediagate: { resolution: "1080p" } };
  const { body } = await start({ aspectRatio: "9:16", providerOptions });
  assert.deepEqual([body.aspect_ratio, body.resolution, body.size], ["9:16", "1080p", undefined]);
});

test("pictures are sent by their place", async () => {
  const file = (data: string | Uint8Array) => ({ type: "file" as const, mediaType: "image/png", data });
  const url = { type: "url" as const, url: "https://pictures.test/a.png" };
  const { body, warnings } = await start({
    image: url,
    frameImages: [
      { frameType: "first_frame", image: file(PNG) },
      { frameType: "last_frame", image: url },
    ],
    inputReferences: [file(Buffer.from(PNG, "base64")), url],
  });
  const data = `data:image/png;base64,${PNG}`;
  assert.deepEqual(body.input_reference, { image_url: data });
  assert.equal(body.end_image, url.url);
  assert.deepEqual(body.reference_images, [data, url.url]);
  assert.deepEqual(warnings, []);
  assert.deepEqual((await start({ image: url })).body.input_reference, { image_url: url.url });
});

test("what the gateway has no words for is warned of and left out", async () => {
  const clip = { type: "url" as const, url: "https://pictures.test/a.mp4", mediaType: "video/mp4" };
  const frame = { frameType: "first_frame" as const, image: { ...clip, mediaType: "image/png" } };
  const cases: [Partial<CallOptions>, string][] = [
    [{ fps: 24 }, "fps"],
    [{ n: 2 }, "n"],
    [{ aspectRatio: "adaptive" }, "aspectRatio"],
    [{ aspectRatio: "1:1", resolution: "1280x720" }, "aspectRatio"],
    [{ inputReferences: [clip] }, "inputReferences"],
    [{ frameImages: [frame, frame] }, "Only the first image of type first_frame was sent."],
  ];
  for (const [options, what] of cases) {
    const { body, warnings } = await start(options);
    assert.deepEqual(
      warnings.map((warning) => (warning.type === "other" ? warning.message : "feature" in warning && warning.feature)),
      [what],
    );
    for (const name of ["fps", "n", "aspect_ratio", "reference_images"]) assert.ok(!(name in body), name);
  }
});

test("an option that does not exist is an error", async () => {
  await assert.rejects(start({ providerOptions: { mediagate: { negative_prompt: "people" } } }), InvalidArgumentError);
  await start({ providerOptions: { another: { anything: 1 } } });
});

test("a start keeps the key that it was given, and else has one of its own", async () => {
  const given = await start({ headers: { "Idempotency-Key": "mine", "x-request-id": undefined } });
  assert.equal(given.headers.get("idempotency-key"), "mine");
  const [one, other] = [await start({}), await start({})];
  assert.ok(one.headers.get("idempotency-key"));
  assert.notEqual(one.headers.get("idempotency-key"), other.headers.get("idempotency-key"));
});

test("a call's headers replace those of the settings", async () => {
  const settings = { headers: { "X-Team": "a", "x-trace": "1" } };
  const { headers } = await start({ headers: { "x-team": "b" } }, settings);
  assert.deepEqual([headers.get("x-team"), headers.get("x-trace")], ["b", "1"]);
});

test("errors are repeated only when the gateway means it", async () => {
  const told = { "x-should-retry": "true", "retry-after": "1" };
  const cases: [number, Record<string, string>, boolean][] = [
    [429, told, true],
    [500, told, true],
    [503, told, true],
    [400, { "x-should-retry": "false" }, false],
    [401, { "x-should-retry": "false" }, false],
    [409, { "x-should-retry": "false" }, false],
    [424, { "x-should-retry": "false" }, false],
    // From a proxy before the gateway.
    [408, {}, false],
    [409, {}, false],
    [413, {}, false],
    [429, {}, true],
    [500, {}, false],
    [502, {}, true],
    [503, {}, true],
    [504, {}, true],
  ];
  for (const [status, headers, isRetryable] of cases) {
    const error = { message: "No.", type: "t", code: "c", param: null, request_id: "req_1" };
    const { model } = answered(() => Response.json({ error }, { status, headers }));
    await assert.rejects(model.doStart!(NOTHING) as Promise<unknown>, (caught) => {
      assert.ok(APICallError.isInstance(caught));
      assert.deepEqual([caught.statusCode, caught.isRetryable, caught.message], [status, isRetryable, "No."]);
      assert.deepEqual(caught.data, { error });
      return true;
    });
  }
});

test("an error page that is not the gateway's is an error of the same class", async () => {
  const { model } = answered(() => new Response("<h1>Bad Gateway</h1>", { status: 502, statusText: "Bad Gateway" }));
  await assert.rejects(model.doStart!(NOTHING) as Promise<unknown>, (caught) => {
    assert.ok(APICallError.isInstance(caught));
    assert.deepEqual([caught.message, caught.isRetryable], ["Bad Gateway", true]);
    return true;
  });
});

test("a word that is new means that the video is not done", async () => {
  const { model } = answered(() => Response.json({ ...VIDEO, status: "polishing", progress: 40 }));
  const status = await model.doStatus!({ operation: { id: "video_1" } });
  assert.equal(status.status, "pending");
  assert.deepEqual(status.providerMetadata, { mediagate: { id: "video_1", status: "polishing", progress: 40 } });
});

test("an operation of something else is refused before anything is asked", async () => {
  const { model, sent } = answered(() => Response.json(VIDEO));
  for (const operation of [null, "video_1", { id: 1 }, { id: "../tasks" }, { id: "" }]) {
    await assert.rejects(model.doStatus!({ operation }) as Promise<unknown>, InvalidArgumentError);
  }
  assert.equal(sent.length, 0);
});

test("registries find its models", async () => {
  const { mediagate, sent } = answered(() => Response.json(VIDEO));
  const registry = createProviderRegistry({ mediagate });
  await startVideo({ model: registry.videoModel("mediagate:acme"), prompt: "a lake" });
  assert.equal(sent[0]?.body.model, "acme");
  assert.throws(() => mediagate.languageModel("acme"), NoSuchModelError);
});
