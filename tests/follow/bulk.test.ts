/** The ledger of a chain that was followed block by block, and of one that was read in bulk: the same rows. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { storePlainTransfers } from "../../db/ledger/bulk-transfers.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import {
  amounts,
  headOf,
  type Lab,
  type Merchant,
  makeLink,
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
} from "../support/indexer-lab.ts";
import { makeSender, reorganise, type Sender } from "../support/indexer-lab-reorgs.ts";
import { assertInvariants } from "../support/invariants.ts";
import { createTestDatabase } from "../support/postgres.ts";

setDefaultTimeout(120_000);
const CONFIRMATIONS = 3;
/** Above what is read by block hash. */
const FAR_BLOCKS = 200;
const freshUnits = amounts();

/** Followed block by block. */
let followed: Lab;
/** The same chain in a database of its own, read afterwards. */
let bulk: Lab;
let one: Merchant;
let other: Merchant;
let sender: Sender;
let payer: Hex;
const indexers: RunningIndexer[] = [];

beforeAll(async () => {
  followed = await openLab();
  const db = await createTestDatabase();
  bulk = { ...followed, db, sql: openDatabase(db.url, { name: "test", maxConnections: 3 }) };
  // an address whose transfers the node signs, as a wallet of ours: transfers between wallets, and out of one
  payer = await makePayer(followed);
  one = await makeMerchant(followed);
  other = await makeMerchant(followed, payer);
  sender = await makeSender(followed);
  await makeHistory();
});
afterAll(async () => {
  for (const indexer of indexers) await indexer.stop();
  await bulk?.sql.end({ timeout: 5 });
  await bulk?.db.drop();
  await followed?.stop();
});

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
  await bulk.sql.unsafe(
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
      select transactions.id, user_id, transactions.network, type, transactions.status, transactions.amount_units,
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

test("a history read in bulk is row by row the one that was followed, also after a reorganisation", async () => {
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

test("transfers from before the first start have no event, one at its limit has", async () => {
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
            ...{ blockNumber: number, blockHash: hash, blockTimeS, confirmedAtS: blockTimeS, txHash },
            ...{ logIndex: blockTimeS, from: randomAddress(), to: one.address, amountUnits: 1_500_000n },
            ...{ authorizationNonce: undefined, linkId: undefined, pays: false, settledBy: undefined },
            ...{
              candidates: [],
              paymentId: undefined,
              historyPaymentId: undefined,
              historyClaimId: undefined,
            },
            operationItemId: undefined,
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
