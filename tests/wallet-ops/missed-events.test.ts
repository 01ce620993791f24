/** Operations whose EntryPoint event the indexer did not see: a second reading finds them, and each book is as if it had been seen. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import { recheckLogs } from "../../indexer/audit/recheck-logs.ts";
import { reconcileNonces } from "../../indexer/audit/reconcile-nonces.ts";
import { type Term, watchOf } from "../../indexer/leader-term.ts";
import { commitBlocks } from "../../indexer/settle/commit-blocks.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { readRange } from "../../indexer/source/block-logs.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { NETWORK, openTerm, randomAddress, until } from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { confirmSend, prepareSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
/** More than the second reading leaves to settle at the head. */
const BLOCKS = 20;
const to = randomAddress();
const PAYOUT = [
  { to, amount: "1", note: "first" },
  { to, amount: "1", note: "second" },
  { to, amount: "0.5" },
];

let world: World;
let sql: Sql;
let term: Term & { close: () => void };
/** Their sends fail in their block; `payer`'s has three transfers; `canceller`'s was never executed. */
let failing: [Merchant, Merchant];
let payer: Merchant;
let canceller: Merchant;
const sendIds = new Map<Merchant, string>();

const rpc = (method: string, params: unknown[] = []) => callRpc(world.chain.rpcUrl, method, params);

/** All are sent while no indexer runs, and read without the EntryPoint's events and without the payout's last transfer. */
beforeAll(async () => {
  world = await startWorld();
  sql = openDatabase(world.db.url, { name: "test", maxConnections: 4 });
  const merchants = await Promise.all(Array.from({ length: 4 }, () => signUp(world.baseUrl)));
  const addresses = merchants.map(({ walletAddress }) => walletAddress as Hex);
  for (const address of addresses) await fundUsdc(world.chain.rpcUrl, address, 10_000_000n);
  await until("all wallets are deployed and read", async () => {
    const [row] = await sql`select from wallets where deployed_at is null or backfilled_at is null`;
    const head = Number(await rpc("eth_blockNumber"));
    const [cursor] = await sql<{ number: bigint }[]>`select number from cursors where network = ${NETWORK}`;
    return row === undefined && Number(cursor?.number) === head;
  });
  const [first, second, third, fourth] = merchants as [Merchant, Merchant, Merchant, Merchant];
  [failing, payer, canceller] = [[first, second], third, fourth];
  await world.kill("indexer", "SIGTERM");
  const cancelled = await prepareSend(canceller, { to, amount: "1" });
  await canceller.client.post(`/v1/wallets/sends/${cancelled.sendId}/cancel`, {});
  await send(payer, { payments: PAYOUT });
  await untilRelays("are mined", "MINED", 1);
  await rpc("evm_setAutomine", [false]);
  for (const merchant of failing) await send(merchant, { to, amount: "10" });
  await until("both are sent", async () => {
    const rows = await sql`select from wallet_operations where state = 'BROADCAST'`;
    return rows.length === 3;
  });
  // their money goes elsewhere after the simulation
  for (const { walletAddress } of failing) await fundUsdc(world.chain.rpcUrl, walletAddress as Hex, 1n);
  await rpc("evm_setAutomine", [true]);
  await rpc("anvil_mine", [`0x${BLOCKS.toString(16)}`, "0x0"]);
  await untilRelays("are mined", "BROADCAST", 0);
  await world.kill("worker", "SIGTERM");
  term = await openTerm({ ...world, sql });
  await readSpoiled();
});
afterAll(async () => {
  term?.close();
  await sql?.end();
  await world?.stop();
});

async function send(merchant: Merchant, body: Record<string, unknown>): Promise<void> {
  const prepared = await prepareSend(merchant, body);
  const answer = await confirmSend(merchant, prepared);
  if (answer.status !== 202) throw new Error(answer.text);
  sendIds.set(merchant, prepared.sendId);
}

function untilRelays(what: string, state: string, count: number): Promise<void> {
  return until(`the relays of operations ${what}`, async () => {
    const rows = await sql`select from relays where kind = 'OPERATIONS' and state = ${state}`;
    return rows.length === count;
  });
}

async function readSpoiled(): Promise<void> {
  const head = await readHeader(term.chain, "latest");
  if (!head) throw new Error("the node has no head");
  const range = { from: term.cursor.number + 1, to: head.number };
  const blocks = await readRange(term.chain, range, watchOf(term.watched));
  const spoiled = blocks.map((content) => ({
    ...content,
    operations: [],
    transfers: content.transfers.filter(({ amountUnits }) => amountUnits !== 500_000n),
  }));
  await commitBlocks(term, spoiled, head, performance.now());
}

async function showSend(merchant: Merchant) {
  return (await merchant.client.get(`/v1/wallets/sends/${sendIds.get(merchant)}`)).body;
}

async function newestReport(kind: string) {
  const [row] = await sql`
    select checked, differences, repaired from reconciliations
    where network = ${NETWORK} and kind = ${kind} order by id desc limit 1`;
  return row;
}

async function historyOf(merchant: Merchant) {
  const rows = await sql<{ id: string; status: string; operationId: string | null }[]>`
    select id, status, operation_id
    from transactions
    where owner = owner_key(${merchant.userId}) and type = 'SEND'
    order by id`;
  return [...rows];
}

test("an operation whose event was omitted waits, and its transfers are next to the rows opened for them", async () => {
  for (const merchant of failing) {
    expect(await showSend(merchant)).toMatchObject({ status: "BROADCAST", reason: null });
    expect(await historyOf(merchant)).toMatchObject([{ status: "PENDING" }]);
  }
  expect(await showSend(payer)).toMatchObject({ status: "BROADCAST" });
  expect(await historyOf(payer)).toHaveLength(5);
});

test("comparing nonces rereads the blocks of a spent one: BROADCAST becomes FAILED with the token's reason", async () => {
  const [merchant, other] = failing;
  // only this one's: the other's event and the payout's are for the second reading of blocks
  await sql`
    update wallet_operations set state = 'AWAITING_SIGNATURE', relay_id = null
    where id in (${sendIds.get(other) ?? ""}, ${sendIds.get(payer) ?? ""})`;
  expect(await reconcileNonces(term)).toBe(1);
  expect(await newestReport("NONCES")).toMatchObject({ checked: 2, differences: 1, repaired: 1 });
  expect(await showSend(merchant)).toMatchObject({
    ...{ status: "FAILED", reason: "INSUFFICIENT_FUNDS", stillPossible: false },
  });
  expect(await historyOf(merchant)).toMatchObject([
    { status: "FAILED", operationId: sendIds.get(merchant) ?? "" },
  ]);
  // what was cancelled has a free nonce: it is compared, and is no difference
  expect(await reconcileNonces(term)).toBe(0);
  expect(await newestReport("NONCES")).toMatchObject({ checked: 1, differences: 0 });
});

test("the second reading of blocks finds omitted events: each operation ends as on the chain", async () => {
  const [, merchant] = failing;
  const opened = (await historyOf(payer)).filter(({ operationId }) => operationId !== null);
  expect(opened).toHaveLength(3);
  await sql`update cursors set rechecked_number = 0`;
  await recheckLogs(term, { blocks: 2_000 });
  // two events and a transfer
  expect(await newestReport("LOGS")).toMatchObject({ differences: 3, repaired: 3 });
  await sql`update cursors set rechecked_number = 0`;
  await recheckLogs(term, { blocks: 2_000 });
  expect(await newestReport("LOGS")).toMatchObject({ differences: 0, repaired: 0 });
  expect(await showSend(merchant)).toMatchObject({
    ...{ status: "FAILED", reason: "INSUFFICIENT_FUNDS", stillPossible: false },
  });
  expect(await showSend(payer)).toMatchObject({ status: "CONFIRMED", reason: null });
  // the rows that the confirmation opened are the transfers' now, one each, and no other is left
  expect(await historyOf(payer)).toEqual(opened.map((row) => ({ ...row, status: "CONFIRMED" })));
  const events = await sql<{ type: string }[]>`
    select type from events where subject_id = any(${opened.map(({ id }) => id)}::text[])`;
  expect(events.map(({ type }) => type)).toEqual(Array(3).fill("transaction.confirmed"));
});

test("in the end the ledger agrees with the chain, and a rebuild changes nothing", async () => {
  await assertInvariants(sql, world.chain);
  expect((await rebuildNetwork(term)).differences).toEqual([]);
});

test("a rebuild skips an operation that the database refuses, and the next rebuild restores it", async () => {
  const before = await historyOf(payer);
  const readEvents = async () => {
    const rows = await sql<
      { hash: Hex }[]
    >`select user_op_hash as hash from wallet_operation_events order by 1`;
    return rows.map(({ hash }) => hash);
  };
  const [own] = await sql<{ hash: Hex }[]>`
    select user_op_hash as hash from wallet_operations where id = ${sendIds.get(payer) ?? ""}`;
  const all = await readEvents();
  expect(all).toContain(own?.hash ?? "0x");
  await sql.unsafe(
    `alter table wallet_operation_events add constraint refused check (user_op_hash <> '${own?.hash}') not valid`,
  );
  await rebuildNetwork(term);
  expect(await readEvents()).toEqual(all.filter((hash) => hash !== own?.hash));
  expect(await showSend(payer)).not.toMatchObject({ status: "CONFIRMED" });
  await sql`alter table wallet_operation_events drop constraint refused`;
  await rebuildNetwork(term);
  expect(await readEvents()).toEqual(all);
  expect(await showSend(payer)).toMatchObject({ status: "CONFIRMED", reason: null });
  expect(await historyOf(payer)).toEqual(before);
  await assertInvariants(sql, world.chain);
});
