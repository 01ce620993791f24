/**
 * Bundles the libraries of WalletConnect and Base Account into web/dist, installing them first if they are missing. Run by
 * `bun run build:web` where one of the two is configured. Does nothing when nothing has changed.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { emit } from "../emit-files.ts";

const ROOT = import.meta.dir;
const DIST = join(ROOT, "../dist");
/** Separate from manifest.json, so that a build without wallets does not remove them. */
const MANIFEST = join(DIST, "wallets.json");
const ENTRIES = { "walletconnect.js": "walletconnect.ts", "base-account.js": "base-account.ts" };
const SOURCES = [...Object.values(ENTRIES), "package.json", "bun.lock", "build.ts", "../../bun.lock"];
const INSTALL = ["install", "--ignore-scripts", "--frozen-lockfile"];

const stamp = stampOf(SOURCES);
if (readStamp() !== stamp) {
  await install();
  mkdirSync(DIST, { recursive: true });
  const assets: Record<string, string> = {};
  for (const [name, entry] of Object.entries(ENTRIES)) assets[name] = emit(DIST, name, await bundle(entry));
  const draft = `${MANIFEST}.${process.pid}`;
  writeFileSync(draft, JSON.stringify({ stamp, assets }, null, 2));
  renameSync(draft, MANIFEST);
  console.log("wallet libraries built");
}

/** Takes a second when everything is installed. */
async function install(): Promise<void> {
  const child = Bun.spawn([process.execPath, ...INSTALL], { cwd: ROOT, stdout: "ignore", stderr: "pipe" });
  const [output, code] = await Promise.all([new Response(child.stderr).text(), child.exited]);
  if (code !== 0)
    fail(`run \`bun ${INSTALL.join(" ")}\` in web/wallets, or unset both settings (${lastLine(output)})`);
  // it has known vulnerabilities, and the lockfile must not contain it
  if (existsSync(join(ROOT, "node_modules/elliptic"))) fail("elliptic must not be among them");
}

function fail(reason: string): never {
  console.error(
    `WALLETCONNECT_PROJECT_ID or BASE_ACCOUNT is set, but the wallet libraries cannot be installed: ${reason}`,
  );
  process.exit(1);
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}

async function bundle(entry: string): Promise<Buffer> {
  const result = await Bun.build({
    entrypoints: [join(ROOT, entry)],
    minify: true,
    target: "browser",
    // WalletConnect's own dialog, which is never opened
    external: ["@reown/appkit/*"],
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const [output] = result.outputs;
  if (!output || result.outputs.length > 1) throw new Error(`${entry} became ${result.outputs.length} files`);
  return Buffer.from(await output.arrayBuffer());
}

function stampOf(files: readonly string[]): string {
  const hash = createHash("sha256");
  for (const file of files) hash.update(readFileSync(join(ROOT, file))).update("\0");
  return hash.digest("hex");
}

function readStamp(): string | undefined {
  try {
    return (JSON.parse(readFileSync(MANIFEST, "utf8")) as { stamp: string }).stamp;
  } catch {
    // never built
    return undefined;
  }
}
