/** The docs are true: every variable a process reads is in the README's table and in .env.example, and what they name exists. */
import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { readApiConfig } from "../api/config.ts";
import { exportBody } from "../api/exports/check-export-request.ts";
import { EVENT_TYPES } from "../core/domain/event-types.ts";
import { IDEMPOTENCY_KEYS_KEPT_DAYS } from "../core/domain/retention.ts";
import { EnvError, postgresUrl, readEnv } from "../core/runtime/env.ts";
import { readIndexerConfig } from "../indexer/config.ts";
import { readBackupConfig, readRestoreConfig } from "../ops/backup/configuration.ts";
import { readSealConfig, readWorkerConfig } from "../worker/config.ts";

const ROOT = join(import.meta.dir, "..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const CONFIGS = [
  "core/runtime/env.ts",
  "core/runtime/chain-env.ts",
  "api/config.ts",
  "worker/config.ts",
  "indexer/config.ts",
  "ops/backup/configuration.ts",
];

function variablesOf(path: string): string[] {
  return [...read(path).matchAll(/^ {2}([A-Z][A-Z0-9_]{3,}):/gm)].map((match) => match[1] ?? "");
}

const variables = [...new Set([...CONFIGS.flatMap(variablesOf), "DATA_DIR", "CHAIN_PORT", "BLOCK_TIME_S"])];

test("there are variables to check", () => {
  expect(variables.length).toBeGreaterThan(30);
});

for (const file of ["README.md", ".env.example"]) {
  test(`${file} names every environment variable`, () => {
    const text = read(file);
    expect(variables.filter((name) => !new RegExp(`\\b${name}\\b`).test(text))).toEqual([]);
  });
}

test(".env.example lists a variable under the one process that reads it, or under several", () => {
  const readers = { api: readApiConfig, worker: readWorkerConfig, indexer: readIndexerConfig };
  type Process = keyof typeof readers;
  const reads = (process: Process, name: string) => {
    try {
      readers[process]({ [`${name}_FILE`]: "/not/there" });
    } catch (error) {
      return error instanceof EnvError && error.faults.some((fault) => fault.startsWith(`${name}_FILE:`));
    }
    return false;
  };
  const expected = (name: string) => {
    const processes = (Object.keys(readers) as Process[]).filter((process) => reads(process, name));
    return processes.length > 1 ? "all processes" : processes[0];
  };
  const sections = read(".env.example")
    .split("\n\n")
    .map((text) => {
      const [title = "", ...lines] = text.split("\n");
      const names = lines.flatMap((line) => /^#? ?([A-Z][A-Z0-9_]+)=/.exec(line)?.[1] ?? []);
      return { title: /^# (api|worker|indexer|all processes)/.exec(title)?.[1], names };
    });
  const listed = sections.flatMap(({ title, names }) => (title ? names.map((name) => [name, title]) : []));
  expect(listed.length).toBeGreaterThan(40);
  expect(listed.filter(([name = "", title]) => expected(name) !== title)).toEqual([]);
});

for (const file of ["README.md", "docs/OPERATIONS.md", "docs/KEYS.md", "deploy/systemd/README.md"]) {
  test(`every script that ${file} names exists`, () => {
    const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
    const named = [...read(file).matchAll(/(?:(?:npm|bun) run|systemd\/run) ([a-z][a-z:-]*)/g)].map(
      (match) => match[1] ?? "",
    );
    expect(named.length).toBeGreaterThan(2);
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });
}

test("every log line that the runbook quotes is one that a process writes", () => {
  const quoted = [...read("docs/OPERATIONS.md").matchAll(/log "([^"]+)"/g)].map(([, line = ""]) => line);
  expect(quoted.length).toBeGreaterThan(4);
  const sources = ["api", "worker", "indexer", "db", "core"]
    .flatMap((folder) => [...new Bun.Glob(`${folder}/**/*.ts`).scanSync(ROOT)])
    .map(read)
    .join("\n");
  expect(quoted.filter((line) => !sources.includes(line))).toEqual([]);
});

test("the CI workflow runs programs that exist, and the upgrade test with the full history", () => {
  const workflow = read(".github/workflows/ci.yml");
  const programs = [...workflow.matchAll(/run: (?:node bootstrap\.mjs --dev )?(\S+)$/gm)].map(
    ([, path = ""]) => path,
  );
  expect(programs).toEqual([".ci/run", "tests/ops/rolling-upgrade.ts"]);
  expect(programs.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  expect(workflow.slice(workflow.indexOf("upgrade:"))).toContain("fetch-depth: 0");
});

test("the release workflow runs programs and scripts that exist", () => {
  const workflow = read(".github/workflows/release.yml");
  const programs = [...workflow.matchAll(/bootstrap\.mjs (?:--dev )?(\S+\.ts)/g)].map(
    ([, path = ""]) => path,
  );
  expect(programs).toEqual(["web/build.ts", "local/sbom.ts", "sdk/build.ts"]);
  expect(programs.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
  const named = [...workflow.matchAll(/run: npm (?:run )?(\w+)$/gm)].map(([, name = ""]) => name);
  expect(named).toEqual(["check", "test"]);
  expect(named.filter((name) => !(name in scripts))).toEqual([]);
});

test("a filled-in .env and the backups of this folder are excluded from commits and images", () => {
  for (const file of [".gitignore", ".dockerignore"]) {
    const names = read(file)
      .split("\n")
      .map((line) => line.replace(/^\//, "").replace(/\/$/, ""));
    expect([file, ...[".env", ".env.*", "backups"].filter((name) => !names.includes(name))]).toEqual([file]);
  }
});

test("the guide says how long an Idempotency-Key is valid", () => {
  const kept = [...read("docs/guides/idempotency.md").matchAll(/\b(\d+ (?:hours|days))\b/g)].map(
    ([, time]) => time,
  );
  expect([...new Set(kept)]).toEqual([`${IDEMPOTENCY_KEYS_KEPT_DAYS} days`]);
});

test("the guide lists every event type, and no other", () => {
  const cells = [...read("docs/guides/events.md").matchAll(/^\| (`\w+\.\w+`.*?) \|/gm)];
  const listed = cells.flatMap(([, cell = ""]) => {
    const names = [...cell.matchAll(/`([\w.]+)`/g)].map(([, name = ""]) => name);
    const [subject] = (names[0] ?? "").split(".");
    return names.map((name) => (name.startsWith(".") ? `${subject}${name}` : name));
  });
  expect(listed.sort()).toEqual([...EVENT_TYPES].sort());
});

test("the guide lists every format that an export may have", () => {
  const listed = [...read("docs/guides/exports.md").matchAll(/^\| ((?:`\w+`(?:, )?)+) \|/gm)].flatMap(
    ([, cell = ""]) => [...cell.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name),
  );
  expect(listed.sort()).toEqual([...exportBody.shape.format.options].sort());
});

test("every relative link of the docs leads to a file, and every anchor to a heading", () => {
  const files = ["*.md", "docs/*.md", "deploy/**/*.md", "examples/*.md", "sdk/*.md"].flatMap((pattern) => [
    ...new Bun.Glob(pattern).scanSync(ROOT),
  ]);
  const anchorsOf = (text: string) =>
    [...text.replace(/```[\s\S]*?```/g, "").matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
      heading
        .toLowerCase()
        .replace(/[^\w\- ]/g, "")
        .replaceAll(" ", "-"),
    );
  const links = files.flatMap((file) =>
    [...read(file).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) => ({ file, link })),
  );
  const relative = links.filter(({ link }) => !/^[a-z]+:/.test(link));
  expect(relative.length).toBeGreaterThan(30);
  const broken = relative.filter(({ file, link }) => {
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? file : join(dirname(file), path);
    if (!existsSync(join(ROOT, target))) return true;
    return anchor !== undefined && target.endsWith(".md") && !anchorsOf(read(target)).includes(anchor);
  });
  expect(broken).toEqual([]);
});

test("every command that the docs run in a container is a file, of a service that has its secrets", () => {
  const { services } = Bun.YAML.parse(read("deploy/compose/compose.yaml")) as {
    services: Record<string, { secrets?: string[] }>;
  };
  const needs: Record<string, (env: Record<string, string>) => unknown> = {
    "ops/migrate-main.ts": (env) => readEnv({ DATABASE_URL: postgresUrl }, env),
    "ops/backup-main.ts": readBackupConfig,
    "ops/restore-main.ts": readRestoreConfig,
    "indexer/rebuild-main.ts": readIndexerConfig,
    "worker/reseal-main.ts": readSealConfig,
  };
  const commands = [
    ...read("docs/OPERATIONS.md").matchAll(/`([a-z0-9-]+) ((?:ops|indexer|worker)\/\S+\.ts)/g),
  ];
  expect(commands.map(([, , file = ""]) => file).sort()).toEqual(Object.keys(needs).sort());
  for (const [, service = "", file = ""] of commands) {
    expect([file, existsSync(join(ROOT, file))]).toEqual([file, true]);
    const names = (services[service]?.secrets ?? []).map((name) => name.toUpperCase());
    let faults: readonly string[] = [];
    try {
      needs[file]?.({ NETWORKS: "base" });
    } catch (error) {
      faults = error instanceof EnvError ? error.faults : [];
    }
    const missing = faults.map((fault) => /^[A-Z_]+/.exec(fault)?.[0] ?? "");
    expect(missing.length).toBeGreaterThan(0);
    expect([file, missing.filter((name) => !names.includes(name))]).toEqual([file, []]);
  }
});
