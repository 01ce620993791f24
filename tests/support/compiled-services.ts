/**
 * The three processes as single executables with bytecode, built once a run from the sources under test. Starting one from its sources
 * costs a second of CPU to parse a thousand modules, and a run starts several hundred of them.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import type { BunPlugin } from "bun";
import { type ServiceProgram, sourceProgram } from "../../local/processes/service-process.ts";
import { SERVICE_KINDS, type ServiceKind } from "../../local/service-env.ts";

/** Set by tests/run.ts; without it (a single test file started by hand) the processes run from their sources. */
export const SERVICES_VARIABLE = "TEST_SERVICES";
const ROOT = join(import.meta.dir, "../..");
/**
 * Code compiled for speed pays too late within seconds: optimised code never, machine code at all only for what runs 2,000 times (default
 * 500). Memory given back to the system is soon asked for again. Garbage is collected once 128 MB are allocated, not at intervals, by one
 * thread. Each concurrent job costs a connection and a poll a second; each new connection costs Postgres a process and its caches.
 */
const SHORT_LIVED = {
  BUN_JSC_useDFGJIT: "0",
  BUN_JSC_thresholdForJITAfterWarmUp: "2000",
  BUN_GC_TIMER_DISABLE: "1",
  BUN_JSC_largeHeapSize: String(128 * 2 ** 20),
  BUN_JSC_numberOfGCMarkers: "1",
  MIMALLOC_PURGE_DELAY: "-1",
  WORKER_CONCURRENCY: "3",
  DATABASE_MAX_CONNECTIONS: "6",
};
/** What makes PDFs is read from the sources when it is first needed: its fonts are files of packages, which an executable does not find. */
const PDF_IN_PLACE: BunPlugin = {
  name: "pdf-in-place",
  setup(build) {
    build.onResolve({ filter: /\/(?:document-|statement-)?pdf\.ts$/ }, ({ path, importer }) => ({
      path: join(dirname(importer), path),
      external: true,
    }));
  },
};

/** Sources that read files of the project beside them go on doing so from where they are. */
const IN_PLACE: BunPlugin = {
  name: "in-place",
  setup(build) {
    build.onLoad({ filter: /[\\/](?:api|core|db|indexer|worker)[\\/].*\.ts$/ }, async ({ path }) => {
      const text = await Bun.file(path).text();
      const contents = text
        .replaceAll("import.meta.dir", JSON.stringify(dirname(path)))
        .replaceAll("import.meta.url", JSON.stringify(pathToFileURL(path).href));
      return { contents, loader: "ts" };
    });
  },
};

/** One at a time: a build takes as many threads as there are cores. */
export async function compileServices(folder: string): Promise<void> {
  for (const kind of SERVICE_KINDS) {
    await Bun.build({
      entrypoints: [join(ROOT, kind, "main.ts")],
      plugins: [PDF_IN_PLACE, IN_PLACE],
      bytecode: true,
      format: "esm",
      target: "bun",
      compile: {
        outfile: join(folder, kind),
        autoloadDotenv: false,
        autoloadBunfig: false,
        autoloadPackageJson: true,
      },
    });
  }
}

export function serviceProgram(kind: ServiceKind): ServiceProgram {
  const folder = process.env[SERVICES_VARIABLE];
  if (folder === undefined) return sourceProgram(kind);
  const command = join(folder, kind);
  if (!existsSync(command)) throw new Error(`${SERVICES_VARIABLE} names ${folder}, which has no ${kind}`);
  return { command, args: [] };
}

/** Environment of processes within a run, which live for seconds. Empty for benches and for a file started by hand: they get production's. */
export function settingsOfRun(): Record<string, string> {
  return process.env[SERVICES_VARIABLE] === undefined ? {} : SHORT_LIVED;
}
