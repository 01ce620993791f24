/** What an unproven claim decides: only when early and alone, which of several links. It never blocks a payment or a cancellation. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { type Payer, signPayment } from "../support/payer.ts";
import {
  broadcast,
  claim,
  claimOf,
  dataOf,
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

function randomHash(): Hex {
  return `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex")}`;
}

async function settings(given: { claimPolicy?: string; matchByAmount?: boolean }): Promise<void> {
  const { status, body } = await side.ann.client.patch("/v1/settings", given);
  expect([status, body]).toMatchObject([200, given]);
}

describe("an early claim", () => {
  test("alone decides between links of one price", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const signed = await signTransfer(side, payer, { to: side.wallet, units });
    const { status, body } = await claim(side, meant, { hash: signed.hash, address: payer.address });
    expect([status, body]).toEqual([200, { success: true, linkId: meant, status: "PENDING" }]);
    await broadcast(side, signed);
    await waitForLink(side, meant, { status: "PAID", settledBy: "early_claim", exception: "NONE" });
    expect((await dataOf(side, meant)).body.settledBy).toBe("early_claim");
    const { body: list } = await side.ann.client.get(`/v1/transactions?search=${signed.hash}`);
    expect(list.data.transactions).toMatchObject([
      { type: "PAYMENT_LINK", settledBy: "early_claim", candidates: [], metadata: { linkId: meant } },
    ]);
    expect(await linkOf(side, twin)).toMatchObject({ status: "ACTIVE", settledBy: null });
    expect(await claimOf(side, meant, signed.hash)).toEqual({
      ...{ state: "MATCHED", reason: null },
      ...{ proof: null, isEarly: true },
    });
  });

  test("repeated after the block is the same claim, and its link is paid", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const signed = await signTransfer(side, payer, { to: side.wallet, units });
    await claim(side, meant, { hash: signed.hash, address: payer.address });
    await broadcast(side, signed);
    await waitForLink(side, meant, { status: "PAID", settledBy: "early_claim" });
    const again = await claim(side, meant, { hash: signed.hash, address: payer.address });
    expect([again.status, again.body]).toEqual([200, { success: true, linkId: meant, status: "PAID" }]);
    expect(await statusOf(side, twin)).toBe("ACTIVE");
  });

  test("whose lease expired before the block still decides", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const signed = await signTransfer(side, payer, { to: side.wallet, units });
    await claim(side, meant, { hash: signed.hash, address: payer.address });
    await side.sql`update claims set lease_until = now() where link_id = ${meant}`;
    await waitForLink(side, meant, { status: "ACTIVE" });
    expect(await claimOf(side, meant, signed.hash)).toMatchObject({ state: "EXPIRED", reason: "not_found" });
    await broadcast(side, signed);
    await waitForLink(side, meant, { status: "PAID", settledBy: "early_claim" });
    expect(await statusOf(side, twin)).toBe("ACTIVE");
  });

  test("counts as late while no node can tell whether a block has the transaction; then a proof decides", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const signed = await signTransfer(side, payer, { to: side.wallet, units });
    side.proxy.fault = () => ({ kind: "status", status: 503 });
    try {
      await broadcast(side, signed);
      const { status, body } = await claim(side, twin, { hash: signed.hash, address: payer.address });
      expect([status, body.status, body.proofRequired]).toEqual([200, "ACTIVE", true]);
      expect(await claimOf(side, twin, signed.hash)).toMatchObject({ state: "HINT", isEarly: false });
    } finally {
      side.proxy.fault = () => undefined;
    }
    await indexed(side);
    await settledLate(side);
    await expectReceived(side, signed.hash, [meant, twin]);
    expect((await prove(side, meant, { hash: signed.hash, person: payer })).status).toBe(200);
    await waitForLink(side, meant, { status: "PAID", settledBy: "proof" });
    expect(await statusOf(side, twin)).toBe("ACTIVE");
  });

  test("decides nothing for a merchant with the proven policy; a proof then does", async () => {
    await settings({ claimPolicy: "proven" });
    try {
      const { meant, twin, units } = await makeTwins(side);
      const signed = await signTransfer(side, payer, { to: side.wallet, units });
      const { status, body } = await claim(side, meant, { hash: signed.hash, address: payer.address });
      expect([status, body.status, body.proofRequired]).toEqual([200, "ACTIVE", true]);
      await broadcast(side, signed);
      await indexed(side);
      await settledLate(side);
      await expectReceived(side, signed.hash, [meant, twin]);
      expect((await prove(side, meant, { hash: signed.hash, person: payer })).status).toBe(200);
      await waitForLink(side, meant, { status: "PAID", settledBy: "proof" });
    } finally {
      await settings({ claimPolicy: "early" });
    }
  });

  test("made under the early policy decides nothing if the policy is proven by the time of its block", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const signed = await signTransfer(side, payer, { to: side.wallet, units });
    await claim(side, meant, { hash: signed.hash, address: payer.address });
    await settings({ claimPolicy: "proven" });
    try {
      await broadcast(side, signed);
      await indexed(side);
      await settledLate(side);
      expect(await linkOf(side, twin)).toMatchObject({ status: "ACTIVE" });
      expect((await linkOf(side, meant)).settledBy).toBeNull();
    } finally {
      await settings({ claimPolicy: "early" });
    }
  });

  test("proven policy: the only fitting link is still paid by its amount", async () => {
    await settings({ claimPolicy: "proven" });
    try {
      const [only = ""] = await makeLinks(side, 1);
      await pay(side, payer, { units: (await linkOf(side, only)).amountUnits });
      await waitForLink(side, only, { status: "PAID", settledBy: "amount" });
    } finally {
      await settings({ claimPolicy: "early" });
    }
  });
});

describe("a late claim", () => {
  /** In a block that the indexer has not read: it reads again when `meanwhile` has ended. */
  async function sendUnread(units: bigint, meanwhile: (hash: Hex) => Promise<unknown>): Promise<Hex> {
    const pid = side.service.pidOf("indexer");
    process.kill(pid, "SIGSTOP");
    try {
      const hash = await broadcast(side, await signTransfer(side, payer, { to: side.wallet, units }));
      await waitFor("the transfer in a block", () =>
        callRpc(side.rpcUrl, "eth_getTransactionReceipt", [hash]),
      );
      await meanwhile(hash);
      return hash;
    } finally {
      process.kill(pid, "SIGCONT");
    }
  }

  test("of the only link asks for a proof if another link was created before its transfer was received", async () => {
    const units = nextUnits();
    const [meant = ""] = await makeLinks(side, 1, units);
    let twin = "";
    const hash = await sendUnread(units, async (hash) => {
      const { body } = await claim(side, meant, { hash, address: payer.address });
      expect(body).toEqual({ success: true, linkId: meant, status: "PENDING" });
      [twin = ""] = await makeLinks(side, 1, units);
    });
    await indexed(side);
    const again = await claim(side, meant, { hash, address: payer.address });
    expect(again.body).toMatchObject({ status: "ACTIVE", proofRequired: true });
    await expectReceived(side, hash, [meant, twin]);
    expect((await prove(side, meant, { hash, person: payer })).status).toBe(200);
    await waitForLink(side, meant, { status: "PAID", settledBy: "proof" });
    expect(await statusOf(side, twin)).toBe("ACTIVE");
  });

  test("of the only link releases it automatically", async () => {
    const units = nextUnits();
    const [meant = ""] = await makeLinks(side, 1, units);
    const hash = await sendUnread(units, async (hash) => {
      await claim(side, meant, { hash, address: payer.address });
      await makeLinks(side, 1, units);
    });
    await waitForLink(side, meant, { status: "ACTIVE" });
    expect(await claimOf(side, meant, hash)).toMatchObject({ state: "HINT", reason: "ambiguous" });
  });

  test("made after the block but before the indexer has read it is also late", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await sendUnread(units, async (hash) => {
      const { body } = await claim(side, twin, { hash, address: payer.address });
      expect([body.status, body.proofRequired]).toEqual(["ACTIVE", true]);
    });
    await indexed(side);
    await settledLate(side);
    await expectReceived(side, hash, [meant, twin]);
    expect(await claimOf(side, twin, hash)).toMatchObject({ state: "HINT" });
  });

  test("holds nothing: meanwhile another link of the price is paid by x402", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await pay(side, payer, { units });
    expect((await claim(side, twin, { hash, address: payer.address })).body.proofRequired).toBe(true);
    const payment = await signPayment(payer, { to: side.wallet, amountUnits: units });
    expect((await show(side, twin, payment)).status).toBe(200);
    await waitForLink(side, twin, { status: "PAID", exception: "NONE", settledBy: "authorization" });
    expect(await statusOf(side, meant)).toBe("ACTIVE");
  });
});

describe("the candidates at the transfer's block", () => {
  test("decide, even if one of them is paid later", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await pay(side, payer, { units });
    await expectReceived(side, hash, [meant, twin]);
    const payment = await signPayment(payer, { to: side.wallet, amountUnits: units });
    expect((await show(side, twin, payment)).status).toBe(200);
    await waitForLink(side, twin, { status: "PAID" });
    await settledLate(side);
    expect(await linkOf(side, meant)).toMatchObject({ status: "ACTIVE", settledBy: null });
    await expectReceived(side, hash, [meant, twin]);
  });

  test("decide, even if one of them is cancelled later", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await pay(side, payer, { units });
    expect((await side.ann.client.post(`/v1/payment-links/${twin}/cancel`)).status).toBe(200);
    await settledLate(side);
    expect(await linkOf(side, meant)).toMatchObject({ status: "ACTIVE", settledBy: null });
    // the late claim names the only link that is still open, but the transfer was ambiguous at its block
    const late = await claim(side, meant, { hash, address: payer.address });
    expect([late.status, late.body.proofRequired]).toEqual([200, true]);
    await settledLate(side);
    expect(await statusOf(side, meant)).toBe("ACTIVE");
  });

  test("are one link when the other was cancelled before", async () => {
    const { meant, twin, units } = await makeTwins(side);
    expect((await side.ann.client.post(`/v1/payment-links/${twin}/cancel`)).status).toBe(200);
    // the cancellation's second ends before the block's time
    await waitFor("the next second", async () => {
      const [row] = await side.sql<{ isOver: boolean }[]>`
        select date_trunc('second', cancelled_at) < date_trunc('second', now()) as is_over
        from payment_links where id = ${twin}`;
      return row?.isOver;
    });
    await pay(side, payer, { units });
    await waitForLink(side, meant, { status: "PAID", settledBy: "amount" });
  });

  test("are two links for a second transfer, when the first was ambiguous, until one of them is proven", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const first = await pay(side, payer, { units });
    expect((await prove(side, meant, { hash: first, person: payer })).status).toBe(200);
    await waitForLink(side, meant, { status: "PAID", settledBy: "proof" });
    await pay(side, payer, { units });
    await waitForLink(side, twin, { status: "PAID", settledBy: "amount" });
  });
});

describe("a false claim", () => {
  test("does not keep the merchant from cancelling, and ends with the link", async () => {
    const [link = ""] = await makeLinks(side, 1);
    const hash = randomHash();
    expect((await claim(side, link, { hash, address: payer.address })).body.status).toBe("PENDING");
    const { status, body } = await side.ann.client.post(`/v1/payment-links/${link}/cancel`);
    expect([status, body.status]).toEqual([200, "CANCELLED"]);
    expect(await claimOf(side, link, hash)).toMatchObject({ state: "EXPIRED", reason: "link_cancelled" });
    expect(await historyOf(side, hash)).toEqual([]);
  });

  test("does not keep a payer from paying by x402, as `payable` shows", async () => {
    const [link = ""] = await makeLinks(side, 1);
    const { amountUnits } = await linkOf(side, link);
    for (let n = 0; n < 3; n++) await claim(side, link, { hash: randomHash(), address: payer.address });
    expect((await dataOf(side, link)).body).toMatchObject({ status: "PENDING", payable: true });
    const payment = await signPayment(payer, { to: side.wallet, amountUnits });
    expect((await show(side, link, payment)).status).toBe(200);
    await waitForLink(side, link, { status: "PAID", exception: "NONE", settledBy: "authorization" });
    expect((await dataOf(side, link)).body).toMatchObject({ status: "PAID", payable: false });
  });

  test("does not keep a payer from paying by a plain transfer", async () => {
    const [link = ""] = await makeLinks(side, 1);
    await claim(side, link, { hash: randomHash(), address: payer.address });
    await pay(side, payer, { units: (await linkOf(side, link)).amountUnits });
    await waitForLink(side, link, { status: "PAID", exception: "NONE", settledBy: "amount" });
  });

  test("error: a link that a transfer pays cannot be cancelled, claimed or not", async () => {
    const [link = ""] = await makeLinks(side, 1);
    await claim(side, link, { hash: randomHash(), address: payer.address });
    await pay(side, payer, { units: (await linkOf(side, link)).amountUnits });
    await waitForLink(side, link, { status: "PAID" });
    expect((await side.ann.client.post(`/v1/payment-links/${link}/cancel`)).status).toBe(409);
  });
});
