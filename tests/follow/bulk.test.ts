/** The ledger of a chain that was followed block by block, and of one that was read in bulk: the same rows. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { storePlainTransfers } from "../../db/ledger/bulk-transfers.ts";
import type { NewTransfer } from "../../db/ledger/transfers.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { isUniqueViolation } from "../../db/postgres/unique-violation.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { startServiceProcess } from "../../local/processes/service-process.ts";
import { startFaultProxy } from "../rpc/fault-proxy.ts";
import { serviceProgram } from "../support/compiled-services.ts";
import {
  amounts,
  headOf,
  type Lab,
  type Merchant,
  makeLink,
  makeManyWallets,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  pay,
  type RunningIndexer,
  randomAddress,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";
import { makeSender, reorganise, type Sender } from "../support/indexer-lab-reorgs.ts";
import { assertInvariants } from "../support/invariants.ts";
import { randomHash } from "../support/ledger-lab.ts";
import { createTestDatabase } from "../support/postgres.ts";

setDefaultTimeout(120_000);
const CONFIRMATIONS = 3;
/** Above what is read by block hash. */
const FAR_BLOCKS = 200;
/** More than are asked for by their addresses. */
const MANY_WALLETS = 1_500;
const freshUnits = amounts();

/** Followed block by block. */
let followed: Lab;
/** The same chain in a database of its own, read afterwards. */
let bulk: Lab;
/** The same, by a process that is killed in the middle. */
let killed: Lab;
let one: Merchant;
let other: Merchant;
let sender: Sender;
let payer: Hex;
const indexers: RunningIndexer[] = [];

beforeAll(async () => {
  followed = await openLab();
  [bulk, killed] = [await sameChain(), await sameChain()];
  // an address whose transfers the node signs, as a wallet of ours: transfers between wallets, and out of one
  payer = await makePayer(followed);
  one = await makeMerchant(followed);
  other = await makeMerchant(followed, payer);
  sender = await makeSender(followed);
  await makeHistory();
});
afterAll(async () => {
  for (const indexer of indexers) await indexer.stop();
  for (const lab of [bulk, killed]) {
    await lab?.sql.end({ timeout: 5 });
    await lab?.db.drop();
  }
  await followed?.stop();
});

async function sameChain(): Promise<Lab> {
  const db = await createTestDatabase();
  return { ...followed, db, sql: openDatabase(db.url, { name: "test", maxConnections: 3 }) };
}

/** Received, sent, internal, zero, to a link in time, to two links that fit, and of several logs in a block. */
async function makeHistory(): Promise<void> {
  const [exact, twin] = [freshUnits(), freshUnits()];
  for (const units of [exact, twin, twin]) await makeLink(followed, one, { units });
  for (const table of ["users", "passkeys", "wallets", "payment_links"]) await copyRows(table);
  indexers.push(startIndexer(followed, { confirmations: CONFIRMATIONS }));
  await settled(followed);
  for (let n = 0; n < 12; n++) {
    await pay(followed, payer, one.address, freshUnits());
    await pay(followed, payer, randomAddress(), freshUnits());
    await sender.pay(one.address, freshUnits());
    await sender.pay(other.address, BigInt(n % 3));
  }
  for (const units of [exact, twin]) await sender.pay(one.address, units);
  await settled(followed);
  await mine(followed, FAR_BLOCKS);
  await settled(followed);
}

/** As they are, before the indexer saw anything. */
async function copyRows(table: string): Promise<void> {
  const columns = await followed.sql<{ name: string }[]>`
    select column_name as name
    from information_schema.columns
    where table_schema = 'public' and table_name = ${table} and is_generated = 'NEVER'`;
  const names = columns.map(({ name }) => `"${name}"`).join(", ");
  const [rows] = await followed.sql.unsafe(`select json_agg(t)::text as text from ${table} t`);
  for (const lab of [bulk, killed])
    await lab.sql.unsafe(
      `insert into ${table} (${names}) select ${names} from json_populate_recordset(null::${table}, $1::text::json)`,
      [rows?.text],
    );
}

/** What both ways must agree about: everything but ids and times of writing. */
async function readLedger(sql: Sql) {
  const rows = (query: string) => sql.unsafe(query).then((found) => found.map((row) => ({ ...row })));
  return {
    transfers: await rows(`
      select network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units,
        authorization_nonce, status, link_id, pays, settled_by, candidates, payment_id, confirmed_at
      from transfers order by block_number, block_hash, log_index`),
    history: await rows(`
      select transactions.id, owner, transactions.network, type, transactions.status, transactions.amount_units,
        counterparty, description, transactions.tx_hash, transactions.log_index, transactions.block_number,
        transactions.link_id, transactions.settled_by, transactions.candidates, detected_at is not null as is_detected,
        transactions.confirmed_at, transactions.detected_at, failure_reason, created_at, reference, is_settled
      from transactions order by transactions.id`),
    links: await rows(
      `select id, status, exception, paid_at, settled_by, paid_units from payment_links order by id`,
    ),
    counts: await rows(`
      select user_id, day, network, type, status, amount_bucket, sum(count) as count
      from transactions_to_count group by 1, 2, 3, 4, 5, 6 having sum(count) <> 0 order by 1, 2, 3, 4, 5, 6`),
    events: await rows(`
      select user_id, type, subject_id, count(*) as count from events
      where type in ('transaction.confirmed', 'payment_link.paid')
      group by 1, 2, 3 order by 1, 2, 3`),
  };
}

test("a process killed within a range leaves none of it behind, and the next one reads the rest", async () => {
  const all = await followed.sql<{ blockNumber: bigint; blockHash: Hex; logIndex: number }[]>`
    select block_number, block_hash, log_index
    from transfers
    where link_id is null and candidates is null
    order by block_number, log_index`;
  const held = all[Math.floor(all.length * 0.75)];
  if (!held) throw new Error("there is no transfer in the middle");
  // so many that the chain is read in ranges of a few blocks, each a transaction
  await makeManyWallets(killed, MANY_WALLETS);
  await killed.sql`update wallets set indexed_from = 1, backfilled_at = now()`;
  const gate = Promise.withResolvers<void>();
  const proxy = startFaultProxy(followed.chain.rpcUrl);
  proxy.delay = () => gate.promise;
  const holder = await killed.sql.reserve();
  const indexer = await startServiceProcess(
    "indexer",
    indexerEnv(proxy.url),
    () => undefined,
    serviceProgram("indexer"),
  );
  try {
    await until("the process to ask the node", async () => proxy.requests > 0);
    // the same log, uncommitted: the statement that stores it waits, after those before it in its transaction
    await holder`begin`;
    await holder`
      insert into transfers (
        network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units
      )
      values (
        ${NETWORK}, ${held.blockNumber}, ${held.blockHash}, now(), ${randomHash()}, ${held.logIndex}, ${one.address},
        ${one.address}, 1
      )`;
    gate.resolve();
    await until("the process to wait for the row", async () => (await indexerSessions("Lock")) > 0);
    // the range before is committed meanwhile
    await until("a range to be committed", async () => {
      const [row] = await killed.sql<{ number: bigint }[]>`select number from cursors`;
      return (row?.number ?? 0n) > 0n;
    });
    indexer.kill("SIGKILL");
    await indexer.exited;
  } finally {
    gate.resolve();
    await holder`rollback`;
    holder.release();
    await indexer.stop();
    await proxy.stop();
  }
  await until("the server to end its sessions", async () => (await indexerSessions()) === 0);
  const [cursor] = await killed.sql<{ number: bigint }[]>`select number from cursors`;
  const [stored] = await killed.sql<{ count: number }[]>`select count(*)::int as count from transfers`;
  const readUpTo = cursor?.number ?? -1n;
  expect(readUpTo).toBeGreaterThan(0n);
  expect(readUpTo).toBeLessThan(held.blockNumber);
  expect(stored?.count).toBe(all.filter(({ blockNumber }) => blockNumber <= readUpTo).length);

  indexers.push(startIndexer(killed, { confirmations: CONFIRMATIONS }));
  await settled(killed);
  expect(await readLedger(killed.sql)).toEqual(await readLedger(followed.sql));
  await assertInvariants(killed.sql, killed.chain);
});

function indexerEnv(rpcUrl: string): Record<string, string> {
  const { PATH = "", HOME = "" } = process.env;
  return {
    ...{ PATH, HOME, NODE_ENV: "test", DATABASE_URL: killed.db.url, NETWORKS: NETWORK },
    ...{ RPC_URL_BASE_SEPOLIA: rpcUrl, CONFIRMATIONS_BASE_SEPOLIA: String(CONFIRMATIONS) },
  };
}

/** Connections of the killed process; those that wait for this, if given. */
async function indexerSessions(waitsFor?: string): Promise<number> {
  const [row] = await killed.sql<{ count: number }[]>`
    select count(*)::int as count
    from pg_stat_activity
    where datname = current_database()
      and application_name not in ('test', '')
      and (${waitsFor ?? null}::text is null or wait_event_type = ${waitsFor ?? null}::text)`;
  return row?.count ?? 0;
}

test("a history read in bulk equals, row by row, one that was followed live, even after a reorganisation", async () => {
  indexers.push(startIndexer(bulk, { confirmations: CONFIRMATIONS }));
  await settled(bulk);
  const [before, read] = [await readLedger(followed.sql), await readLedger(bulk.sql)];
  // every third of those to the other wallet moves nothing, and is no row
  expect(before.transfers).toHaveLength(4 * 12 - 4 + 2);
  expect(before.history.length).toBeGreaterThan(before.transfers.length);
  expect(before.links.filter(({ status }) => status === "PAID")).toHaveLength(1);
  expect(read).toEqual(before);

  const kept = await sender.pay(one.address, freshUnits());
  await sender.pay(one.address, freshUnits());
  for (const lab of [followed, bulk]) await settled(lab);
  await reorganise(followed, 2, [[kept.raw, 1]]);
  await mine(followed, CONFIRMATIONS);
  for (const lab of [followed, bulk]) await settled(lab);
  const after = await readLedger(followed.sql);
  expect(after.transfers.filter(({ status }) => status === "ORPHANED").length).toBeGreaterThan(0);
  expect(await readLedger(bulk.sql)).toEqual(after);
  await assertInvariants(bulk.sql, bulk.chain);
});

test("transfers from before the first start have no event, one just within the limit has", async () => {
  const { number, hash } = await headOf(followed);
  const limitS = 1_700_000_000;
  const store = async (blockTimeS: number) => {
    const txHash: Hex = `0x${blockTimeS.toString(16).padStart(64, "0")}`;
    await bulk.sql.begin((tx) =>
      storePlainTransfers(
        tx,
        NETWORK,
        [
          {
            ...plainTransfer({ blockNumber: number, blockHash: hash, logIndex: blockTimeS }),
            blockTimeS,
            txHash,
          },
        ],
        { eventsFromS: limitS },
      ),
    );
    const rows = await bulk.sql<{ id: string; data: object | null }[]>`
      select transactions.id, events.data
      from transactions
      left join events on events.subject_id = transactions.id
      where tx_hash = ${txHash}`;
    return rows.map(({ data }) => data);
  };
  expect(await store(limitS - 1)).toEqual([null]);
  expect(await store(limitS)).toEqual([
    expect.objectContaining({ type: "RECEIVE", amount: "1.500000", network: NETWORK, linkId: null }),
  ]);
});

test("rows that are expected to be new but are not fail the statement, which stores nothing", async () => {
  const { number, hash } = await headOf(followed);
  const stored = plainTransfer({ blockNumber: number, blockHash: hash, logIndex: 1_000 });
  const fresh = plainTransfer({ blockNumber: number, blockHash: hash, logIndex: 1_001 });
  const store = (transfers: readonly NewTransfer[], areNew: boolean) =>
    bulk.sql.begin((tx) =>
      storePlainTransfers(tx, NETWORK, transfers, { eventsFromS: Number.NEGATIVE_INFINITY, areNew }),
    );
  const rowsOf = async ({ txHash }: NewTransfer) => {
    const [row] = await bulk.sql<{ transfers: bigint; history: bigint; events: bigint }[]>`
      select
        (select count(*) from transfers where tx_hash = ${txHash}) as transfers,
        (select count(*) from transactions where tx_hash = ${txHash}) as history,
        (select count(*) from events where data ->> 'txHash' = ${txHash}) as events`;
    return row && { ...row };
  };
  await store([stored], true);
  expect(await rowsOf(stored)).toEqual({ transfers: 1n, history: 1n, events: 1n });
  expect(isUniqueViolation(await store([fresh, stored], true).catch((error) => error))).toBe(true);
  expect(await rowsOf(fresh)).toEqual({ transfers: 0n, history: 0n, events: 0n });
  await store([fresh, stored], false);
  for (const one of [fresh, stored])
    expect(await rowsOf(one)).toEqual({ transfers: 1n, history: 1n, events: 1n });
});

test("error: a hash or an address of another length is not stored, nor is what comes with it", async () => {
  const { number, hash } = await headOf(followed);
  const good = plainTransfer({ blockNumber: number, blockHash: hash, logIndex: 2_000 });
  const others: Partial<NewTransfer>[] = [
    { txHash: `${good.txHash}00` },
    { blockHash: hash.slice(0, -2) as Hex },
    { from: `${good.from}00` },
    { to: good.to.slice(0, -2) as Hex },
  ];
  for (const other of others) {
    const bad = { ...plainTransfer({ blockNumber: number, blockHash: hash, logIndex: 2_001 }), ...other };
    const stored = bulk.sql.begin((tx) =>
      storePlainTransfers(tx, NETWORK, [good, bad], { eventsFromS: Number.NEGATIVE_INFINITY }),
    );
    await expect(stored).rejects.toThrow(/an item does not have (20|32) bytes/);
  }
  const [row] = await bulk.sql<{ count: bigint }[]>`
    select count(*) from transfers where tx_hash = ${good.txHash}`;
  expect(row?.count).toBe(0n);
});

test("a partly stored range is read in bulk once more, and rows removed by a reorganisation are restored", async () => {
  const indexer = indexers.pop();
  await indexer?.stop();
  const before = await readLedger(bulk.sql);
  const orphaned = await bulk.sql<{ id: bigint }[]>`
    with gone as (
      update transfers
      set status = 'ORPHANED'
      where id in (
        select id
        from transfers
        where network = ${NETWORK} and status = 'CONFIRMED' and link_id is null and candidates is null
        order by id
        limit 3
      )
      returning id
    )
    update transactions
    set status = 'ORPHANED'
    from gone
    where transfer_id = gone.id
    returning transactions.id`;
  expect(orphaned.length).toBeGreaterThanOrEqual(3);
  // so far below the head that the next blocks are read in bulk
  const first = (await callRpc(bulk.chain.rpcUrl, "eth_getBlockByNumber", ["0x1", false])) as { hash: Hex };
  await bulk.sql`update cursors set number = 1, hash = ${first.hash} where network = ${NETWORK}`;
  indexers.push(startIndexer(bulk, { confirmations: CONFIRMATIONS }));
  await settled(bulk);
  // those that are back are reported once more
  expect({ ...(await readLedger(bulk.sql)), events: [] }).toEqual({ ...before, events: [] });
});

/** To a wallet of ours, of a transaction of its own. */
function plainTransfer(place: { blockNumber: number; blockHash: Hex; logIndex: number }): NewTransfer {
  return {
    ...{ ...place, blockTimeS: 1_700_000_000, confirmedAtS: 1_700_000_000, txHash: randomHash() },
    ...{ from: randomAddress(), to: one.address, amountUnits: 1_500_000n, authorizationNonce: undefined },
    ...{ linkId: undefined, pays: false, settledBy: undefined, candidates: [], paymentId: undefined },
    ...{ historyPaymentId: undefined, historyClaimId: undefined, operationItemId: undefined },
  };
}
