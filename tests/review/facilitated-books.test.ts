/** Facilitated payments, which move money between strangers, in books that were away or are made anew. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { newPaymentId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { insertFacilitatedPayments } from "../../db/facilitated-payments.ts";
import { rebuildNetwork } from "../../indexer/rebuild.ts";
import {
  type Lab,
  type Merchant,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  openTerm,
  type RunningIndexer,
  randomAddress,
  send,
  settled,
  startIndexer,
  USDC,
} from "../indexer/lab.ts";
import { authorize, makeSigner, paymentOf } from "../indexer/lab-payments.ts";

setDefaultTimeout(30_000);
let lab: Lab;
let merchant: Merchant;
let payer: Hex;
let indexer: RunningIndexer | undefined;
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  payer = await makePayer(lab);
});
beforeEach(async () => {
  indexer = startIndexer(lab);
  await settled(lab);
});
afterEach(() => indexer?.stop());
afterAll(() => lab.stop());

async function accept() {
  const signer = await makeSigner(lab);
  const { authorization, data } = await authorize(signer, { to: randomAddress(), value: 1_000n });
  const id = newPaymentId();
  await lab.sql.begin((tx) =>
    insertFacilitatedPayments(tx, [
      {
        ...{
          id,
          network: NETWORK,
          token: USDC,
          payer: authorization.from,
          payerKind: "EOA",
          signature: "0x",
        },
        ...{ recipient: authorization.to, amountUnits: authorization.value, nonce: authorization.nonce },
        ...{ validAfter: authorization.validAfter, validBefore: authorization.validBefore },
        ...{ idempotencyKey: null, requestId: null, facilitatorUserId: merchant.userId },
        facilitatorKeyId: "key_test",
      },
    ]),
  );
  return { id, data };
}

test("behavior: one that a block settled long before the indexer came back is settled, not failed", async () => {
  await indexer?.stop();
  const { id, data } = await accept();
  await send(lab, payer, USDC, data);
  await mine(lab, 500);
  indexer = startIndexer(lab);
  await settled(lab);
  expect(await paymentOf(lab, id)).toMatchObject({ state: "CONFIRMED", reason: null });
});

test("behavior: a rebuild leaves it settled, and finds no difference", async () => {
  const { id, data } = await accept();
  await send(lab, payer, USDC, data);
  await settled(lab);
  expect(await paymentOf(lab, id)).toMatchObject({ state: "CONFIRMED" });
  await indexer?.stop();
  indexer = undefined;
  const term = await openTerm(lab);
  const { differences } = await rebuildNetwork(term).finally(term.close);
  expect(differences).toEqual([]);
  expect(await paymentOf(lab, id)).toMatchObject({ state: "CONFIRMED" });
});
