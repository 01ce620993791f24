/** Interleavings that cannot be produced with a chain on demand: two concurrent writers, a block that leaves the chain and comes back. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newClaimId, newPaymentId, newTransactionId } from "../../core/domain/ids.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { startCursor } from "../../db/ledger/cursors.ts";
import { openClaim } from "../../db/links/claims.ts";
import { endClaim } from "../../db/links/end-claims.ts";
import { cancelLink } from "../../db/links/links.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { insertPayments, requeuePayment } from "../../db/payments/accept-payments.ts";
import { failPayments } from "../../db/payments/payments.ts";
import { markSigned, requeueUnsettled } from "../../db/payments/queue.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { confirmRelays, insertRelay, markMined } from "../../db/relays/relays.ts";
import type { Term } from "../../indexer/leader-term.ts";
import { applyMissedBlocks } from "../../indexer/settle/apply-missed-blocks.ts";
import { settleRetroactively } from "../../indexer/settle/settle-retroactively.ts";
import { settleTransfers } from "../../indexer/settle/settle-transfers.ts";
import type { BlockHeader } from "../../indexer/source/block-header.ts";
import type { SeenTransfer } from "../../indexer/source/decode-logs.ts";
import { asLeased } from "../support/as-leased.ts";
import { makeBlock, randomHash, undoAbove } from "../support/ledger-lab.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";

const NETWORK = "base-sepolia";
let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 5 });
  await startCursor(sql, NETWORK, { number: 100, hash: randomHash() });
});
beforeEach(async () => {
  merchant = await seedMerchant(sql);
});
afterAll(async () => {
  await sql.end({ timeout: 5 });
  await db.drop();
});

function makeTransfer(fields: Partial<SeenTransfer> & { block: BlockHeader }): SeenTransfer {
  return {
    ...{
      txHash: randomHash(),
      logIndex: 1,
      from: randomAddress(),
      to: merchant.address,
      amountUnits: 1_000_000n,
    },
    ...{ authorizationNonce: undefined, ...fields },
  };
}

/** Reads a block: its contents are settled and confirmed. */
function read(transfers: readonly SeenTransfer[]): Promise<void> {
  return sql.begin(async (tx) => {
    const { linkIds } = await settleTransfers(tx, {
      network: NETWORK,
      transfers,
      spent: [],
      operations: [],

      isWatched: (address) => address === merchant.address,
      confirmedAtS: () => Math.floor(Date.now() / 1000),
    });
    await recomputeLinkStatus(tx, { linkIds, isReorg: false });
  });
}

async function claim(
  linkId: string,
  txHash: Hex,
  clientAddress: Hex,
  proof: "EOA" | null = null,
): Promise<string> {
  const id = newClaimId();
  await sql.begin((tx) =>
    openClaim(tx, {
      ...{ id, linkId, network: NETWORK, txHash, clientAddress, requestId: null },
      ...{ transactionId: newTransactionId(), leaseS: 90, proof, mayHaveBlock: false },
    }),
  );
  return id;
}

function newPayment(linkId: string) {
  return {
    ...({ id: newPaymentId(), linkId, network: NETWORK } as const),
    ...({ token: NETWORKS[NETWORK].usdc.address, payer: randomAddress(), payerKind: "EOA" } as const),
    ...{ recipient: merchant.address, amountUnits: 1_000_000n, validAfter: 0n, validBefore: 9_999_999_999n },
    ...{ nonce: randomHash(), signature: "0x" as Hex, idempotencyKey: null, requestId: null },
  };
}

async function statusOf(linkId: string): Promise<string | undefined> {
  const [row] = await sql<{ status: string }[]>`select status from payment_links where id = ${linkId}`;
  return row?.status;
}

function historyOf(txHash: Hex) {
  return sql<
    { status: string; type: string; amountUnits: bigint; counterparty: string; linkId: string | null }[]
  >`
    select status, type, amount_units, counterparty, link_id
    from transactions
    where tx_hash = ${txHash} and status <> 'ORPHANED'
    order by log_index`;
}

describe("a claim that ends while a payment is accepted", () => {
  test("leaves the link to the payment: PENDING, and not cancellable", async () => {
    const linkId = await seedLink(sql, merchant);
    const claimId = await claim(linkId, randomHash(), randomAddress());
    let ending: Promise<unknown> | undefined;
    await sql.begin(async (tx) => {
      await lockLinks(tx, [linkId]);
      await insertPayments(tx, [newPayment(linkId)]);
      ending = sql.begin((other) =>
        endClaim(other, { id: claimId, state: "EXPIRED", reason: "not_found", isProven: false }),
      );
      await untilBlocked(sql, ending);
    });
    await ending;
    expect(await statusOf(linkId)).toBe("PENDING");
    expect(await sql.begin((tx) => cancelLink(tx, { id: linkId, userId: merchant.userId }))).toBeUndefined();
  });
});

describe("several transfers in one transaction", () => {
  test("a later proof for one of them does not take the claim that another transfer has used", async () => {
    const [five, three] = [
      await seedLink(sql, merchant, { amountUnits: 5_000_000n }),
      await seedLink(sql, merchant, { amountUnits: 3_000_000n }),
    ];
    await seedLink(sql, merchant, { amountUnits: 3_000_000n });
    const [block, txHash, from] = [makeBlock(99), randomHash(), randomAddress()];
    await claim(five, txHash, from);
    const units = [5_000_000n, 3_000_000n, 4_000_000n];
    await read(
      units.map((amountUnits, logIndex) => makeTransfer({ block, txHash, from, amountUnits, logIndex })),
    );
    expect(await statusOf(five)).toBe("PAID");
    await claim(three, txHash, from, "EOA");
    await settleRetroactively(term());
    expect(await statusOf(three)).toBe("PAID");
    expect(await historyOf(txHash)).toMatchObject([
      { linkId: five, type: "PAYMENT_LINK" },
      { linkId: three, type: "PAYMENT_LINK" },
      { linkId: null, type: "RECEIVE" },
    ]);
    const exceptions = await sql`select exception from payment_links where id in (${five}, ${three})`;
    expect([...exceptions]).toEqual([{ exception: "NONE" }, { exception: "NONE" }]);
  });

  test("one omitted by a node does not take the history row of the one already recorded", async () => {
    const linkId = await seedLink(sql, merchant, { amountUnits: 6_000_000n });
    const [block, txHash, from] = [makeBlock(99), randomHash(), randomAddress()];
    await claim(linkId, txHash, from, "EOA");
    const [reported, leftOut] = [7_000_000n, 8_000_000n].map((amountUnits, logIndex) =>
      makeTransfer({ block, txHash, from, amountUnits, logIndex }),
    );
    if (reported) await read([reported]);
    if (leftOut) await read([leftOut]);
    expect((await historyOf(txHash)).map((row) => row.amountUnits)).toEqual([7_000_000n, 8_000_000n]);
  });
});

describe("a block that leaves the chain", () => {
  test("and comes back after its transfer was claimed is read as before", async () => {
    const linkId = await seedLink(sql, merchant);
    const transfer = makeTransfer({ block: makeBlock(102) });
    await read([transfer]);
    expect(await statusOf(linkId)).toBe("PAID");
    await undoAbove({ sql }, 101);
    await claim(linkId, transfer.txHash, transfer.from);
    await read([transfer]);
    expect(await statusOf(linkId)).toBe("PAID");
    expect(await historyOf(transfer.txHash)).toMatchObject([
      { status: "CONFIRMED", type: "PAYMENT_LINK", linkId },
    ]);
  });

  test("whose transaction moves another amount in the next block: the history shows that amount", async () => {
    const [txHash, payer] = [randomHash(), randomAddress()];
    await read([makeTransfer({ block: makeBlock(102), txHash, amountUnits: 111n })]);
    await undoAbove({ sql }, 101);
    await read([makeTransfer({ block: makeBlock(102), txHash, from: payer, amountUnits: 222n })]);
    expect(await historyOf(txHash)).toMatchObject([
      { status: "CONFIRMED", amountUnits: 222n, counterparty: payer },
    ]);
  });
});

describe("a wallet's backfill that was read before a reorganisation", () => {
  test("and is recorded after it: nothing above the cursor, which the indexer reads again", async () => {
    const transfer = makeTransfer({ block: makeBlock(99) });
    const content = {
      block: transfer.block,
      transfers: [transfer],
      spent: [],
      operations: [],
      accountLogs: [],
      logCount: 1,
    };
    let booking: Promise<number> | undefined;
    await sql.begin(async (tx) => {
      await tx`update cursors set number = 98 where network = ${NETWORK}`;
      booking = applyMissedBlocks(term(), [content], (address) => address === merchant.address);
      await untilBlocked(sql, booking);
    });
    expect(await booking).toBe(0);
    expect(await historyOf(transfer.txHash)).toHaveLength(0);
    await sql`update cursors set number = 100 where network = ${NETWORK}`;
    expect(await applyMissedBlocks(term(), [content], (address) => address === merchant.address)).toBe(1);
  });
});

describe("the events of a link that was held", () => {
  async function eventsOf(linkId: string): Promise<string[]> {
    const rows = await sql<
      { type: string }[]
    >`select type from events where subject_id = ${linkId} order by id`;
    return rows.map((row) => row.type.replace("payment_link.", ""));
  }
  async function accept(linkId: string) {
    const payment = newPayment(linkId);
    await sql.begin((tx) => insertPayments(tx, [payment]));
    return payment;
  }
  const fail = ({ id }: { id: string }) =>
    sql.begin((tx) => failPayments(tx, [{ id, reason: "INSUFFICIENT_FUNDS" }]));
  const end = (id: string) =>
    sql.begin((tx) => endClaim(tx, { id, state: "EXPIRED", reason: "not_found", isProven: false }));
  const passEnd = (linkId: string) =>
    sql`update payment_links set expires_at = now() - interval '1 second' where id = ${linkId}`;

  test("by a claim and ends after its expiry: expired", async () => {
    const linkId = await seedLink(sql, merchant);
    const claimId = await claim(linkId, randomHash(), randomAddress());
    await passEnd(linkId);
    await end(claimId);
    expect(await statusOf(linkId)).toBe("EXPIRED");
    expect(await eventsOf(linkId)).toEqual(["pending", "expired"]);
  });

  test("by a payment that fails after its expiry: expired", async () => {
    const linkId = await seedLink(sql, merchant);
    const payment = await accept(linkId);
    await passEnd(linkId);
    await fail(payment);
    expect(await statusOf(linkId)).toBe("EXPIRED");
    expect(await eventsOf(linkId)).toEqual(["pending", "expired"]);
  });

  test("by a claim in addition to the payment that failed: released once, when both have ended", async () => {
    const linkId = await seedLink(sql, merchant);
    const claimId = await claim(linkId, randomHash(), randomAddress());
    const payment = await accept(linkId);
    await fail(payment);
    expect(await statusOf(linkId)).toBe("PENDING");
    expect(await eventsOf(linkId)).not.toContain("released");
    await end(claimId);
    expect((await eventsOf(linkId)).filter((type) => type === "released")).toHaveLength(1);
  });

  test("by a payment that failed and is retried: pending again", async () => {
    const linkId = await seedLink(sql, merchant);
    const payment = await accept(linkId);
    await fail(payment);
    await sql.begin((tx) => requeuePayment(tx, payment.id, payment));
    expect(await statusOf(linkId)).toBe("PENDING");
    expect(await eventsOf(linkId)).toEqual(["pending", "released", "pending"]);
  });
});

describe("a mined relay that did not settle its payment", () => {
  test("is not CONFIRMED before the payment is queued again", async () => {
    const linkId = await seedLink(sql, merchant);
    const payment = newPayment(linkId);
    const relayer = randomAddress();
    const relayId = await sql.begin(async (tx) => {
      await lockLinks(tx, [linkId]);
      await insertPayments(tx, [payment]);
      await ensureLane(tx, { network: NETWORK, relayer }, 0n);
      const fees = { maxFeePerGas: 2n, maxPriorityFeePerGas: 1n };
      const txHash = randomHash();
      const id = await insertRelay(tx, {
        ...{
          network: NETWORK,
          relayer,
          nonce: 0n,
          kind: "PAYMENTS",
          callTo: randomAddress(),
          callData: "0x",
        },
        ...{ gasLimit: 1n, attempt: { txHash, raw: "0x", ...fees } },
      });
      await markSigned(tx, id, await asLeased(tx, [payment]));
      const place = { blockNumber: 90n, blockHash: randomHash() };
      await markMined(tx, [{ relayId: id, txHash, ...place, succeeded: false, gasUsed: 1n, feeWei: 1n }]);
      return id;
    });
    const confirm = async (provenIds: readonly bigint[]) => {
      await confirmRelays(sql, NETWORK, { depthBlocks: 1, provenIds });
      const [relay] = await sql<{ state: string }[]>`select state from relays where relayer = ${relayer}`;
      return relay?.state;
    };
    await sql`update wallets set backfilled_at = now() where id = ${merchant.walletId}`;
    // the indexer reached the block between the monitor's two statements
    expect(await confirm([relayId])).toBe("MINED");
    expect((await requeueUnsettled(sql, NETWORK, 1)).map((row) => row.id)).toEqual([payment.id]);
    // its block is not stored, and no node has confirmed that it is canonical
    expect(await confirm([])).toBe("MINED");
    expect(await confirm([relayId])).toBe("CONFIRMED");
  });
});

/** A leader at block 100, for code that needs no node. */
function term(): Term {
  const cursor = { number: 100, hash: "0x" as Hex };
  return { sql, network: NETWORK, epoch: 0n, cursor, confirmations: 1 } as unknown as Term;
}
