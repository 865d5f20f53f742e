// A hosted provider behind the gateway (OpenAI's Videos API), whose jobs end as the test wants.

import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";

import { type Asked, Server, sendJson } from "./server.js";

type Job = { prompt: string; status: "in_progress" | "completed" | "failed" | "deleted"; isAskedFor: boolean };

export class Provider {
  readonly jobs: Job[] = [];
  private server: Server | undefined;
  private waiting: (() => void)[] = [];

  private constructor(private readonly film: Uint8Array) {}

  static async start(film: Uint8Array): Promise<Provider> {
    const provider = new Provider(film);
    provider.server = await Server.start((asked, response) => provider.answer(asked, response));
    return provider;
  }

  /** The gateway's settings for it; the model is `acme-video`. */
  get config(): string {
    return `
      [providers.acme]
      protocol = "openai-videos"
      encoding = "json"
      base_url = "${this.server?.url}/v1"

      [models.acme-video]
      kind   = "video"
      price  = "free"
      limits = { sizes = ["480x480"], seconds = [1] }
      routes = [{ provider = "acme", model = "held" }]
    `;
  }

  /** The one job of such a prompt, once the gateway asks for it: then its order is settled. */
  async job(prompt: string): Promise<Job> {
    for (;;) {
      const [job, another] = this.jobs.filter((job) => job.prompt === prompt);
      assert.equal(another, undefined, "ordered twice");
      if (job?.isAskedFor) return job;
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
  }

  async close(): Promise<void> {
    await this.server?.close();
  }

  private answer({ method, path, body }: Asked, response: ServerResponse): void {
    if (method === "POST") {
      const { prompt } = JSON.parse(body.toString());
      const isRefused = String(prompt).includes("refused");
      const length = this.jobs.push({ prompt, status: isRefused ? "failed" : "in_progress", isAskedFor: false });
      return sendJson(response, 200, this.told(length - 1));
    }
    const [, number, content] = /^\/v1\/videos\/job_(\d+)(\/content)?$/.exec(path) ?? [];
    const job = this.jobs[Number(number)];
    if (!job) return sendJson(response, 404, { error: { code: "not_found", message: "There is no such job." } });
    if (content !== undefined) {
      response.writeHead(200, { "content-type": "video/mp4" }).end(this.film);
      return;
    }
    if (method === "DELETE") job.status = "deleted";
    job.isAskedFor = true;
    for (const wake of this.waiting.splice(0)) wake();
    sendJson(response, 200, this.told(Number(number)), { "openai-poll-after-ms": "200" });
  }

  private told(number: number) {
    const { status, prompt } = this.jobs[number] ?? {};
    const error = status === "failed" ? { code: "moderation_blocked", message: "Not with us." } : null;
    return { id: `job_${number}`, object: "video", model: "held", progress: 0, status, prompt, error };
  }
}
