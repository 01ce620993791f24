/** `bun ops/probe-main.ts URL`: exit 0 when it answers with success, for the health checks of an image without a shell. */
import { argv, exit } from "node:process";

const TIMEOUT_MS = 8_000;

const [url] = argv.slice(2);
if (!url) {
  console.error("bun ops/probe-main.ts URL");
  exit(64); // EX_USAGE of sysexits.h
}
try {
  const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!response.ok) console.error(`${url}: ${response.status} ${await response.text()}`);
  exit(response.ok ? 0 : 1);
} catch (error) {
  console.error(`${url}: ${String(error)}`);
  exit(1);
}
