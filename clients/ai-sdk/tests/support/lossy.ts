// A proxy before the gateway that loses answers.

import { Server } from "./server.js";

export class LossyProxy {
  /** The `Idempotency-Key`s of the starts that came by. */
  readonly keys: (string | undefined)[] = [];
  private server: Server | undefined;

  private constructor(
    private readonly target: string,
    private losses: number,
  ) {}

  /** Loses the first answers to POST, after the gateway has given them. */
  static async start(target: string, losses: number): Promise<LossyProxy> {
    const proxy = new LossyProxy(target, losses);
    proxy.server = await Server.start(async ({ method, path, headers, body }, response) => {
      const { host: _, connection: __, "content-length": ___, ...rest } = headers;
      const sent = method === "POST" ? new Uint8Array(body) : null;
      const answer = await fetch(proxy.target + path, { method, headers: rest, body: sent });
      const bytes = new Uint8Array(await answer.arrayBuffer());
      if (method === "POST") {
        proxy.keys.push(headers["idempotency-key"]);
        if (answer.ok && proxy.losses > 0) {
          proxy.losses -= 1;
          response.socket?.destroy();
          return;
        }
      }
      response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(bytes);
    });
    return proxy;
  }

  get baseURL(): string {
    return `${this.server?.url}/v1`;
  }

  async close(): Promise<void> {
    await this.server?.close();
  }
}
