/** Bun is installed by npm, and only the pinned bytes are ever run: here a registry serves others under its name. */
import { afterAll, beforeEach, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
const folder = mkdtempSync(join(tmpdir(), "local-bun-download-"));
const project = join(folder, "project");
/** Written by the forged program if it runs. */
const mark = join(folder, "it-ran");
const tarball = await packForgedBun();
const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`;

const registry = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch({ url }) {
    const { origin, pathname } = new URL(url);
    if (pathname.endsWith(".tgz")) return new Response(tarball);
    const name = decodeURIComponent(pathname.slice(1));
    const version = {
      ...{ name, version: Bun.version, dist: { tarball: `${origin}/${name}.tgz`, integrity } },
      // as Bun's own package lists its builds
      ...(name === "bun" ? { optionalDependencies: { "@oven/bun-linux-x64": Bun.version } } : {}),
    };
    return Response.json({
      name,
      "dist-tags": { latest: Bun.version },
      versions: { [Bun.version]: version },
    });
  },
});

beforeEach(() => {
  rmSync(project, { recursive: true, force: true });
  rmSync(mark, { force: true });
  mkdirSync(join(project, "local"), { recursive: true });
  copyFileSync(join(ROOT, "bootstrap.mjs"), join(project, "bootstrap.mjs"));
  writeFileSync(join(project, "package.json"), '{ "name": "tried" }');
  writeFileSync(join(project, "bun.lock"), "");
});
afterAll(async () => {
  await registry.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

/** A program that pretends to be this version of Bun, as an npm package. */
async function packForgedBun(): Promise<Buffer> {
  const bin = join(folder, "package/bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "bun"), `#!/bin/sh\necho ran > '${mark}'\necho ${Bun.version}\n`);
  chmodSync(join(bin, "bun"), 0o755);
  const manifest = { name: "@oven/forged", version: Bun.version };
  writeFileSync(join(folder, "package/package.json"), JSON.stringify(manifest));
  await Bun.$`tar -czf forged.tgz package`.cwd(folder).quiet();
  return readFileSync(join(folder, "forged.tgz"));
}

/** Only Node and npm: no Bun of this machine is found. */
function pathWithoutBun(): string {
  const programs = join(folder, "programs");
  rmSync(programs, { recursive: true, force: true });
  mkdirSync(programs);
  for (const name of ["node", "npm"]) {
    const file = Bun.which(name);
    if (!file) throw new Error(`this test needs ${name}`);
    symlinkSync(file, join(programs, name));
  }
  return programs;
}

async function bootstrap() {
  const env = {
    ...{ HOME: folder, PATH: pathWithoutBun() },
    ...{ npm_config_registry: registry.url.href, npm_config_cache: join(folder, "cache") },
  };
  const child = Bun.spawn(["node", "bootstrap.mjs", "local/any.ts"], {
    ...{ cwd: project, env, stdout: "pipe", stderr: "pipe" },
  });
  const [code, stderr] = await Promise.all([child.exited, new Response(child.stderr).text()]);
  return { code, stderr };
}

test("error: a Bun package whose bytes differ from the pinned ones is neither installed nor run", async () => {
  const { code, stderr } = await bootstrap();
  expect(code).toBe(1);
  expect(stderr).toContain(`Bun ${Bun.version} could not be installed with npm`);
  expect(existsSync(mark)).toBe(false);
}, 120_000);

test("a Bun package whose bytes are the pinned ones is installed and run", async () => {
  const file = join(project, "bootstrap.mjs");
  const text = readFileSync(file, "utf8");
  const pinned = text.replaceAll(/sha512-[A-Za-z0-9+/=]+/g, integrity);
  expect(pinned).not.toBe(text);
  writeFileSync(file, pinned);
  const { stderr } = await bootstrap();
  expect(stderr).toContain("installing packages");
  expect(existsSync(mark)).toBe(true);
}, 120_000);

test("a sha512 is pinned for each build of Linux and macOS, with either C library, in the version of the types", () => {
  const text = readFileSync(join(ROOT, "bootstrap.mjs"), "utf8");
  const builds = [...text.matchAll(/name: "(@oven\/[^"]+)"[^[\]]*?"(sha512-[A-Za-z0-9+/]{86}==)"/g)];
  expect(builds.map(([, name]) => name)).toEqual([
    "@oven/bun-linux-x64",
    "@oven/bun-linux-x64-musl",
    "@oven/bun-linux-aarch64",
    "@oven/bun-linux-aarch64-musl",
    "@oven/bun-darwin-x64",
    "@oven/bun-darwin-aarch64",
  ]);
  expect(new Set(builds.map(([, , pinned]) => pinned)).size).toBe(builds.length);
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  expect(text).toContain(`const BUN_VERSION = "${devDependencies["bun-types"]}";`);
});
