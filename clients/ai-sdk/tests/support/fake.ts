// The part of the gateway that webhook mode needs, for programs that have no webhooks yet. It signs by itself, as
// the standard says, so that the package's library is not its own judge.

import assert from "node:assert/strict";
import { createHmac, randomBytes, randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";

import { type Asked, Server, sendJson } from "./server.js";

type Ending = "succeeded" | "failed" | "cancelled";
type Task = { id: string; callback: string; ending: Ending | undefined };

const ERRORS = {
  failed: { code: "content_policy", message: "The model's provider does not make this." },
  cancelled: { code: "cancelled", message: "The task was cancelled." },
};

export class FakeGateway {
  readonly key = "sk-mg-fake";
  readonly secret = `whsec_${randomBytes(32).toString("base64")}`;
  private readonly tasks = new Map<string, Task>();
  private server: Server | undefined;

  static async start(): Promise<FakeGateway> {
    const fake = new FakeGateway();
    fake.server = await Server.start((asked, response) => fake.answer(asked, response));
    return fake;
  }

  get baseURL(): string {
    return `${this.server?.url}/v1`;
  }

  async cancel(id: string): Promise<void> {
    await this.end(this.find(id), "cancelled");
  }

  async stop(): Promise<void> {
    await this.server?.close();
  }

  private async answer({ method, path, headers, body }: Asked, response: ServerResponse): Promise<void> {
    assert.equal(headers["authorization"], `Bearer ${this.key}`);
    if (method === "POST") {
      assert.ok(headers["idempotency-key"]);
      const { model, prompt, callback_url } = JSON.parse(body.toString());
      const task: Task = { id: randomUUID(), callback: callback_url, ending: undefined };
      this.tasks.set(task.id, task);
      sendJson(response, 200, this.video(task), { "x-task-id": task.id });
      if (model === "acme-video" && !prompt.includes("refused")) return;
      return await this.end(task, model === "acme-video" ? "failed" : "succeeded");
    }
    const [, id, content] = /^\/v1\/videos\/video_(\w+)(\/content)?$/.exec(path) ?? [];
    const task = [...this.tasks.values()].find((task) => task.id.replaceAll("-", "") === id);
    assert.ok(task);
    if (content === undefined) return sendJson(response, 200, this.video(task));
    response.writeHead(200, { "content-type": "video/mp4" }).end("\0\0\0\x10ftypisom\0\0\0\0");
  }

  private find(id: string): Task {
    const task = this.tasks.get(id);
    assert.ok(task);
    return task;
  }

  private video({ id, ending }: Task) {
    const status = ending === undefined ? "queued" : ending === "succeeded" ? "completed" : "failed";
    const error = ending === undefined || ending === "succeeded" ? null : ERRORS[ending];
    return { id: `video_${id.replaceAll("-", "")}`, object: "video", model: "fake", status, progress: 0, error };
  }

  private async end(task: Task, ending: Ending): Promise<void> {
    task.ending = ending;
    const data = { id: task.id, object: "task", status: ending };
    const body = JSON.stringify({ type: `task.${ending}`, timestamp: new Date().toISOString(), data });
    await fetch(task.callback, { method: "POST", headers: signed(body, this.secret), body });
  }
}

/** The headers of a delivery. */
export function signed(body: string, secret: string, at = Math.floor(Date.now() / 1000)): Record<string, string> {
  const id = `msg_${randomUUID().replaceAll("-", "")}`;
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${at}.${body}`).digest("base64");
  return {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": String(at),
    "webhook-signature": `v1,${signature}`,
  };
}
