/** A third party who knows a payer's transaction claims it for a link of their own. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { makePayer, type Payer, signPayment } from "../support/payer.ts";
import { broadcastAsStranger } from "../support/stranger.ts";
import {
  broadcast,
  claim,
  claimOf,
  type EvidenceSide,
  expectReceived,
  historyOf,
  indexed,
  linkOf,
  makeLinks,
  makePerson,
  makeTwins,
  nextUnits,
  pay,
  prove,
  settledLate,
  show,
  signClaim,
  signTransfer,
  startEvidenceSide,
  statusOf,
  waitFor,
  waitForLink,
} from "./evidence-side.ts";

setDefaultTimeout(120_000);

let side: EvidenceSide;
let payer: Payer;

beforeAll(async () => {
  side = await startEvidenceSide();
  payer = await makePerson(side);
});
afterAll(() => side?.stop());

/** Asserts that the transfer pays the link its payer proves, and that the other link stays open. */
async function expectProofPays(meant: string, twin: string, hash: Hex): Promise<void> {
  expect((await prove(side, meant, { hash, person: payer })).status).toBe(200);
  await waitForLink(side, meant, { status: "PAID", settledBy: "proof", exception: "NONE" });
  expect(await linkOf(side, twin)).toMatchObject({ status: "ACTIVE", exception: "NONE", settledBy: null });
  const rows = await historyOf(side, hash);
  expect(rows).toMatchObject([{ type: "PAYMENT_LINK", linkId: meant, settledBy: "proof", candidates: null }]);
}

describe("a third party's claim made after the block", () => {
  test("pays no link: it is a hint, and returns the message to sign", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await pay(side, payer, { units });
    await settledLate(side);
    await expectReceived(side, hash, [meant, twin]);

    const theft = await claim(side, twin, { hash, address: payer.address });
    expect([theft.status, theft.body]).toMatchObject([
      200,
      { success: true, linkId: twin, status: "ACTIVE", proofRequired: true },
    ]);
    expect(theft.body.typedData.message).toMatchObject({ linkId: twin, transactionHash: hash });
    await settledLate(side);
    expect(await statusOf(side, twin)).toBe("ACTIVE");
    expect(await claimOf(side, twin, hash)).toEqual({
      ...{ state: "HINT", reason: null },
      ...{ proof: null, isEarly: false },
    });

    const own = await claim(side, meant, { hash, address: payer.address });
    expect([own.status, own.body.proofRequired]).toEqual([200, true]);
    await expectProofPays(meant, twin, hash);
    expect((await claim(side, twin, { hash, address: payer.address })).body.error.details).toMatchObject({
      issue: "counted_elsewhere",
      typedData: { message: { linkId: twin } },
    });
  });

  test("error: with a signature of another key is 400, and nothing is stored", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await pay(side, payer, { units });
    const signature = await signClaim(side, makePayer(), { linkId: twin, hash });
    const theft = await claim(side, twin, { hash, address: payer.address, signature });
    expect([theft.status, theft.body.error.details]).toEqual([
      400,
      { field: "signature", issue: "invalid_signature" },
    ]);
    expect(await claimOf(side, twin, hash)).toBeUndefined();
    await expectProofPays(meant, twin, hash);
  });

  test("error: with the payer's own signature for the other link is 400", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await pay(side, payer, { units });
    const signature = await signClaim(side, payer, { linkId: meant, hash });
    expect((await claim(side, twin, { hash, address: payer.address, signature })).status).toBe(400);
    expect(await claimOf(side, twin, hash)).toBeUndefined();
  });
});

describe("a third party's claim made before the block", () => {
  for (const first of ["thief", "payer"] as const) {
    test(`decides nothing when both links claim the transaction, the ${first}'s first`, async () => {
      const { meant, twin, units } = await makeTwins(side);
      const signed = await signTransfer(side, payer, { to: side.wallet, units });
      const { hash } = signed;
      const order = first === "thief" ? [twin, meant] : [meant, twin];
      for (const [index, linkId] of order.entries()) {
        const { status, body } = await claim(side, linkId, { hash, address: payer.address });
        expect([status, body.status, body.proofRequired]).toEqual([
          200,
          ...(index === 0 ? ["PENDING", undefined] : ["ACTIVE", true]),
        ]);
      }
      // the first claim no longer holds its link
      expect(await linkOf(side, order[0] ?? "")).toMatchObject({ status: "ACTIVE" });
      await broadcast(side, signed);
      await indexed(side);
      await settledLate(side);
      await expectReceived(side, hash, [meant, twin]);
      expect([await statusOf(side, meant), await statusOf(side, twin)]).toEqual(["ACTIVE", "ACTIVE"]);
      await expectProofPays(meant, twin, hash);
    });
  }

  test("with an address that is not the sender's contests the claim and settles nothing", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const signed = await signTransfer(side, payer, { to: side.wallet, units });
    await claim(side, meant, { hash: signed.hash, address: payer.address });
    await claim(side, twin, { hash: signed.hash, address: makePayer().address });
    await broadcast(side, signed);
    await indexed(side);
    await settledLate(side);
    expect(await linkOf(side, twin)).toMatchObject({ status: "ACTIVE", settledBy: null });
    await expectProofPays(meant, twin, signed.hash);
  });
});

describe("a claim of a link for another amount", () => {
  test("attributes no money to it", async () => {
    const [meant = "", same = ""] = await makeLinks(side, 2);
    const [other = ""] = await makeLinks(side, 1);
    const { amountUnits: units } = await linkOf(side, meant);
    const signed = await signTransfer(side, payer, { to: side.wallet, units });
    const { hash } = signed;
    expect((await claim(side, other, { hash, address: payer.address })).status).toBe(200);
    await broadcast(side, signed);
    await indexed(side);
    await settledLate(side);
    // the worker finds another amount in the block and ends the claim
    await waitForLink(side, other, { status: "ACTIVE", exception: "NONE", settledBy: null });
    expect(await claimOf(side, other, hash)).toMatchObject({ state: "EXPIRED", reason: "other_amount" });
    await expectReceived(side, hash, [meant, same]);
    expect((await claim(side, meant, { hash, address: payer.address })).body.proofRequired).toBe(true);
    await expectProofPays(meant, same, hash);
    expect(await linkOf(side, other)).toMatchObject({ exception: "NONE" });
  });

  test("error: made after the block is refused without a proof", async () => {
    const [meant = "", other = ""] = [...(await makeLinks(side, 1)), ...(await makeLinks(side, 1))];
    const { amountUnits: units } = await linkOf(side, meant);
    const hash = await pay(side, payer, { units });
    const answer = await claim(side, other, { hash, address: payer.address });
    expect([answer.status, answer.body.error.details.issue]).toEqual([400, "does_not_pay_this_link"]);
    await waitForLink(side, meant, { status: "PAID", settledBy: "amount" });
  });
});

describe("an authorization executed by a third party", () => {
  test("submitted to another link afterwards pays neither that link nor, unproven, its own", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const payment = await signPayment(payer, { to: side.wallet, amountUnits: units });
    const hash = await broadcastAsStranger(side.rpcUrl, payment);
    await indexed(side);
    for (const linkId of [twin, meant]) {
      const { status, body } = await show(side, linkId, payment);
      expect([status, body.success, body.error]).toEqual([409, false, "NONCE_USED"]);
    }
    await settledLate(side);
    await expectReceived(side, hash, [meant, twin]);
    expect([await statusOf(side, meant), await statusOf(side, twin)]).toEqual(["ACTIVE", "ACTIVE"]);
    await expectProofPays(meant, twin, hash);
  });

  test("submitted to another link before the indexer has read the block pays nothing either", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const payment = await signPayment(payer, { to: side.wallet, amountUnits: units });
    process.kill(side.service.pidOf("indexer"), "SIGSTOP");
    let hash: Hex;
    try {
      hash = await broadcastAsStranger(side.rpcUrl, payment);
      // usually within the second of the block's timestamp
      const shown = show(side, twin, payment);
      await waitFor("the payment's row", async () => {
        const rows = await side.sql`select 1 from payments where link_id = ${twin}`;
        return rows.length === 1;
      });
      process.kill(side.service.pidOf("indexer"), "SIGCONT");
      expect((await shown).body.success).toBe(false);
    } finally {
      process.kill(side.service.pidOf("indexer"), "SIGCONT");
    }
    await indexed(side);
    await settledLate(side);
    await expectProofPays(meant, twin, hash);
    const [row] = await side.sql`select state, reason from payments where link_id = ${twin}`;
    expect(row).toEqual({ state: "FAILED", reason: "NONCE_USED" });
  });

  test("accepted before its block pays the link it was submitted to", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const payment = await signPayment(payer, { to: side.wallet, amountUnits: units });
    expect((await show(side, meant, payment)).status).toBe(200);
    await waitForLink(side, meant, { status: "PAID", settledBy: "authorization" });
    expect((await show(side, twin, payment)).status).toBe(409);
    expect(await linkOf(side, twin)).toMatchObject({ status: "ACTIVE" });
  });

  test("with the link's tag in its nonce pays that link, and is refused for another link", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const { tag } = await linkOf(side, meant);
    const nonce: Hex = `${tag}${"5e".repeat(16)}`;
    const payment = await signPayment(payer, { to: side.wallet, amountUnits: units, nonce });
    const refused = await show(side, twin, payment);
    expect([refused.status, refused.body.error]).toEqual([409, "NONCE_USED"]);
    await broadcastAsStranger(side.rpcUrl, payment);
    await waitForLink(side, meant, { status: "PAID", settledBy: "tag" });
    expect(await linkOf(side, twin)).toMatchObject({ status: "ACTIVE", exception: "NONE" });
    expect((await show(side, twin, payment)).status).toBe(409);
  });
});

describe("a transfer without any evidence", () => {
  test("of the amount of the only open link pays it, unless matchByAmount is off", async () => {
    const [matched = ""] = await makeLinks(side, 1);
    const first = await linkOf(side, matched);
    await pay(side, payer, { units: first.amountUnits });
    await waitForLink(side, matched, { status: "PAID", settledBy: "amount" });

    expect((await side.ann.client.patch("/v1/settings", { matchByAmount: false })).status).toBe(200);
    try {
      const [unmatched = ""] = await makeLinks(side, 1);
      const { amountUnits, payAmountUnits } = await linkOf(side, unmatched);
      const hash = await pay(side, payer, { units: amountUnits });
      await settledLate(side);
      await expectReceived(side, hash, [unmatched]);
      expect(await statusOf(side, unmatched)).toBe("ACTIVE");
      // the unique amount still identifies the link
      await pay(side, payer, { units: payAmountUnits ?? 0n });
      await waitForLink(side, unmatched, { status: "PAID", settledBy: "pay_amount", exception: "NONE" });
    } finally {
      await side.ann.client.patch("/v1/settings", { matchByAmount: true });
    }
  });

  test("older than the link pays nothing", async () => {
    const units = nextUnits();
    const hash = await pay(side, payer, { units });
    const [late = ""] = await makeLinks(side, 1, units);
    await settledLate(side);
    await expectReceived(side, hash, []);
    expect(await statusOf(side, late)).toBe("ACTIVE");
    const answer = await prove(side, late, { hash, person: payer });
    expect([answer.status, answer.body.error.details.issue]).toEqual([400, "does_not_pay_this_link"]);
  });
});
