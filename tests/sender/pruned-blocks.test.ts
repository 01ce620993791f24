/** A receipt of an orphaned block so far below the head that the indexer has pruned it. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { type Lab, newOrder, pay, startLab, waitFor, waitForLink } from "../support/relay-lab.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
}, 120_000);
afterAll(() => lab?.stop());

test("behavior: a relay in a pruned block is CONFIRMED only with the block that the chain has", async () => {
  const order = await newOrder(lab);
  expect(await pay(lab, order)).toMatchObject({ status: 200 });
  await waitForLink(lab, order.linkId, "PAID");
  const [relay] = await waitFor("its receipt", async () => {
    const rows = await lab.sql<{ id: bigint; txHash: string; blockHash: string; blockNumber: bigint }[]>`
      select id, tx_hash, block_hash, block_number from relays where state in ('MINED', 'CONFIRMED')`;
    return rows.length > 0 && rows;
  });
  if (!relay) throw new Error("there is no relay");
  await lab.sql.begin(async (tx) => {
    await tx`delete from blocks where number = ${relay.blockNumber}`;
    await tx`
      update relays
      set state = 'MINED', block_hash = ${`0x${randomBytes(32).toString("hex")}`}
      where id = ${relay.id}`;
  });
  await lab.rpc("evm_mine");
  const [done] = await waitFor("it to be CONFIRMED", async () => {
    const rows = await lab.sql`
      select tx_hash, block_hash, block_number from relays where id = ${relay.id} and state = 'CONFIRMED'`;
    return rows.length > 0 && rows;
  });
  const { txHash, blockHash, blockNumber } = relay;
  expect(done).toEqual({ txHash, blockHash, blockNumber });
}, 120_000);
