// The console's scripts are plain JavaScript with types in comments, which TypeScript checks.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

test("the types of the console's scripts are correct", () => {
  const folder = fileURLToPath(new URL(".", import.meta.url));
  const result = spawnSync(
    process.execPath,
    [path.join(folder, "node_modules/typescript/bin/tsc"), "--project", folder],
    { encoding: "utf8" },
  );
  assert.equal(result.status, 0, result.stdout);
});
