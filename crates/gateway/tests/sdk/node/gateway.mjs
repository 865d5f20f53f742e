// A gateway of its own for a test, at which a second of video costs 0.10 USD, and a relay that loses answers.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, request as httpRequest } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";

const PRICE = '[models.animatic-1]\nprice = { unit = "second", usd = "0.10" }\n';

// Settings in the environment would beat those of the test.
const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("MEDIAGATE_")));

export class Gateway {
  static async start() {
    const gateway = new Gateway();
    gateway.folder = await mkdtemp(join(tmpdir(), "mediagate-sdk-"));
    const config = join(gateway.folder, "mediagate.toml");
    await writeFile(config, PRICE);
    const call = ["serve", "--listen", "127.0.0.1:0", "--data", join(gateway.folder, "data"), "--config", config];
    gateway.process = spawn(process.env.MEDIAGATE_PROGRAM, call, {
      env: ENVIRONMENT,
      stdio: ["ignore", "pipe", "ignore"],
    });
    await new Promise((resolve, reject) => {
      let printed = "";
      gateway.process.once("error", reject);
      gateway.process.once("exit", () => reject(new Error(`the gateway ended: ${printed}`)));
      gateway.process.stdout.setEncoding("utf8").on("data", (text) => {
        printed += text;
        gateway.url = /ready at (http:\/\/[\d.:]+)/.exec(printed)?.[1];
        gateway.key = /^ *(sk-mg-\w+)$/m.exec(printed)?.[1];
        if (gateway.url && gateway.key) resolve();
      });
    });
    return gateway;
  }

  async stop() {
    this.process.kill("SIGKILL");
    await rm(this.folder, { recursive: true, force: true });
  }

  async get(path) {
    const response = await fetch(this.url + path, { headers: { authorization: `Bearer ${this.key}` } });
    assert.equal(response.status, 200, path);
    return response.json();
  }

  async tasks() {
    return (await this.get("/v1/tasks?limit=100")).data.length;
  }

  async spent() {
    return Number((await this.get("/v1/account")).spent_usd);
  }
}

/**
 * A relay before a gateway. It loses the answer to the first request that `isLost` chooses: the connection to the
 * gateway ends before the answer or, with `isAnswerRead`, after it, and then the client's.
 */
export class Relay {
  static async start(gateway, isLost, { isAnswerRead = false } = {}) {
    const relay = new Relay();
    relay.losses = 0;
    relay.server = createServer(async (request, response) => {
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      const body = Buffer.concat(chunks);
      const lost = relay.losses === 0 && isLost(request);
      if (lost) relay.losses += 1;
      if (lost && !isAnswerRead) {
        await sendAndLeave(gateway, request, body);
        request.socket.destroy();
        return;
      }
      const { method, url: path, headers } = request;
      // With the client's Host header, so that URLs in the answer lead here.
      const sent = httpRequest(gateway.url + path, { method, headers, agent: false }, async (answer) => {
        const parts = [];
        for await (const part of answer) parts.push(part);
        if (lost) {
          request.socket.destroy();
          return;
        }
        response.writeHead(answer.statusCode, answer.headers).end(Buffer.concat(parts));
      });
      sent.end(body);
    });
    await new Promise((resolve) => relay.server.listen(0, "127.0.0.1", resolve));
    relay.url = `http://127.0.0.1:${relay.server.address().port}`;
    return relay;
  }

  stop() {
    this.server.close();
    this.server.closeAllConnections?.();
  }
}

/** Sends an order, and leaves when the gateway has accepted it, before its answer. */
async function sendAndLeave(gateway, request, body) {
  const before = await gateway.tasks();
  const lines = [`${request.method} ${request.url} HTTP/1.1`];
  for (let index = 0; index < request.rawHeaders.length; index += 2) {
    const [name, value] = request.rawHeaders.slice(index, index + 2);
    if (!/^(transfer-encoding|content-length)$/i.test(name)) lines.push(`${name}: ${value}`);
  }
  lines.push(`content-length: ${body.length}`, "", "");
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  // Whoever leaves before the order is accepted has ordered nothing.
  socket.write(Buffer.concat([Buffer.from(lines.join("\r\n")), body]));
  for (let tries = 0; (await gateway.tasks()) === before; tries += 1) {
    assert.ok(tries < 300, "the gateway did not accept the order");
    await wait(100);
  }
  socket.destroy();
}
