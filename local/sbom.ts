/**
 * The software bill of materials of a release: every package a production installation may contain, from bun.lock, in CycloneDX 1.6.
 * `bun run sbom > sbom.cdx.json`. The same lock file produces the same bytes.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

type License = { license: { id: string } | { name: string } } | { expression: string };
export type SbomComponent = {
  type: "library" | "platform" | "application";
  "bom-ref": string;
  group?: string;
  name: string;
  version: string;
  scope?: "required" | "optional";
  hashes?: { alg: "SHA-512"; content: string }[];
  licenses?: License[];
  purl?: string;
  pedigree?: { patches: { type: "unofficial"; diff: { url: string } }[] };
};
export type Sbom = {
  bomFormat: "CycloneDX";
  specVersion: "1.6";
  serialNumber: string;
  version: 1;
  metadata: { lifecycles: { phase: "build" }[]; component: SbomComponent };
  components: SbomComponent[];
  dependencies: { ref: string; dependsOn: string[] }[];
};

type Needs = {
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
  optionalPeers?: readonly string[];
};
/** name@version, registry ("" for the default one), dependencies, integrity. */
type LockedPackage = readonly [id: string, registry: string, needs: Needs, integrity: string];
type Lock = {
  workspaces: { "": Needs };
  patchedDependencies?: Record<string, string>;
  packages: Record<string, LockedPackage>;
};
type Manifest = { name: string; version: string; license?: string; devDependencies?: Record<string, string> };

const ROOT = join(import.meta.dir, "..");
/** Packages that state their licence only in a file. */
const LICENSES_IN_FILES: Record<string, License> = {
  "dejavu-fonts-ttf": { license: { name: "DejaVu Fonts License" } },
  "png-js": { license: { id: "MIT" } },
};

export function makeSbom(root = ROOT): Sbom {
  const lockText = readFileSync(join(root, "bun.lock"), "utf8");
  const lock = Bun.JSONC.parse(lockText) as Lock;
  const manifest = readManifest(root);
  if (!manifest) throw new Error(`${root} has no package.json`);
  const reached = reachFromProduction(lock);
  const application: SbomComponent = {
    type: "application",
    "bom-ref": "application",
    name: manifest.name,
    version: manifest.version,
    licenses: [toLicense(manifest.license)],
  };
  const runtime: SbomComponent = {
    type: "platform",
    "bom-ref": "bun",
    name: "bun",
    version: manifest.devDependencies?.["bun-types"] ?? "",
    licenses: [toLicense("MIT")],
  };
  const components = new Map<string, SbomComponent>();
  const needs = new Map<string, Set<string>>([["application", new Set(["bun"])]]);
  for (const { key, from, isRequired } of reached) {
    const component = toComponent({ root, key, lock });
    const ref = component["bom-ref"];
    // a package may be in several folders: it is required when one of them is
    const known = components.get(ref);
    const scope = isRequired || known?.scope === "required" ? "required" : "optional";
    components.set(ref, { ...component, scope });
    const parent = from === undefined ? "application" : purlOf(idOf(lock, from));
    needs.set(parent, (needs.get(parent) ?? new Set()).add(ref));
    if (!needs.has(ref)) needs.set(ref, new Set());
  }
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: serialOf(lockText),
    version: 1,
    metadata: { lifecycles: [{ phase: "build" }], component: application },
    components: [runtime, ...[...components.values()].sort(byRef)],
    dependencies: [...needs]
      .map(([ref, on]) => ({ ref, dependsOn: [...on].sort() }))
      .sort((a, b) => (a.ref < b.ref ? -1 : 1)),
  };
}

/** Every edge to a package that a production installation may contain. `key` is the package's place in the lock file: "a/b" is b inside a. */
type Edge = { key: string; from: string | undefined; isRequired: boolean };

function reachFromProduction(lock: Lock): Edge[] {
  const edges: Edge[] = [];
  const seen = new Map<string, boolean>();
  const queue: { key: string | undefined; needs: Needs; isRequired: boolean }[] = [
    { key: undefined, needs: lock.workspaces[""], isRequired: true },
  ];
  for (let next = queue.shift(); next; next = queue.shift()) {
    for (const need of listNeeds(next.needs)) {
      const key = resolve(lock, next.key, need.name);
      if (key === undefined) {
        if (need.isRequired && !need.isPeer)
          throw new Error(`bun.lock has no ${need.name}, which ${next.key} needs`);
        continue;
      }
      const isRequired = next.isRequired && need.isRequired;
      edges.push({ key, from: next.key, isRequired });
      const before = seen.get(key);
      if (before === true || before === isRequired) continue;
      seen.set(key, isRequired);
      queue.push({ key, needs: lock.packages[key]?.[2] ?? {}, isRequired });
    }
  }
  return edges;
}

/** Bun also installs optional peers when they are in the lock file. */
function listNeeds(needs: Needs): { name: string; isRequired: boolean; isPeer: boolean }[] {
  const names = (given: Record<string, string> | undefined) => Object.keys(given ?? {});
  return [
    ...names(needs.dependencies).map((name) => ({ name, isRequired: true, isPeer: false })),
    ...names(needs.optionalDependencies).map((name) => ({ name, isRequired: false, isPeer: false })),
    ...names(needs.peerDependencies).map((name) => ({
      name,
      isRequired: !needs.optionalPeers?.includes(name),
      isPeer: true,
    })),
  ];
}

/** Resolved as modules are: inside the package that needs it, else one level further out. */
function resolve(lock: Lock, from: string | undefined, name: string): string | undefined {
  for (let place = from; place !== undefined; place = parentOf(place)) {
    if (lock.packages[`${place}/${name}`]) return `${place}/${name}`;
  }
  return lock.packages[name] ? name : undefined;
}

function parentOf(key: string): string | undefined {
  const names = namesIn(key).slice(0, -1);
  return names.length === 0 ? undefined : names.join("/");
}

/** "@a/b/c" is c inside @a/b. */
function namesIn(key: string): string[] {
  return key.match(/@[^/]+\/[^/]+|[^/]+/g) ?? [];
}

function toComponent({ root, key, lock }: { root: string; key: string; lock: Lock }): SbomComponent {
  const id = idOf(lock, key);
  const { name, version } = splitId(id);
  const [group, bare] = name.startsWith("@") ? (name.split("/") as [string, string]) : [undefined, name];
  const integrity = lock.packages[key]?.[3] ?? "";
  const patch = lock.patchedDependencies?.[id];
  const license = licenseOf(root, key, name);
  return {
    ...{ type: "library", "bom-ref": purlOf(id), ...(group ? { group } : {}), name: bare, version },
    hashes: [{ alg: "SHA-512", content: hexOf(id, integrity) }],
    ...(license ? { licenses: [license] } : {}),
    purl: purlOf(id),
    ...(patch ? { pedigree: { patches: [{ type: "unofficial", diff: { url: patch } }] } } : {}),
  };
}

function idOf(lock: Lock, key: string): string {
  const id = lock.packages[key]?.[0];
  if (id === undefined) throw new Error(`bun.lock has no ${key}`);
  return id;
}

function splitId(id: string): { name: string; version: string } {
  const at = id.lastIndexOf("@");
  return { name: id.slice(0, at), version: id.slice(at + 1) };
}

function purlOf(id: string): string {
  const { name, version } = splitId(id);
  return `pkg:npm/${name.replace("@", "%40")}@${version}`;
}

function hexOf(id: string, integrity: string): string {
  const [algorithm, digest = ""] = integrity.split("-");
  if (algorithm !== "sha512") throw new Error(`${id} has no sha512 in bun.lock`);
  return Buffer.from(digest, "base64").toString("hex");
}

/** A build for another platform is not installed here; its licence is that of its siblings in the same scope. */
function licenseOf(root: string, key: string, name: string): License | undefined {
  const known = LICENSES_IN_FILES[name];
  if (known) return known;
  const folder = join(root, "node_modules", namesIn(key).join("/node_modules/"));
  const own = readManifest(folder) ?? readManifest(join(root, "node_modules", name));
  const given = own?.license ?? siblingLicense(root, name);
  return given === undefined ? undefined : toLicense(given);
}

function siblingLicense(root: string, name: string): string | undefined {
  const [scope = ""] = name.split("/");
  if (!scope.startsWith("@")) return undefined;
  const siblings = new Bun.Glob("*/package.json").scanSync({ cwd: join(root, "node_modules", scope) });
  const licenses = new Set(
    [...siblings].map((file) => readManifest(join(root, "node_modules", scope, file, ".."))?.license),
  );
  const [only] = licenses;
  return licenses.size === 1 ? only : undefined;
}

function readManifest(folder: string): Manifest | undefined {
  const file = join(folder, "package.json");
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Manifest) : undefined;
}

function toLicense(given: string | undefined): License {
  if (!given) throw new Error("a package names no licence");
  return / (OR|AND|WITH) /.test(given) ? { expression: given } : { license: { id: given } };
}

/** A UUID derived from the lock file, so that two runs are identical. */
function serialOf(lockText: string): string {
  const hex = createHash("sha256").update(lockText).digest("hex");
  return `urn:uuid:${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function byRef(a: SbomComponent, b: SbomComponent): number {
  return a["bom-ref"] < b["bom-ref"] ? -1 : 1;
}

if (import.meta.main) console.log(JSON.stringify(makeSbom(), null, 2));
