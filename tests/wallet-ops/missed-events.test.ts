/** Operations whose EntryPoint event the indexer did not see: a second reading finds them, and each book is as if it had been seen. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild.ts";
import { recheckLogs } from "../../indexer/audit/recheck.ts";
import { commitBlocks } from "../../indexer/settle/commit.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { readRange } from "../../indexer/source/block-logs.ts";
import type { BlockContent } from "../../indexer/source/decode-logs.ts";
import { type Term, watchOf } from "../../indexer/term.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { NETWORK, openTerm, randomAddress, until } from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { confirmSend, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
/** More than the second reading leaves to settle at the head. */
const BLOCKS = 20;

let world: World;
let sql: Sql;

beforeAll(async () => {
  world = await startWorld();
  sql = openDatabase(world.db.url, { name: "test", maxConnections: 4 });
});
afterAll(async () => {
  await sql?.end();
  await world?.stop();
});

const rpc = (method: string, params: unknown[] = []) => callRpc(world.chain.rpcUrl, method, params);

async function makeSender(): Promise<Merchant> {
  const merchant = await signUp(world.baseUrl);
  await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, 10_000_000n);
  await until("the wallet is deployed", async () => {
    const [wallet] =
      await sql`select from wallets where user_id = ${merchant.userId} and deployed_at is not null`;
    return wallet !== undefined;
  });
  return merchant;
}

async function send(merchant: Merchant, body: Record<string, unknown>): Promise<string> {
  const prepared = await prepareSend(merchant, body);
  const answer = await confirmSend(merchant, prepared);
  if (answer.status !== 202) throw new Error(answer.text);
  return prepared.sendId;
}

/** A send whose calls fail in its block: the wallet's money goes elsewhere after the simulation. */
async function sendInVain(merchant: Merchant): Promise<string> {
  await rpc("evm_setAutomine", [false]);
  try {
    const sendId = await send(merchant, { to: randomAddress(), amount: "10" });
    await waitForSend(merchant, sendId, "BROADCAST");
    await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, 1n);
    return sendId;
  } finally {
    await rpc("evm_setAutomine", [true]);
    await rpc("anvil_mine", ["0x1"]);
  }
}

/** Reads up to the head as from a node whose answers `spoil` changes; the worker stands still, so that nothing is sent meanwhile. */
async function readSpoiled(term: Term, spoil: (content: BlockContent) => BlockContent): Promise<void> {
  await rpc("anvil_mine", [`0x${BLOCKS.toString(16)}`, "0x0"]);
  const head = await readHeader(term.chain, "latest");
  if (!head) throw new Error("the node has no head");
  const blocks = await readRange(
    term.chain,
    { from: term.cursor.number + 1, to: head.number },
    watchOf(term.watched),
  );
  await commitBlocks(term, blocks.map(spoil), head, performance.now());
}

/** Sends while no indexer runs; resolves when a block holds the operation, with worker and indexer stopped. */
async function sendUnread(makeSend: () => Promise<string>): Promise<string> {
  await until("the indexer is at the head", async () => {
    const head = Number(await rpc("eth_blockNumber"));
    const [row] = await sql<{ number: bigint }[]>`select number from cursors where network = ${NETWORK}`;
    return Number(row?.number) === head;
  });
  await world.kill("indexer", "SIGTERM");
  const sendId = await makeSend();
  await until("its relay is mined", async () => {
    const [row] = await sql`
      select from relays
      join wallet_operations op on op.relay_id = relays.id
      where op.id = ${sendId} and relays.state = 'MINED'`;
    return row !== undefined;
  });
  await world.kill("worker", "SIGTERM");
  return sendId;
}

async function withTerm(work: (term: Term) => Promise<void>): Promise<void> {
  const term = await openTerm({ ...world, sql });
  try {
    await work(term);
  } finally {
    term.close();
    await Promise.all([world.start("worker"), world.start("indexer")]);
  }
}

async function newestReport() {
  const [row] = await sql`
    select differences, repaired from reconciliations
    where network = ${NETWORK} and kind = 'LOGS' order by id desc limit 1`;
  return row;
}

async function historyOf(merchant: Merchant) {
  const rows = await sql<{ id: string; status: string; operationId: string | null; amountUnits: bigint }[]>`
    select id, status, operation_id, amount_units
    from transactions
    where user_id = ${merchant.userId} and type = 'SEND'
    order by log_index`;
  return [...rows];
}

describe("the event of a failed operation, which moved nothing and has no other log", () => {
  test("is found by the second reading: BROADCAST becomes FAILED with the token's reason", async () => {
    const merchant = await makeSender();
    const sendId = await sendUnread(() => sendInVain(merchant));
    await withTerm(async (term) => {
      await readSpoiled(term, (content) => ({ ...content, operations: [] }));
      const waiting = (await merchant.client.get(`/v1/wallets/sends/${sendId}`)).body;
      expect(waiting).toMatchObject({ status: "BROADCAST", reason: null });
      expect(await historyOf(merchant)).toMatchObject([{ status: "PENDING" }]);
      await recheckLogs(term, { blocks: 2_000 });
      expect(await newestReport()).toMatchObject({ differences: 1, repaired: 1 });
      await sql`update cursors set rechecked_number = 0`;
      await recheckLogs(term, { blocks: 2_000 });
      expect(await newestReport()).toMatchObject({ differences: 0, repaired: 0 });
    });
    const failed = await waitForSend(merchant, sendId, "FAILED");
    expect(failed).toMatchObject({ reason: "INSUFFICIENT_FUNDS", stillPossible: false });
    expect(await historyOf(merchant)).toMatchObject([{ status: "FAILED", operationId: sendId }]);
  });
});

describe("the event of an operation whose transfers were read without it", () => {
  test("makes the rows that were opened at its confirmation the transfers' rows, once each", async () => {
    const merchant = await makeSender();
    const to = randomAddress();
    const payments = [
      { to, amount: "1", note: "first" },
      { to, amount: "1", note: "second" },
      { to, amount: "0.5" },
    ];
    const sendId = await sendUnread(() => send(merchant, { payments }));
    const opened = await historyOf(merchant);
    expect(opened).toHaveLength(3);
    await withTerm(async (term) => {
      // the last of its three transfers was left out too
      await readSpoiled(term, (content) => ({
        ...content,
        operations: [],
        transfers: content.transfers.filter(({ amountUnits }) => amountUnits !== 500_000n),
      }));
      expect(await historyOf(merchant)).toHaveLength(5);
      await recheckLogs(term, { blocks: 2_000 });
      expect(await newestReport()).toMatchObject({ differences: 2, repaired: 2 });
    });
    await waitForSend(merchant, sendId);
    const rows = await historyOf(merchant);
    const byId = (one: { id: string }, other: { id: string }) => one.id.localeCompare(other.id);
    expect(rows.toSorted(byId)).toEqual(
      opened.map((row) => ({ ...row, status: "CONFIRMED" })).toSorted(byId),
    );
    const events = await sql<{ type: string }[]>`
      select type from events where subject_id = any(${opened.map(({ id }) => id)}::text[])`;
    expect(events.map(({ type }) => type)).toEqual(Array(3).fill("transaction.confirmed"));
  });
});

test("after all of it the books agree with the chain, and a rebuild changes nothing", async () => {
  await until("nothing is in flight", async () => {
    const [row] = await sql`select from relays where state in ('SIGNED', 'BROADCAST')`;
    return row === undefined;
  });
  await Promise.all([world.kill("worker", "SIGTERM"), world.kill("indexer", "SIGTERM")]);
  await assertInvariants(sql, world.chain);
  await withTerm(async (term) => {
    expect((await rebuildNetwork(term)).differences).toEqual([]);
  });
});
