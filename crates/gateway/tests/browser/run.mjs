// Runs the test files in parallel: each mostly waits, and has its own gateway or account. Node's own option for this is
// newer than Debian's Node.

import { readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import path from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL(".", import.meta.url));
const chosen = process.argv.slice(2);
const files = chosen.length ? chosen : readdirSync(folder).filter((name) => name.endsWith(".test.mjs"));

run({ files: files.map((name) => path.join(folder, path.basename(name))), concurrency: availableParallelism() + 1 })
  .on("test:fail", () => (process.exitCode = 1))
  .compose(new spec())
  .pipe(process.stdout);
