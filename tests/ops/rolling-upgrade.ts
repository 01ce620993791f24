/**
 * `bun tests/ops/rolling-upgrade.ts [TAG or COMMIT]`: old and new code on one database for the time of a rolling update. The service of that
 * version starts on its own schema and takes payments; then the steps of docs/OPERATIONS.md: `migrate` of this version, a process of this
 * version beside each old one, the old ones stopped kind by kind. Payments go through every api all the while; each must be paid once.
 * A refund is prepared before each step and confirmed after it, and lists are read all the while.
 *
 * Without an argument the last tag counts, and before the first one the commit before the schema changed last. Needs no network. It ends with
 * 69 and says what to fetch when the history, of a shallow clone for instance, lacks the version. A 500 fails the run, unless the older
 * version still had statements with a star, which a migration breaks. Where a migration takes stopped processes, the run ends with its refusal.
 */
import { existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { runMigrations } from "../../local/processes/service-process.ts";
import { startTestChain } from "../support/chain.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { startTestMailbox } from "../support/mailbox.ts";
import { makePayer, shapeA, signPayment } from "../support/payer.ts";
import { createEmptyDatabase } from "../support/postgres.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type ProcessName, type Service, startService } from "../support/world.ts";

const ROOT = join(import.meta.dir, "../..");
const UNAVAILABLE = 69; // EX_UNAVAILABLE of sysexits.h
const PAID_WITHIN_MS = 90_000;
const PAYMENTS_A_STEP = 3;
const RETRIES_MAX = 20;
const READ_PAUSE_MS = 50;
const READ_PATHS = [
  ...["/v1/payment-links", "/v1/transactions", "/v1/refunds", "/v1/exports", "/v1/export-schedules"],
  ...["/v1/events", "/v1/wallets/balance", "/health/ready"],
];

type Link = { id: string; step: string };

const version = findVersion(process.argv[2]);
const old = unpack(version);
const namesColumns = existsSync(join(old, "db/postgres/columns-of.ts"));
const [db, chain, mailbox] = await Promise.all([createEmptyDatabase(), startTestChain(), startTestMailbox()]);
const sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
let service: Service | undefined;
let failures = 0;
try {
  console.log(`from ${version.name} (${version.commit.slice(0, 12)}) to this version`);
  run(["bun", "--no-env-file", join(old, "ops/migrate-main.ts")], { DATABASE_URL: db.url });
  run(["bun", "--no-env-file", join(old, "web/build.ts")], {});
  const started = await startService({
    ...{ db, chain, smtp: mailbox },
    processes: ["api", "worker", "indexer", "api-2", "worker-2", "indexer-2"],
    isStarted: (name) => !name.endsWith("-2"),
    programOf: (name) => ({
      command: process.execPath,
      args: ["--no-env-file", join(name.endsWith("-2") ? ROOT : old, name.replace("-2", ""), "main.ts")],
    }),
  });
  service = started;
  const merchant = await signUp(started.baseUrlOf("api"));
  const links: Link[] = [];
  const step = async (what: string, apis: readonly ProcessName[], act: () => Promise<unknown>) => {
    // accepted before the step, relayed and settled during it
    const during = Promise.all(apis.map((api) => payOne(started, merchant, api, what)));
    during.catch(() => undefined);
    const [first, last] = [clientOf(started, merchant, apis[0]), clientOf(started, merchant, apis.at(-1))];
    const refund = await prepareRefund(first, links.at(-1));
    const reading = readUntilStopped(apis.map((api) => clientOf(started, merchant, api)));
    await act();
    await reading.stop();
    if (refund) await confirmRefund(last, merchant, refund);
    links.push(...(await during));
    for (const api of apis)
      for (let count = 0; count < PAYMENTS_A_STEP; count++)
        links.push(await payOne(started, merchant, api, what));
    console.log(`· ${what}: payments through ${apis.join(" and ")}`);
  };
  await step("the old version alone", ["api"], async () => {});
  await step("old processes on the new schema", ["api"], () => runMigrations(db.url));
  await step("a new indexer waits beside the old one", ["api"], () => started.start("indexer-2"));
  await step("the new indexer leads old workers and APIs", ["api"], () => started.kill("indexer", "SIGTERM"));
  await step("old and new workers share the queue", ["api"], () => started.start("worker-2"));
  await step("old and new APIs beside old and new workers", ["api"], () => started.start("api-2"));
  await step("both APIs, the new worker alone", ["api", "api-2"], () => started.kill("worker", "SIGTERM"));
  await step("the old worker again, killed and back", ["api", "api-2"], async () => {
    await started.start("worker");
    await started.kill("worker-2");
  });
  await step("the new version alone", ["api-2"], async () => {
    await started.start("worker-2");
    await started.kill("worker", "SIGTERM");
    await started.kill("api", "SIGTERM");
  });
  failures += await countFailures(links);
  for (const name of ["api", "worker", "indexer", "api-2", "worker-2", "indexer-2"] as const) {
    const fatal = started
      .logOf(name)
      .split("\n")
      .filter((line) => /"level":"fatal"|column .* does not exist|relation .* does not exist/.test(line));
    if (fatal.length > 0) console.error(`${name}: ${fatal.slice(0, 3).join("\n")}`);
    failures += fatal.length;
  }
} catch (error) {
  const [refusal] =
    /.*(?:needs all processes of the service stopped|this version needs every migration).*/.exec(
      String(error),
    ) ?? [];
  if (refusal)
    console.log(`this upgrade needs stopped processes, and was refused while they ran: ${refusal}`);
  else {
    failures += 1;
    console.error(error);
    printErrors();
  }
} finally {
  await service?.stop();
  await sql.end({ timeout: 5 });
  await Promise.all([db.drop(), chain.stop(), mailbox.stop()]);
  rmSync(old, { recursive: true, force: true });
}
process.exit(failures === 0 ? 0 : 1);

function printErrors(): void {
  for (const name of ["api", "worker", "indexer"] as const)
    console.error(
      (service?.logOf(name) ?? "")
        .split("\n")
        .filter((line) => /"level":"(error|fatal)"/.test(line))
        .slice(-3)
        .join("\n"),
    );
}

/** Every payment of every step: its link is PAID, by one transfer. */
async function countFailures(links: readonly Link[]): Promise<number> {
  const ids = links.map(({ id }) => id);
  const deadlineMs = Date.now() + PAID_WITHIN_MS;
  for (;;) {
    const rows = await sql<{ id: string; status: string; transfers: number }[]>`
      select
        link.id, link.status,
        (select count(*)::int from transfers where transfers.link_id = link.id and status <> 'ORPHANED') as transfers
      from payment_links link
      where link.id = any(${ids}::text[])`;
    const wrong = rows.filter(({ status, transfers }) => status !== "PAID" || transfers !== 1);
    if (wrong.length === 0 && rows.length === ids.length) {
      console.log(
        `${ids.length} payments in ${new Set(links.map(({ step }) => step)).size} steps: each paid once`,
      );
      return 0;
    }
    if (Date.now() > deadlineMs || wrong.some(({ transfers }) => transfers > 1)) {
      for (const { id, status, transfers } of wrong)
        console.error(
          `${id} is ${status} with ${transfers} transfer(s): ${links.find((link) => link.id === id)?.step}`,
        );
      return Math.max(1, wrong.length);
    }
    await Bun.sleep(100);
  }
}

function clientOf(on: Service, { client }: Merchant, api: ProcessName = "api"): Client {
  const own = openClient(on.baseUrlOf(api));
  for (const [name, value] of client.cookies) own.cookies.set(name, value);
  return own;
}

/** Counts an answer of 500 or above as a failure. */
function judge(what: string, status: number, text: string): void {
  if (status < 500) return;
  if (namesColumns) failures += 1;
  console.log(`  ${status} to ${what}: ${text.slice(0, 300)}`);
}

type Refund = { refundId: string; challengeId: string; passkeyChallenge: { challenge: string } };

/** Undefined before anything is paid. */
async function prepareRefund(client: Client, link: Link | undefined): Promise<Refund | undefined> {
  if (!link) return undefined;
  for (const deadlineMs = Date.now() + PAID_WITHIN_MS; ; ) {
    const answer = await client.post(`/v1/payment-links/${link.id}/refunds`, {});
    judge("a refund's preparation", answer.status, answer.text);
    if (answer.status === 201) return answer.body;
    // the link's payment may not be CONFIRMED yet, and one operation of a wallet travels at a time
    if (Date.now() > deadlineMs) throw new Error(`no refund was prepared: ${answer.status} ${answer.text}`);
    await Bun.sleep(200);
  }
}

/** Signs what was prepared, and waits until the money is back. */
async function confirmRefund(client: Client, { passkey }: Merchant, refund: Refund): Promise<void> {
  const body = {
    challengeId: refund.challengeId,
    passkeyResponse: await passkey.authenticate(refund.passkeyChallenge as never),
  };
  const deadlineMs = Date.now() + PAID_WITHIN_MS;
  for (;;) {
    const answer = await client.post(`/v1/refunds/${refund.refundId}/confirm`, body);
    judge("a refund's confirmation", answer.status, answer.text);
    if (answer.status === 202) break;
    if (Date.now() > deadlineMs) throw new Error(`no refund was confirmed: ${answer.status} ${answer.text}`);
    await Bun.sleep(200);
  }
  for (;;) {
    const { body: shown, status, text } = await client.get(`/v1/refunds/${refund.refundId}`);
    judge("a refund", status, text);
    if (shown?.status === "CONFIRMED") return;
    if (Date.now() > deadlineMs) throw new Error(`the refund is not CONFIRMED: ${text}`);
    await Bun.sleep(100);
  }
}

function readUntilStopped(clients: readonly Client[]): { stop: () => Promise<void> } {
  let isStopped = false;
  const reading = Promise.all(
    clients.map(async (client) => {
      while (!isStopped)
        for (const path of READ_PATHS) {
          const { status, text } = await client.get(path);
          judge(path, status, text);
          await Bun.sleep(READ_PAUSE_MS);
        }
    }),
  );
  reading.catch(() => undefined);
  return {
    stop: async () => {
      isStopped = true;
      await reading;
    },
  };
}

/** A link made and paid over HTTP. A retryable refusal is answered as a payer's client would: by the same bytes again. */
async function payOne(on: Service, merchant: Merchant, api: ProcessName, step: string): Promise<Link> {
  const baseUrl = on.baseUrlOf(api);
  const cookie = [...merchant.client.cookies].map((pair) => pair.join("=")).join("; ");
  const headers = { "content-type": "application/json", cookie };
  const amount = Number((1 + Math.random()).toFixed(6));
  const key = crypto.randomUUID();
  const wanted = JSON.stringify({ amount, description: step, expiresInHours: 24, network: "base-sepolia" });
  const create = () =>
    fetch(`${baseUrl}/v1/payment-links`, {
      method: "POST",
      headers: { ...headers, "idempotency-key": key },
      body: wanted,
    });
  let created = await create();
  for (let retry = 0; created.status >= 500 && retry < RETRIES_MAX; retry++) {
    // repeated as a client would
    if (namesColumns) failures += 1;
    console.log(`  ${api} answered ${created.status} to a new link (${step}); repeating`);
    created = await create();
  }
  if (created.status !== 201)
    throw new Error(`${api} made no link: ${created.status} ${await created.text()}`);
  const { id } = (await created.json()) as { id: string };
  const payer = makePayer();
  const amountUnits = BigInt(Math.round(amount * 1_000_000));
  await fundUsdc(chain.rpcUrl, payer.address, amountUnits);
  const payment = await signPayment(payer, { to: merchant.walletAddress.toLowerCase() as Hex, amountUnits });
  const body = JSON.stringify(shapeA(payment));
  for (const deadlineMs = Date.now() + PAID_WITHIN_MS; Date.now() < deadlineMs; ) {
    const answer = await fetch(`${baseUrl}/v1/x402/${id}/pay`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    }).catch(() => undefined);
    if (answer?.status === 200) return { id, step };
    if (answer) judge(`a payment (${step})`, answer.status, await answer.text());
    await Bun.sleep(200);
  }
  return { id, step };
}

type Version = { name: string; commit: string };

function findVersion(wanted: string | undefined): Version {
  const name = wanted ?? git("describe", "--tags", "--abbrev=0") ?? beforeLastMigration();
  const commit = name && git("rev-parse", "--verify", "--quiet", `${name}^{commit}`);
  if (name && commit && git("cat-file", "-e", `${commit}:package.json`) !== undefined)
    return { name, commit };
  const isShallow = git("rev-parse", "--is-shallow-repository") === "true";
  console.error(
    `the history here has no ${name ?? "earlier version"}${isShallow ? ", it is a shallow clone" : ""}: ` +
      `fetch it (git fetch --tags ${isShallow ? "--unshallow" : ""}) or name another tag or commit. Nothing was tested.`,
  );
  process.exit(UNAVAILABLE);
}

/** The newest commit that has an older schema. */
function beforeLastMigration(): string | undefined {
  const last = git("rev-list", "-1", "HEAD", "--", "db/migrations/*.sql");
  return last && git("rev-parse", "--verify", "--quiet", `${last}^`);
}

function git(...args: string[]): string | undefined {
  const done = Bun.spawnSync(["git", "-C", ROOT, ...args], { stderr: "ignore" });
  return done.success ? done.stdout.toString().trim() : undefined;
}

/** Its sources, with the packages that are installed here: its own would need a network. */
function unpack({ commit }: Version): string {
  const folder = mkdtempSync(join(tmpdir(), "rolling-upgrade-"));
  const archive = Bun.spawnSync(["git", "-C", ROOT, "archive", commit]);
  const untar = Bun.spawnSync(["tar", "-x", "-C", folder], { stdin: archive.stdout });
  if (!archive.success || !untar.success) throw new Error(`${commit} could not be unpacked`);
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}

function run([command = "", ...args]: string[], env: Record<string, string>): void {
  const program = command === "bun" ? process.execPath : command;
  const done = Bun.spawnSync([program, ...args], { cwd: old, env: { ...process.env, ...env } });
  if (!done.success) throw new Error(`${args.join(" ")} failed: ${done.stdout}${done.stderr}`);
}
