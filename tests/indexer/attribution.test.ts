import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  type Lab,
  linkOf,
  makeLink,
  makeMerchant,
  makePayer,
  openLab,
  pay,
  type RunningIndexer,
  settled,
  startIndexer,
} from "./lab.ts";

let lab: Lab;
let indexer: RunningIndexer;
beforeAll(async () => {
  lab = await openLab();
  indexer = startIndexer(lab);
});
afterAll(async () => {
  await indexer.stop();
  await lab.stop();
});

test("a plain transfer of the exact amount pays the only open link", async () => {
  const merchant = await makeMerchant(lab);
  const payer = await makePayer(lab);
  const linkId = await makeLink(lab, merchant, { units: 5_000_000n });
  const txHash = await pay(lab, payer, merchant.address, 5_000_000n);
  await settled(lab);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "NONE" });
  const history = await lab.sql`select * from transactions where user_id = ${merchant.userId}`;
  expect([...history]).toMatchObject([
    {
      type: "PAYMENT_LINK",
      status: "CONFIRMED",
      amountUnits: 5_000_000n,
      counterparty: payer,
      txHash,
      linkId,
    },
  ]);
});
