/** A reorganisation puts a third party's execution of a payment's authorization into a block of the time before its acceptance. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Authorization } from "../../core/domain/authorization.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { findPayments } from "../../db/ledger/attribution.ts";
import {
  amounts,
  headOf,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeMerchant,
  mine,
  NETWORK,
  openLab,
  type RunningIndexer,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";
import { acceptPayment, authorize, makeSigner, paymentOf } from "../support/indexer-lab-payments.ts";
import { makeSender, reorganise, type Sender } from "../support/indexer-lab-reorgs.ts";
import { assertInvariants } from "../support/invariants.ts";
import { randomHash } from "../support/ledger-lab.ts";

let lab: Lab;
let indexer: RunningIndexer;
let merchant: Merchant;

beforeAll(async () => {
  lab = await openLab();
  indexer = startIndexer(lab);
  merchant = await makeMerchant(lab);
});
afterAll(async () => {
  await assertInvariants(lab.sql, lab.chain, { mayBeInFlight: true });
  await indexer.stop();
  await lab.stop();
});
const freshUnits = amounts();

type Accepted = {
  linkId: string;
  paymentId: string | undefined;
  authorization: Authorization;
  data: Hex;
  height: number;
  stranger: Sender;
  rival: Sender;
};

/** A payment of one of two links of a price, accepted at `height`, and the calldata that executes it. */
async function acceptAmongTwins(nonce: Hex): Promise<Accepted> {
  const signer = await makeSigner(lab);
  const [stranger, rival] = [await makeSender(lab), await makeSender(lab)];
  // a reorganisation undoes balances set by decree
  await mine(lab, 8);
  await settled(lab);
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  await makeLink(lab, merchant, { units });
  const { authorization, data } = await authorize(signer, { to: merchant.address, value: units, nonce });
  const paymentId = await acceptPayment(lab, linkId, authorization);
  const { number: height } = await headOf(lab);
  return { linkId, paymentId, authorization, data, height, stranger, rival };
}

for (const again of ["the same transaction", "another one"]) {
  test(`an authorization that settled its payment settles it again when ${again} executes it no higher than its acceptance`, async () => {
    const { linkId, paymentId, data, height, stranger, rival } = await acceptAmongTwins(randomHash());
    const first = await stranger.call(data);
    // reverts for as long as the first one stands
    const second = await rival.call(data);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", settledBy: "authorization" });
    const { raw, txHash } = again === "another one" ? second : first;
    const { number } = await headOf(lab);
    await reorganise(lab, number - height + 2, [[raw, 0]]);
    await settled(lab);
    const [row] = await lab.sql<{ blockNumber: bigint }[]>`
      select block_number from transfers where tx_hash = ${txHash} and status <> 'ORPHANED'`;
    expect(Number(row?.blockNumber)).toBeLessThan(height);
    expect(await paymentOf(lab, paymentId)).toMatchObject({ state: "CONFIRMED", txHash, reason: null });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", settledBy: "authorization" });
  }, 120_000);
}

test("a payment counts as settled by its own transfer, not by another payer's with the same nonce", async () => {
  const nonce = randomHash();
  const { authorization, data, stranger } = await acceptAmongTwins(nonce);
  await stranger.call(data);
  await settled(lab);
  const { authorization: namesake } = await acceptAmongTwins(nonce);
  const keys = [authorization, namesake].map(({ from: payer }) => ({ payer, nonce }));
  const wasSettled = async ({ from }: { from: Hex }) => {
    const facts = await findPayments(lab.sql, NETWORK, keys);
    return facts.find((one) => one.payer === from)?.wasSettled;
  };
  // a payment whose block was read before the payment was known is settled shortly after
  await until("the first is settled", async () => (await wasSettled(authorization)) === true);
  expect(await wasSettled(namesake)).toBe(false);
}, 120_000);
