#!/usr/bin/env node
/**
 * Runs the command line with Node alone when it was built (cli/dist/usdc.mjs, `npm run build:cli`) and no source has changed since, else
 * from its sources by Bun, which bootstrap.mjs installs into the project.
 */
import { spawn } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const project = join(dirname(fileURLToPath(import.meta.url)), "..");
const built = join(project, "cli/dist/usdc.mjs");
process.env.CALLER_FOLDER ??= process.cwd();
process.env.PROJECT_FOLDER ??= project;

if (existsSync(built) && !hasNewerSource(statSync(built).mtimeMs)) await import(pathToFileURL(built).href);
else {
  const args = [join(project, "bootstrap.mjs"), "cli/main.ts", ...process.argv.slice(2)];
  const child = spawn(process.execPath, args, { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("exit", (code) => process.exit(code ?? 1));
}

/** What a checkout of another version writes is newer; where there are no sources, the built file is all there is. */
function hasNewerSource(builtMs) {
  const folders = ["cli", "sdk", "mcp"].map((name) => join(project, name)).filter((path) => existsSync(path));
  const files = folders.flatMap((folder) =>
    readdirSync(folder).flatMap((name) => (/\.(ts|json)$/.test(name) ? [join(folder, name)] : [])),
  );
  if (files.length === 0) return false;
  return [...files, join(project, "package.json")].some((file) => statSync(file).mtimeMs > builtMs);
}
