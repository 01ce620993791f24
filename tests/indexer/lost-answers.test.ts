/** The leader asks the database for something, it is done, and the answer is lost on the way. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type AnswerCutter, startAnswerCutter } from "./answer-cutter.ts";
import {
  amounts,
  findHistory,
  type Lab,
  linkOf,
  makeLink,
  makeMerchant,
  makePayer,
  mine,
  openLab,
  pay,
  type RunningIndexer,
  settled,
  startIndexer,
  until,
} from "./lab.ts";

setDefaultTimeout(60_000);

const WALLETS = 5;
const nextAmount = amounts();
let lab: Lab;
let cutter: AnswerCutter;
let indexer: RunningIndexer;

beforeAll(async () => {
  lab = await openLab();
  cutter = startAnswerCutter(lab.db.url);
  indexer = startIndexer(lab, { poolUrl: cutter.url });
  await makeMerchant(lab);
  await mine(lab);
  await settled(lab);
});
afterAll(async () => {
  await indexer?.stop();
  cutter?.stop();
  await lab?.stop();
});

test("a wallet whose joining was done but not heard of is followed from then on", async () => {
  const payer = await makePayer(lab);
  for (let n = 0; n < WALLETS; n++) {
    const before = cutter.cuts();
    const merchant = await makeMerchant(lab);
    const hasJoined = async () => {
      const [row] = await lab.sql<{ indexedFrom: bigint | null }[]>`
        select indexed_from from wallets where address = ${merchant.address}`;
      return row?.indexedFrom != null;
    };
    cutter.cutWhen(hasJoined);
    await until("its joining is cut", async () => cutter.cuts() > before);
    const units = nextAmount();
    const linkId = await makeLink(lab, merchant, { units });
    const txHash = await pay(lab, payer, merchant.address, units);
    await settled(lab);
    expect(await findHistory(lab, txHash, merchant.userId)).toMatchObject([{ type: "PAYMENT_LINK", linkId }]);
    expect((await linkOf(lab, linkId)).status).toBe("PAID");
  }
});
