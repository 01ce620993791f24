/** The terminal output of `npm start`. */
import { join } from "node:path";
import type { NetworkId } from "../core/domain/networks.ts";
import type { DemoStep } from "./demo.ts";
import type { DevEnvironment } from "./dev-environment.ts";
import { type LocalSettings, RPC_VARIABLE } from "./local-settings.ts";

const WHO_WIDTH = 10;
const MS_WIDTH = 6;
const TEXT_WIDTH_MIN = 30;

export function report(sentence: string): void {
  console.log(`! ${sentence}`);
}

/** Laps since the process began. */
export function startTimer() {
  let last = performance.now();
  const lap = (what: string) => {
    const now = performance.now();
    console.log(`· ${what} (${((now - last) / 1000).toFixed(1)} s)`);
    last = now;
  };
  return { lap };
}

export function printStep({ who, what, ms }: DemoStep): void {
  const [sentence = "", ...rows] = what.split("\n");
  const step = withHangingIndent(`  ${`${ms}`.padStart(MS_WIDTH)} ms  ${who.padEnd(WHO_WIDTH)} `, sentence);
  console.log([step, ...rows].join("\n"));
}

/** In a terminal, lines that do not fit go on below their first word; into a file or a pipe each stays whole. A hash is never broken. */
export function withHangingIndent(label: string, text: string, columns = process.stdout.columns): string {
  if (!columns) return `${label}${text}`;
  const width = Math.max(columns - label.length, TEXT_WIDTH_MIN);
  return `${label}${Bun.wrapAnsi(text, width).replaceAll("\n", `\n${" ".repeat(label.length)}`)}`;
}

/** What `npm start` has started, by its address, and what was given, by its variable: a given address may hold a password or an API key. */
export function listAddresses(
  settings: LocalSettings,
  environment: DevEnvironment,
  apiUrl: string,
): string[][] {
  const chains = Object.entries(environment.rpcUrls).map(([id, url]) => [
    `Chain ${id}`,
    settings.rpcUrls[id as NetworkId] === undefined ? url : RPC_VARIABLE[id as NetworkId],
  ]);
  return [
    ["Dashboard", `${settings.baseUrl}/`],
    ["API", settings.baseUrl],
    ["Documentation", `${settings.baseUrl}/docs`],
    ["Health", `${apiUrl}/health`],
    ...(settings.metricsPort ? [["Operations", `http://127.0.0.1:${settings.metricsPort}/ops`]] : []),
    ["Mailbox", environment.mailbox?.httpUrl ?? "SMTP_URL"],
    ...chains,
    ["Database", settings.databaseUrl ? "DATABASE_URL" : environment.databaseUrl],
    ["Logs", join(settings.dataDir, "logs")],
  ];
}

export function printAddresses(settings: LocalSettings, environment: DevEnvironment, apiUrl: string): void {
  const rows = listAddresses(settings, environment, apiUrl);
  console.log(`\n${rows.map(([name = "", value]) => `  ${name.padEnd(20)} ${value}`).join("\n")}`);
  const begin = `Begin at ${settings.baseUrl}/ in a browser: sign up there, and it shows each step to your first paid link.`;
  console.log(`\n${withHangingIndent("  ", begin)}`);
  console.log("\n  Ctrl-C stops everything and keeps the data.\n");
}

export function printOpenLink(url: string): void {
  const open =
    "Open this link in a browser and pay it with one click, from a test wallet of the local chain:";
  console.log(`${withHangingIndent("  ", open)}\n\n  ${url}\n`);
}
