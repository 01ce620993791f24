/**
 * `bun run build:web`: bundles the pages into web/dist with hashed names and precompressed copies. Does nothing when nothing has changed.
 * The page for leaving is one file, web/dist/leave.html, which can be kept and opened without the service.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { emit, write } from "./emit-files.ts";

const ROOT = import.meta.dir;
const DIST = join(ROOT, "dist");
const MANIFEST = join(DIST, "manifest.json");

/** Each is bundled separately: a shared module would be another file to load. */
const ENTRIES: Readonly<Record<string, string>> = {
  "checkout.js": "checkout/main.tsx",
  "further-wallets.js": "further-wallets/main.ts",
  "test-wallet.js": "test-wallet/main.ts",
  "embed.js": "embed/main.ts",
  "checkout.css": "checkout/style.css",
  "dashboard.css": "dashboard/style.css",
  "docs.css": "docs/style.css",
  "docs.js": "docs/main.ts",
};
/** In chunks: a screen is loaded when it is first opened. */
const DASHBOARD = { name: "dashboard.js", entry: "dashboard/main.tsx" };
/** A self-contained page: its script and style are inline, and its policy lists their hashes. */
const LEAVE = {
  name: "leave.html",
  page: "leave/page.html",
  script: "leave/main.tsx",
  style: "leave/style.css",
};
const STATIC_FOLDER = join(ROOT, "static");

type Manifest = { stamp: string; assets: Record<string, string> };

const stamp = stampOf(["../bun.lock", ...listSources()]);
if (readStamp() !== stamp) await build();
const { WALLETCONNECT_PROJECT_ID, BASE_ACCOUNT = "0" } = process.env;
if (WALLETCONNECT_PROJECT_ID || ["1", "true"].includes(BASE_ACCOUNT)) await import("./wallets/build.ts");

async function build(): Promise<void> {
  const startedAt = performance.now();
  mkdirSync(DIST, { recursive: true });
  const assets: Record<string, string> = {};
  for (const [name, entry] of Object.entries(ENTRIES)) assets[name] = emit(DIST, name, await bundle(entry));
  for (const { name, content, isEntry } of await bundleDashboard()) {
    assets[isEntry ? DASHBOARD.name : name] = name;
    write(DIST, name, content);
  }
  for (const name of readdirSync(STATIC_FOLDER))
    assets[name] = emit(DIST, name, readFileSync(join(STATIC_FOLDER, name)));
  const leave = await bundleLeavePage();
  writeFileSync(join(DIST, LEAVE.name), leave);
  assets[LEAVE.name] = emit(DIST, LEAVE.name, leave);
  // Last and atomically: a reader of the manifest finds every file it names, even during another build.
  const draft = `${MANIFEST}.${process.pid}`;
  writeFileSync(draft, JSON.stringify({ stamp, assets } satisfies Manifest, null, 2));
  renameSync(draft, MANIFEST);
  console.log(`web pages built in ${Math.round(performance.now() - startedAt)} ms`);
}

async function bundle(entry: string): Promise<Buffer> {
  const result = await Bun.build({
    entrypoints: [join(ROOT, entry)],
    minify: true,
    target: "browser",
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const [output] = result.outputs;
  if (!output || result.outputs.length > 1) throw new Error(`${entry} became ${result.outputs.length} files`);
  return Buffer.from(await output.arrayBuffer());
}

/** The chunks refer to each other, so Bun names them by their content. */
async function bundleDashboard() {
  const result = await Bun.build({
    entrypoints: [join(ROOT, DASHBOARD.entry)],
    minify: true,
    splitting: true,
    // a chunk imports only the entry, which is loaded by then
    modulePreload: false,
    target: "browser",
    naming: { entry: "dashboard-[hash].[ext]", chunk: "dashboard-part-[hash].[ext]" },
    define: { "process.env.NODE_ENV": '"production"' },
  });
  return Promise.all(
    result.outputs.map(async (output) => ({
      name: basename(output.path),
      content: Buffer.from(await output.arrayBuffer()),
      isEntry: output.kind === "entry-point",
    })),
  );
}

async function bundleLeavePage(): Promise<Buffer> {
  // "</script" and "<!--" would end or change the block that the script is in; in strings the backslash changes nothing
  const script = (await bundle(LEAVE.script))
    .toString()
    .replaceAll("</script", "<\\/script")
    .replaceAll("<!--", "<\\!--");
  const style = (await bundle(LEAVE.style)).toString();
  const page = readFileSync(join(ROOT, LEAVE.page), "utf8");
  const parts = { "%policy%": leavePolicy(script, style), "/*style*/": style, "/*script*/": script };
  return Buffer.from(
    Object.entries(parts).reduce((text, [place, part]) => fillPlace(text, place, part), page),
  );
}

function fillPlace(text: string, place: string, part: string): string {
  const [before, after, ...more] = text.split(place);
  if (before === undefined || after === undefined || more.length > 0)
    throw new Error(`${LEAVE.page} must hold ${place} once`);
  return before + part + after;
}

/** Only this script and style run, nothing is loaded, and requests go only to the node that the person enters. */
function leavePolicy(script: string, style: string): string {
  const hashOf = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  return [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    "img-src data:",
    "connect-src https: http://localhost:* http://127.0.0.1:*",
    "form-action 'none'",
    "base-uri 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
}

/** Without web/wallets, which is built separately and contains its installed packages. */
function listSources(): string[] {
  return readdirSync(ROOT, { withFileTypes: true })
    .filter(({ name }) => name !== "dist" && name !== "wallets")
    .flatMap((entry) =>
      entry.isFile()
        ? entry.name
        : [...new Bun.Glob(`${entry.name}/**/*`).scanSync({ cwd: ROOT, onlyFiles: true })],
    )
    .sort();
}

function stampOf(files: readonly string[]): string {
  const hash = createHash("sha256");
  for (const file of files)
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(ROOT, file)))
      .update("\0");
  return hash.digest("hex");
}

function readStamp(): string | undefined {
  try {
    return (JSON.parse(readFileSync(MANIFEST, "utf8")) as Manifest).stamp;
  } catch {
    // never built
    return undefined;
  }
}
