// A small HTTP server on a free port.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Asked {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: Buffer;
}

export class Server {
  private constructor(
    readonly url: string,
    readonly close: () => Promise<void>,
  ) {}

  static async start(answer: (asked: Asked, response: ServerResponse) => Promise<void> | void): Promise<Server> {
    const server = createServer((request, response) => {
      read(request)
        .then((asked) => answer(asked, response))
        .catch((error: unknown) => response.destroy(error as Error));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    return new Server(`http://127.0.0.1:${port}`, async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    });
  }
}

async function read(request: IncomingMessage): Promise<Asked> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
  return { method: request.method ?? "", path: request.url ?? "", headers, body: Buffer.concat(chunks) };
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}
