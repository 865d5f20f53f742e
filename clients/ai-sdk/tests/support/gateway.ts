// The real program, on a free port and with a data folder of its own.

import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const PROGRAM = process.env["MEDIAGATE_BIN"] ?? resolve("../../target/debug/mediagate");

/** Settings in the environment would beat those of the test. */
const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("MEDIAGATE_")));

export class Gateway {
  private process: ChildProcess | undefined;
  private listen = "127.0.0.1:0";
  private printedKey = "";

  private constructor(private readonly folder: string) {}

  static async start(config = ""): Promise<Gateway> {
    const gateway = new Gateway(mkdtempSync(join(tmpdir(), "mediagate-ai-sdk-")));
    writeFileSync(gateway.config, config);
    gateway.printedKey = await gateway.serve(/^ *(sk-mg-\w+)$/m);
    return gateway;
  }

  get url(): string {
    return `http://${this.listen}`;
  }

  get baseURL(): string {
    return `${this.url}/v1`;
  }

  get key(): string {
    return this.printedKey;
  }

  /** A key with limits, in the words of `mediagate keys create`. */
  newKey(...limits: string[]): string {
    const call = ["keys", "create", "--data", join(this.folder, "data"), "--name", "test", ...limits];
    return execFileSync(PROGRAM, call, { env: ENVIRONMENT, encoding: "utf8" }).trim();
  }

  async get(path: string): Promise<any> {
    return await this.ask("GET", path);
  }

  async post(path: string): Promise<any> {
    return await this.ask("POST", path);
  }

  /** How many tasks there are. */
  async tasks(): Promise<number> {
    const { data, has_more } = await this.get("/v1/tasks?limit=100");
    assert.equal(has_more, false);
    return data.length;
  }

  /** As a crash ends it. */
  async kill(): Promise<void> {
    const process = this.process;
    assert.ok(process);
    this.process = undefined;
    const exit = once(process, "exit");
    process.kill("SIGKILL");
    await exit;
  }

  /** Again on the same data and port. */
  async restart(): Promise<void> {
    await this.serve(/(ready) at /);
  }

  async stop(): Promise<void> {
    if (this.process) await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private get config(): string {
    return join(this.folder, "mediagate.toml");
  }

  private async ask(method: string, path: string): Promise<any> {
    const response = await fetch(this.url + path, { method, headers: { authorization: `Bearer ${this.key}` } });
    assert.equal(response.status, 200, path);
    return await response.json();
  }

  /** Starts it; what `wanted` captures in its output. */
  private async serve(wanted: RegExp): Promise<string> {
    const call = ["serve", "--config", this.config, "--listen", this.listen, "--data", join(this.folder, "data")];
    const child = spawn(PROGRAM, call, { env: ENVIRONMENT, stdio: ["ignore", "pipe", "pipe"] });
    this.process = child;
    let told = "";
    let log = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      log = (log + text).slice(-10_000);
    });
    return await new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`the gateway ended with ${code}: ${log}`)));
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        told += text;
        const address = /ready at http:\/\/([\d.:]+)/.exec(told)?.[1];
        const found = wanted.exec(told)?.[1];
        if (address === undefined || found === undefined) return;
        this.listen = address;
        resolve(found);
      });
    });
  }
}
