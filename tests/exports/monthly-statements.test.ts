/** Months that close automatically, in time and late, each where the previous one ended. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { monthOf } from "../../core/domain/local-days.ts";
import { formatUnits } from "../../core/domain/money.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { openLog } from "../../core/runtime/log.ts";
import { insertMonthlyStatement } from "../../db/exports/statements.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { readUsdcBalance } from "../../local/chain/usdc.ts";
import { closeMonths } from "../../worker/exports/statement/close-months.ts";
import { mine } from "../links/payers.ts";
import { refundLab } from "../support/refund-lab.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";
import { fetchFile } from "./ask.ts";
import { parseCsv } from "./read-files.ts";

setDefaultTimeout(120_000);
const NETWORK = "base-sepolia" as const;

let world: World;
let merchant: Merchant;
let chain: Chain;
const { until, paidByX402 } = refundLab(() => ({ world, sql: world.sql, merchant }));

beforeAll(async () => {
  world = await startWorld({ env: { RATE_LIMITS: "0", NODE_ENV: "test" } });
  merchant = await signUp(world.baseUrl);
  chain = openChain({ network: NETWORK, urls: [world.chain.rpcUrl], timeoutMs: 10_000 });
  await paidByX402(2.5);
});
afterAll(() => world?.stop());

const middleOfMonth = (later: number) => {
  const [year = 0, month = 0] = monthOf(new Date(), "Europe/Berlin").split("-").map(Number);
  return new Date(Date.UTC(year, month - 1 + later, 15));
};
const monthsDeps = (): Parameters<typeof closeMonths>[0] => ({
  ...{ sql: world.sql, chains: new Map([[NETWORK, chain] as const]), log: openLog("test", "silent") },
  config: { chains: [{ id: NETWORK, rpcUrls: [world.chain.rpcUrl], confirmations: 1 }] },
});

/** The second reading of the blocks comes a minute later: a statement is final after it. */
const finishRecheck = () => world.sql`update cursors set rechecked_number = number`;

test("a month closes once: the balance is recorded, the statement is created and mailed, and nothing is created twice", async () => {
  const { rpcUrl } = world.chain;
  const books = { timeZone: "Europe/Berlin", monthlyStatements: true };
  expect((await merchant.client.patch("/v1/settings/books", books)).body).toMatchObject(books);
  const deps = monthsDeps();
  const statements = async () => (await merchant.client.get("/v1/statements")).body.data.statements;
  const nextMonth = middleOfMonth(1);
  // the chain has not reached the end of the month
  await closeMonths(deps, nextMonth);
  expect(await statements()).toEqual([]);
  await callRpc(rpcUrl, "evm_increaseTime", [33 * 86_400]);
  await mine(rpcUrl, 4);
  const head = Number(await callRpc(rpcUrl, "eth_blockNumber"));
  // the worker's own clock is before the month's end, where only a ledger that was read twice is final
  await until(async () => {
    const [row] =
      await world.sql`select from cursors where network = ${NETWORK} and number >= ${head}::bigint`;
    return row;
  });
  await until(async () => {
    await finishRecheck();
    await Promise.all([closeMonths(deps, nextMonth), closeMonths(deps, nextMonth)]);
    return (await statements())[0];
  });
  const [made, ...more] = await until(async () => {
    const all = await statements();
    return all[0]?.status === "READY" ? all : undefined;
  });
  expect(more).toEqual([]);
  // a second worker that has not seen the first one's row
  const [wallet] = await world.sql<{ id: string }[]>`
    select id from wallets where user_id = ${merchant.userId} and network = ${NETWORK}`;
  const again = { walletId: wallet?.id ?? "", userId: merchant.userId, month: made.month };
  expect(await insertMonthlyStatement(world.sql, again)).toBe(false);
  const balance = formatUnits(await readUsdcBalance(rpcUrl, merchant.walletAddress as Hex));
  const csv = parseCsv((await fetchFile(merchant.client, made.csvUrl)).text);
  expect(csv.at(-2)?.slice(3, 5)).toEqual(["CLOSING", "Closing balance"]);
  expect(csv.at(-1)?.[9]).toBe(balance);
  expect(csv.at(-1)?.[4]).toStartWith("Chain: equal to the balance in block ");
  expect((await fetchFile(merchant.client, made.pdfUrl)).headers.get("content-type")).toBe("application/pdf");
  const recorded = await world.sql<{ balanceUnits: bigint }[]>`select balance_units from closing_balances`;
  expect(recorded.map(({ balanceUnits }) => formatUnits(balanceUnits))).toEqual([balance]);
  for (let n = 0; n < 2; n++) await closeMonths(deps, nextMonth);
  const mail = await world.mailbox.waitForMail(merchant.email);
  await until(async () => {
    const mails = world.mailbox.messages(merchant.email);
    return mails.some(({ subject }) => subject.startsWith(`Your statement for ${made.month}`)) || undefined;
  });
  expect(mail).toBeDefined();
  const announced = await world.sql`select 1 from notices where kind = 'statement_ready'`;
  expect(announced.length).toBe(1);
  const files =
    await world.sql`select 1 from exports where request->'statement' is not null and expires_at > now() + interval '9 years'`;
  expect(files.length).toBe(2);
});

test("a month that failed is listed with the reason, and with the file that was created", async () => {
  const listed = async () => (await merchant.client.get("/v1/statements")).body.data.statements[0];
  const made = await listed();
  expect(made).toMatchObject({ status: "READY", reason: null, willRetry: false });
  const csv = world.sql`exports.id = (select csv_export_id from monthly_statements where user_id = ${merchant.userId})`;
  await world.sql`update exports set status = 'FAILED', refusal = 'too many' where ${csv}`;
  const failed = { ...made, status: "FAILED", csvUrl: null };
  expect(await listed()).toEqual({ ...failed, reason: "too many" });
  await world.sql`update monthly_statements set announced_at = null where user_id = ${merchant.userId}`;
  await world.sql`update exports set refusal = null where ${csv}`;
  expect(await listed()).toEqual({ ...failed, reason: "service error", willRetry: true });
  await world.sql`update exports set status = 'READY' where ${csv}`;
  await world.sql`update monthly_statements set announced_at = now() where user_id = ${merchant.userId}`;
  expect(await listed()).toEqual(made);
});

test("a month begins where the previous one ended, even if the merchant's time zone has changed", async () => {
  const { rpcUrl } = world.chain;
  const change = { timeZone: "Pacific/Auckland" };
  expect((await merchant.client.patch("/v1/settings/books", change)).body).toMatchObject(change);
  await callRpc(rpcUrl, "evm_increaseTime", [32 * 86_400]);
  await mine(rpcUrl, 4);
  const periods = async () => {
    const rows = await world.sql<{ from: Date; before: Date }[]>`
      select
        (export.request #>> '{statement,from}')::timestamptz as "from",
        (export.request #>> '{statement,before}')::timestamptz as before
      from monthly_statements made
      join exports export on export.id = made.csv_export_id
      order by made.month`;
    return rows.length === 2 ? rows : undefined;
  };
  const now = middleOfMonth(2);
  const [first, second] = await until(async () => {
    await closeMonths(monthsDeps(), now);
    return periods();
  });
  expect(second?.from).toEqual(first?.before);
  // midnight in Auckland, not in Berlin
  expect(second?.before.getUTCHours()).toBeWithin(10, 13);
});

test("months that were not closed in time are closed later, the oldest first, and join without a gap", async () => {
  const { rpcUrl } = world.chain;
  const eva = await signUp(world.baseUrl);
  const books = { timeZone: "Europe/Berlin", monthlyStatements: true };
  expect((await eva.client.patch("/v1/settings/books", books)).body).toMatchObject(books);
  await callRpc(rpcUrl, "evm_increaseTime", [70 * 86_400]);
  await mine(rpcUrl, 4);
  const months = [0, 1].map((later) => middleOfMonth(later).toISOString().slice(0, 7));
  // nothing ran during the month after the first of them
  const now = middleOfMonth(2);
  const made = await until(async () => {
    await closeMonths(monthsDeps(), now);
    const rows = await world.sql<{ month: string; from: Date; before: Date }[]>`
      select
        month, (export.request #>> '{statement,from}')::timestamptz as "from",
        (export.request #>> '{statement,before}')::timestamptz as before
      from monthly_statements made
      join exports export on export.id = made.csv_export_id
      where made.user_id = ${eva.userId}
      order by made.month`;
    return rows.some((row) => row.month === months[1]) ? rows : undefined;
  });
  expect(made.map((row) => row.month)).toEqual(months);
  expect(made[1]?.from).toEqual(made[0]?.before);
});

async function statementOf({ client }: Merchant, month: string) {
  const body = JSON.stringify({ network: NETWORK, month, format: "json" });
  const headers = { "content-type": "application/json" };
  return JSON.parse((await fetchFile(client, "/v1/statements", { method: "POST", body, headers })).text);
}

test("no month is closed, and no statement final, while the wallet's earlier blocks are still to be read", async () => {
  const fay = await signUp(world.baseUrl);
  await fay.client.patch("/v1/settings/books", { timeZone: "Europe/Berlin", monthlyStatements: true });
  const isRead = async () => {
    const rows = await world.sql`
      select from wallets where user_id = ${fay.userId} and backfilled_at is not null and opening_units is not null`;
    return rows.length === 1 || undefined;
  };
  await until(isRead);
  await world.kill("indexer");
  const made = () => world.sql`select from monthly_statements where user_id = ${fay.userId}`;
  const month = middleOfMonth(0).toISOString().slice(0, 7);
  for (const unread of ["backfilled_at", "opening_units"]) {
    await world.sql`update wallets set ${world.sql(unread)} = null where user_id = ${fay.userId}`;
    await closeMonths(monthsDeps(), middleOfMonth(1));
    expect(await made()).toHaveLength(0);
    const { isFinal, chain: check } = await statementOf(fay, month);
    expect([isFinal, check.outcome]).toEqual([false, "not_checked"]);
    await world.sql`update wallets set backfilled_at = now(), opening_units = 0 where user_id = ${fay.userId}`;
  }
  await world.start("indexer");
  await finishRecheck();
  await closeMonths(monthsDeps(), middleOfMonth(1));
  expect(await made()).toHaveLength(1);
  expect((await statementOf(fay, month)).isFinal).toBe(true);
});

test("a month's file is not created from a ledger that is incomplete again, but when it is complete", async () => {
  const gil = await signUp(world.baseUrl);
  await gil.client.patch("/v1/settings/books", { timeZone: "Europe/Berlin", monthlyStatements: true });
  await until(async () => {
    const rows = await world.sql`
      select from wallets where user_id = ${gil.userId} and backfilled_at is not null and opening_units is not null`;
    return rows.length === 1 || undefined;
  });
  await finishRecheck();
  await world.kill("indexer");
  await world.kill("worker");
  await closeMonths(monthsDeps(), middleOfMonth(1));
  const files = () => world.sql<{ id: string; status: string; attempts: number; hasBegun: boolean }[]>`
    select id, status, attempts, started_at is not null as has_begun from exports where user_id = ${gil.userId}`;
  expect((await files()).map(({ status }) => status)).toEqual(["QUEUED", "QUEUED"]);
  await world.sql`update wallets set backfilled_at = null where user_id = ${gil.userId}`;
  await world.start("worker");
  // it waits for the ledger, and that is no attempt
  const waiting = await until(async () => {
    const found = await files();
    return found.every(({ hasBegun, status }) => hasBegun && status === "QUEUED") ? found : undefined;
  });
  expect(waiting.map(({ attempts }) => attempts)).toEqual([0, 0]);
  await world.sql`update wallets set backfilled_at = now() where user_id = ${gil.userId}`;
  await world.start("indexer");
  const ready = await until(async () => {
    // its job runs a minute later
    for (const { id, status } of await files())
      if (status === "QUEUED") await enqueue(world.sql, "build_export", { exportId: id });
    const found = await files();
    return found.every(({ status }) => status === "READY") ? found : undefined;
  });
  const csv = await Promise.all(
    ready.map(({ id }) => fetchFile(gil.client, `/v1/transactions/exports/${id}/download`)),
  );
  const records = csv.filter(({ text }) => text.startsWith("Row ID")).flatMap(({ text }) => parseCsv(text));
  expect(records.find(([id]) => id === "closing")?.[4]).toBe("Closing balance");
});
