/** The architecture holds: which folder may import which, no cycles, no barrels, no file too long, no path in the docs that does not exist. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const ROOT = join(import.meta.dir, "..");
const LINES_MAX = 400;
const PROCESSES = ["api", "worker", "indexer"] as const;
const CORE = [
  "core/domain",
  "core/runtime",
  "core/rpc",
  "core/chain",
  "core/pdf",
  "core/tracing",
  "core/status-page",
] as const;

/** Folder by folder what it may import of ours; itself always. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  "core/domain": [],
  "core/runtime": [],
  "core/rpc": ["core/domain"],
  "core/chain": ["core/domain", "core/rpc"],
  "core/pdf": ["core/domain"],
  "core/tracing": [],
  "core/status-page": ["core/domain"],
  db: ["core/domain", "core/tracing"],
  ...Object.fromEntries(PROCESSES.map((name) => [name, ["db", ...CORE]])),
  // the tools that it serves at /mcp, which call it like everybody else
  api: ["db", ...CORE, "web/messages", "web/qr", "mcp", "sdk"],
  // texts alone: the server writes them into the pages
  "web/messages": [],
  "web/qr": [],
  web: [],
  // outside, over HTTP only
  sdk: [],
  mcp: ["sdk"],
  examples: [],
  cli: ["sdk", "mcp"],
  local: ["db", ...CORE],
  ops: ["db", ...CORE, ...PROCESSES],
  bench: ["db", ...CORE, "local", "tests/support", "tests/checkout", "tests/dashboard"],
  tests: ["db", ...CORE, ...PROCESSES, "local", "ops", "bench", "web", "sdk", "mcp", "cli"],
};

/** Packages the pure rules may use: none that reads a clock, a file or a socket. */
const PURE_PACKAGES = [/^viem(\/utils)?$/, /^viem-modules\/utils\//, /^node:crypto$/, /^@noble\//, /^zod$/];
const RUNTIME_PACKAGES = [/^zod$/, /^tldts$/, /^pino$/, /^prom-client$/, /^node:/, /^bun$/];

const TABLES = new Set(
  [...readFileSync(join(ROOT, "db/schema.sql"), "utf8").matchAll(/^create (?:table|view) (\w+)/gm)].map(
    ([, name]) => name ?? "",
  ),
);

const IMPORT =
  /(?:^|[\s;])(?:import|export)\s(?:[^"';]*?\sfrom\s)?["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']\s*\)/g;

const files = [
  ...new Bun.Glob(
    "{core,db,api,worker,indexer,local,ops,bench,tests,web,sdk,mcp,cli,examples}/**/*.{ts,tsx}",
  ).scanSync(ROOT),
]
  // This file holds imports as samples; web/wallets may hold installed packages; sdk/dist is built.
  .filter(
    (file) =>
      file !== "tests/architecture.test.ts" &&
      !file.includes("node_modules/") &&
      !file.startsWith("sdk/dist/") &&
      !file.startsWith("cli/dist/"),
  )
  .sort();
const sources = new Map(files.map((file) => [file, readFileSync(join(ROOT, file), "utf8")]));
const imports = new Map([...sources].map(([file, text]) => [file, readImports(file, text)]));

/** Paths relative to the project for our own files, package names for the rest. */
function readImports(file: string, text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
  return [...code.matchAll(IMPORT)]
    .map((match) => match[1] ?? match[2] ?? "")
    .map((name) => (name.startsWith(".") ? normalize(join(dirname(file), name)) : name));
}

function folderOf(file: string): string {
  return Object.keys(MAY_IMPORT).find((folder) => file.startsWith(`${folder}/`)) ?? "";
}

const isOurs = (target: string) => folderOf(target) !== "";

test("reads imports of every form, and none out of comments", () => {
  const text = `import { a } from "./a.ts";
import type {
  B,
} from "../db/b.ts";
import "node:fs";
// import { no } from "./no.ts";
/* import { no } from "./no.ts"; */
export { c } from "./c.ts";
const d = await import("./d.ts");`;
  const names = ["api/a.ts", "db/b.ts", "node:fs", "api/c.ts", "api/d.ts"];
  expect(readImports("api/x.ts", text).sort()).toEqual(names.sort());
});

test("the OpenTelemetry packages are loaded only when traces are exported", () => {
  const users = [...imports].filter(([, targets]) =>
    targets.some((name) => name.startsWith("@opentelemetry/")),
  );
  expect(users.map(([file]) => file)).toEqual(["core/tracing/otlp-exporter.ts"]);
  const importers = [...imports].filter(([, targets]) => targets.includes("core/tracing/otlp-exporter.ts"));
  expect(importers.map(([file]) => file)).toEqual(["core/tracing/open-tracing.ts"]);
  const text = sources.get("core/tracing/open-tracing.ts") ?? "";
  expect(text).not.toMatch(/^import .*otlp-exporter/m);
});

test("the indexer loads single modules of viem: its entry points load all of it, 15 MB", () => {
  const loaded = new Set(["indexer/main.ts"]);
  for (const file of loaded) {
    const text = (sources.get(file) ?? "").replace(/^import type [^;]*;$/gm, "");
    for (const name of readImports(file, text)) loaded.add(name);
  }
  expect([...loaded].filter((name) => name.startsWith("viem-modules/")).length).toBeGreaterThan(0);
  expect([...loaded].filter((name) => /^viem(\/|$)/.test(name))).toEqual([]);
});

describe("layers", () => {
  for (const folder of Object.keys(MAY_IMPORT)) {
    test(`${folder} imports only what it may`, () => {
      const allowed = [folder, ...(MAY_IMPORT[folder] ?? [])];
      const offences = [...imports]
        .filter(([file]) => folderOf(file) === folder)
        .flatMap(([file, targets]) =>
          targets
            .filter(isOurs)
            .filter((target) => !allowed.some((prefix) => target.startsWith(`${prefix}/`)))
            .map((target) => `${file} imports ${target}`),
        );
      expect(offences).toEqual([]);
    });
  }

  test("core/domain and core/runtime use only the packages they may", () => {
    const offences = [...imports].flatMap(([file, targets]) => {
      const allowed = { "core/domain": PURE_PACKAGES, "core/runtime": RUNTIME_PACKAGES }[folderOf(file)];
      if (!allowed) return [];
      const packages = targets.filter((target) => !isOurs(target));
      return packages
        .filter((name) => !allowed.some((pattern) => pattern.test(name)))
        .map((name) => `${file}: ${name}`);
    });
    expect(offences).toEqual([]);
  });

  test("every import of our own files resolves", () => {
    const missing = [...imports].flatMap(([file, targets]) =>
      targets
        .filter(isOurs)
        .filter((target) => !existsSync(join(ROOT, target)))
        .map((target) => `${file} imports ${target}`),
    );
    expect(missing).toEqual([]);
  });
});

test("no import cycle between files, not even through types", () => {
  expect(findCircle(imports)).toBeUndefined();
});

test("no import cycle between folders; a file at the top of a layer counts as its own folder", () => {
  const folders = new Map<string, Set<string>>();
  for (const [file, targets] of imports) {
    if (file.startsWith("tests/") || file.startsWith("bench/")) continue;
    const from = subjectOf(file);
    const to = folders.get(from) ?? new Set<string>();
    for (const target of targets.filter(isOurs)) if (subjectOf(target) !== from) to.add(subjectOf(target));
    folders.set(from, to);
  }
  expect(findCircle(new Map([...folders].map(([from, to]) => [from, [...to]])))).toBeUndefined();
});

test("worker/sender does not know what its transactions are for", () => {
  const customers = /^(worker\/(payments|wallet-ops)|db\/(payments|wallets|wallet-ops))\//;
  const offences = [...imports]
    .filter(([file]) => file.startsWith("worker/sender/"))
    .flatMap(([file, targets]) =>
      targets.filter((target) => customers.test(target)).map((target) => `${file} imports ${target}`),
    );
  expect(offences).toEqual([]);
});

/** `db/links/links.ts` -> `db/links`; `db/schema.ts` -> itself. */
function subjectOf(file: string): string {
  const [layer, name] = file.split("/");
  return `${layer}/${name}`;
}

/**
 * A column that a migration adds would change what such a statement answers, and Postgres then refuses what older processes have prepared.
 * A star over a subquery, a function or a statement of `with` is fine: those name their columns, or are checked themselves.
 */
test("no statement returns every column of a table", () => {
  const offences = [...sources]
    .filter(([file]) => /^(core|db|api|worker|indexer)\//.test(file))
    .flatMap(([file, text]) => findTableStars(text).map((star) => `${file}: ${star}`));
  expect(offences).toEqual([]);
});

test("finds every `*` over a table, and no other `*`", () => {
  const wrong = [
    "select * from users where id = 1",
    "select distinct *\n from payment_links",
    "select *, now() as now from users",
    "select users.* from users",
    "select link.*, users.email from payment_links link join users on true",
    "select id, link.* from payment_links as link",
    "update users set id = 1 returning *",
    "delete from users link using given returning link.*",
    "select * from (select id from claims) of_claim join users on true",
    "with made as (select id from users) select * from made, users",
    "select * from $1",
  ];
  expect(wrong.filter((text) => findTableStars(text).length === 0)).toEqual([]);
  const right = [
    "select count(*) from users",
    "select * from (select id from users) one where id = 1",
    "select * from json_to_recordset($1::json) as row (id text)",
    "with made as (select id from users) select * from made",
    "with made as materialized (select id from users) select made.* from made",
    "select one.* from (select id from users) one",
    "/** select * from users */",
    "// select * from users",
  ];
  expect(right.flatMap(findTableStars)).toEqual([]);
});

function findTableStars(text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
  const isDerived = (name: string) =>
    !TABLES.has(name) && new RegExp(`\\b${name} as (materialized )?\\(|\\) (as )?${name}\\b`).test(code);
  const bare = [...code.matchAll(/\b(select|returning)\s+(distinct\s+)?\*/g)].filter(
    ({ 0: star, 1: verb, index }) => {
      if (verb === "returning") return true;
      const source = sourceOf(code.slice(index + star.length));
      return (
        /\bjoin\b|,/.test(source) || !(/^[\w.]*\(/.test(source) || isDerived(source.match(/^\w+/)?.[0] ?? ""))
      );
    },
  );
  const named = [...code.matchAll(/\b([a-z_]+)\.\*(?=\s*(,|\n|`|from\b|$))/g)].filter(
    ([, name = ""]) => !isDerived(name),
  );
  return [...bare, ...named].map(([star]) => star);
}

/** What stands behind the next `from`, up to the condition, with everything in parentheses left out. */
function sourceOf(rest: string): string {
  let depth = 0;
  let flat = "";
  for (const character of rest) {
    if (character === ")") depth -= 1;
    if (depth < 0) break;
    if (depth === 0) flat += character;
    if (character === "(") depth += 1;
  }
  const [, source = ""] =
    flat.match(/\bfrom\s+([\s\S]*?)(?:\b(?:where|order|group|limit|union|on conflict)\b|`|;|$)/) ?? [];
  return source.trim();
}

test("no barrels", () => {
  const named = files.filter((file) => /(^|\/)index\.ts$/.test(file));
  const passingOn = files.filter((file) =>
    /^\s*export\s+(\*|(type\s+)?\{[^}]*\})\s*(as\s+\w+\s*)?from\b/m.test(sources.get(file) ?? ""),
  );
  expect([...named, ...passingOn]).toEqual([]);
});

test(`no file has more than ${LINES_MAX} lines`, () => {
  const long = files
    .map((file) => ({ file, lines: (sources.get(file) ?? "").split("\n").length - 1 }))
    .filter(({ lines }) => lines > LINES_MAX);
  expect(long).toEqual([]);
});

test("paths and commands named in the documentation exist", () => {
  const papers = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
  const missing = papers
    .filter((paper) => existsSync(join(ROOT, paper)))
    .flatMap((paper) => {
      const text = readFileSync(join(ROOT, paper), "utf8");
      return [...missingPaths(text), ...missingScripts(text)].map((name) => `${paper}: ${name}`);
    });
  expect(missing).toEqual([]);
});

/** In code spans, what begins with one of our folders or is a file at the top; "{a,b}" and "*" count when one file fits. */
function missingPaths(text: string): string[] {
  const spans = [...text.matchAll(/`([^`\s]+)`/g)].map((match) => match[1] ?? "");
  const links = [...text.matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)/g)].map((match) => match[1] ?? "");
  const ours = /^(core|db|api|worker|indexer|local|ops|deploy|bench|tests|docs|\.ci)\/[\w./*{},-]*$/;
  const paths = [...spans.filter((span) => ours.test(span)), ...links];
  return paths.filter(
    (path) => !existsSync(join(ROOT, path)) && new Bun.Glob(path).scanSync(ROOT).next().done,
  );
}

function missingScripts(text: string): string[] {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    scripts: Record<string, string>;
  };
  const named = [...text.matchAll(/\b(?:bun|npm) run ([a-z][\w:-]*)/g)].map((match) => match[1] ?? "");
  return named.filter((name) => !(name in scripts));
}

/** The first circle as a list of files; undefined when there is none. */
function findCircle(graph: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return undefined;
    for (const target of graph.get(file) ?? []) {
      const circle = visit(target, [...path, file]);
      if (circle) return circle;
    }
    done.add(file);
    return undefined;
  };
  for (const file of graph.keys()) {
    const circle = visit(file, []);
    if (circle) return circle;
  }
  return undefined;
}
