/** What was decided with the knowledge of its time: a rebuild, which knows what came afterwards, must not decide otherwise. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { unassignTransaction } from "../../api/transactions/assign-or-unassign.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { failPayments, lockPayments } from "../../db/payments/payments.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import { watchOf } from "../../indexer/leader-term.ts";
import { applyMissedBlocks } from "../../indexer/settle/apply-missed-blocks.ts";
import { commitBlocks } from "../../indexer/settle/commit-blocks.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { readBlocks, readRange } from "../../indexer/source/block-logs.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import {
  amounts,
  findHistory,
  type Lab,
  linkOf,
  type Merchant,
  makeClaim,
  makeLink,
  makeMerchant,
  makePayer,
  mine,
  openLab,
  openTerm,
  pay,
  type RunningIndexer,
  send,
  settled,
  startIndexer,
  USDC,
  until,
} from "../support/indexer-lab.ts";
import {
  acceptPayment,
  authorize,
  makeSigner,
  paymentOf,
  sendBatch,
} from "../support/indexer-lab-payments.ts";
import { makeSender } from "../support/indexer-lab-reorgs.ts";
import { assertInvariants } from "../support/invariants.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

setDefaultTimeout(120_000);
const freshUnits = amounts();
let lab: Lab;
let indexer: RunningIndexer;
let merchant: Merchant;
let payer: Hex;
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  payer = await makePayer(lab);
  indexer = startIndexer(lab);
});
afterAll(async () => {
  await indexer.stop();
  await lab.stop();
});

const makeLinks = (count: number, units: bigint) =>
  Promise.all(Array.from({ length: count }, () => makeLink(lab, merchant, { units })));

async function statusOf(linkId: string | undefined) {
  const { status, exception } = await linkOf(lab, linkId ?? "");
  return { status, exception };
}

async function fail(paymentId: string | undefined, linkId: string): Promise<void> {
  await lab.sql.begin(async (tx) => {
    await lockPayments(tx, [paymentId ?? ""]);
    await lockLinks(tx, [linkId]);
    await failPayments(tx, [{ id: paymentId ?? "", reason: "EXPIRED_TRANSFER" }]);
  });
}

/** The rebuild of a network whose books are as they should be. */
async function expectIdentical(): Promise<void> {
  await settled(lab);
  await assertInvariants(lab.sql, lab.chain);
  expect(await rebuild()).toMatchObject({ differences: [] });
  await assertInvariants(lab.sql, lab.chain);
}

async function rebuild() {
  const term = await openTerm(lab);
  try {
    return await rebuildNetwork(term);
  } finally {
    term.close();
  }
}

test("a transfer attributed by a claim stays with its link when its authorization is later submitted to another", async () => {
  const units = freshUnits();
  const [claimed, shown] = (await makeLinks(2, units)) as [string, string];
  const signer = await makeSigner(lab);
  const { authorization, data } = await authorize(signer, { to: merchant.address, value: units });
  const txHash = await send(lab, payer, USDC, data);
  await settled(lab);
  await makeClaim(lab, { linkId: claimed, txHash, clientAddress: signer.lower, proof: "EOA" });
  await until("it is paid", async () => (await linkOf(lab, claimed)).status === "PAID");
  const paymentId = await acceptPayment(lab, shown, authorization);
  await until("it is refused", async () => (await paymentOf(lab, paymentId)).state === "FAILED");
  expect(await paymentOf(lab, paymentId)).toMatchObject({ reason: "NONCE_USED" });
  await expectIdentical();
  expect(await statusOf(claimed)).toEqual({ status: "PAID", exception: "NONE" });
  expect(await statusOf(shown)).toEqual({ status: "ACTIVE", exception: "NONE" });
});

test("a proof that has moved to the payment that fits its link stays there, and the other payment names the links that fit it", async () => {
  const [units, otherUnits] = [freshUnits(), freshUnits()];
  const [proven = ""] = await makeLinks(1, units);
  const others = await makeLinks(2, otherUnits);
  const signer = await makeSigner(lab);
  await settled(lab);
  await indexer.stop();
  const term = await openTerm(lab);
  try {
    const signed = await Promise.all(
      [units, otherUnits].map((value) => authorize(signer, { to: merchant.address, value })),
    );
    const txHash = await sendBatch(
      lab,
      payer,
      signed.map(({ data }) => ({ target: USDC, callData: data })),
    );
    await waitForReceipt(lab.chain.rpcUrl, txHash);
    await makeClaim(lab, { linkId: proven, txHash, clientAddress: signer.lower, proof: "EOA" });
    const head = await readHeader(term.chain, "latest");
    if (!head) throw new Error("the chain has no head");
    const blocks = await readBlocks(term.chain, [head], watchOf(term.watched));
    const partial = blocks.map((content) => ({
      ...content,
      transfers: content.transfers.filter(({ amountUnits }) => amountUnits === otherUnits),
      spent: content.spent.filter(({ transfer }) => transfer?.amountUnits === otherUnits),
    }));
    await commitBlocks(term, partial, head, 0);
    expect((await statusOf(proven)).status).toBe("ACTIVE");
    await applyMissedBlocks(term, blocks, (address) => term.watched.has(address));
    expect((await linkOf(lab, proven)).status).toBe("PAID");
    const [left] = await lab.sql<{ candidates: string[] }[]>`
      select candidates from transactions where tx_hash = ${txHash}::bytea and link_id is null`;
    expect(left?.candidates.toSorted()).toEqual(others.toSorted());
  } finally {
    term.close();
    indexer = startIndexer(lab);
  }
  await expectIdentical();
  expect(await statusOf(proven)).toEqual({ status: "PAID", exception: "NONE" });
});

test("a claimed transfer that the merchant has detached from its link keeps its row and id", async () => {
  const linkId = await makeLink(lab, merchant, { units: freshUnits() });
  const { amountUnits } = await linkOf(lab, linkId);
  await callRpc(lab.chain.rpcUrl, "evm_setAutomine", [false]);
  const txHash = await pay(lab, payer, merchant.address, amountUnits);
  await makeClaim(lab, { linkId, txHash, clientAddress: payer });
  await mine(lab);
  await callRpc(lab.chain.rpcUrl, "evm_setAutomine", [true]);
  await until("it is paid", async () => (await linkOf(lab, linkId)).status === "PAID");
  const rows = () => findHistory(lab, txHash, merchant.userId);
  const [claimed] = await rows();
  await unassignTransaction(lab.sql, {
    ...{ mismatchMinUnits: 0n, trace: { requestId: "req_1", clientAddress: "127.0.0.1" } },
    ...{ userId: merchant.userId, transactionId: claimed?.id ?? "" },
  });
  await expectIdentical();
  expect(await rows()).toMatchObject([{ id: claimed?.id, type: "RECEIVE", status: "CONFIRMED" }]);
  const pending = await lab.sql`
    select id from transactions where owner = owner_key(${merchant.userId}) and status = 'PENDING'`;
  expect(pending).toHaveLength(0);
});

test("an earlier transfer that was claimed after a later one had paid its link stays the duplicate", async () => {
  const units = freshUnits();
  const links = await makeLinks(3, units);
  const early = await pay(lab, payer, merchant.address, units);
  const late = await pay(lab, payer, merchant.address, units);
  await settled(lab);
  const [linkId = ""] = links;
  await makeClaim(lab, { linkId, txHash: late, clientAddress: payer, proof: "EOA" });
  await until("it is paid", async () => (await linkOf(lab, linkId)).status === "PAID");
  await makeClaim(lab, { linkId, txHash: early, clientAddress: payer, proof: "EOA" });
  await until("it is a duplicate", async () => (await linkOf(lab, linkId)).exception === "DUPLICATE");
  await expectIdentical();
  expect(await statusOf(linkId)).toEqual({ status: "PAID", exception: "DUPLICATE" });
  const [paying] = await lab.sql`select tx_hash from transfers where link_id = ${linkId} and pays`;
  expect(paying).toEqual({ txHash: late });
});

test("a failed payment's transfer that arrived while another payment held the link stays the duplicate", async () => {
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  const [signer, other] = [await makeSigner(lab), await makeSigner(lab)];
  const terms = { to: merchant.address, value: units };
  const [first, second] = [await authorize(signer, terms), await authorize(other, terms)];
  await fail(await acceptPayment(lab, linkId, first.authorization), linkId);
  const held = await acceptPayment(lab, linkId, second.authorization);
  await send(lab, payer, USDC, first.data);
  await settled(lab);
  expect(await statusOf(linkId)).toEqual({ status: "PENDING", exception: "DUPLICATE" });
  const plain = await pay(lab, payer, merchant.address, units);
  await settled(lab);
  await fail(held, linkId);
  await expectIdentical();
  const [paying] = await lab.sql`select tx_hash from transfers where link_id = ${linkId} and pays`;
  expect(paying).toEqual({ txHash: plain });
});

test("a failed payment's transfer still pays the link that the other payment released", async () => {
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  const [signer, other] = [await makeSigner(lab), await makeSigner(lab)];
  const terms = { to: merchant.address, value: units };
  const [first, second] = [await authorize(signer, terms), await authorize(other, terms)];
  const failed = await acceptPayment(lab, linkId, first.authorization);
  await fail(failed, linkId);
  const held = await acceptPayment(lab, linkId, second.authorization);
  const txHash = await send(lab, payer, USDC, first.data);
  await settled(lab);
  await fail(held, linkId);
  await until("it is paid", async () => (await linkOf(lab, linkId)).status === "PAID");
  expect(await paymentOf(lab, failed)).toMatchObject({ state: "CONFIRMED", reason: null, txHash });
  await expectIdentical();
  expect(await statusOf(linkId)).toEqual({ status: "PAID", exception: "NONE" });
});

test("a link created in the same second as a block that was already read takes nothing from the link that block paid", async () => {
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units, madeInS: -100 });
  const txHash = await pay(lab, payer, merchant.address, units);
  await settled(lab);
  expect(await statusOf(linkId)).toEqual({ status: "PAID", exception: "NONE" });
  const twin = await makeLink(lab, merchant, { units });
  await lab.sql`
    update payment_links
    set created_at = transfers.block_time + interval '0.9 s'
    from transfers
    where payment_links.id = ${twin} and transfers.tx_hash = ${txHash}`;
  await expectIdentical();
  expect(await statusOf(linkId)).toEqual({ status: "PAID", exception: "NONE" });
});

describe("a transfer missing from the ledger takes no link from a later one whose attribution is kept", () => {
  /** Two transfers to one link, as if the first had never been seen and the second had paid. */
  async function loseFirst(
    units: bigint,
    { first, second }: { first: bigint; second: bigint },
  ): Promise<{ linkId: string; paying: Hex }> {
    const linkId = await makeLink(lab, merchant, { units });
    await lab.sql`update payment_links set pay_amount_units = ${units + 1n} where id = ${linkId}`;
    const lost = await pay(lab, payer, merchant.address, first);
    const paying = await pay(lab, payer, merchant.address, second);
    await settled(lab);
    const settledBy = second === units ? "amount" : "pay_amount";
    await lab.sql`delete from transfers where tx_hash = ${lost}`;
    await lab.sql`
      update transfers set link_id = ${linkId}, pays = true, settled_by = ${settledBy} where tx_hash = ${paying}`;
    await lab.sql`
      update transactions
      set link_id = ${linkId}, type = 'PAYMENT_LINK', description = 'Coffee', settled_by = ${settledBy}
      where tx_hash = ${paying}`;
    await lab.sql`
      update payment_links set settled_by = ${settledBy}, paid_units = ${second}, paid_at = block_time
      from transfers
      where payment_links.id = ${linkId} and transfers.tx_hash = ${paying}`;
    return { linkId, paying };
  }

  test.each([
    ["of the same amount", 0n, 0n],
    ["of the link's unique amount", 0n, 1n],
    ["of the link's amount, being of the unique one itself", 1n, 0n],
  ])("%s", async (_, addedFirst, addedSecond) => {
    const units = freshUnits();
    const { linkId, paying } = await loseFirst(units, {
      first: units + addedFirst,
      second: units + addedSecond,
    });
    const { differences } = await rebuild();
    expect(differences).toMatchObject([
      { table: "transactions", rows: 1 },
      { table: "transfers", rows: 1 },
    ]);
    await assertInvariants(lab.sql, lab.chain);
    const rows = await lab.sql`select tx_hash from transfers where link_id = ${linkId} and pays`;
    expect([...rows]).toEqual([{ txHash: paying }]);
  });
});

test("a link keeps the transfer attributed by an early claim, whatever its calldata ends with and others claim since", async () => {
  const units = freshUnits();
  const [claimed, rival] = (await makeLinks(2, units)) as [string, string];
  const sender = await makeSender(lab);
  // the claim comes before the block is read
  await indexer.stop();
  const appended = "ab".repeat(16);
  const { txHash } = await sender.call(`${encodeTransfer(merchant.address, units)}${appended}`);
  await makeClaim(lab, { linkId: claimed, txHash, clientAddress: sender.address });
  indexer = startIndexer(lab);
  await settled(lab);
  expect(await linkOf(lab, claimed)).toMatchObject({ status: "PAID", settledBy: "early_claim" });
  await makeClaim(lab, { linkId: rival, txHash, clientAddress: sender.address });
  await expectIdentical();
  expect(await linkOf(lab, claimed)).toMatchObject({ status: "PAID", settledBy: "early_claim" });
  expect(await linkOf(lab, rival)).toMatchObject({ exception: "NONE", settledBy: null, paidAt: null });
});

test("a decision from before evidence was recorded is kept, and its evidence is recorded", async () => {
  const [plain, authorized, claimed] = [freshUnits(), freshUnits(), freshUnits()];
  const byAmount = await makeLink(lab, merchant, { units: plain });
  await pay(lab, payer, merchant.address, plain);
  const byAuthorization = await makeLink(lab, merchant, { units: authorized });
  const signer = await makeSigner(lab);
  const { authorization, data } = await authorize(signer, { to: merchant.address, value: authorized });
  await acceptPayment(lab, byAuthorization, authorization);
  await send(lab, payer, USDC, data);
  const [byClaim = ""] = await makeLinks(2, claimed);
  const txHash = await pay(lab, payer, merchant.address, claimed);
  await settled(lab);
  await makeClaim(lab, { linkId: byClaim, txHash, clientAddress: payer, proof: "EOA" });
  await until("it is paid", async () => (await linkOf(lab, byClaim)).status === "PAID");
  const links = { [byAmount]: "amount", [byAuthorization]: "authorization", [byClaim]: "early_claim" };
  const ids = Object.keys(links);
  await lab.sql`update transfers set settled_by = null where link_id = any(${ids})`;
  await lab.sql`update transactions set settled_by = null where link_id = any(${ids})`;
  await lab.sql`update payment_links set settled_by = null, paid_units = null where id = any(${ids})`;
  await lab.sql`update claims set proof = null where link_id = ${byClaim}`;
  await rebuild();
  for (const [id, settledBy] of Object.entries(links))
    expect(await linkOf(lab, id)).toMatchObject({ status: "PAID", exception: "NONE", settledBy });
});

/** As the second reading of a block does of which a node had left out a part. */
async function readAgain(number: number): Promise<number> {
  const term = await openTerm(lab);
  try {
    const blocks = await readRange(term.chain, { from: number, to: number }, watchOf(term.watched));
    return await applyMissedBlocks(term, blocks, (address) => term.watched.has(address));
  } finally {
    term.close();
  }
}

test.each([
  ["rebuilt", rebuild],
  ["completed", readAgain],
])(
  "in a ledger that is %s, a missing transfer that two links fitted pays neither, even if one was paid since",
  async (_, complete) => {
    const units = freshUnits();
    const [paid = "", open = ""] = await makeLinks(2, units);
    const lost = await pay(lab, payer, merchant.address, units);
    const paying = await pay(lab, payer, merchant.address, units);
    await settled(lab);
    const [{ number } = { number: 0 }] = await lab.sql<{ number: number }[]>`
      select block_number::int as number from transfers where tx_hash = ${lost}`;
    // nothing else reads the chain while the ledger is being damaged
    await indexer.stop();
    await lab.sql`delete from transactions where tx_hash = ${lost}`;
    await lab.sql`delete from transfers where tx_hash = ${lost}`;
    await lab.sql`
    update transfers
    set link_id = ${paid}, pays = true, settled_by = 'tag', candidates = null
    where tx_hash = ${paying}`;
    await lab.sql`
    update transactions
    set link_id = ${paid}, type = 'PAYMENT_LINK', settled_by = 'tag', candidates = null
    where tx_hash = ${paying}`;
    await complete(number);
    indexer = startIndexer(lab);
    const [booked] = await lab.sql<{ linkId: string | null; candidates: string[] }[]>`
    select link_id, candidates
    from transfers
    where tx_hash = ${lost}`;
    expect(booked?.linkId).toBeNull();
    expect(booked?.candidates.toSorted()).toEqual([paid, open].toSorted());
    expect(await statusOf(open)).toEqual({ status: "ACTIVE", exception: "NONE" });
  },
);
