#!/usr/bin/env node
// Runs the program that the package for this platform brings.
"use strict";
const { spawn } = require("node:child_process");

const platform = `mediagate-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${platform}/bin/mediagate`);
} catch {
  console.error(
    `mediagate: there is no build for ${process.platform} on ${process.arch}, or ${platform} was not installed`,
  );
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// The terminal sends these to both; a supervisor to this process only.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`mediagate: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
