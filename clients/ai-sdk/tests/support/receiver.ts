// Receives one webhook, as the `webhook` option of the SDK wants it.

import type { Experimental_VideoModelV4OperationWebhook as Notification } from "@ai-sdk/provider";

import { Server } from "./server.js";

export class Receiver {
  /** The webhook with its body as text. */
  readonly received: Promise<Notification<string>>;
  private take!: (notification: Notification<string>) => void;
  private server: Server | undefined;

  private constructor() {
    this.received = new Promise((resolve) => {
      this.take = resolve;
    });
  }

  static async start(): Promise<Receiver> {
    const receiver = new Receiver();
    receiver.server = await Server.start(({ headers, body }, response) => {
      response.writeHead(204).end();
      receiver.take({ headers, body: body.toString() });
    });
    return receiver;
  }

  get url(): string {
    return `${this.server?.url}/hook`;
  }

  async close(): Promise<void> {
    await this.server?.close();
  }
}
