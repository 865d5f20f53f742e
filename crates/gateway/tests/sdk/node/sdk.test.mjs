// OpenAI's SDK for Node, unchanged, against a running gateway.
//
// MEDIAGATE_URL and MEDIAGATE_KEY are the gateway and its key; MEDIAGATE_SLOW_KEY is a key with
// a limit of 60 requests a minute.

import assert from "node:assert/strict";
import * as buffer from "node:buffer";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import OpenAI, { toFile } from "openai";

const { MEDIAGATE_URL: URL, MEDIAGATE_KEY: KEY, MEDIAGATE_SLOW_KEY: SLOW_KEY } = process.env;
// The SDK needs this global, which Node 18 has only in a module.
globalThis.File ??= buffer.File;

const SMALL = { size: "480x480", seconds: 1 };
// Red, 16 by 16 pixels.
const PICTURE = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFklEQVR42mM4oWFDEmIY1TCqYfhqAAAKBCwQThTXOAAAAABJRU5ErkJggg==",
  "base64",
);

const client = (options) => new OpenAI({ baseURL: `${URL}/v1`, apiKey: KEY, timeout: 120_000, ...options });
const gateway = client();
const unique = (text) => `${text} ${randomUUID()}`;
const userMessage = (text) => [{ role: "user", content: text }];

/** A client, and the list of the statuses of its answers. */
function countingClient(options) {
  const statuses = [];
  const counted = async (...call) => {
    const response = await fetch(...call);
    // The SDK also tests its fetch with a data: URL.
    if (response.url.startsWith(URL)) statuses.push(response.status);
    return response;
  };
  return { gateway: client({ fetch: counted, ...options }), statuses };
}

async function bytes(response) {
  return Buffer.from(await response.arrayBuffer());
}

async function assertIsVideo(address) {
  const response = await fetch(address);
  assert.equal(response.status, 200);
  assert.equal((await bytes(response)).toString("latin1", 4, 8), "ftyp");
}

async function finished(video) {
  for (;;) {
    const { data, response } = await gateway.videos.retrieve(video.id).withResponse();
    if (data.status === "completed" || data.status === "failed") return data;
    const pause = Number(response.headers.get("openai-poll-after-ms"));
    assert.ok(pause >= 100 && pause <= 10_000, `openai-poll-after-ms is ${pause}`);
    await wait(pause);
  }
}

test("models are listed and retrieved", async () => {
  const names = [];
  for await (const model of gateway.models.list()) names.push(model.id);
  assert.ok(names.includes("animatic-1") && names.includes("stems-dsp-1"), names.join());
  assert.equal((await gateway.models.retrieve("animatic-1")).kind, "video");
});

test("a prompt becomes a video", async () => {
  const completion = await gateway.chat.completions.create({
    model: "animatic-1",
    messages: userMessage(unique("A lake at dawn")),
    video: SMALL,
  });
  const [choice] = completion.choices;
  assert.equal(choice.finish_reason, "stop");
  assert.equal(choice.message.content, choice.message.video.url);
  assert.equal(completion.usage.total_tokens, completion.usage.prompt_tokens + completion.usage.completion_tokens);
  assert.ok(completion._request_id);
  await assertIsVideo(choice.message.content);
});

test("a prompt and a picture become a video", async () => {
  const completion = await gateway.chat.completions.create({
    model: "animatic-1",
    messages: userMessage([
      { type: "text", text: unique("Slow zoom") },
      { type: "image_url", image_url: { url: `data:image/png;base64,${PICTURE.toString("base64")}` } },
    ]),
    video: SMALL,
  });
  await assertIsVideo(completion.choices[0].message.content);
});

test("a stream ends with the address and the usage", async () => {
  const stream = await gateway.chat.completions.create({
    model: "animatic-1",
    messages: userMessage(unique("Rain over a town")),
    stream: true,
    stream_options: { include_usage: true },
    video: SMALL,
  });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const deltas = chunks.flatMap((chunk) => chunk.choices);
  assert.equal(deltas[0].delta.role, "assistant");
  assert.equal(deltas.at(-1).finish_reason, "stop");
  assert.ok(chunks.at(-1).usage.total_tokens > 0);
  const progress = chunks.filter((chunk) => chunk.task).map((chunk) => chunk.task.progress);
  assert.deepEqual(
    progress,
    [...progress].sort((a, b) => a - b),
  );
  await assertIsVideo(deltas.map((choice) => choice.delta.content ?? "").join(""));
});

test("the helper for streams works", async () => {
  const stream = gateway.chat.completions.stream({
    model: "animatic-1",
    messages: userMessage(unique("Snow on a hill")),
    video: SMALL,
  });
  assert.match(await stream.finalContent(), /\.mp4$/);
});

test("videos are made, polled, downloaded and deleted", async () => {
  const options = { model: "animatic-1", size: "480x480", seconds: "1" };
  const reference = await toFile(PICTURE, "first.png", { type: "image/png" });
  const videos = await Promise.all([
    gateway.videos.create({ prompt: unique("A harbour"), ...options }),
    gateway.videos.create({ prompt: unique("A harbour"), input_reference: reference, ...options }),
  ]);
  for (const video of videos) {
    const completed = await finished(video);
    assert.deepEqual(
      [completed.status, completed.progress, completed.size, completed.seconds],
      ["completed", 100, "480x480", "1"],
    );
    assert.equal((await bytes(await gateway.videos.downloadContent(video.id))).toString("latin1", 4, 8), "ftyp");
    for (const variant of ["thumbnail", "spritesheet"]) {
      const content = await bytes(await gateway.videos.downloadContent(video.id, { variant }));
      assert.equal(content.readUInt16BE(0), 0xffd8, variant);
    }
  }
  const listed = [];
  for await (const video of gateway.videos.list({ limit: 1 })) {
    listed.push(video.id);
    if (listed.includes(videos[0].id) && listed.includes(videos[1].id)) break;
  }
  assert.equal(new Set(listed).size, listed.length);
  for (const video of videos) {
    assert.equal((await gateway.videos.delete(video.id)).deleted, true);
    await assert.rejects(gateway.videos.retrieve(video.id), OpenAI.NotFoundError);
  }
});

test("errors have their classes and are not repeated", async () => {
  const good = { model: "animatic-1", messages: userMessage("A lake") };
  const cases = [
    [OpenAI.AuthenticationError, { apiKey: "sk-mg-wrong" }, {}, "invalid_api_key", null],
    [OpenAI.NotFoundError, {}, { model: "no-such-model" }, "model_not_found", "model"],
    [OpenAI.BadRequestError, {}, { max_tokens: 0 }, "invalid_value", "max_tokens"],
    [OpenAI.BadRequestError, {}, { video: { size: "big" } }, "invalid_value", "video.size"],
  ];
  for (const [kind, options, body, code, param] of cases) {
    const { gateway, statuses } = countingClient(options);
    await assert.rejects(gateway.chat.completions.create({ ...good, ...body }), (error) => {
      assert.ok(error instanceof kind, `${error.constructor.name} instead of ${kind.name}`);
      assert.deepEqual([error.code, error.param], [code, param]);
      assert.equal(error.requestID, error.error.request_id);
      assert.deepEqual(statuses, [error.status]);
      return true;
    });
  }
});

test("a conflict is not repeated, though the SDK would", async () => {
  const { gateway, statuses } = countingClient();
  const video = await gateway.videos.create({ prompt: unique("A long road"), size: "1280x720", seconds: "8" });
  await assert.rejects(gateway.videos.downloadContent(video.id), OpenAI.ConflictError);
  assert.deepEqual(statuses, [200, 409]);
  await gateway.videos.delete(video.id);
});

test("too many requests are repeated until they pass", async () => {
  const { gateway, statuses } = countingClient({ apiKey: SLOW_KEY, maxRetries: 5 });
  while (!statuses.includes(429)) {
    await gateway.models.list();
    assert.ok(statuses.length < 200);
  }
  assert.equal(statuses.at(-1), 200);
});

test("request ids are kept and shown", async () => {
  const id = `sdk-${randomUUID()}`;
  const { request_id } = await gateway.models.list({ headers: { "x-request-id": id } }).withResponse();
  assert.equal(request_id, id);
});

/** The example in docs/webhooks.md as a function that verifies a delivery. */
async function documented() {
  const page = await readFile(new globalThis.URL("../../../../../docs/webhooks.md", import.meta.url), "utf8");
  const lines = page.match(/^```ts [^\n]*\n(.*?)^```/ms)[1].split("\n");
  const imports = lines.filter((line) => line.startsWith("import "));
  const statements = lines.filter((line) => !line.startsWith("import "));
  // In this folder, so that its imports are found.
  const folder = await mkdtemp(new globalThis.URL("./snippet-", import.meta.url).pathname);
  try {
    const body = [...imports, "export function take(secret, body, headers) {", ...statements, "return event; }"];
    await writeFile(`${folder}/snippet.mjs`, body.join("\n"));
    return (await import(`${folder}/snippet.mjs`)).take;
  } finally {
    await rm(folder, { recursive: true });
  }
}

test("the documented check accepts a webhook, and refuses a changed one", async () => {
  let deliver;
  const delivery = new Promise((resolve) => (deliver = resolve));
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    response.writeHead(204).end();
    deliver({ headers: request.headers, body: Buffer.concat(chunks).toString() });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.2", resolve));
  const post = async (path, body) => {
    const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
    const answer = await fetch(`${URL}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    assert.equal(answer.status, 200);
    return answer.json();
  };
  try {
    const url = `http://127.0.0.2:${server.address().port}/`;
    const { id, secret } = await post("/v1/webhooks", { url });
    await post(`/v1/webhooks/${id}/test`, {});
    const { headers, body } = await delivery;
    const verify = await documented();
    assert.equal(verify(secret, body, headers).type, "test");
    assert.throws(() => verify(secret, `${body} `, headers), { name: "WebhookVerificationError" });
  } finally {
    server.close();
    server.closeAllConnections?.();
  }
});

test("the guides' examples run", async () => {
  const docs = new globalThis.URL("../../../../../docs/", import.meta.url);
  let count = 0;
  for (const name of (await readdir(docs)).filter((name) => name.endsWith(".md"))) {
    const page = await readFile(new globalThis.URL(name, docs), "utf8");
    for (const [, code] of page.matchAll(/^```js run\n(.*?)^```/gms)) {
      // In this folder, so that its imports are found.
      const args = ["--input-type=module", "--eval", code];
      const { stdout } = await promisify(execFile)(process.execPath, args, {
        cwd: fileURLToPath(new globalThis.URL(".", import.meta.url)),
      });
      assert.match(stdout, /\S/, name);
      count += 1;
    }
  }
  assert.ok(count > 0);
});
