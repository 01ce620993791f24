/**
 * `bun tests/deploy/compose-start.ts [FOLDER]`: deploy/compose from nothing on a Docker engine of its own: the installer's answers, the image of
 * deploy/Dockerfile, `up -d`. A link is paid over https through Caddy, a backup is written, doctor finds no fault, the containers' limits hold, the
 * leading indexer is killed and the other settles a second link; `down` ends it. The official images are not pulled: Debian's packages stand in.
 * As root, with Docker, docker-compose and debootstrap. A given FOLDER keeps the images for the next run; do not use it beside another engine.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { callRpc } from "../../local/chain/rpc.ts";
import { runDemo } from "../../local/demo.ts";
import { startTestChain } from "../support/chain.ts";
import { startTestMailbox } from "../support/mailbox.ts";
import { startTcpRelay } from "../support/tcp-relay.ts";
import { watchContainers } from "./compose/containers.ts";
import { buildService, makeStandIns, startEngine } from "./compose/engine.ts";
import { runOrThrow } from "./compose/run.ts";
import { copyProject, DOMAIN, openSite } from "./compose/site.ts";

const RELAYER_FUNDS = "0x8ac7230489e80000";
/** Set for the runs of this file that pay: they trust Caddy's authority from their start, and find the domain. */
const DEMO = "COMPOSE_START_DEMO";

if (process.env[DEMO]) await pay(JSON.parse(process.env[DEMO]));
else await start();

async function start(): Promise<void> {
  const missing = whatIsMissing();
  if (missing) {
    console.error(missing);
    process.exit(69); // EX_UNAVAILABLE of sysexits.h
  }
  const given = process.argv[2];
  const scratch = mkdtempSync(join(tmpdir(), "compose-start-"));
  const folder = given === undefined ? scratch : resolve(given);
  mkdirSync(folder, { recursive: true });
  const ends: (() => Promise<unknown>)[] = [];
  try {
    await drive(folder, join(scratch, "project"), ends);
    console.log(
      "\nThe service in containers, driven by deploy/, was paid over https and survived its leader.",
    );
  } finally {
    for (const end of ends.reverse()) await end().catch((error) => console.error(error));
    rmSync(scratch, { recursive: true, force: true });
  }
  process.exit(0);
}

async function drive(folder: string, project: string, ends: (() => Promise<unknown>)[]): Promise<void> {
  step("a Docker engine, and images of Debian's packages");
  const engine = await startEngine(folder);
  ends.push(engine.stop);
  await makeStandIns(engine, folder);
  const [chain, mailbox] = await Promise.all([startTestChain({ blockTimeS: 1 }), startTestMailbox()]);
  ends.push(chain.stop, mailbox.stop);
  const host = engine.address;
  const node = await startTcpRelay({ targetPort: portOf(chain.rpcUrl), host });
  const mail = await startTcpRelay({ targetPort: portOf(mailbox.smtpUrl), host });
  ends.push(node.stop, mail.stop);

  step("deploy/install --for compose");
  await copyProject(project);
  const smtpUrl = `smtp://${host}:${mail.port}`;
  const answers = [DOMAIN, "base-sepolia", chain.rpcUrl, smtpUrl, "shop@example.com"];
  const installed = await runOrThrow(["sh", "deploy/install", "--for", "compose"], {
    cwd: project,
    lines: answers,
  });
  const relayer = /relayer (0x[0-9a-f]{40})/.exec(installed)?.[1];
  if (!relayer) throw new Error(installed);
  await callRpc(chain.rpcUrl, "anvil_setBalance", [relayer, RELAYER_FUNDS]);

  step("docker build -f deploy/Dockerfile");
  const bytes = await buildService(engine, project);
  console.log(`  the service adds ${(bytes / 1e6).toFixed(0)} MB to its base image`);

  step("docker compose up -d");
  const site = await openSite(engine, project, { node: portOf(chain.rpcUrl), nodeRelay: node.port });
  ends.push(() => site.compose("down", "--volumes", "--timeout", "60"));
  await site.compose("up", "-d").catch(async (error) => {
    throw new Error(await site.compose("logs", "--no-color", "--tail", "20"), { cause: error });
  });
  const containers = watchContainers(engine, site);
  await containers.waitForHealth();
  await containers.trustCaddy();

  const world = {
    apiUrl: `https://${DOMAIN}`,
    origin: `https://${DOMAIN}`,
    rpId: DOMAIN,
    mailboxUrl: mailbox.httpUrl,
    rpcUrl: chain.rpcUrl,
    network: "base-sepolia",
  };
  const payLink = async () => {
    const command = [process.execPath, "--no-env-file", "tests/deploy/compose-start.ts"];
    const paid = await site.fromOutside(command, { [DEMO]: JSON.stringify(world) });
    console.log(paid.output.trimEnd());
    if (paid.code !== 0) throw new Error("the link was not paid");
  };
  step("a link paid over https");
  await payLink();

  step("docker compose run --rm doctor");
  const found = await site.compose("run", "--rm", "doctor");
  console.log(
    found
      .replace(/^\s*Creating.*$/gm, "")
      .trim()
      .replace(/^/gm, "  "),
  );
  if (!found.includes(`https://${DOMAIN} leads to this service`))
    throw new Error("doctor did not reach Caddy");

  step("a backup by its container");
  console.log(`  ${await containers.waitForBackup()}`);

  step("limits of the containers");
  for (const line of await containers.checkLimits()) console.log(`  ${line}`);

  step("kill -9 of the leading indexer");
  console.log(`  ${await containers.killLeader()}`);
  await payLink();

  step("docker compose stop, then down");
  console.log(`  ${await containers.stop()}`);
}

async function pay(world: Parameters<typeof runDemo>[0]): Promise<void> {
  await runDemo(world, ({ who, what, ms }) => console.log(`  ${who.padEnd(10)} ${what} (${ms} ms)`));
  process.exit(0);
}

/** A sentence, or undefined. */
function whatIsMissing(): string | undefined {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "This needs Linux and root.";
  const programs = ["dockerd", "docker", "docker-compose", "debootstrap"];
  const absent = programs.filter((name) => !Bun.which(name));
  if (absent.length > 0)
    return `There is no ${absent.join(", ")}: apt-get install --no-install-recommends docker.io docker-compose debootstrap`;
  if (existsSync("/run/docker.sock"))
    return "A Docker engine runs on this machine: a second one would change its networks.";
  return undefined;
}

function portOf(url: string): number {
  return Number(new URL(url).port);
}

function step(text: string): void {
  console.log(`· ${text}`);
}
