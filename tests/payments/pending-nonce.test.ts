/** An authorization that an external transaction has sent and no block holds yet: the next block decides, not a node's mempool. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  countTransfers,
  type Lab,
  newOrder,
  pay,
  paymentOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { broadcastAsStranger } from "../support/stranger.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
}, 120_000);
afterAll(() => lab?.stop());

test("behavior: a payment whose authorization is in a node's pool does not fail, and that transaction settles it", async () => {
  const order = await newOrder(lab);
  const headBefore = await lab.rpc("eth_blockNumber");
  await waitFor("the ledger", async () => {
    const [row] = await lab.sql<{ number: bigint }[]>`select number from cursors`;
    return row?.number === BigInt(String(headBefore));
  });
  await lab.rpc("evm_setAutomine", [false]);
  const sent = broadcastAsStranger(lab.chain.rpcUrl, order.payment);
  await waitFor("the external transaction in the pool", async () => {
    const pool = (await lab.rpc("txpool_status")) as { pending: string };
    return Number(pool.pending) === 1;
  });
  const answer = pay(lab, order);
  await waitFor("acceptance", () => paymentOf(lab, order.linkId));
  const states = new Set<string | undefined>();
  for (let poll = 0; poll < 30; poll++) {
    states.add((await paymentOf(lab, order.linkId))?.state);
    await Bun.sleep(100);
  }
  expect([...states]).toEqual(["QUEUED"]);
  await lab.rpc("evm_setAutomine", [true]);
  await lab.rpc("evm_mine");
  await sent;
  await waitForLink(lab, order.linkId, "PAID");
  expect(await answer).toMatchObject({ status: 200, body: { success: true, txHash: await sent } });
  expect(await countTransfers(lab, order.linkId)).toBe(1);
}, 120_000);
