/** A merchant assigns received transfers to links. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { type PayerSide, startPayerSide, waitFor } from "../links/payer-side.ts";
import { mine, sendUsdc } from "../links/payers.ts";
import { signUp } from "../support/sign-up.ts";

let side: PayerSide;

beforeAll(async () => {
  side = await startPayerSide();
}, 120_000);
afterAll(() => side?.world.stop());

type Row = { id: string; status: string; settledBy: string | null; candidates: string[]; type: string };

async function received(hash: Hex): Promise<Row> {
  return waitFor("the confirmed transfer in the history", async () => {
    const { body } = await side.ann.client.get(`/v1/transactions?search=${hash}`);
    const row = body.data.transactions[0] as Row | undefined;
    return row?.status === "CONFIRMED" && row;
  });
}

/** Two links of one price, and a transfer that both fit. */
async function ambiguous() {
  const [one, two] = [await side.makeLink(), await side.makeLink("same")];
  const hash = await sendUsdc(side.rpcUrl, side.payer, side.wallet, one.amountUnits);
  await mine(side.rpcUrl, 3);
  return { one, two, hash, row: await received(hash) };
}

const assign = (id: string, body: object) => side.ann.client.post(`/v1/transactions/${id}/assign`, body);
const unassign = (id: string) => side.ann.client.post(`/v1/transactions/${id}/unassign`, {});
const issueOf = (answer: { status: number; body: { error: { details: { issue: string } } } }) => [
  answer.status,
  answer.body.error.details.issue,
];

async function linkOf(id: string) {
  return (await side.ann.client.get(`/v1/payment-links/${id}`)).body;
}

describe("a received transfer that two links fit", () => {
  test("shows its candidates, and pays the link the merchant assigns", async () => {
    const { one, two, row } = await ambiguous();
    expect(row).toMatchObject({ type: "RECEIVE", settledBy: null });
    expect(row.candidates.toSorted()).toEqual([one.id, two.id].toSorted());
    const { status, body } = await assign(row.id, { linkId: two.id });
    expect(status).toBe(200);
    expect(body.data.transaction).toMatchObject({
      id: row.id,
      type: "PAYMENT_LINK",
      settledBy: "merchant",
      candidates: [],
      metadata: { linkId: two.id },
    });
    expect(await linkOf(two.id)).toMatchObject({ status: "PAID", exception: "NONE", settledBy: "merchant" });
    expect(await side.statusOf(one.id)).toBe("ACTIVE");
    // the log shows an event once no older transaction is running
    await waitFor("the event in the log", async () => {
      const { body } = await side.ann.client.get("/v1/events?limit=100");
      return body.data.some(
        (event: { subjectId: string; type: string }) =>
          event.subjectId === row.id && event.type === "transaction.assigned",
      );
    });
    const { body: trail } = await side.ann.client.get("/v1/security-events");
    expect(trail.data[0]).toMatchObject({ type: "transfer_assigned", details: { linkId: two.id } });
  });

  test("gives the same response when assigned again, and a conflict for another link", async () => {
    const { one, two, row } = await ambiguous();
    expect((await assign(row.id, { linkId: one.id })).status).toBe(200);
    expect((await assign(row.id, { linkId: one.id })).status).toBe(200);
    expect(issueOf(await assign(row.id, { linkId: two.id }))).toEqual([409, "counted_elsewhere"]);
    expect(await side.statusOf(two.id)).toBe("ACTIVE");
  });

  test("pays one link when assigned by two concurrent requests", async () => {
    const { one, two, row } = await ambiguous();
    const answers = await Promise.all([
      assign(row.id, { linkId: one.id }),
      assign(row.id, { linkId: two.id }),
    ]);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    const statuses = [await side.statusOf(one.id), await side.statusOf(two.id)];
    expect(statuses.toSorted()).toEqual(["ACTIVE", "PAID"]);
  });

  test("a second transfer assigned to a paid link is a duplicate", async () => {
    const { one, row } = await ambiguous();
    await assign(row.id, { linkId: one.id });
    const hash = await sendUsdc(side.rpcUrl, side.payer, side.wallet, one.amountUnits + 7n);
    await mine(side.rpcUrl, 3);
    const second = await received(hash);
    expect((await assign(second.id, { linkId: one.id })).status).toBe(200);
    expect(await linkOf(one.id)).toMatchObject({ status: "PAID", exception: "DUPLICATE" });
  });
});

describe("a transfer with another amount than its link", () => {
  async function short() {
    const link = await side.makeLink();
    const hash = await sendUsdc(side.rpcUrl, side.payer, side.wallet, link.amountUnits - 400_000n);
    await mine(side.rpcUrl, 3);
    return { link, row: await received(hash) };
  }

  test("is attributed, but does not pay", async () => {
    const { link, row } = await short();
    expect((await assign(row.id, { linkId: link.id })).body.data.transaction).toMatchObject({
      type: "RECEIVE",
      metadata: { linkId: link.id },
    });
    expect(await linkOf(link.id)).toMatchObject({ status: "ACTIVE", exception: "UNDERPAID" });
  });

  test("pays when the merchant accepts it, and earnings count what was received", async () => {
    const { link, row } = await short();
    const before = (await side.ann.client.get("/v1/payment-links/stats")).body.totalEarnings;
    expect((await assign(row.id, { linkId: link.id, accept: true })).status).toBe(200);
    expect(await linkOf(link.id)).toMatchObject({ status: "PAID", settledBy: "merchant" });
    const after = (await side.ann.client.get("/v1/payment-links/stats")).body.totalEarnings;
    expect(Math.round((after - before) * 1e6)).toBe(Number(link.amountUnits - 400_000n));
  });
});

describe("unassign", () => {
  test("detaches the transfer and reopens the link", async () => {
    const { one, row } = await ambiguous();
    await assign(row.id, { linkId: one.id });
    const { status, body } = await unassign(row.id);
    expect([status, body.data.transaction.type, body.data.transaction.settledBy]).toEqual([
      200,
      "RECEIVE",
      null,
    ]);
    expect(await linkOf(one.id)).toMatchObject({ status: "ACTIVE", settledBy: null, paidAt: null });
    expect(issueOf(await unassign(row.id))).toEqual([409, "not_assigned"]);
    expect((await assign(row.id, { linkId: one.id })).status).toBe(200);
  });

  test("of money matched by amount alone is allowed", async () => {
    const link = await side.makeLink();
    const hash = await sendUsdc(side.rpcUrl, side.payer, side.wallet, link.amountUnits);
    await mine(side.rpcUrl, 3);
    await side.waitForStatus(link.id, "PAID");
    expect((await linkOf(link.id)).settledBy).toBe("amount");
    expect((await unassign((await received(hash)).id)).status).toBe(200);
    expect(await side.statusOf(link.id)).toBe("ACTIVE");
  });

  test("error: not of a link with refunds, nor of one paid by its unique amount", async () => {
    const { one, row } = await ambiguous();
    await assign(row.id, { linkId: one.id });
    await side.world.sql`update payment_links set refunded_units = 1 where id = ${one.id}`;
    expect(issueOf(await unassign(row.id))).toEqual([409, "has_refunds"]);
    const link = await side.makeLink();
    const [unique] = await side.world.sql<{ units: bigint }[]>`
      select pay_amount_units as units from payment_links where id = ${link.id}`;
    const hash = await sendUsdc(side.rpcUrl, side.payer, side.wallet, unique?.units ?? 0n);
    await mine(side.rpcUrl, 3);
    await side.waitForStatus(link.id, "PAID");
    expect(await linkOf(link.id)).toMatchObject({ settledBy: "pay_amount", exception: "NONE" });
    expect(issueOf(await unassign((await received(hash)).id))).toEqual([409, "settled_by_evidence"]);
  });
});

describe("error: an invalid assignment", () => {
  test("of another merchant's transaction or link is 404, of another wallet's link too", async () => {
    const { row } = await ambiguous();
    const bob = await signUp(side.world.baseUrl);
    const foreign = await bob.client.post(`/v1/transactions/${row.id}/assign`, { linkId: "link_x" });
    expect(foreign.status).toBe(404);
    const made = await bob.client.post("/v1/payment-links", { amount: 3, description: "Bob's" });
    expect((await assign(row.id, { linkId: made.body.id })).status).toBe(404);
    expect((await assign("txn_unknown", { linkId: made.body.id })).status).toBe(404);
    expect((await assign("nonsense", { linkId: made.body.id })).status).toBe(404);
  });

  test("of a transfer that is not deep enough is 409", async () => {
    const { one, row } = await ambiguous();
    await side.world.sql`update transactions set status = 'DETECTED' where id = ${row.id}`;
    expect(issueOf(await assign(row.id, { linkId: one.id }))).toEqual([409, "not_confirmed"]);
  });

  test("with a payment in flight is 409", async () => {
    const { one, row } = await ambiguous();
    await side.world.sql`
      insert into payments (
        id, link_id, network, token, payer, payer_kind, recipient, amount_units, valid_after, valid_before, nonce,
        signature, state, next_try_at
      )
      values (
        ${`pay_${one.id}`}, ${one.id}, 'base-sepolia', ${"0x036cbd53842c5426634e7929541ec2318f3dcf7e"},
        ${side.payer}, 'EOA', ${side.wallet}, ${one.amountUnits}, 0, 9999999999, ${`0x${"ab".repeat(32)}`}, '',
        'QUEUED', now() + interval '1 hour'
      )`;
    expect(issueOf(await assign(row.id, { linkId: one.id }))).toEqual([409, "payment_in_progress"]);
    await side.world.sql`delete from payments where link_id = ${one.id}`;
    expect((await assign(row.id, { linkId: one.id })).status).toBe(200);
  });

  test("without a recent passkey assertion is 403", async () => {
    const { one, row } = await ambiguous();
    const set = (age: string) =>
      side.world
        .sql`update sessions set passkey_at = now() - ${age}::interval where user_id = ${side.ann.userId}`;
    await set("15 minutes");
    expect(issueOf(await assign(row.id, { linkId: one.id }))).toEqual([403, "passkey_required"]);
    expect(issueOf(await unassign(row.id))).toEqual([403, "passkey_required"]);
    await set("14 minutes");
    expect((await assign(row.id, { linkId: one.id })).status).toBe(200);
    await set("0");
  });
});

describe("settings", () => {
  test("are read and changed individually, and unknown ones refused", async () => {
    const bob = await signUp(side.world.baseUrl);
    const read = async () => (await bob.client.get("/v1/settings")).body;
    expect(await read()).toEqual({ claimPolicy: "early", matchByAmount: true });
    const patched = await bob.client.patch("/v1/settings", { matchByAmount: false });
    expect([patched.status, patched.body]).toEqual([200, { claimPolicy: "early", matchByAmount: false }]);
    await bob.client.patch("/v1/settings", { claimPolicy: "proven" });
    expect(await read()).toEqual({ claimPolicy: "proven", matchByAmount: false });
    for (const body of [{ claimPolicy: "never" }, { matchByAmount: "yes" }, { colour: "red" }])
      expect((await bob.client.patch("/v1/settings", body)).status).toBe(400);
  });

  test("matchByAmount off: the only fitting link is a candidate, its unique amount still pays", async () => {
    const { ann, world, rpcUrl, payer, wallet } = side;
    await ann.client.patch("/v1/settings", { matchByAmount: false });
    try {
      const link = await side.makeLink();
      const hash = await sendUsdc(rpcUrl, payer, wallet, link.amountUnits);
      await mine(rpcUrl, 3);
      expect(await received(hash)).toMatchObject({ type: "RECEIVE", candidates: [link.id] });
      expect(await side.statusOf(link.id)).toBe("ACTIVE");
      const [unique] = await world.sql<{ units: bigint }[]>`
        select pay_amount_units as units from payment_links where id = ${link.id}`;
      await sendUsdc(rpcUrl, payer, wallet, unique?.units ?? 0n);
      await mine(rpcUrl, 3);
      await side.waitForStatus(link.id, "PAID");
    } finally {
      await ann.client.patch("/v1/settings", { matchByAmount: true });
    }
  });
});
