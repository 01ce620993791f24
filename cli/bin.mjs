#!/usr/bin/env node
/**
 * Runs the command line with Node alone when it was built (cli/dist/usdc.mjs, `npm run build:cli`), else from its sources by Bun, which
 * bootstrap.mjs installs into the project.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const project = join(dirname(fileURLToPath(import.meta.url)), "..");
const built = join(project, "cli/dist/usdc.mjs");
process.env.CALLER_FOLDER ??= process.cwd();
process.env.PROJECT_FOLDER ??= project;

if (existsSync(built)) await import(pathToFileURL(built).href);
else {
  const args = [join(project, "bootstrap.mjs"), "cli/main.ts", ...process.argv.slice(2)];
  const child = spawn(process.execPath, args, { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("exit", (code) => process.exit(code ?? 1));
}
