/** One process of the service, started as in a deployment: its own OS process and environment. */
import { join } from "node:path";
import type { ServiceKind } from "../service-env.ts";
import { type BoundProcess, spawnBound } from "./bound-process.ts";

const ROOT = join(import.meta.dir, "../..");

export type ServiceProcess = BoundProcess & { kind: ServiceKind };
/** What is executed for a process of the service. */
export type ServiceProgram = { command: string; args: readonly string[] };

/** `bun <kind>/main.ts`. Bun would also read a .env file, whose variables are meant for other processes. */
export function sourceProgram(kind: ServiceKind): ServiceProgram {
  return { command: process.execPath, args: ["--no-env-file", join(kind, "main.ts")] };
}

/** Runs a process from its sources, or as `program` says. Output goes to `onOutput` line by line. */
export async function startServiceProcess(
  kind: ServiceKind,
  env: Record<string, string | undefined>,
  onOutput: (line: string) => void,
  program: ServiceProgram = sourceProgram(kind),
): Promise<ServiceProcess> {
  if (kind === "api") await buildPages(env);
  const bound = await spawnBound({
    ...program,
    cwd: ROOT,
    env,
    stopSignal: "SIGTERM",
    // If we were killed, its database may be stopping too, and a graceful shutdown would wait for it in vain.
    orphanSignal: "SIGKILL",
    onOutput: splitLines(onOutput),
  });
  return { ...bound, kind };
}

/**
 * Builds the web pages when their sources have changed, once per process, with the optional wallets that this environment enables. Throws
 * the builder's output when it fails.
 */
export function buildPages(env: Record<string, string | undefined> = {}): Promise<void> {
  const { WALLETCONNECT_PROJECT_ID = "", BASE_ACCOUNT = "" } = env;
  const key = `${WALLETCONNECT_PROJECT_ID} ${BASE_ACCOUNT}`;
  const known = pages.get(key);
  if (known) return known;
  const settings = { WALLETCONNECT_PROJECT_ID, BASE_ACCOUNT };
  const built = runToEnd("The web pages could not be built", join("web", "build.ts"), settings);
  pages.set(key, built);
  return built;
}
const pages = new Map<string, Promise<void>>();

/** Applies missing migrations with the same command as a deployment. Throws its output when it fails. */
export function runMigrations(databaseUrl: string): Promise<void> {
  return runToEnd("The migrations failed", join("ops", "migrate-main.ts"), {
    DATABASE_URL: databaseUrl,
    // given both, the child could not know which one applies; empty counts as absent
    DATABASE_URL_FILE: "",
  });
}

async function runToEnd(failure: string, script: string, env: Record<string, string> = {}): Promise<void> {
  let output = "";
  const run = await spawnBound({
    command: process.execPath,
    args: ["--no-env-file", script],
    cwd: ROOT,
    env: { ...process.env, ...env },
    stopSignal: "SIGTERM",
    onOutput: (chunk) => {
      output += chunk.toString();
    },
  });
  const code = await run.exited;
  if (code !== 0) throw new Error(`${failure} (${code}):\n${output}`);
}

function splitLines(onLine: (line: string) => void): (chunk: Buffer) => void {
  const decoder = new TextDecoder();
  let rest = "";
  return (chunk) => {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) onLine(line);
  };
}
