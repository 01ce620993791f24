/** A proof counts in every status of its link and for every value, and moves attributions by inference. Three confirmations. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import type { Payer } from "../support/payer.ts";
import { signIn } from "../support/sign-up.ts";
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
  mine,
  nextUnits,
  pay,
  prove,
  settledLate,
  signTransfer,
  startEvidenceSide,
  statusOf,
  waitFor,
  waitForLink,
} from "./evidence-side.ts";

setDefaultTimeout(120_000);

const CONFIRMATIONS = 3;

let side: EvidenceSide;
let payer: Payer;

beforeAll(async () => {
  side = await startEvidenceSide({ confirmations: CONFIRMATIONS });
  payer = await makePerson(side);
});
afterAll(() => side?.stop());

/** Mines the blocks that confirm a transfer in the head. */
async function confirm(): Promise<void> {
  await mine(side, CONFIRMATIONS - 1);
  await indexed(side);
}

async function expire(linkId: string): Promise<void> {
  await side.sql`
    update payment_links set expires_at = now() - interval '2 seconds' where id = ${linkId}`;
  expect(await statusOf(side, linkId)).toBe("EXPIRED");
}

async function expectProven(linkId: string, hash: Hex): Promise<void> {
  const { status, body } = await prove(side, linkId, { hash, person: payer });
  expect({ status, body }).toMatchObject({ status: 200, body: { success: true, linkId } });
  await waitFor("the proof to be settled", async () => {
    const row = await claimOf(side, linkId, hash);
    return row?.state === "MATCHED" && row.proof === "EOA";
  });
}

async function eventsOf(subjectId: string): Promise<{ type: string; data: Record<string, unknown> }[]> {
  return side.sql`select type, data from events where subject_id = ${subjectId} order by id`;
}

describe("a proof for a link that is", () => {
  test("ACTIVE, with another of the same price: PENDING, and PAID when deep enough", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await pay(side, payer, { units });
    await expectProven(meant, hash);
    await waitForLink(side, meant, { status: "PENDING", settledBy: "proof" });
    await confirm();
    await waitForLink(side, meant, { status: "PAID", exception: "NONE", settledBy: "proof" });
    expect(await statusOf(side, twin)).toBe("ACTIVE");
  });

  test("EXPIRED, with another expired one: PAID late", async () => {
    const { meant, twin, units } = await makeTwins(side);
    await expire(meant);
    await expire(twin);
    const hash = await pay(side, payer, { units });
    await confirm();
    await expectReceived(side, hash, [meant, twin]);
    await expectProven(meant, hash);
    await waitForLink(side, meant, { status: "PAID", exception: "PAID_LATE", settledBy: "proof" });
    expect(await statusOf(side, twin)).toBe("EXPIRED");
  });

  test("PAID by another transfer: a duplicate, attributed to it", async () => {
    const [meant = ""] = await makeLinks(side, 1);
    const { amountUnits: units } = await linkOf(side, meant);
    const first = await pay(side, await makePerson(side), { units });
    await confirm();
    await waitForLink(side, meant, { status: "PAID", settledBy: "amount" });
    const hash = await pay(side, payer, { units });
    await confirm();
    await expectReceived(side, hash, []);
    await expectProven(meant, hash);
    await waitForLink(side, meant, { status: "PAID", exception: "DUPLICATE", settledBy: "amount" });
    expect(await historyOf(side, hash)).toMatchObject([
      { type: "RECEIVE", linkId: meant, settledBy: "proof" },
    ]);
    expect(await historyOf(side, first)).toMatchObject([{ type: "PAYMENT_LINK", linkId: meant }]);
  });

  test("CANCELLED: attributed to it, stays cancelled", async () => {
    const [meant = ""] = await makeLinks(side, 1);
    const { amountUnits: units } = await linkOf(side, meant);
    expect((await side.ann.client.post(`/v1/payment-links/${meant}/cancel`)).status).toBe(200);
    // block times are whole seconds: within the second of the cancellation the link would still have been open
    await side.sql`update payment_links set cancelled_at = cancelled_at - interval '2 seconds' where id = ${meant}`;
    const hash = await pay(side, payer, { units });
    await confirm();
    // a block within the second of the cancellation still has it as a candidate
    expect(await historyOf(side, hash)).toMatchObject([{ type: "RECEIVE", linkId: null }]);
    await expectProven(meant, hash);
    expect(await historyOf(side, hash)).toMatchObject([
      { type: "RECEIVE", linkId: meant, settledBy: "proof" },
    ]);
    expect(await linkOf(side, meant)).toMatchObject({
      status: "CANCELLED",
      settledBy: null,
      paidUnits: null,
    });
  });

  const others: [string, bigint, string][] = [
    ["less", -10n, "UNDERPAID"],
    ["more", 10n, "OVERPAID"],
  ];
  test.each(others)(
    "ACTIVE, of a transfer of %s: attributed, and the link can still be paid",
    async (_, more, exception) => {
      const [meant = ""] = await makeLinks(side, 1);
      const { amountUnits: units } = await linkOf(side, meant);
      const hash = await pay(side, payer, { units: units + more });
      await expectReceived(side, hash, []);
      await expectProven(meant, hash);
      await waitForLink(side, meant, { status: "ACTIVE", exception, settledBy: null });
      expect(await historyOf(side, hash)).toMatchObject([
        { type: "RECEIVE", linkId: meant, settledBy: "proof" },
      ]);
      await pay(side, payer, { units });
      await confirm();
      await waitForLink(side, meant, { status: "PAID", settledBy: "amount" });
    },
  );

  test("PENDING with a claim of another transaction: paid by the proven transfer", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const { hash: never } = await signTransfer(side, payer, { to: side.wallet, units: units + 10n });
    const early = await signTransfer(side, payer, { to: side.wallet, units });
    expect((await claim(side, meant, { hash: never, address: payer.address })).body.status).toBe("PENDING");
    await broadcast(side, early);
    await indexed(side);
    await expectProven(meant, early.hash);
    await confirm();
    await waitForLink(side, meant, { status: "PAID", settledBy: "proof" });
    expect(await statusOf(side, twin)).toBe("ACTIVE");
  });
});

describe("a proof against an attribution by inference", () => {
  /** A false early claim, made alone: the transfer is attributed to the other link. */
  async function stealEarly(): Promise<{ meant: string; twin: string; hash: Hex }> {
    const { meant, twin, units } = await makeTwins(side);
    const signed = await signTransfer(side, payer, { to: side.wallet, units });
    expect((await claim(side, twin, { hash: signed.hash, address: payer.address })).status).toBe(200);
    await broadcast(side, signed);
    await indexed(side);
    await waitForLink(side, twin, { status: "PENDING", settledBy: "early_claim" });
    return { meant, twin, hash: signed.hash };
  }

  test("by an early claim: moves it while that link is PENDING, one block before it is PAID", async () => {
    const { meant, twin, hash } = await stealEarly();
    await mine(side, CONFIRMATIONS - 2);
    await indexed(side);
    expect(await linkOf(side, twin)).toMatchObject({ status: "PENDING" });
    await expectProven(meant, hash);
    await waitForLink(side, twin, { status: "ACTIVE", exception: "NONE", settledBy: null });
    expect(await claimOf(side, twin, hash)).toMatchObject({ state: "EXPIRED", reason: "counted_elsewhere" });
    expect(await historyOf(side, hash)).toMatchObject([
      { type: "PAYMENT_LINK", linkId: meant, settledBy: "proof", candidates: null },
    ]);
    await mine(side);
    await indexed(side);
    await waitForLink(side, meant, { status: "PAID", settledBy: "proof" });
    await settledLate(side);
    expect(await linkOf(side, twin)).toMatchObject({ status: "ACTIVE", settledBy: null });
  });

  test("by an early claim: disputes it once that link is PAID, until the merchant detaches it", async () => {
    const { meant, twin, hash } = await stealEarly();
    await confirm();
    await waitForLink(side, twin, { status: "PAID", settledBy: "early_claim" });
    expect((await prove(side, meant, { hash, person: payer })).status).toBe(200);
    await waitFor("the dispute", async () => (await claimOf(side, meant, hash))?.state === "DISPUTED");
    const [row] = await historyOf(side, hash);
    expect(await historyOf(side, hash)).toMatchObject([{ type: "PAYMENT_LINK", linkId: twin }]);
    const disputes = (await eventsOf(row?.id ?? "")).filter(({ type }) => type === "transaction.disputed");
    expect(disputes).toEqual([
      { type: "transaction.disputed", data: { txHash: hash, linkId: twin, claimedLinkId: meant } },
    ]);
    expect(await linkOf(side, twin)).toMatchObject({ status: "PAID", settledBy: "early_claim" });
    await waitForLink(side, meant, { status: "ACTIVE", settledBy: null });
    // repeated, it is no second dispute
    await prove(side, meant, { hash, person: payer });
    await settledLate(side);
    expect((await eventsOf(row?.id ?? "")).filter(({ type }) => type === "transaction.disputed").length).toBe(
      1,
    );

    const client = await signIn(side.ann);
    const freed = await client.post(`/v1/transactions/${row?.id}/unassign`);
    expect([freed.status, freed.text]).toMatchObject([200, expect.any(String)]);
    await waitForLink(side, meant, { status: "PAID", settledBy: "proof" });
    expect(await linkOf(side, twin)).toMatchObject({ status: "ACTIVE", settledBy: null });
  });

  test("by the amount: moves it to the link that had expired", async () => {
    const { meant, twin, units } = await makeTwins(side);
    await expire(meant);
    const hash = await pay(side, payer, { units });
    await waitForLink(side, twin, { status: "PENDING", settledBy: "amount" });
    await expectProven(meant, hash);
    await waitForLink(side, twin, { status: "ACTIVE", settledBy: null });
    await confirm();
    await waitForLink(side, meant, { status: "PAID", exception: "PAID_LATE", settledBy: "proof" });
  });

  test("by the unique amount: moves it, as an overpayment, to the proven link", async () => {
    const { meant, twin } = await makeTwins(side);
    const { payAmountUnits } = await linkOf(side, twin);
    const hash = await pay(side, payer, { units: payAmountUnits ?? 0n });
    await waitForLink(side, twin, { status: "PENDING", settledBy: "pay_amount" });
    await expectProven(meant, hash);
    await waitForLink(side, twin, { status: "ACTIVE", settledBy: null });
    await waitForLink(side, meant, { status: "ACTIVE", exception: "OVERPAID", settledBy: null });
  });
});

test("a late claim without a proof, of the only link that asked for the value, is answered with its status", async () => {
  const [only = ""] = await makeLinks(side, 1);
  const hash = await pay(side, payer, { units: (await linkOf(side, only)).amountUnits });
  const { status, body } = await claim(side, only, { hash, address: payer.address });
  expect([status, body]).toEqual([200, { success: true, linkId: only, status: "PENDING" }]);
  expect(await claimOf(side, only, hash)).toMatchObject({ state: "MATCHED", isEarly: false });
  await confirm();
  await waitForLink(side, only, { status: "PAID", settledBy: "amount" });
});

describe("error: a proof against other evidence", () => {
  test("by a tag is 409", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const { tag } = await linkOf(side, twin);
    const hash = await pay(side, payer, { units, tail: tag.slice(2) });
    await waitForLink(side, twin, { status: "PENDING", settledBy: "tag" });
    const { status, body } = await prove(side, meant, { hash, person: payer });
    expect([status, body.error.details]).toEqual([
      409,
      { field: "transactionHash", issue: "counted_elsewhere" },
    ]);
    await confirm();
    await waitForLink(side, twin, { status: "PAID", settledBy: "tag" });
    expect(await statusOf(side, meant)).toBe("ACTIVE");
  });

  test("by an earlier proof is 409: one transfer cannot pay two links", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await pay(side, payer, { units });
    await expectProven(meant, hash);
    const { status, body } = await prove(side, twin, { hash, person: payer });
    expect([status, body.error.details.issue]).toEqual([409, "counted_elsewhere"]);
    await confirm();
    await waitForLink(side, meant, { status: "PAID", settledBy: "proof" });
    expect(await linkOf(side, twin)).toMatchObject({ status: "ACTIVE", settledBy: null });
  });

  test("two proofs before the block: the first one counts, once", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const signed = await signTransfer(side, payer, { to: side.wallet, units });
    expect((await prove(side, meant, { hash: signed.hash, person: payer })).status).toBe(200);
    expect((await prove(side, twin, { hash: signed.hash, person: payer })).status).toBe(200);
    await broadcast(side, signed);
    await indexed(side);
    await confirm();
    await waitForLink(side, meant, { status: "PAID", settledBy: "proof" });
    await waitForLink(side, twin, { status: "ACTIVE", exception: "NONE", settledBy: null });
    const paid = await side.sql`select 1 from transfers where tx_hash = ${signed.hash} and pays`;
    expect(paid.length).toBe(1);
  });

  test("of a transfer older than the link is 400", async () => {
    const units = nextUnits();
    const hash = await pay(side, payer, { units });
    const [late = ""] = await makeLinks(side, 1, units);
    const { status, body } = await prove(side, late, { hash, person: payer });
    expect([status, body.error.details.issue]).toEqual([400, "does_not_pay_this_link"]);
  });
});
