/** The bill of materials, compared with what is installed here (resolved like modules, without the lock file) and with bun.lock. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { makeSbom, type SbomComponent } from "../../local/sbom.ts";

type Manifest = {
  name: string;
  version: string;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
};

const ROOT = join(import.meta.dir, "../..");
const FOR_TESTS_ONLY = [
  "@biomejs/biome",
  "axios",
  "fast-check",
  "knip",
  "playwright-core",
  "testcontainers",
  "x402",
];
const SPDX_ID = /^[A-Za-z0-9.-]+$/;
const sbom = makeSbom();
const libraries = sbom.components.filter(({ type }) => type === "library");
const lockText = readFileSync(join(ROOT, "bun.lock"), "utf8");

const idOf = ({ group, name, version }: SbomComponent) => `${group ? `${group}/` : ""}${name}@${version}`;
const readManifest = (folder: string) =>
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;

/** The folder of a package as resolved from `from`; undefined for an optional one of another platform. */
function findPackage(from: string, name: string): string | undefined {
  for (let folder = from; ; folder = dirname(folder)) {
    const candidate = join(folder, "node_modules", name);
    if (existsSync(join(candidate, "package.json"))) return candidate;
    if (folder === ROOT) return undefined;
  }
}

/** name@version of every transitive dependency of the service on this machine. */
function walkInstalled(): Set<string> {
  const folders = new Set<string>();
  const queue = [ROOT];
  for (let folder = queue.pop(); folder; folder = queue.pop()) {
    const { dependencies, optionalDependencies } = readManifest(folder);
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const found = findPackage(folder, name);
      if (!found || folders.has(found)) continue;
      folders.add(found);
      queue.push(found);
    }
  }
  return new Set(
    [...folders].map((folder) => {
      const { name, version } = readManifest(folder);
      return `${name}@${version}`;
    }),
  );
}

describe("the software bill of materials", () => {
  test("is CycloneDX 1.6 with the service on top and its runtime next to the libraries", () => {
    expect(sbom).toMatchObject({ bomFormat: "CycloneDX", specVersion: "1.6", version: 1 });
    expect(sbom.serialNumber).toMatch(
      /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/,
    );
    const { name, version } = readManifest(ROOT);
    expect(sbom.metadata.component).toMatchObject({ type: "application", name, version });
    expect(sbom.components.filter(({ type }) => type === "platform")).toMatchObject([
      { name: "bun", version: Bun.version },
    ]);
  });

  test("names every package that a production installation contains on this machine", () => {
    const installed = walkInstalled();
    expect(installed.size).toBeGreaterThan(100);
    const listed = new Set(libraries.map(idOf));
    expect([...installed].filter((id) => !listed.has(id))).toEqual([]);
  });

  test("names every direct dependency in the version of package.json, and none that only tests need", () => {
    const { dependencies, optionalDependencies, devDependencies } = readManifest(ROOT);
    const listed = new Set(libraries.map(idOf));
    const direct = Object.entries({ ...dependencies, ...optionalDependencies });
    expect(direct.filter(([name, version]) => !listed.has(`${name}@${version}`))).toEqual([]);
    const names = new Set(libraries.map((component) => idOf(component).replace(/@[^@]*$/, "")));
    expect(Object.keys(devDependencies ?? {})).toEqual(expect.arrayContaining(FOR_TESTS_ONLY));
    expect(FOR_TESTS_ONLY.filter((name) => names.has(name))).toEqual([]);
  });

  test("gives each package its sha512 from bun.lock, a licence, and a package URL", () => {
    for (const component of libraries) {
      const [hash] = component.hashes ?? [];
      expect(hash?.content).toMatch(/^[0-9a-f]{128}$/);
      const integrity = `sha512-${Buffer.from(hash?.content ?? "", "hex").toString("base64")}`;
      const line = lockText.split("\n").find((text) => text.includes(`["${idOf(component)}"`));
      expect(line).toContain(integrity);
      const [license] = component.licenses ?? [];
      if (!license) throw new Error(`${idOf(component)} has no licence`);
      if ("license" in license && "id" in license.license) expect(license.license.id).toMatch(SPDX_ID);
      expect(component.purl).toBe(`pkg:npm/${idOf(component).replace(/^@/, "%40")}`);
      expect(["required", "optional"]).toContain(component.scope ?? "");
    }
  });

  test("lists each component once, with dependencies only between components", () => {
    const refs = [sbom.metadata.component, ...sbom.components].map((component) => component["bom-ref"]);
    expect(new Set(refs).size).toBe(refs.length);
    const known = new Set(refs);
    const named = sbom.dependencies.flatMap(({ ref, dependsOn }) => [ref, ...dependsOn]);
    expect(named.filter((ref) => !known.has(ref))).toEqual([]);
    const reached = new Set(sbom.dependencies.flatMap(({ dependsOn }) => dependsOn));
    expect(sbom.components.filter((component) => !reached.has(component["bom-ref"]))).toEqual([]);
  });

  test("lists patched packages", () => {
    const { patchedDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    const patched = libraries.flatMap((component) =>
      (component.pedigree?.patches ?? []).map(({ diff }) => [idOf(component), diff.url]),
    );
    expect(Object.fromEntries(patched)).toEqual(patchedDependencies);
  });

  test("is the same each time, and printed by the script", async () => {
    const printed = await Bun.$`${process.execPath} local/sbom.ts`.cwd(ROOT).json();
    expect(printed).toEqual(JSON.parse(JSON.stringify(sbom)));
  });
});

test("elliptic is not installed: secp256k1 falls back to @noble/curves here, never to it", () => {
  expect(readManifest(join(ROOT, "node_modules/elliptic")).name).toBe("@noble/curves");
  expect(libraries.map(({ name }) => name)).not.toContain("elliptic");
});

test("bun.lock names no registry: the registry is a setting of each installation", () => {
  expect(lockText).not.toMatch(/https?:/);
});
