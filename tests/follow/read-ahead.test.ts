/** The next block is read while the database is asked what waits for it. Where its answer changes what had to be read, the block is read again. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import {
  amounts,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeMerchant,
  makePayer,
  openLab,
  pay,
  type RunningIndexer,
  send,
  settled,
  startIndexer,
  USDC,
  until,
} from "../support/indexer-lab.ts";
import { acceptPayment, authorize, makeSigner, paymentOf } from "../support/indexer-lab-payments.ts";
import { signCancel } from "../support/payer.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

setDefaultTimeout(120_000);
/** A leader reads again what it has read a minute after its start at the earliest. */
const READ_WITHIN_MS = 45_000;
const freshUnits = amounts();

let lab: Lab;
let indexer: RunningIndexer;
let merchant: Merchant;
let payer: Awaited<ReturnType<typeof makePayer>>;
beforeAll(async () => {
  lab = await openLab();
  [merchant, payer] = [await makeMerchant(lab), await makePayer(lab)];
  indexer = startIndexer(lab);
});
afterAll(async () => {
  await indexer?.stop();
  await lab?.stop();
});

/** The database answers only when `work` is done, and the block it made was heard of. */
async function whileAsked(work: () => Promise<void>): Promise<void> {
  await settled(lab);
  await lab.sql.begin(async (tx) => {
    // read by no other statement of the indexer
    await tx`lock table link_watches in access exclusive mode`;
    await work();
    await until("the indexer asks what waits", async () => {
      const asking = await lab.sql`
        select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%link_watches%'`;
      return asking.length > 0;
    });
  });
}

test("a wallet's first payment counts when the wallet joins while the payment's block is read", async () => {
  const units = freshUnits();
  let linkId = "";
  await whileAsked(async () => {
    const joining = await makeMerchant(lab);
    linkId = await makeLink(lab, joining, { units });
    await waitForReceipt(lab.chain.rpcUrl, await pay(lab, payer, joining.address, units));
  });
  await until("the link is paid", async () => (await linkOf(lab, linkId)).status === "PAID", READ_WITHIN_MS);
});

test("a cancelled authorization ends its payment when that is accepted while the cancellation's block is read", async () => {
  const units = freshUnits();
  const [linkId, signer] = [await makeLink(lab, merchant, { units }), await makeSigner(lab)];
  const { authorization } = await authorize(signer, { to: merchant.address, value: units });
  let id: string | undefined;
  await whileAsked(async () => {
    id = await acceptPayment(lab, linkId, authorization);
    const txHash = await send(lab, payer, USDC, await signCancel(signer, authorization.nonce));
    await waitForReceipt(lab.chain.rpcUrl, txHash);
  });
  await until(
    "the payment has ended",
    async () => (await paymentOf(lab, id)).state === "FAILED",
    READ_WITHIN_MS,
  );
  expect((await linkOf(lab, linkId)).status).toBe("ACTIVE");
});
