/** Conditions of the statements that open, keep and end claims: each with the row that it must leave alone. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newClaimId, newLinkId, newTransactionId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { type NewClaim, notePoll, openClaim } from "../../db/links/claims.ts";
import { endClaim, endClaimsOf } from "../../db/links/end-claims.ts";
import { cancelLink } from "../../db/links/links.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { type BookedTransfer, bookTransfer } from "../support/book-transfer.ts";
import { type BooksLab, eventsOf, linkOf, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";

const LEASE_S = 90;
const ENDED = ["HINT", "DISPUTED", "MATCHED", "REJECTED", "EXPIRED"];
let lab: BooksLab;
let linkId: string;
let txHash: Hex;
let sender: Hex;

beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  linkId = await seedLink(lab.sql, lab.merchant);
  [txHash, sender] = [randomHash(), randomAddress()];
});

/** Of the test's link, transaction and sender, in no block, without a proof, unless said otherwise. */
function open(given: Partial<NewClaim> = {}) {
  return lab.sql.begin((tx) =>
    openClaim(tx, {
      ...{ id: newClaimId(), linkId, network: NETWORK, txHash, clientAddress: sender, requestId: null },
      ...{ transactionId: newTransactionId(), leaseS: LEASE_S, proof: null, mayHaveBlock: false },
      ...given,
    }),
  );
}

async function opened(given: Partial<NewClaim> = {}): Promise<string> {
  const stored = await open(given);
  if (stored?.claim.state !== "OPEN") throw new Error(`the claim is ${stored?.claim.state}`);
  return stored.claim.id;
}

const setState = (id: string, state: string) => lab.sql`update claims set state = ${state} where id = ${id}`;

async function claimOf(id: string) {
  const [row] = await lab.sql<{ state: string; looks: number; leaseS: number }[]>`
    select state, looks, round(extract(epoch from lease_until - created_at))::int as lease_s
    from claims
    where id = ${id}`;
  return row;
}

const stateOf = async (id: string) => (await claimOf(id))?.state;

async function historyOf(id: string) {
  const rows = await lab.sql<{ status: string; failureReason: string | null }[]>`
    select status, failure_reason from transactions where claim_id = ${id}`;
  return [...rows];
}

/** One whose row in the history has its transfer, and one whose row is CONFIRMED. */
async function openedSettled() {
  const [settled, decided] = [await opened(), await opened({ txHash: randomHash() })];
  await bookTransfer(lab, { from: sender });
  await lab.sql`
    update transactions
    set transfer_id = (select id from transfers where from_address = ${sender})
    where claim_id = ${settled}`;
  await lab.sql`update transactions set status = 'CONFIRMED' where claim_id = ${decided}`;
  return { settled, decided };
}

const close = (status: string) =>
  lab.sql`
    update payment_links
    set status = ${status}, paid_at = case when ${status} = 'PAID' then now() end
    where id = ${linkId}`;

const otherLink = () => seedLink(lab.sql, lab.merchant);

describe("a claim that is repeated", () => {
  test.each(["MATCHED", "DISPUTED"])("stays %s, with a proof or without one", async (state) => {
    const id = await opened();
    await setState(id, state);
    for (const proof of [null, "EOA"] as const) {
      expect(await open({ proof })).toMatchObject({
        ...{ claim: { id, state, proof: null }, isNew: false, proofRequired: false },
      });
    }
  });

  test("while it is open is the same claim, with its original lease", async () => {
    const id = await opened();
    const again = await open({ leaseS: 600 });
    expect(again).toMatchObject({ claim: { id, state: "OPEN" }, isNew: false, proofRequired: false });
    expect(await claimOf(id)).toMatchObject({ leaseS: LEASE_S });
  });

  test("with a proof becomes a proven one once, and keeps the proof", async () => {
    const id = await opened();
    expect(await open({ proof: "EOA" })).toMatchObject({ claim: { id, proof: "EOA" }, isNew: true });
    expect(await open({ proof: "EOA" })).toMatchObject({ claim: { id, proof: "EOA" }, isNew: false });
    expect(await open()).toMatchObject({ claim: { id, proof: "EOA" }, isNew: false });
  });

  test.each(["EXPIRED", "REJECTED", "HINT"])("after it was %s is open again", async (state) => {
    const id = await opened();
    await setState(id, state);
    expect(await open()).toMatchObject({ claim: { id, state: "OPEN" }, isNew: true, proofRequired: false });
  });
});

describe("a claim among other claims", () => {
  test("of the same transaction for the same link does not compete", async () => {
    const id = await opened();
    expect(await open({ clientAddress: randomAddress() })).toMatchObject({ claim: { state: "OPEN" } });
    expect(await stateOf(id)).toBe("OPEN");
    expect(await eventsOf(lab, linkId)).toEqual(["pending"]);
  });

  test("of another transaction or network, or that was disproved, does not compete", async () => {
    const other = await otherLink();
    const foreign = await seedLink(lab.sql, await seedMerchant(lab.sql, { network: "base" }));
    const apart = await opened({ linkId: other, txHash: randomHash() });
    const abroad = await opened({ linkId: foreign, network: "base" });
    const disproved = await opened({ linkId: await otherLink() });
    await setState(disproved, "REJECTED");
    expect(await open()).toMatchObject({ claim: { state: "OPEN" }, proofRequired: false });
    expect([await stateOf(apart), await stateOf(abroad), await stateOf(disproved)]).toEqual([
      ...["OPEN", "OPEN", "REJECTED"],
    ]);
  });

  test.each(["OPEN", "HINT", "EXPIRED", "MATCHED"])(
    "of the same transaction for another link, which is %s, decides nothing",
    async (state) => {
      const other = await otherLink();
      await setState(await opened({ linkId: other }), state);
      expect(await open()).toMatchObject({ claim: { state: "HINT" }, isNew: false, proofRequired: true });
      expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
    },
  );
});

describe("a claim that another link's claim contests", () => {
  const contest = async () => open({ linkId: await otherLink() });

  test("is a hint, releases its link and leaves no row; its own link's other claims stay", async () => {
    const [id, kept] = [await opened(), await opened({ txHash: randomHash() })];
    await lab.sql`update claims set lease_until = now() where id = ${kept}`;
    await contest();
    expect([await stateOf(id), await stateOf(kept)]).toEqual(["HINT", "OPEN"]);
    expect([await historyOf(id), (await historyOf(kept)).length]).toEqual([[], 1]);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  });

  test("keeps its link when it is proven", async () => {
    const id = await opened({ proof: "EOA" });
    await contest();
    expect(await stateOf(id)).toBe("OPEN");
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
  });

  test("that ended while its link was locked stays unchanged, with its row", async () => {
    const id = await opened();
    const locked = Promise.withResolvers<void>();
    const mayCommit = Promise.withResolvers<void>();
    const settling = lab.sql.begin(async (tx) => {
      await lockLinks(tx, [linkId]);
      await tx`update claims set state = 'MATCHED' where id = ${id}`;
      locked.resolve();
      await mayCommit.promise;
    });
    await locked.promise;
    const contesting = contest();
    await untilBlocked(lab.sql, contesting);
    mayCommit.resolve();
    await Promise.all([settling, contesting]);
    expect(await stateOf(id)).toBe("MATCHED");
    expect(await historyOf(id)).toHaveLength(1);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
  });

  test("keeps a row that has its transfer or is decided", async () => {
    const { settled, decided } = await openedSettled();
    await lab.sql`update claims set tx_hash = ${txHash}, client_address = ${randomAddress()} where id = ${decided}`;
    await contest();
    expect([await stateOf(settled), await stateOf(decided)]).toEqual(["HINT", "HINT"]);
    expect([...(await historyOf(settled)), ...(await historyOf(decided))]).toMatchObject([
      { status: "PENDING" },
      { status: "CONFIRMED" },
    ]);
  });
});

describe("a claim of a link that is closed", () => {
  test.each(["PAID", "EXPIRED", "CANCELLED"])(
    "%s is stored only with a proof, and holds nothing",
    async (status) => {
      await close(status);
      expect(await open()).toBeUndefined();
      const stored = await open({ proof: "EOA" });
      expect(stored).toMatchObject({ claim: { state: "OPEN", proof: "EOA" }, isNew: true });
      expect(await historyOf(stored?.claim.id ?? "")).toEqual([]);
      expect(await linkOf(lab, linkId)).toMatchObject({ status });
    },
  );

  test("past its expiry, even if no job has updated it, is not stored, nor for an unknown or a reusable link", async () => {
    const over = await seedLink(lab.sql, lab.merchant, { expiresInS: -1 });
    const [reusable = ""] = await seedLinks(lab.sql, lab.merchant, { isReusable: true });
    for (const id of [over, reusable, newLinkId()]) expect(await open({ linkId: id })).toBeUndefined();
    expect(await open({ linkId: reusable, proof: "EOA" })).toBeUndefined();
  });
});

describe("a claim of a transfer that may be in a block", () => {
  const set = (terms: string) => (id: string) =>
    lab.sql`update payment_links set ${lab.sql.unsafe(terms)} where id = ${id}`;
  const newAddress = async () => (await seedMerchant(lab.sql)).address;
  const others: [string, string, (id: string) => Promise<unknown>][] = [
    ["HINT", "an equal one", async () => {}],
    ["HINT", "one that is PENDING, also after its expiry", set("status = 'PENDING', expires_at = now()")],
    ["OPEN", "one over by time", set("expires_at = now()")],
    ["OPEN", "an EXPIRED one", set("status = 'EXPIRED'")],
    ["OPEN", "a PAID one", set("status = 'PAID', paid_at = now()")],
    ["OPEN", "a reusable one", set("is_reusable = true, tag = null, max_payments = null")],
    ["OPEN", "one of another amount", set("amount_units = amount_units + 1")],
    ["OPEN", "one to another wallet", async (id) => set(`recipient = bytes_of('${await newAddress()}')`)(id)],
    ["OPEN", "one on another network", set("network = 'base'")],
  ];
  test.each(others)("is %s next to %s", async (state, _, change) => {
    await seedMerchant(lab.sql, { network: "base", address: lab.merchant.address });
    await change(await otherLink());
    expect(await open({ mayHaveBlock: true })).toMatchObject({ claim: { state, isEarly: false } });
  });
});

describe("a claim of a transfer that is recorded", () => {
  test("without a link decides nothing, even if no other link asks for the amount", async () => {
    await bookTransfer(lab, { txHash, from: sender });
    expect(await open()).toMatchObject({ claim: { state: "HINT", isEarly: false }, proofRequired: true });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  });

  const elsewhere: [string, boolean, (link: string) => BookedTransfer][] = [
    ["that left the chain", true, () => ({ txHash, from: sender, status: "ORPHANED" })],
    ["of another transaction", true, () => ({ from: sender })],
    ["on another network", true, () => ({ txHash, from: sender, network: "base" })],
    ["from another sender", false, () => ({ txHash })],
    ["to another recipient", false, () => ({ txHash, from: sender, to: randomAddress() })],
    ["that counts for another link", false, (link) => ({ txHash, from: sender, link })],
  ];
  test.each(elsewhere)("%s decides for the only link that asks for the amount", async (_, isEarly, place) => {
    const merchant = await seedMerchant(lab.sql);
    await bookTransfer(lab, place(await seedLink(lab.sql, merchant)));
    expect(await open()).toMatchObject({ claim: { state: "OPEN", isEarly }, proofRequired: false });
  });

  test("for its link is matched immediately and holds nothing", async () => {
    await bookTransfer(lab, { txHash, from: sender, link: linkId });
    const stored = await open();
    expect(stored).toMatchObject({ claim: { state: "MATCHED" }, isNew: false, proofRequired: false });
    expect(await historyOf(stored?.claim.id ?? "")).toEqual([]);
  });

  const uncounted: [string, () => BookedTransfer][] = [
    ["that left the chain", () => ({ txHash, from: sender, link: linkId, status: "ORPHANED" })],
    ["from another sender", () => ({ txHash, link: linkId })],
    ["of another transaction", () => ({ from: sender, link: linkId })],
    ["on another network", () => ({ txHash, from: sender, link: linkId, network: "base" })],
  ];
  test.each(uncounted)("for its link, %s, is not matched", async (_, place) => {
    await bookTransfer(lab, place());
    expect(await open()).toMatchObject({ claim: { state: "OPEN" }, isNew: true });
  });
});

describe("a poll of a claim", () => {
  test("extends its lease and never shortens it", async () => {
    const [id, other] = [await opened(), await opened({ txHash: randomHash() })];
    await notePoll(lab.sql, id);
    expect(await claimOf(id)).toEqual({ state: "OPEN", looks: 1, leaseS: LEASE_S });
    await lab.sql`update claims set created_at = now(), lease_until = now() + interval '5 seconds' where id = ${id}`;
    await lab.sql.begin(async (tx) => {
      await notePoll(tx, id, 600);
      await tx`update claims set created_at = now() where id = ${id}`;
    });
    expect(await claimOf(id)).toEqual({ state: "OPEN", looks: 2, leaseS: 600 });
    expect(await claimOf(other)).toEqual({ state: "OPEN", looks: 0, leaseS: LEASE_S });
  });

  test.each(ENDED)("does not change a claim that is %s", async (state) => {
    const id = await opened();
    await setState(id, state);
    await notePoll(lab.sql, id, 600);
    expect(await claimOf(id)).toEqual({ state, looks: 0, leaseS: LEASE_S });
  });
});

describe("ending a claim", () => {
  const end = (id: string, isProven = false) =>
    lab.sql.begin((tx) => endClaim(tx, { id, state: "EXPIRED", reason: "reverted", isProven }));

  test("releases its link and deletes its history row, once", async () => {
    const id = await opened();
    expect(await historyOf(id)).toHaveLength(1);
    expect(await end(id)).toBe(true);
    expect(await historyOf(id)).toEqual([]);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
    expect(await end(id)).toBe(false);
    expect(await eventsOf(lab, linkId)).toEqual(["pending", "released"]);
  });

  test("that the chain disproved marks only its own row as FAILED", async () => {
    const id = await opened();
    const other = await opened({ linkId: await otherLink(), txHash: randomHash() });
    expect(await end(id, true)).toBe(true);
    expect(await historyOf(id)).toEqual([{ status: "FAILED", failureReason: "reverted" }]);
    expect(await historyOf(other)).toEqual([{ status: "PENDING", failureReason: null }]);
  });

  test.each(ENDED)("leaves one that is %s, its link and its row", async (state) => {
    const id = await opened();
    await setState(id, state);
    for (const isProven of [true, false]) expect(await end(id, isProven)).toBe(false);
    expect(await stateOf(id)).toBe(state);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
    expect(await historyOf(id)).toEqual([{ status: "PENDING", failureReason: null }]);
  });

  test.each([true, false])(
    "keeps a row that has its transfer or is decided (disproved: %p)",
    async (isProven) => {
      const { settled, decided } = await openedSettled();
      for (const id of [settled, decided]) expect(await end(id, isProven)).toBe(true);
      expect(await historyOf(settled)).toEqual([{ status: "PENDING", failureReason: null }]);
      expect(await historyOf(decided)).toEqual([{ status: "CONFIRMED", failureReason: null }]);
    },
  );

  test("leaves its link PENDING while another claim's lease lasts, and no longer", async () => {
    const [first, second, third] = [
      await opened(),
      await opened({ txHash: randomHash() }),
      await opened({ txHash: randomHash() }),
    ];
    await end(first);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
    await lab.sql`update claims set lease_until = now() where id = ${third}`;
    await end(second);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  });
});

describe("cancelling a link", () => {
  const endAll = () => lab.sql.begin((tx) => endClaimsOf(tx, [linkId], "link_cancelled"));

  test("ends its open claims with their rows, and no other link's", async () => {
    const [id, apart] = [await opened(), await opened({ linkId: await otherLink(), txHash: randomHash() })];
    await endAll();
    expect([await stateOf(id), await stateOf(apart)]).toEqual(["EXPIRED", "OPEN"]);
    expect([await historyOf(id), (await historyOf(apart)).length]).toEqual([[], 1]);
  });

  test.each(ENDED)("leaves a claim that is %s, and its row", async (state) => {
    const id = await opened();
    await setState(id, state);
    await endAll();
    expect([await stateOf(id), (await historyOf(id)).length]).toEqual([state, 1]);
  });

  test("keeps a claim's row that has its transfer or is decided", async () => {
    const { settled, decided } = await openedSettled();
    await endAll();
    expect([...(await historyOf(settled)), ...(await historyOf(decided))]).toMatchObject([
      { status: "PENDING" },
      { status: "CONFIRMED" },
    ]);
  });

  const cancel = () => lab.sql.begin((tx) => cancelLink(tx, { id: linkId, userId: lab.merchant.userId }));

  test.each(["PAID", "EXPIRED", "CANCELLED"])("is refused for a link that is %s", async (status) => {
    await close(status);
    expect(await cancel()).toBeUndefined();
    expect(await linkOf(lab, linkId)).toMatchObject({ status });
  });

  test("takes one that is ACTIVE, and no other of its merchant", async () => {
    const other = await otherLink();
    expect(await cancel()).toMatchObject({ id: linkId, status: "CANCELLED" });
    expect(await linkOf(lab, other)).toMatchObject({ status: "ACTIVE" });
  });
});
