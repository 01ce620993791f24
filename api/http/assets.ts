/** The built files of the pages, held in memory: scripts, styles and images under names that contain a content hash. */
import { existsSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { z } from "zod";

const DIST = "web/dist";
/** Next to the sources; a compiled process, which has none, uses its working directory. */
const PLACES = [join(import.meta.dir, "../..", DIST), join(process.cwd(), DIST)];

const TYPES: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".html": "text/html; charset=utf-8",
};
/** Best first, with the file extension of the compressed copy. */
const ENCODINGS = [
  ["br", ".br"],
  ["gzip", ".gz"],
] as const;

const manifestSchema = z.object({ assets: z.record(z.string(), z.string()) });

type Asset = {
  type: string;
  plain: Uint8Array<ArrayBuffer>;
  encoded: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
};

export type Assets = {
  has: (name: string) => boolean;
  /** The path a page names, with the content's hash in it. */
  pathOf: (name: string) => string;
  /** `encodings` is the request's Accept-Encoding. Undefined for an unknown file. */
  respond: (file: string, encodings: string) => Response | undefined;
};

/** Throws a sentence with the command to run when the pages are not built. */
export function readAssets(): Assets {
  const folder = PLACES.find((place) => existsSync(join(place, "manifest.json")));
  if (!folder) throw new Error("The web pages are not built: run `bun run build:web` first.");
  const manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8"));
  const { assets: names } = manifestSchema.parse(manifest);
  Object.assign(names, readWalletNames(folder));
  const assets = new Map(Object.values(names).map((name) => [name, readAsset(folder, name)]));
  return {
    has: (name) => name in names,
    pathOf: (name) => {
      const hashed = names[name];
      if (hashed === undefined) throw new Error(`${name} is not among the built files`);
      return `/assets/${hashed}`;
    },
    respond: (name, encodings) => {
      const asset = assets.get(name);
      return asset && respond(asset, encodings);
    },
  };
}

/** Built only where they are configured. */
function readWalletNames(folder: string): Record<string, string> {
  const file = join(folder, "wallets.json");
  return existsSync(file) ? manifestSchema.parse(JSON.parse(readFileSync(file, "utf8"))).assets : {};
}

function readAsset(folder: string, name: string): Asset {
  const read = (file: string) => new Uint8Array(readFileSync(join(folder, file)));
  const twins = ENCODINGS.filter(([, ending]) => existsSync(join(folder, name + ending)));
  return {
    type: TYPES[extname(name)] ?? "application/octet-stream",
    plain: read(name),
    encoded: new Map(twins.map(([encoding, ending]) => [encoding, read(name + ending)])),
  };
}

function respond({ type, plain, encoded }: Asset, encodings: string): Response {
  const headers = {
    "content-type": type,
    "cache-control": "public, max-age=31536000, immutable",
    vary: "accept-encoding",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'",
    // chat apps load preview images from their own pages
    "cross-origin-resource-policy": "cross-origin",
  };
  const accepted = new Set(encodings.split(",").map((item) => item.trim().split(";")[0]));
  for (const [encoding] of ENCODINGS) {
    const body = encoded.get(encoding);
    if (body && accepted.has(encoding))
      return new Response(body, { headers: { ...headers, "content-encoding": encoding } });
  }
  return new Response(plain, { headers });
}
