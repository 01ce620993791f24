/** A node that follows another branch than the ledger has read: heights agree, blocks do not, and one of them may pay the link. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { makePerson, signTransfer } from "../links/evidence-side.ts";
import {
  countTransfers,
  type Lab,
  newOrder,
  payWithRetries,
  startLab,
  waitForLink,
} from "../support/relay-lab.ts";
import {
  balanceOf,
  countRelays,
  readHead,
  secondOrder,
  waitForLedger,
  waitUntilPutOff,
  whileIndexerStands,
} from "./second-payer.ts";

/** A balance set by decree is undone with the blocks it was set in. */
const BURIED_BLOCKS = "0x6";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
  expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
}, 120_000);

afterAll(() => lab?.stop());

/** Another branch of the same height, whose newest block pays the order by a plain transfer. */
async function branchOff(raw: Hex): Promise<void> {
  const before = await readHead(lab);
  await lab.rpc("anvil_reorg", [1, [[raw, 0]]]);
  await lab.rpc("evm_setTime", [Math.floor(Date.now() / 1000)]);
  expect(await readHead(lab)).toBe(before);
}

describe("a link was paid by a plain transfer in a block of a branch that the ledger has not read", () => {
  for (const newer of [0, 2]) {
    test(`error: LINK_ALREADY_PAID for the second payer, uncharged, when the node is ${newer} blocks ahead of the ledger`, async () => {
      const order = await newOrder(lab);
      const second = await secondOrder(lab, order);
      const units = BigInt(order.payment.value);
      const side = { rpcUrl: lab.chain.rpcUrl };
      const { raw } = await signTransfer(side, await makePerson(side), { to: lab.merchant.address, units });
      await lab.rpc("anvil_mine", [BURIED_BLOCKS]);
      await waitForLedger(lab);
      const [funds, relays] = [await balanceOf(lab, second), await countRelays(lab)];
      const paying = await whileIndexerStands(lab, async () => {
        await branchOff(raw);
        for (let block = 0; block < newer; block++) await lab.rpc("evm_mine");
        const answer = payWithRetries(lab, second);
        await waitUntilPutOff(lab, second);
        return { answer };
      });
      expect(await paying.answer).toMatchObject({ status: 409, body: { error: "LINK_ALREADY_PAID" } });
      await waitForLink(lab, order.linkId, "PAID");
      expect(await countTransfers(lab, order.linkId)).toBe(1);
      expect(await balanceOf(lab, second)).toBe(funds);
      expect(await countRelays(lab)).toBe(relays);
    }, 120_000);
  }
});
