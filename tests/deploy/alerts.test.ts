/** The alert rules and the dashboard name metrics that the processes have, and each alert is in the runbook. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { privateKeyToAccount } from "viem/accounts";
import { openDatabase } from "../../db/postgres/client.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { findFreePort } from "../../local/free-port.ts";
import { type ServiceProcess, startServiceProcess } from "../../local/processes/service-process.ts";
import { SERVICE_KINDS, serviceEnv } from "../../local/service-env.ts";
import { SCENARIOS } from "../ops/game-day-scenarios.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { serviceProgram } from "../support/compiled-services.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { waitFor } from "../support/relay-lab.ts";

const ROOT = join(import.meta.dir, "../..");
const FOLDER = join(ROOT, "deploy/prometheus");
const SECRETS = {
  jwtSecret: "4f3c2b1a09f8e7d6c5b4a39281706152",
  otpPepper: "99aa88bb77cc66dd55ee44ff33002211",
};
/** Written by Prometheus itself. */
const OF_PROMETHEUS = ["up"];

let db: TestDatabase;
let chain: TestChain;
let mailbox: TestMailbox;
const dataDir = mkdtempSync(join(tmpdir(), "test-alerts-"));
const processes: ServiceProcess[] = [];
const metricsPorts = new Map<(typeof SERVICE_KINDS)[number], number>();
/** Every process's metrics as scraped. */
let scraped: string;

beforeAll(async () => {
  [db, chain, mailbox] = await Promise.all([createTestDatabase(), startTestChain(), startTestMailbox()]);
  const settings = {
    ...{ databaseUrl: db.url, rpcUrls: { "base-sepolia": chain.rpcUrl }, smtpUrl: mailbox.smtpUrl, dataDir },
    ...{ ...SECRETS, relayerKeys: localRelayerKeys().join(",") },
  };
  const texts: string[] = [];
  for (const kind of SERVICE_KINDS) {
    const [port, metricsPort] = [await findFreePort(), await findFreePort()];
    metricsPorts.set(kind, metricsPort);
    const { PATH, HOME } = process.env;
    const given = { PATH, HOME, PORT: String(port), METRICS_PORT: String(metricsPort) };
    const env = serviceEnv(kind, settings, given);
    processes.push(await startServiceProcess(kind, env, () => {}, serviceProgram(kind)));
    texts.push(
      await waitFor(`${kind} to be scraped`, async () => {
        const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`).catch(() => undefined);
        const text = (await response?.text()) ?? "";
        // the last metric that each kind registers
        const isWhole = {
          api: "http_request_duration_seconds",
          worker: "wallet_operations_",
          indexer: "indexer_leader",
        };
        return text.includes(isWhole[kind]) && text;
      }),
    );
  }
  scraped = texts.join("\n");
}, 180_000);
afterAll(async () => {
  await Promise.all(processes.map((child) => child.stop()));
  await Promise.all([db?.drop(), chain?.stop(), mailbox?.stop()]);
  rmSync(dataDir, { recursive: true, force: true });
});

const metricNames = () => new Set([...scraped.matchAll(/^# TYPE (\S+)/gm)].map((match) => match[1] ?? ""));

/** The metrics that an expression reads. */
function namesIn(expression: string): string[] {
  const bare = expression
    .replace(/\{[^}]*\}/g, "")
    .replace(/\b(by|without|on|ignoring) \([^)]*\)/g, "")
    .replace(/\[[^\]]*\]/g, "");
  return [...bare.matchAll(/\b([a-z][a-z0-9_]*)\b(?!\s*\()/g)]
    .map((match) => match[1] ?? "")
    .filter((name) => name.includes("_") || OF_PROMETHEUS.includes(name))
    .map((name) => name.replace(/_(bucket|count|sum)$/, ""));
}

type Rule = {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: { summary: string; runbook: string };
};
type Rules = { groups: { rules: Rule[] }[] };
const rules = (Bun.YAML.parse(readFileSync(join(FOLDER, "alerts.yaml"), "utf8")) as Rules).groups.flatMap(
  (group) => group.rules,
);
const dashboard = JSON.parse(readFileSync(join(ROOT, "deploy/grafana/dashboard.json"), "utf8")) as {
  panels: { title: string; targets: { expr: string }[] }[];
};

describe("the operator's page", () => {
  for (const kind of SERVICE_KINDS) {
    test(`${kind} serves it on its metrics port, with every process and relayer and without a secret`, async () => {
      const [key = "0x"] = localRelayerKeys();
      const address = privateKeyToAccount(key).address.toLowerCase();
      const page = await waitFor(`the page of ${kind} to name every process`, async () => {
        const response = await fetch(`http://127.0.0.1:${metricsPorts.get(kind)}/ops`);
        expect(response.status).toBe(200);
        expect(response.headers.get("content-security-policy")).toContain("default-src 'none'");
        const text = await response.text();
        const isWhole = SERVICE_KINDS.every((one) => text.includes(`"Process">${one}<`));
        return isWhole && text.includes(address) && text;
      });
      expect(page).not.toContain("<script");
      expect(page).toMatch(/Schema <code>\d{4}_\w+/);
      const secrets = [SECRETS.jwtSecret, SECRETS.otpPepper, key.slice(2), db.url, chain.rpcUrl];
      for (const secret of secrets) expect(page).not.toContain(secret);
    });
  }
});

describe("metrics", () => {
  test("every metric in a rule or panel is exported by a process", () => {
    const expressions = [
      ...rules.map(({ alert, expr }) => [alert, expr] as const),
      ...dashboard.panels.flatMap(({ title, targets }) => targets.map(({ expr }) => [title, expr] as const)),
    ];
    expect(expressions.length).toBeGreaterThan(30);
    const known = metricNames();
    const missing = expressions.flatMap(([name, expr]) => {
      const names = namesIn(expr);
      expect([name, names.length > 0]).toEqual([name, true]);
      return names
        .filter((one) => !known.has(one) && !OF_PROMETHEUS.includes(one))
        .map((one) => `${name}: ${one}`);
    });
    expect(missing).toEqual([]);
  });

  test("the disk's figures are those of the machine", () => {
    const readValue = (name: string) => Number(new RegExp(`^${name}\\{.*\\} (.*)$`, "m").exec(scraped)?.[1]);
    expect(readValue("machine_disk_free_bytes")).toBeGreaterThan(0);
    expect(readValue("machine_disk_total_bytes")).toBeGreaterThanOrEqual(
      readValue("machine_disk_free_bytes"),
    );
  });
});

describe("the runbook", () => {
  const runbook = readFileSync(join(ROOT, "docs/OPERATIONS.md"), "utf8");
  const entryOf = (alert: string) =>
    new RegExp(`^#### \`${alert}\`\n\n((?:(?:- | {2}).*\n)+)`, "m").exec(runbook)?.[1] ?? "";

  test("has an entry for each alert: symptom, cause, fix, and the metric that shows the end", () => {
    expect([...runbook.matchAll(/^#### `(\w+)`$/gm)].map(([, name]) => name)).toEqual(
      rules.map(({ alert }) => alert),
    );
    for (const { alert, expr, labels, annotations } of rules) {
      const entry = entryOf(alert);
      const [, severity = ""] =
        /^- \*\*Seen:\*\* (\w+), .+\n- \*\*Cause:\*\* .+\n- \*\*Cure:\*\* [\s\S]+\n- \*\*Over when:\*\* .+\n$/.exec(
          entry,
        ) ?? [];
      expect([alert, severity]).toEqual([alert, labels.severity]);
      expect(["critical", "warning"]).toContain(severity);
      expect(annotations.runbook).toBe(`docs/OPERATIONS.md#${alert.toLowerCase()}`);
      const [, end = ""] = entry.split("**Over when:**");
      const known = namesIn(expr);
      const named = known.filter((name) => entry.includes(name));
      expect([alert, named]).toEqual([alert, known]);
      expect([alert, end.length > 20]).toEqual([alert, true]);
    }
  });

  test("names only metrics that a process exports", () => {
    const schema = readFileSync(join(ROOT, "db/schema.sql"), "utf8");
    const families =
      "indexer|relay|relays|relayer|payment|payments|wallet|queue|http|machine|process|database";
    const named = [...runbook.matchAll(new RegExp(`\`((?:${families})_[a-z0-9_]+)(?:\\{[^}]*\\})?\``, "g"))]
      .map(([, name = ""]) => name.replace(/_(bucket|count|sum)$/, ""))
      .filter((name) => !new RegExp(`\\b${name}\\b`).test(schema));
    expect(named.length).toBeGreaterThan(20);
    const known = metricNames();
    expect(named.filter((name) => !known.has(name))).toEqual([]);
  });

  test("the exercise provokes every alert, and follows its entry", () => {
    expect(SCENARIOS.map(({ alert }) => alert).toSorted()).toEqual(
      rules.map(({ alert }) => alert).toSorted(),
    );
    const unwritten = SCENARIOS.filter(({ alert, cureText }) => !entryOf(alert).includes(cureText));
    expect(unwritten.map(({ alert, cureText }) => `${alert}: ${cureText}`)).toEqual([]);
  });

  test("every statement in it runs on the current schema", async () => {
    const statements = [
      ...[...runbook.matchAll(/```sql\n([\s\S]*?)```/g)].flatMap(([, block = ""]) =>
        block.trim().split(/;\n?/),
      ),
      ...[...runbook.matchAll(/`((?:select|update|delete) [^`]+)`/g)].map(([, statement = ""]) => statement),
    ].filter((statement) => statement.trim() !== "");
    expect(statements.length).toBeGreaterThan(12);
    const sql = openDatabase(db.url, { name: "test", maxConnections: 1 });
    for (const statement of statements) {
      const text = statement.replaceAll("…", "x");
      const failure = await sql
        .begin(async (tx) => {
          await tx.unsafe(text);
          throw new RolledBack();
        })
        .catch((error: unknown) => (error instanceof RolledBack ? undefined : String(error)));
      expect([statement, failure]).toEqual([statement, undefined]);
    }
    await sql.end({ timeout: 5 });
  });
});

class RolledBack extends Error {}

test("promtool, where it is installed, accepts the rules and their tests", async () => {
  expect(rules.length).toBeGreaterThan(15);
  const program = Bun.which("promtool");
  if (!program) return;
  for (const args of [
    ["check", "config", "prometheus.yaml"],
    ["check", "rules", "alerts.yaml"],
    ["test", "rules", "alerts.test.yaml"],
  ]) {
    const child = Bun.spawn([program, ...args], { cwd: FOLDER, stdout: "pipe", stderr: "pipe" });
    const output = (await new Response(child.stdout).text()) + (await new Response(child.stderr).text());
    expect({ args, code: await child.exited, output: output.includes("FAILED") }).toEqual({
      ...{ args, code: 0, output: false },
    });
  }
});
