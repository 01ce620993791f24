/** More relays in flight than one page covers: all are polled, and none waits behind stuck ones. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { type Lab, newOrder, pay, relaysOf, startLab, waitFor, waitForLink } from "../support/relay-lab.ts";

const MANY = 600;
let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { PAY_WAIT_MS: "500" } });
}, 120_000);
afterEach(() => lab.rpc("evm_setAutomine", [true]));
afterAll(() => lab?.stop());

function hashes(count: number): string[] {
  return Array.from({ length: count }, () => `0x${randomBytes(32).toString("hex")}`);
}

test(`behavior: the receipt of the last of ${MANY} attempts is found`, async () => {
  await lab.rpc("evm_setAutomine", [false]);
  const order = await newOrder(lab);
  await pay(lab, order);
  const [relay] = await waitFor("a relay", async () => {
    const rows = await relaysOf(lab);
    return rows.length > 0 && rows;
  });
  // cheaper ones that no node ever had, so the true ones are asked for last
  await lab.sql`
    insert into relay_attempts (tx_hash, relay_id, raw, max_fee_per_gas, max_priority_fee_per_gas, last_sent_at)
    select hash, ${relay?.id ?? 0n}, '\\x00', place, 1, now()
    from unnest(${hashes(MANY)}::text[]) with ordinality as given (hash, place)`;
  await lab.rpc("evm_setAutomine", [true]);
  await lab.rpc("evm_mine");
  await waitForLink(lab, order.linkId, "PAID");
  const mined = await waitFor("the receipt", async () => {
    const rows = await relaysOf(lab);
    return rows.every(({ succeeded }) => succeeded) && rows;
  });
  expect(mined.map(({ nonce }) => nonce)).toEqual([relay?.nonce ?? -1n]);
}, 120_000);

test(`behavior: ${MANY} transactions that every node rejects do not delay recording the receipts of others`, async () => {
  // a key that is first in every order, and that no worker holds
  const relayer = `0x${"0".repeat(39)}1`;
  await lab.sql`insert into relayers (network, address, next_nonce) values ('base-sepolia', ${relayer}, ${MANY})`;
  await lab.sql`
    with stuck as (
      insert into relays (network, relayer, nonce, kind, call_to, call_data_start, call_data_bytes, gas_limit)
      select 'base-sepolia', ${relayer}, nonce, 'NOOP', ${relayer}, 1, 0, 21000
      from generate_series(0, ${MANY - 1}) as nonce
      returning id, nonce
    )
    insert into relay_attempts (tx_hash, relay_id, raw, max_fee_per_gas, max_priority_fee_per_gas)
    select hash, stuck.id, '\\x00', 1, 1
    from stuck
    join unnest(${hashes(MANY)}::text[]) with ordinality as given (hash, place) on place = nonce + 1`;
  const order = await newOrder(lab);
  await pay(lab, order);
  await waitForLink(lab, order.linkId, "PAID");
  const own = await waitFor("the receipt", async () => {
    const rows = (await relaysOf(lab)).filter((relay) => relay.relayer === lab.relayer);
    return rows.every(({ succeeded }) => succeeded) && rows;
  });
  expect(own).toHaveLength(2);
}, 120_000);
