/** `./deploy/install` asks five questions and writes what the containers and units of deploy/ need, each secret for those that use it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { appendFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readApiConfig } from "../../api/config.ts";
import { postgresUrl, readEnv } from "../../core/runtime/env.ts";
import { readIndexerConfig } from "../../indexer/config.ts";
import { findFreePort } from "../../local/free-port.ts";
import { askAll } from "../../ops/install/questions.ts";
import { readWorkerConfig } from "../../worker/config.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";

const ROOT = join(import.meta.dir, "../..");
const folder = mkdtempSync(join(tmpdir(), "test-install-"));
let chain: TestChain;
let mailbox: TestMailbox;
let port: number;

beforeAll(async () => {
  [chain, mailbox, port] = await Promise.all([startTestChain(), startTestMailbox(), findFreePort()]);
}, 120_000);
afterAll(async () => {
  await Promise.all([chain?.stop(), mailbox?.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

async function install(lines: readonly string[], ...args: string[]) {
  const child = Bun.spawn(["sh", "deploy/install", "--folder", folder, ...args], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, HOME: process.env.HOME },
    ...({ stdin: Buffer.from(`${lines.join("\n")}\n`), stdout: "pipe", stderr: "pipe" } as const),
  });
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, output, errors };
}

const secret = (name: string) => readFileSync(join(folder, "secrets", name), "utf8");
const answers = () => [`localhost:${port}`, "base-sepolia", chain.rpcUrl, mailbox.smtpUrl, ""];

function readEnvFile(): Record<string, string> {
  const lines = readFileSync(join(folder, "service.env"), "utf8").trim().split("\n");
  return Object.fromEntries(
    lines.map((line) => {
      const [, name = "", value = ""] = /^([A-Z_]+)=(.*)$/.exec(line) ?? [];
      return [name, value.startsWith('"') ? (JSON.parse(value) as string) : value];
    }),
  );
}

type Service = {
  command?: string[];
  secrets?: string[];
  user?: string;
  read_only?: boolean;
  cap_drop?: string[];
  mem_limit?: string;
  healthcheck?: unknown;
  restart?: string;
  ports?: string[];
  environment?: Record<string, string>;
  networks?: string[] | Record<string, { aliases?: string[]; ipv4_address?: string }>;
  build?: { target: string };
};
const compose = Bun.YAML.parse(readFileSync(join(ROOT, "deploy/compose/compose.yaml"), "utf8")) as {
  services: Record<string, Service>;
  secrets: Record<string, { file: string }>;
  networks: Record<string, { ipam?: { config: { subnet: string }[] } }>;
};
const ours = Object.entries(compose.services).filter(([, { build }]) => build !== undefined);

test("five answers produce a valid configuration, and the next steps are printed", async () => {
  const { code, output } = await install(answers());
  expect(code).toBe(0);
  expect(output).toContain("✓ configuration");
  expect(output).toContain("✓ chain");
  expect(output).toContain("✓ mail");
  // its ETH is what the operator is asked for
  expect(output).toContain("✗ relayer");
  expect(output.match(/^✗/gm)).toHaveLength(1);
  expect(output).toMatch(/Send some ETH to the relayer 0x[0-9a-f]{40} on base-sepolia/);
  expect(output).toContain("up -d --build");
  for (const name of readdirSync(join(folder, "secrets")))
    if (secret(name).length > 20) expect(output).not.toContain(secret(name));
}, 120_000);

test("secrets are files that others on this machine cannot reach, and none is in the settings", () => {
  expect(statSync(join(folder, "secrets")).mode & 0o777).toBe(0o700);
  const settings =
    readFileSync(join(folder, "service.env"), "utf8") + readFileSync(join(folder, ".env"), "utf8");
  const names = readdirSync(join(folder, "secrets")).sort();
  expect(names).toEqual(Object.keys(compose.secrets).sort());
  for (const name of names) {
    expect(statSync(join(folder, "secrets", name)).mode & 0o777).toBe(0o444);
    if (secret(name) !== "") expect(settings).not.toContain(secret(name));
  }
});

test("the backup's container may write its folder, and may again after Docker made it", async () => {
  const backups = join(folder, "backups");
  const [uid = ""] = (compose.services.backup?.user ?? "").split(":");
  const isRoot = process.getuid?.() === 0;
  const access = () => {
    const { uid: owner, mode } = statSync(backups);
    return { owner, mode: mode & 0o7777 };
  };
  const expected = isRoot
    ? { owner: Number(uid), mode: 0o700 }
    : { owner: process.getuid?.() ?? -1, mode: 0o1777 };
  expect(access()).toEqual(expected);
  rmSync(backups, { recursive: true });
  mkdirSync(backups, { mode: 0o755 });
  expect((await install(answers())).code).toBe(0);
  expect(access()).toEqual(expected);
}, 120_000);

test("a second installation keeps the secrets and the settings that were added, and takes new answers", async () => {
  const names = [
    "postgres_password",
    "jwt_secret",
    "otp_pepper",
    "offer_signing_keys",
    "relayer_private_keys",
    "backup_key",
  ];
  const before = names.map(secret);
  appendFileSync(join(folder, "service.env"), '# ours\nDRAIN_S=20\nRP_NAME="Our Shop"\n');
  const { code, output } = await install([...answers().slice(0, 4), "Shop <shop@example.com>"]);
  expect(code).toBe(0);
  expect(names.map(secret)).toEqual(before);
  expect(output).toContain("Kept unchanged: postgres_password, database_url, jwt_secret");
  expect(output).toContain("DRAIN_S, RP_NAME");
  expect(readEnvFile()).toMatchObject({
    MAIL_FROM: "Shop <shop@example.com>",
    DRAIN_S: "20",
    RP_NAME: "Our Shop",
  });
}, 120_000);

test("error: an input that ends early changes nothing and exits with 1", async () => {
  const { code, errors } = await install(["pay.example.com"]);
  expect(code).toBe(1);
  expect(errors).toContain("the input ended before an answer to: 2. Networks");
  expect(readEnvFile().BASE_URL).toBe(`https://localhost:${port}`);
}, 120_000);

describe("answers", () => {
  const ask = async (given: readonly string[]) => {
    const [rest, complaints] = [[...given], [] as string[]];
    const result = await askAll(
      async () => rest.shift(),
      (text) => void complaints.push(text),
    );
    return { result, complaints };
  };
  const valid = ["pay.example.com", "base", "https://node.example.com", "smtps://mail.example.com", ""];

  test("valid ones are taken, with defaults", async () => {
    const { result, complaints } = await ask(valid);
    expect(complaints).toEqual([]);
    expect(result).toMatchObject({ domain: "pay.example.com", networks: ["base"] });
    expect(result.mailFrom).toBe("Payments <no-reply@pay.example.com>");
  });

  test.each([
    [0, "https://pay.example.com"],
    [0, "co.uk"],
    [1, "ethereum"],
    [2, "node.example.com"],
    [2, "http://node.example.com"],
    [2, "https://node.example.com,ftp://second.example.com"],
    [3, "mail.example.com"],
    [4, "no address"],
  ])("error: question %i refuses %s with a reason and asks again", async (index, wrong) => {
    const given: string[] = [...valid];
    given.splice(index as number, 0, wrong as string);
    const { result, complaints } = await ask(given);
    expect(complaints).toHaveLength(1);
    expect(result.domain).toBe("pay.example.com");
  });
});

describe("deploy/compose/compose.yaml", () => {
  const readers = {
    "api/main.ts": readApiConfig,
    "worker/main.ts": readWorkerConfig,
    "indexer/main.ts": readIndexerConfig,
    "ops/migrate-main.ts": (env: Record<string, string>) => readEnv({ DATABASE_URL: postgresUrl }, env),
  } as const;

  /** As the container sees it: a secret that it does not mount is no file. */
  function environmentOf({ secrets = [] }: Service): Record<string, string> {
    return Object.fromEntries(
      Object.entries(readEnvFile()).map(([name, value]) => {
        const [, file] = /^\/run\/secrets\/(\w+)$/.exec(value) ?? [];
        if (file === undefined) return [name, value];
        return [name, secrets.includes(file) ? join(folder, "secrets", file) : "/not/mounted"];
      }),
    );
  }

  test("each process starts with the secrets it mounts, and not if any of them is missing", () => {
    const tried = ours.filter(([, { command }]) => (command?.[0] ?? "") in readers);
    expect(tried.map(([name]) => name).sort()).toEqual([
      "api",
      "indexer-1",
      "indexer-2",
      "migrate",
      "worker",
    ]);
    for (const [, service] of tried) {
      const read = readers[service.command?.[0] as keyof typeof readers];
      expect(() => read(environmentOf(service))).not.toThrow();
      // of the networks that are not enabled there is nothing to read
      const used = (service.secrets ?? []).filter((name) => name !== "rpc_url_base");
      for (const name of used) {
        const secrets = used.filter((other) => other !== name);
        expect(() => read(environmentOf({ ...service, secrets }))).toThrow(name.toUpperCase());
      }
    }
  });

  test("none of our processes has root, a writable root, capabilities, or unlimited memory", () => {
    expect(ours.length).toBeGreaterThan(5);
    for (const [name, service] of ours) {
      expect({ name, user: service.user, isReadOnly: service.read_only, drop: service.cap_drop }).toEqual({
        ...{ name, user: "65532:65532", isReadOnly: true, drop: ["ALL"] },
      });
      expect(service.mem_limit).toMatch(/^\d+[mg]$/);
    }
    for (const name of ["api", "worker", "indexer-1", "indexer-2", "postgres"])
      expect(compose.services[name]?.healthcheck).toBeDefined();
  });

  test("the proxy reaches the api in the network whose callers are trusted", () => {
    const inside = compose.networks.inside?.ipam?.config[0]?.subnet;
    expect(readEnvFile().TRUSTED_PROXIES).toBe(inside ?? "none");
    const upstream = compose.services.caddy?.environment?.API?.replace(/:3000$/, "");
    expect(upstream).not.toBe("api");
    expect(compose.services.api?.networks).toEqual({
      inside: { aliases: [upstream ?? "none"] },
      outside: {},
    });
  });

  test("no container has a fixed address, which an earlier one could have taken", () => {
    for (const { networks = [] } of Object.values(compose.services))
      for (const settings of Object.values(networks)) expect(settings).not.toHaveProperty("ipv4_address");
  });

  test("only the proxy is reachable from outside, and every command is a file", () => {
    const open = Object.entries(compose.services).filter(([, { ports }]) => ports !== undefined);
    expect(open.map(([name]) => name)).toEqual(["caddy"]);
    for (const [, { command }] of ours)
      expect(statSync(join(ROOT, command?.[0] ?? "missing")).isFile()).toBe(true);
  });
});
