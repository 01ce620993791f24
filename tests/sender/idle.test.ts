/** When the monitor of relays has something to do: a pass that finds nothing unfinished asks the database no more. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { hasUnfinished } from "../../db/relays/relays.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";

const NETWORK = "base-sepolia";
const RELAYER = `0x${"5e".repeat(20)}` as const;
let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  merchant = await seedMerchant(sql);
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

/** What is unfinished on both networks while the row that `move` changes has each of these states. */
async function findUnfinished(states: readonly string[], move: (state: string) => Promise<unknown>) {
  const found: Record<string, boolean> = {};
  for (const state of states) {
    await move(state);
    found[state] = await hasUnfinished(sql, NETWORK, []);
    expect(await hasUnfinished(sql, "base", [])).toBe(false);
  }
  return found;
}

test("a relay is unfinished until it is deep in the chain or lost", async () => {
  await ensureLane(sql, { network: NETWORK, relayer: RELAYER }, 0n);
  const [relay] = await sql<{ id: bigint }[]>`
    insert into relays (network, relayer, nonce, kind, state, call_to, call_data_start, call_data_bytes, gas_limit)
    values (${NETWORK}, ${RELAYER}, 0, 'NOOP', 'LOST', '0x', 0, 0, 1)
    returning id`;
  const move = (state: string) => sql`
    update relays
    set state = ${state}, block_number = 1, block_hash = '0x', succeeded = true
    where id = ${relay?.id ?? 0n}`;
  expect(await findUnfinished(["SIGNED", "BROADCAST", "MINED", "CONFIRMED", "LOST"], move)).toEqual({
    ...{ SIGNED: true, BROADCAST: true, MINED: true },
    ...{ CONFIRMED: false, LOST: false },
  });
});

test("a payment is unfinished until the ledger has it or it has failed, whatever became of its relay", async () => {
  const linkId = await seedLink(sql, merchant, { amountUnits: 1_000_000n });
  await sql`
    insert into payments (
      id, link_id, network, token, payer, payer_kind, recipient, amount_units, valid_after, valid_before, nonce, signature, state
    )
    select
      'pay_one', ${linkId}, ${NETWORK}, substr(sha256('token'), 1, 20), substr(sha256('payer'), 1, 20), 'EOA',
      substr(sha256('payee'), 1, 20), 1000000, 0, 4102444800, sha256('nonce'), '', 'QUEUED'`;
  const move = (state: string) => sql`
    update payments
    set state = ${state}, reason = case when ${state === "FAILED"} then 'INTERNAL_ERROR' end
    where id = 'pay_one'`;
  expect(await findUnfinished(["QUEUED", "SIGNED", "BROADCAST", "MINED", "FAILED"], move)).toEqual({
    ...{ QUEUED: true, SIGNED: true, BROADCAST: true },
    ...{ MINED: false, FAILED: false },
  });
});
