/** What was decided with the knowledge of its time: a rebuild, which knows what came afterwards, must not decide otherwise. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { failPayments, lockLinks, lockPayments } from "../../db/payments.ts";
import { rebuildNetwork } from "../../indexer/rebuild.ts";
import { assertInvariants } from "../support/invariants.ts";
import {
  amounts,
  type Lab,
  linkOf,
  type Merchant,
  makeClaim,
  makeLink,
  makeMerchant,
  makePayer,
  openLab,
  openTerm,
  pay,
  type RunningIndexer,
  send,
  settled,
  startIndexer,
  USDC,
  until,
} from "./lab.ts";
import { acceptPayment, authorize, makeSigner, paymentOf } from "./lab-payments.ts";

setDefaultTimeout(60_000);
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
  const term = await openTerm(lab);
  try {
    expect(await rebuildNetwork(term)).toMatchObject({ differences: [] });
  } finally {
    term.close();
  }
  await assertInvariants(lab.sql, lab.chain);
}

test("a transfer that a claim gave to one link stays there when its authorization is shown to another link afterwards", async () => {
  const units = freshUnits();
  const [claimed, shown] = (await makeLinks(2, units)) as [string, string];
  const signer = await makeSigner(lab);
  const { authorization, data } = await authorize(signer, { to: merchant.address, value: units });
  const txHash = await send(lab, payer, USDC, data);
  await settled(lab);
  await makeClaim(lab, { linkId: claimed, txHash, clientAddress: signer.lower });
  await until("it is paid", async () => (await linkOf(lab, claimed)).status === "PAID");
  const paymentId = await acceptPayment(lab, shown, authorization);
  await until("it is refused", async () => (await paymentOf(lab, paymentId)).state === "FAILED");
  expect(await paymentOf(lab, paymentId)).toMatchObject({ reason: "NONCE_USED" });
  await expectIdentical();
  expect(await statusOf(claimed)).toEqual({ status: "PAID", exception: "NONE" });
  expect(await statusOf(shown)).toEqual({ status: "ACTIVE", exception: "NONE" });
});

test("an earlier transfer that was claimed after a later one had paid its link stays the duplicate", async () => {
  const units = freshUnits();
  const links = await makeLinks(3, units);
  const early = await pay(lab, payer, merchant.address, units);
  const late = await pay(lab, payer, merchant.address, units);
  await settled(lab);
  const [linkId = ""] = links;
  await makeClaim(lab, { linkId, txHash: late, clientAddress: payer });
  await until("it is paid", async () => (await linkOf(lab, linkId)).status === "PAID");
  await lab.sql`update payment_links set status = 'PENDING', paid_at = null where id = ${linkId}`;
  await makeClaim(lab, { linkId, txHash: early, clientAddress: payer });
  await until("it is a duplicate", async () => (await linkOf(lab, linkId)).exception === "DUPLICATE");
  await expectIdentical();
  expect(await statusOf(linkId)).toEqual({ status: "PAID", exception: "DUPLICATE" });
  const [paying] = await lab.sql`select tx_hash from transfers where link_id = ${linkId} and pays`;
  expect(paying).toEqual({ txHash: late });
});

test("a failed payment's transfer that came while another payment held the link stays the duplicate of what paid it then", async () => {
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

test("a failed payment's transfer that pays the link which the other payment let go pays it still", async () => {
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

test("a link made in the second of a block that was read before it takes nothing from the link that block paid", async () => {
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

test("a transfer missing from the books takes no link from a later one whose decision stands", async () => {
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  const [first, second] = [
    await pay(lab, payer, merchant.address, units),
    await pay(lab, payer, merchant.address, units),
  ];
  await settled(lab);
  await lab.sql`delete from transfers where tx_hash = ${first}`;
  await lab.sql`update transfers set link_id = ${linkId}, pays = true where tx_hash = ${second}`;
  await lab.sql`
    update transactions set link_id = ${linkId}, type = 'PAYMENT_LINK', description = 'Coffee' where tx_hash = ${second}`;
  const term = await openTerm(lab);
  const { differences } = await rebuildNetwork(term);
  term.close();
  expect(differences).toMatchObject([
    { table: "transactions", rows: 1 },
    { table: "transfers", rows: 1 },
  ]);
  await assertInvariants(lab.sql, lab.chain);
  const [paying] = await lab.sql`select tx_hash from transfers where link_id = ${linkId} and pays`;
  expect(paying).toEqual({ txHash: second });
});
