/** Undoing the newest block reads its own payments and relays, not the whole history of the network. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { lowerAcceptedBlocks, orphanBlocksAbove } from "../../db/ledger/orphan-blocks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import {
  acceptFacilitated,
  type BooksLab,
  NETWORK,
  openBooks,
  randomHash,
  signRelay,
} from "../support/ledger-lab.ts";
import { countRowsRead } from "../support/rows-read.ts";

setDefaultTimeout(120_000);

const HISTORY = 40_000;
const NEWEST = HISTORY + 1;
/** Of the newest range of 128 pages, for each column that is looked up; Postgres counts ten rows a page. */
const READ_MAX = 8_000;

let lab: BooksLab;
/** Plans once for all heights, like the indexer's own connections. */
let indexer: Sql;
let payment: Awaited<ReturnType<typeof acceptFacilitated>>;
let relayId: bigint;
beforeAll(async () => {
  lab = await openBooks({ readTo: NEWEST });
  indexer = openDatabase(lab.url, { name: "indexer", maxConnections: 1, genericPlans: true });
  payment = await acceptFacilitated(lab);
  relayId = (await signRelay(lab, payment)).relayId;
  await fillHistory();
  // as autovacuum does while a table grows
  for (const table of ["payments", "relays"]) await lab.sql`analyze ${lab.sql(table)}`;
  for (const index of ["payments_height", "relays_height"])
    await lab.sql`select brin_summarize_new_values(oid) from pg_class where relname = ${index}`;
});
afterAll(async () => {
  await indexer?.end({ timeout: 5 });
  await lab?.stop();
});
beforeEach(async () => {
  await lab.sql`
    update relays set state = 'MINED', block_number = ${NEWEST}, block_hash = ${randomHash()} where id = ${relayId}`;
  await lab.sql`
    update payments set state = 'MINED', relay_id = ${relayId}, block_number = ${NEWEST} where id = ${payment.id}`;
});

test.each(["payments", "relays"])("undoing the newest block reads few rows of %s", async (table) => {
  const undo = () =>
    countRowsRead(indexer, table, (tx) =>
      orphanBlocksAbove(tx, { network: NETWORK, ancestor: HISTORY, claimLeaseS: 90 }),
    );
  expect(await undo()).toBeLessThan(READ_MAX);
  const [row] = await lab.sql`
    select payments.state, relays.state as relay, payments.block_number
    from payments, relays
    where payments.id = ${payment.id} and relays.id = ${relayId}`;
  expect(row).toEqual({ state: "SIGNED", relay: "BROADCAST", blockNumber: null });
});

test("the query for payments that were committed after it reads few rows too", async () => {
  await lab.sql`update payments set accepted_block = ${NEWEST} where id = ${payment.id}`;
  const look = () =>
    countRowsRead(indexer, "payments", (tx) =>
      lowerAcceptedBlocks(tx, { network: NETWORK, number: HISTORY }),
    );
  expect(await look()).toBeLessThan(READ_MAX);
  const [row] = await lab.sql<
    { acceptedBlock: bigint }[]
  >`select accepted_block from payments where id = ${payment.id}`;
  expect(row?.acceptedBlock).toBe(BigInt(HISTORY));
});

/** One payment and its relay in each block before the newest. */
async function fillHistory(): Promise<void> {
  const { sql } = lab;
  await sql`
    insert into payments (
      id, network, token, payer, payer_kind, recipient, amount_units, valid_after, valid_before, nonce, signature,
      facilitator_user_id, facilitator_key_id, state, accepted_block, block_number
    )
    select
      'pay_' || lpad(to_hex(n), 32, '0'), network, token, payer, payer_kind, recipient, amount_units, valid_after,
      valid_before, sha256(n::text::bytea), signature, facilitator_user_id, facilitator_key_id, 'CONFIRMED', n - 1, n
    from payments, generate_series(1, ${HISTORY}::int) n
    where id = ${payment.id}
    order by n`;
  await sql`
    insert into relays (
      network, relayer, nonce, kind, call_to, call_data_start, call_data_bytes, gas_limit, state, block_number, mined_at
    )
    select network, relayer, nonce + n, kind, call_to, 0, 0, gas_limit, 'CONFIRMED', n, now()
    from relays, generate_series(1, ${HISTORY}::int) n
    where id = ${relayId}
    order by n`;
}
