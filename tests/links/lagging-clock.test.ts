/** The chain's clock is behind the service's: whether a link existed when it was paid is decided by heights. */
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { type PayerSide, startPayerSide, waitFor } from "./payer-side.ts";
import { sendUsdc } from "./payers.ts";

setDefaultTimeout(120_000);

let side: PayerSide;
beforeAll(async () => {
  side = await startPayerSide();
}, 120_000);
afterEach(() => side.world.startMissing());
afterAll(() => side?.world.stop());

/** From now on blocks carry times this far behind ours. Returns the time of the newest one, in seconds behind. */
async function setLag(lagS: number): Promise<void> {
  await callRpc(side.rpcUrl, "anvil_setTime", [Math.floor(Date.now() / 1000) - lagS]);
  await callRpc(side.rpcUrl, "evm_mine", []);
  const block = (await callRpc(side.rpcUrl, "eth_getBlockByNumber", ["latest", false])) as { timestamp: Hex };
  const behindS = Date.now() / 1000 - Number(block.timestamp);
  expect(behindS).toBeGreaterThan(lagS - 5);
}

const payWallet = (units: bigint): Promise<Hex> => sendUsdc(side.rpcUrl, side.payer, side.wallet, units);

describe.each([2, 31, 61, 600])("a chain whose clock is %d s behind", (lagS) => {
  beforeAll(() => setLag(lagS));

  test("a new link is paid by a plain transfer, and by a claim of it", async () => {
    const { id, amountUnits } = await side.makeLink();
    const hash = await payWallet(amountUnits);
    await side.waitForStatus(id, "PAID");
    const { body } = await side.ann.client.get(`/v1/transactions?search=${hash}`);
    expect(body.data.transactions).toMatchObject([
      { type: "PAYMENT_LINK", status: "CONFIRMED", metadata: { linkId: id } },
    ]);
  });

  test("a claim of a new link is accepted before the transfer is read, and matched when it is", async () => {
    const { id, amountUnits } = await side.makeLink();
    await side.world.kill("indexer");
    const hash = await payWallet(amountUnits);
    const answer = await side.claim(id, hash);
    expect([answer.status, answer.body.status]).toEqual([200, "PENDING"]);
    await side.world.start("indexer");
    await side.waitForStatus(id, "PAID");
    await waitFor("the claim is matched", async () => (await side.claimRow(id))?.state === "MATCHED");
  });

  test("a transfer from before a link was created does not pay it", async () => {
    const { id: first, amountUnits } = await side.makeLink();
    await payWallet(amountUnits);
    await side.waitForStatus(first, "PAID");
    const { id: second } = await side.makeLink("same");
    const hash = await payWallet(amountUnits + 1n);
    await waitFor("the next transfer is read", async () => {
      const { body } = await side.ann.client.get(`/v1/transactions?search=${hash}`);
      return body.data.transactions.length === 1;
    });
    expect(await side.statusOf(second)).toBe("ACTIVE");
  });
});
