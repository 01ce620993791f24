/**
 * `bun tests/deploy/production-start.ts`: a production start from nothing on this machine. Only what deploy/ has is used: the installer's
 * questions, the units' commands, environment and credentials, the Caddyfile with a local certificate authority. Postgres, a foreign node and a mail
 * relay are given. Ends with `doctor` without a fault and a link paid over https. Needs Caddy.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { callRpc } from "../../local/chain/rpc.ts";
import { runDemo } from "../../local/demo.ts";
import { findFreePort } from "../../local/free-port.ts";
import { type BoundProcess, spawnBound } from "../../local/processes/bound-process.ts";
import { buildPages } from "../../local/processes/service-process.ts";
import { startTestChain } from "../support/chain.ts";
import { startTestMailbox } from "../support/mailbox.ts";
import { startEmbeddedServer } from "../support/postgres-server.ts";
import { waitFor } from "../support/relay-lab.ts";

const ROOT = join(import.meta.dir, "../..");
const UNITS = join(ROOT, "deploy/systemd");
const READY_MS = 120_000;
const RELAYER_FUNDS = "0x8ac7230489e80000";
/** Set for the second run of this file, which trusts Caddy's authority from its start. */
const DEMO = "PRODUCTION_START_DEMO";

if (process.env[DEMO]) await payOverHttps(JSON.parse(process.env[DEMO]));
else await start();

async function start(): Promise<void> {
  if (!Bun.which("caddy")) {
    console.error("Caddy is not installed: apt-get install --no-install-recommends caddy");
    process.exit(69); // EX_UNAVAILABLE of sysexits.h
  }
  const folder = mkdtempSync(join(tmpdir(), "production-start-"));
  const [server, chain, mailbox] = await Promise.all([
    startEmbeddedServer(),
    startTestChain({ blockTimeS: 1 }),
    startTestMailbox(),
  ]);
  const running: BoundProcess[] = [];
  try {
    const [httpsPort, httpPort, apiPort] = [await findFreePort(), await findFreePort(), await findFreePort()];
    const origin = `https://localhost:${httpsPort}`;
    await buildPages();

    step("deploy/install --for systemd");
    const answers = [
      `localhost:${httpsPort}`,
      "base-sepolia",
      chain.rpcUrl,
      mailbox.smtpUrl,
      "Shop <shop@example.com>",
    ];
    const installed = await run(
      ["sh", "deploy/install", "--for", "systemd", "--folder", folder],
      {},
      answers,
    );
    const relayer = /relayer (0x[0-9a-f]{40})/.exec(installed.output)?.[1];
    if (installed.code !== 0 || !relayer) throw new Error(installed.output);

    step(`ETH for the relayer ${relayer}, an empty database`);
    await callRpc(chain.rpcUrl, "anvil_setBalance", [relayer, RELAYER_FUNDS]);
    rmSync(join(folder, "secrets/database_url"));
    writeFileSync(join(folder, "secrets/database_url"), server.adminUrl, { mode: 0o400 });

    step("usdc-payments-migrate.service");
    const migrated = await runUnit("usdc-payments-migrate.service", folder);
    if (migrated.code !== 0) throw new Error(migrated.output);

    for (const name of ["api", "worker", "indexer@6", "indexer@7"]) {
      step(`usdc-payments-${name}.service`);
      const unit = readUnit(`usdc-payments-${name.replace(/@\d$/, "@")}.service`, folder, name.slice(-1));
      const env = { ...unit.env, PORT: String(apiPort), METRICS_PORT: String(await findFreePort()) };
      running.push(await spawnBound({ ...unit, env, cwd: ROOT, stopSignal: "SIGTERM" }));
    }

    step("Caddy with deploy/systemd/Caddyfile and a local authority");
    const caddy = {
      ...{
        PATH: process.env.PATH,
        HOME: folder,
        XDG_DATA_HOME: folder,
        DOMAIN: `localhost:${httpsPort}`,
        API: `127.0.0.1:${apiPort}`,
      },
      CADDY_OPTIONS: `admin off\nlocal_certs\nskip_install_trust\nhttp_port ${httpPort}\nhttps_port ${httpsPort}`,
    };
    const args = ["run", "--config", join(UNITS, "Caddyfile"), "--adapter", "caddyfile"];
    running.push(await spawnBound({ command: "caddy", args, env: caddy, cwd: ROOT, stopSignal: "SIGTERM" }));
    const authority = join(folder, "caddy/pki/authorities/local/root.crt");
    await waitFor("Caddy's certificate", async () => Bun.file(authority).exists(), READY_MS);
    const trusting = { NODE_EXTRA_CA_CERTS: authority };

    step("doctor");
    const environment = doctorEnvironment(folder);
    const last = await waitFor(
      "doctor to find no fault and the service behind the proxy",
      async () => {
        const found = await run([process.execPath, "--no-env-file", "ops/doctor/main.ts"], {
          ...environment,
          ...trusting,
        });
        return found.code === 0 && found.output.includes("leads to this service") && found.output;
      },
      READY_MS,
    );
    console.log(last);

    step("a link paid over https");
    const world = {
      apiUrl: origin,
      origin,
      rpId: "localhost",
      mailboxUrl: mailbox.httpUrl,
      rpcUrl: chain.rpcUrl,
      network: "base-sepolia",
    };
    const paid = await run([process.execPath, "--no-env-file", "tests/deploy/production-start.ts"], {
      ...trusting,
      [DEMO]: JSON.stringify(world),
    });
    console.log(paid.output);
    if (paid.code !== 0) throw new Error("the link was not paid");

    step("a backup by its unit");
    const backups = join(folder, "backups");
    const backup = await runUnit("usdc-payments-backup.service", folder, (text) =>
      text.replaceAll("/var/backups/usdc-payments", backups),
    );
    console.log(backup.output.trim());
    if (backup.code !== 0 || readdirSync(backups).length !== 1) throw new Error("there is no backup");
    console.log("\nA production start from nothing, driven by deploy/, ended with a paid link over https.");
  } finally {
    for (const one of running.reverse()) await one.stop(10_000);
    await Promise.all([server.stop(), chain.stop(), mailbox.stop()]);
    rmSync(folder, { recursive: true, force: true });
  }
  process.exit(0);
}

async function payOverHttps(world: Parameters<typeof runDemo>[0]): Promise<void> {
  await runDemo(world, ({ who, what, ms }) => console.log(`  ${who.padEnd(10)} ${what} (${ms} ms)`));
  process.exit(0);
}

/** What systemd would start: command, environment and credentials of a unit. */
function readUnit(
  name: string,
  folder: string,
  instance = "",
  change: (text: string) => string = (text) => text,
) {
  const text = change(readFileSync(join(UNITS, name), "utf8"))
    .replaceAll("/opt/usdc-payment-service/bun", process.execPath)
    .replaceAll("/opt/usdc-payment-service", ROOT)
    .replaceAll("/etc/usdc-payment-service", folder)
    .replaceAll("%d", join(folder, "secrets"))
    .replaceAll("%i", instance);
  const valuesOf = (key: string) =>
    [...text.matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map((one) => one[1] ?? "");
  const own = Object.fromEntries(
    valuesOf("Environment").map((one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)]),
  );
  const [command = "", ...args] = (valuesOf("ExecStart")[0] ?? "").split(" ");
  return { command, args, env: { PATH: process.env.PATH, ...readSettings(folder), ...own } };
}

async function runUnit(name: string, folder: string, change?: (text: string) => string) {
  const { command, args, env } = readUnit(name, folder, "", change);
  return run([command, ...args], env);
}

function readSettings(folder: string): Record<string, string> {
  const lines = readFileSync(join(folder, "service.env"), "utf8").trim().split("\n");
  return Object.fromEntries(
    lines.map((line) => {
      const [name = "", value = ""] = [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)];
      return [name, value.startsWith('"') ? (JSON.parse(value) as string) : value];
    }),
  );
}

/** As deploy/systemd/README.md says. */
function doctorEnvironment(folder: string): Record<string, string> {
  const files = readdirSync(join(folder, "secrets")).map((name) => [
    `${name.toUpperCase()}_FILE`,
    join(folder, "secrets", name),
  ]);
  return { ...readSettings(folder), ...Object.fromEntries(files) };
}

async function run(
  command: readonly string[],
  env: Record<string, string | undefined>,
  lines: readonly string[] = [],
) {
  const child = Bun.spawn([...command], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    ...({ stdin: Buffer.from(`${lines.join("\n")}\n`), stdout: "pipe", stderr: "pipe" } as const),
  });
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, output: output + errors };
}

function step(text: string): void {
  console.log(`· ${text}`);
}
