import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  amounts,
  type Lab,
  linkOf,
  type Merchant,
  makeClaim,
  makeLink,
  makeMerchant,
  mine,
  openLab,
  type RunningIndexer,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";
import { acceptPayment, authorize, makeSigner, paymentOf } from "../support/indexer-lab-payments.ts";
import {
  makeSender,
  reorganise,
  type Sender,
  type SignedTransaction,
} from "../support/indexer-lab-reorgs.ts";
import { assertInvariants } from "../support/invariants.ts";
import { seededRandom } from "../support/seeded-random.ts";

setDefaultTimeout(120_000);
const random = seededRandom("reorg");

describe.each([1, 3])("with %d confirmation(s)", (confirmations) => {
  let lab: Lab;
  let indexer: RunningIndexer;
  let merchant: Merchant;
  let sender: Sender;
  const freshUnits = amounts();
  beforeAll(async () => {
    lab = await openLab();
    merchant = await makeMerchant(lab);
    sender = await makeSender(lab);
    // what is set up must be older than the deepest reorganisation
    await mine(lab, 30);
    indexer = startIndexer(lab, { confirmations });
  });
  afterAll(async () => {
    await indexer.stop();
    await lab.stop();
  });

  const statusOf = async (linkId: string) => (await linkOf(lab, linkId)).status;

  test("a payment that is dropped releases its link; sent again it pays again, and history keeps one row", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const sent = await sender.pay(merchant.address, units);
    await mine(lab, confirmations - 1);
    await settled(lab);
    expect(await statusOf(linkId)).toBe("PAID");

    await reorganise(lab, confirmations + 1, []);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE", paidAt: null });
    const orphaned = await lab.sql`select status from transactions where tx_hash = ${sent.txHash}`;
    expect([...orphaned]).toEqual([{ status: "ORPHANED" }]);

    await sender.resend(sent);
    await mine(lab, confirmations - 1);
    await settled(lab);
    expect(await statusOf(linkId)).toBe("PAID");
    const rows = await lab.sql`select status from transactions where tx_hash = ${sent.txHash}`;
    expect([...rows]).toEqual([{ status: "CONFIRMED" }]);
    const events = await lab.sql`select type from events where subject_id = ${linkId} order by id`;
    expect(events.map((event) => event.type).filter((type) => type !== "payment_link.pending")).toEqual([
      ...["payment_link.paid", "payment_link.reorged", "payment_link.paid"],
    ]);
  });

  test("a relayed payment is queued again, with its job; the same bytes settle it again", async () => {
    const signer = await makeSigner(lab);
    await mine(lab, 30);
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const { authorization, data } = await authorize(signer, { to: merchant.address, value: units });
    const paymentId = await acceptPayment(lab, linkId, authorization);
    const sent = await sender.call(data);
    await mine(lab, confirmations - 1);
    await settled(lab);
    expect(await paymentOf(lab, paymentId)).toMatchObject({ state: "CONFIRMED" });

    await lab.sql`delete from graphile_worker._private_jobs`;
    await reorganise(lab, confirmations, []);
    await settled(lab);
    expect(await paymentOf(lab, paymentId)).toMatchObject({ state: "QUEUED", txHash: null });
    expect(await statusOf(linkId)).toBe("PENDING");
    const jobs = await lab.sql<{ identifier: string }[]>`
      select task.identifier
      from graphile_worker._private_jobs job
      join graphile_worker._private_tasks task on task.id = job.task_id
      order by task.identifier`;
    // the payment is relayed again, and its receipt is void
    expect(jobs.map(({ identifier }) => identifier)).toEqual(["issue_documents", "relay_payments"]);
    const [row] =
      await lab.sql`select status, tx_hash from transactions where payment_id = ${paymentId ?? ""}`;
    expect(row).toEqual({ status: "PENDING", txHash: null });

    await sender.resend(sent);
    await mine(lab, confirmations - 1);
    await settled(lab);
    expect(await paymentOf(lab, paymentId)).toMatchObject({ state: "CONFIRMED", txHash: sent.txHash });
    expect(await statusOf(linkId)).toBe("PAID");
    const history = await lab.sql`select status from transactions where payment_id = ${paymentId ?? ""}`;
    expect([...history]).toEqual([{ status: "CONFIRMED" }]);
  });

  test("a claimed payment holds its link PENDING again until its claim is checked", async () => {
    const units = freshUnits();
    const links = [await makeLink(lab, merchant, { units }), await makeLink(lab, merchant, { units })];
    const [linkId = ""] = links;
    const sent = await sender.pay(merchant.address, units);
    await settled(lab);
    await makeClaim(lab, { linkId, txHash: sent.txHash, clientAddress: sender.address, proof: "EOA" });
    await mine(lab, confirmations - 1);
    await until("it is PAID", async () => (await statusOf(linkId)) === "PAID");
    await reorganise(lab, confirmations, []);
    await settled(lab);
    expect(await statusOf(linkId)).toBe("PENDING");
    await sender.resend(sent);
    await mine(lab, confirmations - 1);
    await settled(lab);
    expect(await statusOf(linkId)).toBe("PAID");
    expect(await statusOf(links[1] ?? "")).toBe("ACTIVE");
  });

  test("a link stays PAID when a second transfer to it is dropped, down to the block that paid it", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    await sender.pay(merchant.address, units);
    await mine(lab, confirmations - 1);
    await settled(lab);
    expect(await statusOf(linkId)).toBe("PAID");
    const second = await sender.pay(merchant.address, units);
    await settled(lab);
    await makeClaim(lab, { linkId, txHash: second.txHash, clientAddress: sender.address, proof: "EOA" });
    await until("it is a duplicate", async () => (await linkOf(lab, linkId)).exception === "DUPLICATE");
    await reorganise(lab, confirmations, []);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "NONE" });
    await sender.resend(second);
    await mine(lab, confirmations);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "DUPLICATE" });
  });

  test("storms of depth 1 to 20 during payments: the state equals the chain after each", async () => {
    const paid = new Map<string, SignedTransaction>();
    for (const depth of [1, 2, 3, 5, 8, 13, 20]) {
      const fresh: { linkId: string; sent: SignedTransaction }[] = [];
      for (let block = 0; block < depth; block++) {
        const units = freshUnits();
        const linkId = await makeLink(lab, merchant, { units });
        const sent = await sender.pay(merchant.address, units);
        fresh.push({ linkId, sent });
        paid.set(linkId, sent);
      }
      await settled(lab);
      // half of what is dropped comes back in another block of the new branch, in the sender's order
      const kept = fresh.slice(0, Math.floor(random() * (fresh.length + 1)));
      let offset = 0;
      const again = kept.map(({ sent }) => {
        offset = Math.min(depth - 1, offset + Math.floor(random() * 2));
        return [sent.raw, offset] as const;
      });
      await reorganise(lab, depth, again);
      await settled(lab);
      await assertInvariants(lab.sql, lab.chain, { mayBeInFlight: true });
      for (const { sent } of fresh.slice(kept.length)) await sender.resend(sent);
      await mine(lab, confirmations - 1);
      await settled(lab);
      await assertInvariants(lab.sql, lab.chain, { mayBeInFlight: true });
    }
    for (const linkId of paid.keys()) expect(await statusOf(linkId)).toBe("PAID");
    const [row] = await lab.sql<{ doubles: bigint }[]>`
      select count(*) - count(distinct tx_hash) as doubles from transactions where owner = owner_key(${merchant.userId}) and status <> 'ORPHANED'`;
    expect(row?.doubles).toBe(0n);
  }, 120_000);

  test("a reorganisation while no indexer runs is undone at the next start", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    await sender.pay(merchant.address, units);
    await mine(lab, 5);
    await settled(lab);
    await indexer.stop();
    await reorganise(lab, 6 + confirmations, []);
    await mine(lab, 3);
    indexer = startIndexer(lab, { confirmations });
    await settled(lab);
    expect(await statusOf(linkId)).toBe("ACTIVE");
    await assertInvariants(lab.sql, lab.chain, { mayBeInFlight: true });
  });
});
