/** A block that paid a link leaves the chain: the same bytes are resent, and the link is paid again, once. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { assertInvariants } from "../support/invariants.ts";
import {
  countTransfers,
  type Lab,
  newOrder,
  pay,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
}, 120_000);

afterAll(() => lab?.stop());

const BURIED_BLOCKS = 6;

/** A balance set by decree is undone with the blocks it was set in. */
async function buryFunding(): Promise<void> {
  for (let block = 0; block < BURIED_BLOCKS; block++) await lab.rpc("evm_mine");
}

/** Drops the last blocks and their transactions, as a node does that follows another branch. */
async function reorganise(depth: number): Promise<void> {
  await lab.rpc("anvil_reorg", [depth, []]);
  await lab.rpc("evm_setTime", [Math.floor(Date.now() / 1000)]);
  await lab.rpc("evm_mine");
}

for (const depth of [1, 3]) {
  test(`behavior: ${depth} block(s) back, a PAID link goes back and is PAID again by the same authorization`, async () => {
    const order = await newOrder(lab);
    await buryFunding();
    expect(await pay(lab, order)).toMatchObject({ status: 200 });
    await waitForLink(lab, order.linkId, "PAID");
    await reorganise(depth);
    await waitFor("the link to have gone back", async () => {
      const rows = await lab.sql`
        select id from events where subject_id = ${order.linkId} and type = 'payment_link.reorged'`;
      return rows.length > 0;
    });
    await waitForLink(lab, order.linkId, "PAID");
    expect(await countTransfers(lab, order.linkId)).toBe(1);
    await waitFor("all relays to be mined", async () =>
      (await relaysOf(lab)).every((relay) => relay.succeeded === true),
    );
    await assertInvariants(lab.sql, lab.chain);
  }, 120_000);
}

test("behavior: links whose payments were far below the branch stay PAID", async () => {
  const orders = [await newOrder(lab), await newOrder(lab)];
  const later = await newOrder(lab);
  await buryFunding();
  for (const order of orders) expect(await pay(lab, order)).toMatchObject({ status: 200 });
  await buryFunding();
  await reorganise(3);
  expect(await pay(lab, later)).toMatchObject({ status: 200 });
  for (const { linkId } of orders) {
    await waitForLink(lab, linkId, "PAID");
    const moved = await lab.sql`
      select id from events where subject_id = ${linkId} and type = 'payment_link.reorged'`;
    expect(moved.length).toBe(0);
  }
  await assertInvariants(lab.sql, lab.chain);
}, 120_000);
