/** Two concurrent transactions for the same link or transfer: the SQL conditions that make one of them lose. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { newClaimId, newPaymentId, newRequestId, newTransactionId } from "../../core/domain/ids.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { disputeTransfers, findPendingLinks } from "../../db/links/claim-proofs.ts";
import { openClaim, type StoredClaim } from "../../db/links/claims.ts";
import { endClaim } from "../../db/links/end-claims.ts";
import { cancelLink } from "../../db/links/links.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { insertPayments } from "../../db/payments/accept-payments.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { randomAddress, type SeededMerchant, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);
const [NETWORK, UNITS, WAIT_MS] = ["base-sepolia", 3_000_000n, 45_000] as const;

let db: TestDatabase;
let sql: Sql;
let late: Sql;
let ann: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
  late = openDatabase(db.url, { name: "late", maxConnections: 1 });
  ann = await seedMerchant(sql);
});
afterAll(async () => {
  await late?.end({ timeout: 5 });
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

/** `second` begins when `first` has done its work, and continues when that has committed, or before if no lock makes it wait. */
async function overlap<First, Second>(
  first: (tx: Tx) => Promise<First>,
  second: (tx: Tx) => Promise<Second>,
): Promise<{ first: First; second: Second }> {
  const [done, mayCommit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const one = sql.begin(async (tx) => {
    const result = await first(tx);
    done.resolve();
    await mayCommit.promise;
    return result;
  });
  one.catch(done.reject);
  await done.promise;
  let isOver = false;
  const other = late.begin(second).finally(() => {
    isOver = true;
  });
  const deadline = Date.now() + WAIT_MS;
  while (!isOver && !(await isLateWaiting())) {
    if (Date.now() > deadline) throw new Error("the second transaction neither waits nor ends");
    await Bun.sleep(5);
  }
  mayCommit.resolve();
  return { first: (await one) as First, second: (await other) as Second };
}

async function isLateWaiting(): Promise<boolean> {
  const rows = await sql`
    select 1 from pg_stat_activity
    where datname = current_database() and application_name = 'late' and wait_event_type = 'Lock'`;
  return rows.length > 0;
}

function randomHash(): Hex {
  return `0x${randomBytes(32).toString("hex")}`;
}

function newLink(): Promise<string> {
  return seedLink(sql, ann, { amountUnits: UNITS });
}

/** Undefined when the link takes no payment. */
async function offer(tx: Tx, linkId: string): Promise<string | undefined> {
  const id = newPaymentId();
  await lockLinks(tx, [linkId]);
  const accepted = await insertPayments(tx, [
    {
      ...{ id, linkId, network: NETWORK, token: NETWORKS[NETWORK].usdc.address },
      ...{ payer: randomAddress(), payerKind: "EOA", recipient: ann.address, amountUnits: UNITS },
      ...{ nonce: randomHash(), validAfter: 0n, validBefore: 2n ** 40n, signature: "0x" },
      ...{ idempotencyKey: null, requestId: null },
    },
  ]);
  return accepted.has(id) ? id : undefined;
}

async function accept(tx: Tx, linkId: string): Promise<string> {
  const id = await offer(tx, linkId);
  if (id === undefined) throw new Error(`${linkId} accepted no payment`);
  return id;
}

/** A transfer as recorded by the indexer. */
async function book(
  tx: Tx,
  given: {
    linkId?: string;
    pays?: boolean;
    units?: bigint;
    status?: string;
    settledBy?: string;
    txHash?: Hex;
    from?: Hex;
  },
): Promise<bigint> {
  const { linkId = null, pays = false, units = UNITS, status = "CONFIRMED", settledBy = null } = given;
  const [row] = await tx<{ id: bigint }[]>`
    insert into transfers (
      network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units,
      status, link_id, pays, settled_by
    )
    values (
      ${NETWORK}, 7, ${randomHash()}, now(), ${given.txHash ?? randomHash()}, 0, ${given.from ?? randomAddress()},
      ${ann.address}, ${units.toString()}, ${status}, ${linkId}, ${pays}, ${settledBy}
    )
    returning id`;
  if (!row) throw new Error("no transfer was inserted");
  return row.id;
}

type ClaimOptions = { txHash?: Hex; proof?: "EOA" | null; clientAddress?: Hex; mayHaveBlock?: boolean };

function claim(tx: Tx, linkId: string, options: ClaimOptions = {}): Promise<StoredClaim | undefined> {
  const {
    txHash = randomHash(),
    proof = null,
    clientAddress = randomAddress(),
    mayHaveBlock = false,
  } = options;
  return openClaim(tx, {
    ...{ id: newClaimId(), linkId, network: NETWORK, txHash, clientAddress, proof, mayHaveBlock },
    ...{ requestId: newRequestId(), transactionId: newTransactionId(), leaseS: 90 },
  });
}

const claimFor = (linkId: string, options?: ClaimOptions) => sql.begin((tx) => claim(tx, linkId, options));

const cancel = (tx: Tx, id: string) => cancelLink(tx, { id, userId: ann.userId });

async function statusOf(linkId: string): Promise<string | undefined> {
  const [row] = await sql<{ status: string }[]>`select status from payment_links where id = ${linkId}`;
  return row?.status;
}

async function claimsOf(txHash: Hex): Promise<Record<string, string>> {
  const rows = await sql<{ linkId: string; state: string }[]>`
    select link_id, state from claims where tx_hash = ${txHash}`;
  return Object.fromEntries(rows.map(({ linkId, state }) => [linkId, state]));
}

describe("a link that only claims hold is cancelled", () => {
  test("with one claim, with several, with a failed payment, and with an orphaned transfer", async () => {
    const link = await newLink();
    await claimFor(link);
    await claimFor(link);
    const payment = await sql.begin((tx) => accept(tx, link));
    await sql`update payments set state = 'FAILED', reason = 'NONCE_USED' where id = ${payment}`;
    await book(sql, { linkId: link, pays: true, status: "ORPHANED" });
    await book(sql, { linkId: link, status: "ORPHANED" });
    await book(sql, { linkId: link, units: UNITS - 1n });
    expect(await statusOf(link)).toBe("PENDING");
    expect(await cancel(sql, link)).toMatchObject({ status: "CANCELLED" });
  });

  const holds: [string, (link: string) => Promise<unknown>][] = [
    ["a payment in flight", (link) => sql.begin((tx) => accept(tx, link))],
    ["a transfer that pays it", (link) => book(sql, { linkId: link, pays: true, status: "DETECTED" })],
    ["a transfer of its amount that is one too many", (link) => book(sql, { linkId: link })],
  ];
  test.each(holds)("not with %s", async (_, hold) => {
    const link = await newLink();
    await claimFor(link);
    expect(await statusOf(link)).toBe("PENDING");
    await hold(link);
    expect(await cancel(sql, link)).toBeUndefined();
    expect(await statusOf(link)).toBe("PENDING");
  });

  test("not after its expiry, nor by another user", async () => {
    const link = await newLink();
    await claimFor(link);
    expect(await cancelLink(sql, { id: link, userId: (await seedMerchant(sql)).userId })).toBeUndefined();
    await sql`update payment_links set expires_at = now() - interval '1 second' where id = ${link}`;
    expect(await cancel(sql, link)).toBeUndefined();
  });

  test("not while a payment is being accepted", async () => {
    const link = await newLink();
    await claimFor(link);
    const { second } = await overlap(
      (tx) => accept(tx, link),
      (tx) => cancel(tx, link),
    );
    expect(second).toBeUndefined();
    expect(await statusOf(link)).toBe("PENDING");
  });

  test("not while a transfer is being recorded", async () => {
    const link = await newLink();
    await claimFor(link);
    const { second } = await overlap(
      async (tx) => {
        await lockLinks(tx, [link]);
        await book(tx, { linkId: link, pays: true, status: "DETECTED" });
      },
      (tx) => cancel(tx, link),
    );
    expect(second).toBeUndefined();
    expect(await statusOf(link)).toBe("PENDING");
  });

  test("before a payment is accepted: the payment is refused", async () => {
    const link = await newLink();
    await claimFor(link);
    const { first, second } = await overlap(
      (tx) => cancel(tx, link),
      (tx) => offer(tx, link),
    );
    expect(first).toMatchObject({ status: "CANCELLED" });
    expect(second).toBeUndefined();
    expect(await statusOf(link)).toBe("CANCELLED");
  });
});

describe("claims of one transaction for two links", () => {
  async function makeRivals() {
    const [one = "", other = ""] = await seedLinks(sql, ann, { count: 2, amountUnits: UNITS });
    return { one, other, txHash: randomHash(), clientAddress: randomAddress() };
  }

  test("made concurrently: neither decides, neither holds its link", async () => {
    const { one, other, ...named } = await makeRivals();
    const { first, second } = await overlap(
      (tx) => claim(tx, one, named),
      (tx) => claim(tx, other, named),
    );
    expect([first?.proofRequired, second?.proofRequired]).toEqual([false, true]);
    expect(await claimsOf(named.txHash)).toEqual({ [one]: "HINT", [other]: "HINT" });
    expect([await statusOf(one), await statusOf(other)]).toEqual(["ACTIVE", "ACTIVE"]);
    const rows = await sql`select 1 from transactions where tx_hash = ${named.txHash}`;
    expect(rows.length).toBe(0);
  });

  test("for twenty links concurrently: none decides", async () => {
    const links = await seedLinks(sql, ann, { count: 20, amountUnits: UNITS });
    const named = { txHash: randomHash(), clientAddress: randomAddress() };
    await Promise.all(links.map((linkId) => claimFor(linkId, named)));
    expect(Object.values(await claimsOf(named.txHash))).toEqual(Array(20).fill("HINT"));
    const rows = await sql`
      select 1 from payment_links where id = any(${links}::text[]) and status <> 'ACTIVE'`;
    expect(rows.length).toBe(0);
  });

  test("the proven one is not contested by an unproven one, before or after it", async () => {
    for (const isFirst of [true, false]) {
      const { one, other, ...named } = await makeRivals();
      const steps = [() => claimFor(one, { ...named, proof: "EOA" }), () => claimFor(other, named)];
      for (const step of isFirst ? steps : steps.reverse()) await step();
      expect(await claimsOf(named.txHash)).toEqual({ [one]: "OPEN", [other]: "HINT" });
      expect([await statusOf(one), await statusOf(other)]).toEqual(["PENDING", "ACTIVE"]);
    }
  });

  test("one of which was disproved: the other decides", async () => {
    const { one, other, ...named } = await makeRivals();
    const wrong = await claimFor(other, named);
    await sql.begin((tx) =>
      endClaim(tx, { id: wrong?.claim.id ?? "", state: "REJECTED", reason: "unrelated", isProven: false }),
    );
    expect((await claimFor(one, named))?.proofRequired).toBe(false);
    expect(await claimsOf(named.txHash)).toEqual({ [one]: "OPEN", [other]: "REJECTED" });
  });

  test("a claim that is contested releases its link only when nothing else holds it", async () => {
    const { one, other, ...named } = await makeRivals();
    await claimFor(one, named);
    await sql.begin((tx) => accept(tx, one));
    await claimFor(other, named);
    expect(await claimsOf(named.txHash)).toEqual({ [one]: "HINT", [other]: "HINT" });
    expect(await statusOf(one)).toBe("PENDING");
  });

  test("a late claim does not become early by being repeated", async () => {
    const { one, ...named } = await makeRivals();
    expect((await claimFor(one, { ...named, mayHaveBlock: true }))?.proofRequired).toBe(true);
    // a node that does not know the block (any more)
    const again = await claimFor(one, named);
    expect([again?.claim.isEarly, again?.proofRequired]).toEqual([false, true]);
  });

  test("of a recorded transfer is late, whatever the node reports", async () => {
    const { one, ...named } = await makeRivals();
    await book(sql, { txHash: named.txHash, from: named.clientAddress });
    const stored = await claimFor(one, named);
    expect([stored?.claim.isEarly, stored?.proofRequired]).toEqual([false, true]);
  });
});

describe("a proof against another link's transfer", () => {
  test("finds that link PENDING, or PAID when that was committed first", async () => {
    const link = await newLink();
    await book(sql, { linkId: link, pays: true, status: "DETECTED", settledBy: "early_claim" });
    await sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: [link], isReorg: false }));
    expect(await sql.begin((tx) => findPendingLinks(tx, [link]))).toEqual([link]);
    const { second } = await overlap(
      async (tx) => {
        await lockLinks(tx, [link]);
        await tx`update transfers set status = 'CONFIRMED', confirmed_at = now() where link_id = ${link}`;
        return recomputeLinkStatus(tx, { linkIds: [link], isReorg: false });
      },
      (tx) => findPendingLinks(tx, [link]),
    );
    expect(await statusOf(link)).toBe("PAID");
    expect(second).toEqual([]);
  });

  test("keeps the link from becoming PAID until its transaction has ended", async () => {
    const link = await newLink();
    await book(sql, { linkId: link, pays: true, status: "DETECTED", settledBy: "early_claim" });
    await sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: [link], isReorg: false }));
    const { first, second } = await overlap(
      async (tx) => {
        const pending = await findPendingLinks(tx, [link]);
        await tx`update transfers set link_id = null, pays = false, settled_by = null where link_id = ${link}`;
        await recomputeLinkStatus(tx, { linkIds: [link], isReorg: false });
        return pending;
      },
      async (tx) => {
        await tx`update transfers set status = 'CONFIRMED', confirmed_at = now() where link_id = ${link}`;
        return recomputeLinkStatus(tx, { linkIds: [link], isReorg: false });
      },
    );
    expect(first).toEqual([link]);
    expect(second).toEqual([]);
    expect(await statusOf(link)).toBe("ACTIVE");
  });

  async function makeDispute() {
    const [paid = "", claimed = ""] = await seedLinks(sql, ann, { count: 2, amountUnits: UNITS });
    const [txHash, clientAddress, historyId] = [randomHash(), randomAddress(), newTransactionId()];
    const transferId = await book(sql, { linkId: paid, pays: true, txHash, from: clientAddress });
    await sql`
      insert into transactions (
        id, owner, network, type, status, amount_units, counterparty, description, tx_hash, log_index, link_id,
        transfer_id, detected_at
      )
      values (
        ${historyId}, owner_key(${ann.userId}), ${NETWORK}, 'PAYMENT_LINK', 'CONFIRMED', ${UNITS}::bigint, ${clientAddress}, 'd',
        ${txHash}, 0, ${paid}, ${transferId.toString()}::bigint, now()
      )`;
    const stored = await claimFor(claimed, { txHash, clientAddress, proof: "EOA" });
    const claimId = stored?.claim.id ?? "";
    const disputes = async () =>
      (await sql`select 1 from events where subject_id = ${historyId} and type = 'transaction.disputed'`)
        .length;
    return { claimId, dispute: { transferId, claimId, claimedLinkId: claimed }, disputes };
  }

  test("is disputed once by two concurrent transactions", async () => {
    const { dispute, disputes, claimId } = await makeDispute();
    await overlap(
      (tx) => disputeTransfers(tx, [dispute]),
      (tx) => disputeTransfers(tx, [dispute]),
    );
    expect(await disputes()).toBe(1);
    const [row] = await sql`select state from claims where id = ${claimId}`;
    expect(row).toEqual({ state: "DISPUTED" });
  });

  test.each(["MATCHED", "REJECTED", "EXPIRED", "HINT"])(
    "is not disputed when its claim is %s",
    async (state) => {
      const { dispute, disputes, claimId } = await makeDispute();
      await sql`update claims set state = ${state} where id = ${claimId}`;
      await sql.begin((tx) => disputeTransfers(tx, [dispute]));
      expect(await disputes()).toBe(0);
      const [row] = await sql`select state from claims where id = ${claimId}`;
      expect(row).toEqual({ state });
    },
  );
});

test("a claim that ends while a payment is being accepted leaves the link PENDING", async () => {
  const link = await newLink();
  const stored = await claimFor(link);
  const id = stored?.claim.id ?? "";
  const { second } = await overlap(
    (tx) => accept(tx, link),
    (tx) => endClaim(tx, { id, state: "EXPIRED", reason: "not_found", isProven: false }),
  );
  expect(second).toBe(true);
  expect(await statusOf(link)).toBe("PENDING");
});
