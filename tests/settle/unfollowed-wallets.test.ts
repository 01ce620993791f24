/** Transfers between two of our wallets, read before the recipient is followed: each is stored once, for both sides. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import { type Term, watchOf } from "../../indexer/leader-term.ts";
import { applyMissedBlocks } from "../../indexer/settle/apply-missed-blocks.ts";
import { commitBlocks } from "../../indexer/settle/commit-blocks.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { readBlocks } from "../../indexer/source/block-logs.ts";
import {
  followAll,
  type Lab,
  linkOf,
  type Merchant,
  makeMerchant,
  makePayer,
  openLab,
  openTerm,
  USDC,
} from "../support/indexer-lab.ts";
import {
  acceptPayment,
  authorize,
  makeSigner,
  paymentOf,
  type Signer,
  sendBatch,
} from "../support/indexer-lab-payments.ts";
import { makeSender, type Sender } from "../support/indexer-lab-reorgs.ts";
import { assertInvariants } from "../support/invariants.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";
import { makeLink } from "./campaign-links.ts";

setDefaultTimeout(120_000);
const UNITS = 5_000_000n;
let lab: Lab;
/** Two followed wallets with money. */
let sender: Sender;
let signer: Signer;
let merchant: Merchant;
let term: Term & { close: () => void };

beforeAll(async () => {
  lab = await openLab();
  sender = await makeSender(lab);
  signer = await makeSigner(lab);
  await makeMerchant(lab, sender.address);
  await makeMerchant(lab, signer.lower);
});
beforeEach(async () => {
  await followAll(lab);
  term = await openTerm(lab);
  merchant = await makeMerchant(lab);
});
afterAll(() => lab?.stop());

const readHead = async () => {
  const head = await readHeader(term.chain, "latest");
  if (!head) throw new Error("there is no head");
  return head;
};

/** As a leader that has not looked for new wallets yet. */
async function readNewest(): Promise<void> {
  const head = await readHead();
  await commitBlocks(term, await readBlocks(term.chain, [head], watchOf(term.watched)), head, 0);
}

/** A transfer that names the second of two links of its amount. */
async function payTagged(to: Merchant, from = sender): Promise<string> {
  await makeLink(lab, to, UNITS);
  const linkId = await makeLink(lab, to, UNITS);
  await from.call(`${encodeTransfer(to.address, UNITS)}${linkTag(linkId).slice(2)}`);
  return linkId;
}

async function expectPaid(linkId: string): Promise<void> {
  term.close();
  await followAll(lab);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", settledBy: "tag" });
  await assertInvariants(lab.sql, lab.chain, { mayBeInFlight: true });
}

test("the recipient's link is PAID although only the sender was followed", async () => {
  const linkId = await payTagged(merchant);
  await readNewest();
  await expectPaid(linkId);
});

test("it stays PAID in a rebuild before the recipient is followed", async () => {
  const linkId = await payTagged(merchant);
  await readNewest();
  expect((await rebuildNetwork(term)).differences).toEqual([]);
  await expectPaid(linkId);
});

test("it is PAID when the transfer is found in the sender's past, before the recipient is followed", async () => {
  const unfollowed = await makeSender(lab);
  const { address } = await makeMerchant(lab, unfollowed.address);
  const linkId = await payTagged(merchant, unfollowed);
  await readNewest();
  const isWatched = (wallet: Hex) => wallet === address;
  const watch = { ...watchOf(term.watched), isWatched, size: 1, bits: () => [] };
  await applyMissedBlocks(term, await readBlocks(term.chain, [await readHead()], watch), isWatched);
  await expectPaid(linkId);
});

test("of two payments to such a recipient in one transaction, that of a followed sender settles at once, a stranger's with the recipient's past", async () => {
  const linkIds = [await makeLink(lab, merchant, UNITS + 1n), await makeLink(lab, merchant, UNITS + 2n)];
  const payments = [signer, await makeSigner(lab)].map(async (payer, index) => {
    const linkId = linkIds[index] ?? "";
    const value = (await linkOf(lab, linkId)).amountUnits ?? 0n;
    const { authorization, data } = await authorize(payer, { to: merchant.address, value });
    return { id: await acceptPayment(lab, linkId, authorization), target: USDC, callData: data };
  });
  const [own, strangers] = await Promise.all(payments);
  const calls = [own, strangers].flatMap((payment) => payment ?? []);
  await waitForReceipt(lab.chain.rpcUrl, await sendBatch(lab, await makePayer(lab), calls));
  await readNewest();
  expect(await paymentOf(lab, own?.id)).toMatchObject({ state: "CONFIRMED" });
  expect(await paymentOf(lab, strangers?.id)).toMatchObject({ state: "QUEUED" });
  term.close();
  await followAll(lab);
  expect(await paymentOf(lab, strangers?.id)).toMatchObject({ state: "CONFIRMED" });
  await assertInvariants(lab.sql, lab.chain);
});
