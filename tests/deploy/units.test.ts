/** The units of deploy/systemd and the manifests of deploy/kubernetes: each process starts with the secrets that it is given. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readApiConfig } from "../../api/config.ts";
import { postgresUrl, readEnv } from "../../core/runtime/env.ts";
import { readIndexerConfig } from "../../indexer/config.ts";
import { readBackupConfig } from "../../ops/backup/configuration.ts";
import { writeFiles } from "../../ops/install/write-files.ts";
import { readWorkerConfig } from "../../worker/config.ts";

const ROOT = join(import.meta.dir, "../..");
const UNITS = join(ROOT, "deploy/systemd");
const folder = mkdtempSync(join(tmpdir(), "test-units-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Environment = Record<string, string>;
const READERS: Record<string, (env: Environment) => unknown> = {
  "api/main.ts": readApiConfig,
  "worker/main.ts": readWorkerConfig,
  "indexer/main.ts": readIndexerConfig,
  "ops/migrate-main.ts": (env) => readEnv({ DATABASE_URL: postgresUrl }, env),
  "ops/backup-main.ts": readBackupConfig,
};
const answers = {
  domain: "pay.example.com",
  networks: ["base", "base-sepolia"],
  rpcUrls: { base: "https://node.example.com/key", "base-sepolia": "https://node.example.com/other" },
  smtpUrl: "smtps://user:password@mail.example.com",
  mailFrom: "Payments <no-reply@pay.example.com>",
} as const;

/** Throws with every secret, and again for each one that is missing: none is given in vain. */
function expectExactly(
  read: (env: Environment) => unknown,
  env: Environment,
  secrets: readonly string[],
): void {
  expect(() => read(env)).not.toThrow();
  for (const name of secrets) {
    const without = { ...env, [`${name}_FILE`]: "/not/there" };
    expect(() => read(without)).toThrow(name);
  }
}

describe("deploy/systemd", () => {
  const names = readdirSync(UNITS).filter((name) => name.startsWith("usdc-payments"));
  const services = names.filter((name) => name.endsWith(".service"));
  const { env } = writeFiles(answers, { folder, kind: "systemd" });
  const settings = Object.fromEntries(Object.entries(env).filter(([name]) => !name.endsWith("_FILE")));

  const valuesOf = (text: string, key: string) =>
    [...text.matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map((match) => match[1] ?? "");

  test("each unit has the credentials its process reads, and no others", () => {
    expect(services).toHaveLength(5);
    for (const name of services) {
      const text = readFileSync(join(UNITS, name), "utf8");
      const credentials = new Map(
        valuesOf(text, "LoadCredential").map((one) => one.split(":") as [string, string]),
      );
      const files = Object.fromEntries(
        valuesOf(text, "Environment")
          .map((one) => one.split("=") as [string, string])
          .filter(([variable]) => variable.endsWith("_FILE"))
          .map(([variable, value]) => {
            const source = credentials.get(value.replace("%d/", "")) ?? "/missing";
            return [variable, source.replace("/etc/usdc-payment-service", folder)];
          }),
      );
      expect(Object.keys(files)).toHaveLength(credentials.size);
      const script = /bun --no-env-file (\S+)/.exec(valuesOf(text, "ExecStart")[0] ?? "")?.[1] ?? "";
      expect(statSync(join(ROOT, script)).isFile()).toBe(true);
      const read = READERS[script];
      if (!read) throw new Error(`${name} starts ${script}`);
      expectExactly(
        read,
        { ...settings, ...files },
        Object.keys(files).map((file) => file.replace("_FILE", "")),
      );
    }
  });

  test("no unit is stopped by a restart of another, as an upgrade restarts the migration while processes run", () => {
    for (const name of services) {
      const text = readFileSync(join(UNITS, name), "utf8");
      const bound = ["Requires", "Requisite", "BindsTo", "PartOf"].flatMap((key) => valuesOf(text, key));
      expect(bound.filter((unit) => unit.endsWith(".service"))).toEqual([]);
      if (/Restart=always/.test(text))
        expect(valuesOf(text, "Wants").join(" ")).toContain("usdc-payments-migrate.service");
    }
  });

  test("a command runs with the settings and secrets of the deployment, and a wrong call says what is wrong", () => {
    const run = (...args: string[]) => {
      const environment = { PATH: process.env.PATH ?? "", HOME: folder, SETTINGS_FOLDER: folder };
      const { exitCode, stdout, stderr } = Bun.spawnSync([join(UNITS, "run"), ...args], { env: environment });
      return { exitCode, output: stdout.toString() + stderr.toString() };
    };
    expect(run("doctor", "--offline")).toMatchObject({
      exitCode: 0,
      output: expect.stringContaining("✓ configuration api, worker and indexer accept the environment"),
    });
    expect(run("backup", "--keep", "0").exitCode).toBe(64);
    expect(run()).toMatchObject({ exitCode: 64, output: expect.stringContaining("run COMMAND") });
    expect(run("backups")).toMatchObject({
      exitCode: 64,
      output: expect.stringContaining("there is no command backups"),
    });
  });

  test("settings reach a command as systemd reads them: nothing in them is run or expanded", () => {
    const own = mkdtempSync(join(folder, "settings-"));
    mkdirSync(join(own, "secrets"));
    writeFileSync(join(own, "secrets/jwt_secret"), "s");
    writeFileSync(join(own, "secrets/jwt_secret~"), "s");
    const lines = [
      ...[
        "# a comment",
        "; another",
        "",
        "RP_NAME=Our Shop",
        'MAIL_FROM="\\"Cash $5\\" `id` $(id) <a@b.test>"',
      ],
      "BASE_URL='https://pay.example.com'",
    ];
    writeFileSync(join(own, "service.env"), lines.join("\n"));
    writeFileSync(join(own, "npm"), "#!/bin/sh\nenv\n", { mode: 0o755 });
    const environment = { PATH: `${own}:${process.env.PATH}`, SETTINGS_FOLDER: own };
    const { exitCode, stdout } = Bun.spawnSync([join(UNITS, "run"), "doctor"], { env: environment });
    expect(exitCode).toBe(0);
    const given = stdout.toString().split("\n");
    expect(given).toContain("RP_NAME=Our Shop");
    expect(given).toContain('MAIL_FROM="Cash $5" `id` $(id) <a@b.test>');
    expect(given).toContain("BASE_URL=https://pay.example.com");
    expect(given.filter((line) => line.includes("_FILE="))).toEqual([
      `JWT_SECRET_FILE=${join(own, "secrets/jwt_secret")}`,
    ]);
  });

  test("root's secrets are readable only by root", () => {
    for (const name of readdirSync(join(folder, "secrets")))
      expect(statSync(join(folder, "secrets", name)).mode & 0o777).toBe(0o400);
  });

  test("systemd, where it is installed, accepts every unit", async () => {
    const program = Bun.which("systemd-analyze");
    const draft = mkdtempSync(join(folder, "verify-"));
    for (const name of names) {
      const text = readFileSync(join(UNITS, name), "utf8")
        .replaceAll("/opt/usdc-payment-service/bun", process.execPath)
        .replaceAll("/opt/usdc-payment-service", ROOT);
      expect(text).toMatch(/^\[Unit\]\nDescription=/);
      writeFileSync(join(draft, name.replace("@.", "@6.")), text);
    }
    if (!program) return;
    const child = Bun.spawn(
      [program, "verify", "--man=no", ...readdirSync(draft).map((name) => join(draft, name))],
      { stdout: "pipe", stderr: "pipe", env: { ...process.env, SYSTEMD_UNIT_PATH: `${draft}:` } },
    );
    const output = (await new Response(child.stderr).text()).split("\n");
    // units of the machine are read too, and may have faults of their own
    expect(output.filter((line) => line.includes("usdc-payments"))).toEqual([]);
  });
});

describe("deploy/kubernetes", () => {
  type Container = {
    args: string[];
    image: string;
    ports?: { name: string; containerPort: number }[];
    livenessProbe?: Probe;
    readinessProbe?: Probe;
    securityContext: { readOnlyRootFilesystem: boolean; allowPrivilegeEscalation: boolean };
    resources: { limits: { memory: string } };
  };
  type Probe = { httpGet: { path: string; port: string } };
  type Pod = {
    securityContext: { runAsNonRoot: boolean; seccompProfile: { type: string } };
    terminationGracePeriodSeconds: number;
    containers: Container[];
    volumes: { name: string; secret?: { secretName: string } }[];
  };
  type Manifest = {
    kind: string;
    metadata: { name: string; namespace?: string; labels?: Record<string, string> };
    data?: Environment;
    stringData?: Environment;
    spec?: {
      template?: { metadata: { labels: { app: string } }; spec: Pod };
      selector?: { matchLabels?: { app: string }; app?: string };
      jobTemplate?: { spec: { template: { spec: Pod } } };
      replicas?: number;
    };
  };
  const FOLDER = join(ROOT, "deploy/kubernetes");
  const readManifests = (name: string) =>
    [Bun.YAML.parse(readFileSync(join(FOLDER, name), "utf8"))].flat() as Manifest[];
  const manifests = readdirSync(FOLDER).flatMap(readManifests);
  const pods = manifests.flatMap(({ metadata, spec }) => {
    const pod = spec?.template?.spec ?? spec?.jobTemplate?.spec.template.spec;
    return pod ? [{ name: metadata.name, pod }] : [];
  });

  test("each pod starts with the secret it mounts, without root and on a read-only file system", () => {
    expect(pods.map(({ name }) => name).sort()).toEqual(["api", "backup", "indexer", "migrate", "worker"]);
    writeFiles(answers, { folder, kind: "compose" });
    const settings = manifests.find(({ kind }) => kind === "ConfigMap")?.data ?? {};
    for (const { name, pod } of pods) {
      const [container] = pod.containers;
      const mounted = pod.volumes.find((volume) => volume.name === "secrets")?.secret?.secretName;
      const secret = manifests.find(({ kind, metadata }) => kind === "Secret" && metadata.name === mounted);
      const keys = Object.keys(secret?.stringData ?? {});
      const env = Object.fromEntries(
        Object.entries(settings).map(([variable, value]) => {
          const [, key = ""] = /^\/run\/secrets\/(\w+)$/.exec(value) ?? [];
          if (key === "") return [variable, value];
          return [variable, keys.includes(key) ? join(folder, "secrets", key) : "/not/mounted"];
        }),
      );
      const read = READERS[container?.args[0] ?? ""];
      if (!read) throw new Error(`${name} starts ${container?.args}`);
      expectExactly(
        read,
        env,
        keys.map((key) => key.toUpperCase()),
      );
      expect(pod.securityContext.runAsNonRoot).toBe(true);
      expect(container?.securityContext).toMatchObject({
        ...{ readOnlyRootFilesystem: true, allowPrivilegeEscalation: false },
      });
      expect(container?.resources.limits.memory).toMatch(/^\d+[MG]i$/);
    }
  });

  test("a second indexer is on standby, and every object is in the namespace", () => {
    const indexer = manifests.find(
      ({ kind, metadata }) => kind === "Deployment" && metadata.name === "indexer",
    );
    expect(indexer?.spec?.replicas).toBe(2);
    const elsewhere = manifests.filter(
      ({ kind, metadata }) => kind !== "Namespace" && metadata.namespace !== "usdc-payments",
    );
    expect(elsewhere).toEqual([]);
  });

  test("applying a new version overwrites no secret and changes no job, since jobs are immutable", () => {
    const kinds = (name: string) => new Set(readManifests(name).map(({ kind }) => kind));
    expect([...kinds("secrets.example.yaml")]).toEqual(["Secret"]);
    expect([...kinds("migrate.yaml")]).toEqual(["Job"]);
    const service = kinds("service.yaml");
    expect([service.has("Secret"), service.has("Job")]).toEqual([false, false]);
    expect(new Set(pods.map(({ pod }) => pod.containers[0]?.image)).size).toBe(1);
  });

  test("every selector finds pods, and every probe names a port of its container", () => {
    const apps = pods.filter(({ name }) => ["api", "worker", "indexer"].includes(name));
    for (const { name, pod } of apps) {
      const [container] = pod.containers;
      const ports = (container?.ports ?? []).map((port) => port.name);
      expect(ports).toContain("metrics");
      for (const probe of [container?.livenessProbe, container?.readinessProbe])
        expect(ports).toContain(probe?.httpGet.port ?? "none");
      // DRAIN_S, the longest wait of a request, and 5 s
      expect([name, pod.terminationGracePeriodSeconds]).toEqual([name, 60]);
    }
    const labels = manifests.flatMap(({ spec }) => spec?.template?.metadata?.labels?.app ?? []);
    for (const { kind, metadata, spec } of manifests) {
      const selected = spec?.selector?.matchLabels?.app ?? spec?.selector?.app;
      if (kind === "NetworkPolicy" || selected === undefined) continue;
      expect([kind, metadata.name, labels.includes(selected)]).toEqual([kind, metadata.name, true]);
    }
  });

  test("Prometheus scrapes the pods with the labels that the alert rules need", () => {
    type Config = {
      rule_files: string[];
      scrape_configs: {
        job_name: string;
        honor_labels: boolean;
        kubernetes_sd_configs: { role: string; namespaces: { names: string[] } }[];
        relabel_configs: { source_labels: string[]; target_label?: string; regex?: string }[];
      }[];
    };
    const text = readFileSync(join(ROOT, "deploy/prometheus/kubernetes.yaml"), "utf8");
    const { rule_files, scrape_configs } = Bun.YAML.parse(text) as Config;
    expect(rule_files).toEqual(["alerts.yaml"]);
    const [config] = scrape_configs;
    // the rules say job="usdc-payments" and process="api"
    expect(config).toMatchObject({ job_name: "usdc-payments", honor_labels: true });
    expect(config?.kubernetes_sd_configs).toEqual([
      { role: "pod", namespaces: { names: ["usdc-payments"] } },
    ]);
    const process = config?.relabel_configs.find(({ target_label }) => target_label === "process");
    expect(process?.source_labels).toEqual(["__meta_kubernetes_pod_label_app"]);
    const kept = config?.relabel_configs.find(({ regex }) => regex === "metrics");
    expect(kept?.source_labels).toEqual(["__meta_kubernetes_pod_container_port_name"]);
  });
});
