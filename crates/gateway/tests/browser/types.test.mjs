// The console's scripts are plain JavaScript; their types are in comments, and right.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

test("the console's scripts fit their types", () => {
  const folder = fileURLToPath(new URL(".", import.meta.url));
  const found = spawnSync(process.execPath, [path.join(folder, "node_modules/typescript/bin/tsc"), "--project", folder], { encoding: "utf8" });
  assert.equal(found.status, 0, found.stdout);
});
