/** The books without a chain: blocks are read, undone and looked back on as the indexer does it, in any order a test wants. */

import { randomBytes } from "node:crypto";
import { newApiKeyId, newClaimId, newPaymentId, newTransactionId } from "../../core/domain/ids.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { insertApiKey } from "../../db/api-keys/api-keys.ts";
import { startCursor } from "../../db/ledger/cursors.ts";
import { orphanBlocksAbove } from "../../db/ledger/orphan-blocks.ts";
import { openClaim } from "../../db/links/claims.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { insertPayments, type NewPayment } from "../../db/payments/accept-payments.ts";
import { insertFacilitatedPayments } from "../../db/payments/facilitated-payments.ts";
import { failPayments, lockPayments } from "../../db/payments/payments.ts";
import { markSigned } from "../../db/payments/queue.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { insertRelay } from "../../db/relays/relays.ts";
import type { Term } from "../../indexer/leader-term.ts";
import { settleRetroactively } from "../../indexer/settle/settle-retroactively.ts";
import { settleTransfers } from "../../indexer/settle/settle-transfers.ts";
import type { BlockHeader } from "../../indexer/source/block-header.ts";
import type { SeenTransfer, SpentAuthorization } from "../../indexer/source/decode-logs.ts";
import { asLeased } from "./as-leased.ts";
import { createTestDatabase, TEST_POOL } from "./postgres.ts";
import { randomAddress, type SeededMerchant, seedMerchant } from "./seed.ts";

export const NETWORK = "base-sepolia";
export const UNITS = 1_000_000n;

export type BooksLab = {
  sql: Sql;
  url: string;
  /** Whom `makeTransfer` and `accept` pay; another one keeps a test's links apart from others'. */
  merchant: SeededMerchant;
  /** A leader for what needs no node. */
  term: Term;
  stop: () => Promise<void>;
};

/** `readTo`: the block that the books have reached; what is accepted counts for transfers of later blocks. */
export async function openBooks({ readTo = 100 } = {}): Promise<BooksLab> {
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 5 });
  const cursor = { number: readTo, hash: randomHash() };
  await startCursor(sql, NETWORK, cursor);
  const merchant = await seedMerchant(sql);
  const term = { sql, network: NETWORK, epoch: 0n, cursor, confirmations: 1 } as unknown as Term;
  const stop = async () => {
    await sql.end({ timeout: 5 });
    await db.drop();
  };
  return { sql, url: db.url, merchant, term, stop };
}

export function randomHash(): Hex {
  return `0x${randomBytes(32).toString("hex")}`;
}

/** Of the next second: what is accepted within the second of a block counts as later than it. */
export function makeBlock(number: number): BlockHeader {
  const [hash, parentHash, receiptsRoot] = [randomHash(), randomHash(), randomHash()];
  const timeS = Math.floor(Date.now() / 1000) + 1;
  return { number, hash, parentHash, receiptsRoot, bloom: "0x", isHashProven: true, timeS };
}

/** A transfer to the merchant; one that executes `payment`'s authorization when that is given. */
export function makeTransfer(
  { merchant }: Pick<BooksLab, "merchant">,
  blockNumber: number,
  { payment, ...fields }: Partial<SeenTransfer> & { payment?: NewPayment } = {},
): SeenTransfer {
  return {
    ...{ block: makeBlock(blockNumber), txHash: randomHash(), logIndex: 1, to: merchant.address },
    ...{ from: payment?.payer ?? randomAddress(), amountUnits: UNITS, authorizationNonce: payment?.nonce },
    ...fields,
  };
}

/**
 * Blocks are read and are deep enough at once, unless they are not to be. `cancelled` are payments whose authorizations were spent on
 * nothing, `booked` transfers of the same blocks that were read before.
 */
export function read(
  { sql, merchant }: BooksLab,
  transfers: readonly SeenTransfer[],
  cancelled: readonly NewPayment[] = [],
  { isDeep = true, booked = [] }: { isDeep?: boolean; booked?: readonly SeenTransfer[] } = {},
): Promise<void> {
  const executed = transfers.flatMap(({ from: payer, authorizationNonce: nonce, block, ...transfer }) =>
    nonce
      ? [
          {
            ...{ payer, nonce, blockNumber: block.number },
            transfer: { ...transfer, blockNumber: block.number, blockTimeS: block.timeS },
          },
        ]
      : [],
  );
  const spent: SpentAuthorization[] = [
    ...executed,
    ...cancelled.map(({ payer, nonce }) => ({ payer, nonce, blockNumber: 1 })),
  ];
  return sql.begin(async (tx) => {
    const { linkIds } = await settleTransfers(tx, {
      ...{ network: NETWORK, transfers, spent, operations: [], bookedTransfers: booked },
      isWatched: (address) => address === merchant.address,
      confirmedAtS: () => (isDeep ? Math.floor(Date.now() / 1000) : undefined),
    });
    await recomputeLinkStatus(tx, { linkIds, isReorg: false });
  });
}

/** The merchant's paid links, with the log that pays each. */
export async function paidBy({ sql, merchant }: BooksLab): Promise<Record<string, number>> {
  const rows = await sql<{ linkId: string; logIndex: number }[]>`
    select link_id, log_index
    from transfers
    where to_address = ${merchant.address} and pays and status <> 'ORPHANED'`;
  return Object.fromEntries(rows.map(({ linkId, logIndex }) => [linkId, logIndex]));
}

/** How far the books have read, whatever they hold: an authorization accepted from now on counts for later blocks alone. */
export async function readUpTo({ sql }: Pick<BooksLab, "sql">, number: number): Promise<void> {
  await sql`update cursors set number = ${number} where network = ${NETWORK}`;
}

export function undoAbove({ sql }: Pick<BooksLab, "sql">, ancestor: number): Promise<void> {
  return sql.begin(async (tx) => {
    const { linkIds } = await orphanBlocksAbove(tx, { network: NETWORK, ancestor, claimLeaseS: 90 });
    await recomputeLinkStatus(tx, { linkIds, isReorg: true });
  });
}

/** The leader's next poll of links that were released, and of claims that came after their block. */
export function lookBack({ term }: BooksLab): Promise<void> {
  return settleRetroactively(term);
}

/** `proof`: how the sender proved that it made the transfer. `mayHaveBlock`: a node showed the transaction in a block, or none was asked. */
export async function claim(
  { sql }: BooksLab,
  linkId: string,
  { txHash, from }: Pick<SeenTransfer, "txHash" | "from">,
  proof: "EOA" | null = null,
  { mayHaveBlock = false } = {},
) {
  const id = newClaimId();
  await sql.begin((tx) =>
    openClaim(tx, {
      ...{ id, linkId, network: NETWORK, txHash, clientAddress: from, requestId: null },
      ...{ transactionId: newTransactionId(), leaseS: 90, proof, mayHaveBlock },
    }),
  );
  return id;
}

/** A payment as the API accepts it, of an authorization of its own or this one; undefined when the link does not take it. */
export async function accept(
  lab: BooksLab,
  linkId: string,
  authorization: Partial<Pick<NewPayment, "payer" | "nonce">> = {},
): Promise<NewPayment | undefined> {
  const payment = makePayment(lab, linkId, authorization);
  const accepted = await lab.sql.begin(async (tx) => {
    await lockLinks(tx, [linkId]);
    return insertPayments(tx, [payment]);
  });
  return accepted.has(payment.id) ? payment : undefined;
}

/** As `accept`, for a link that takes it. */
export async function accepted(...given: Parameters<typeof accept>): Promise<NewPayment> {
  const payment = await accept(...given);
  if (!payment) throw new Error("the link accepted no payment");
  return payment;
}

/** A payment that the merchant submitted as a client of the facilitator: it belongs to no link. */
export async function acceptFacilitated({ sql, merchant }: Pick<BooksLab, "sql" | "merchant">) {
  const { linkId, ...payment } = makePayment({ merchant }, "");
  const facilitated = { ...payment, ...(await makeFacilitatorClient(sql, merchant)) };
  await insertFacilitatedPayments(sql, [facilitated]);
  return facilitated;
}

/** The user with a new API key for the facilitator, as its payments name them. */
export async function makeFacilitatorClient(sql: Sql, { userId }: { userId: string }) {
  const keyId = newApiKeyId();
  await insertApiKey(sql, {
    ...{ id: keyId, userId, name: "test", prefix: "sk_" },
    ...{ keyHash: randomBytes(32), scopes: ["facilitator"] },
  });
  return { facilitatorUserId: userId, facilitatorKeyId: keyId };
}

/** A payment of the lab's merchant that fits one of the merchant's links. */
export function makePayment(
  { merchant }: { merchant: Pick<SeededMerchant, "address"> },
  linkId: string,
  authorization: Partial<Pick<NewPayment, "payer" | "nonce">> = {},
): NewPayment {
  return {
    ...({ id: newPaymentId(), linkId, network: NETWORK } as const),
    ...({ token: NETWORKS[NETWORK].usdc.address, payer: randomAddress(), payerKind: "EOA" } as const),
    ...{ recipient: merchant.address, amountUnits: UNITS, validAfter: 0n, validBefore: 9_999_999_999n },
    ...{ nonce: randomHash(), signature: "0x" as Hex, idempotencyKey: null, requestId: null },
    ...authorization,
  };
}

/** The worker has signed a transaction that carries the payment. */
export function signRelay({ sql }: Pick<BooksLab, "sql">, payment: Pick<NewPayment, "id">) {
  const [relayer, txHash] = [randomAddress(), randomHash()];
  const lane = { network: NETWORK, relayer } as const;
  return sql.begin(async (tx) => {
    await ensureLane(tx, lane, 0n);
    const relayId = await insertRelay(tx, {
      ...{ ...lane, nonce: 0n, kind: "PAYMENTS", callTo: randomAddress(), callData: "0x", gasLimit: 1n },
      attempt: { txHash, raw: "0x", maxFeePerGas: 2n, maxPriorityFeePerGas: 1n },
    });
    await markSigned(tx, relayId, await asLeased(tx, [payment]));
    return { relayId, txHash };
  });
}

/** The worker ends a payment permanently. */
export async function fail({ sql }: BooksLab, { id, linkId }: NewPayment, reason = "EXPIRED_TRANSFER") {
  await sql.begin(async (tx) => {
    await lockPayments(tx, [id]);
    await lockLinks(tx, [linkId]);
    await failPayments(tx, [{ id, reason }]);
  });
}

export async function linkOf({ sql }: Pick<BooksLab, "sql">, id: string) {
  const [row] = await sql<{ status: string; exception: string }[]>`
    select status, exception from payment_links where id = ${id}`;
  return row;
}

export async function paymentOf({ sql }: BooksLab, payment: NewPayment) {
  const [row] = await sql<{ state: string; reason: string | null; txHash: Hex | null }[]>`
    select state, reason, tx_hash from payments where id = ${payment.id}`;
  return row;
}

export function historyOf({ sql }: BooksLab, linkId: string) {
  return sql<{ type: string; status: string; txHash: Hex | null }[]>`
    select type, status, tx_hash from transactions where link_id = ${linkId} order by block_number, log_index`;
}

/** What is PENDING of a link's payments. */
export function pendingOf({ sql }: BooksLab, linkId: string) {
  return sql<{ paymentId: string }[]>`
    select payment_id from pending_transactions where link_id = ${linkId} order by payment_id`;
}

/** Types of a link's events, in order. */
export async function eventsOf({ sql }: BooksLab, linkId: string): Promise<string[]> {
  const rows = await sql<
    { type: string }[]
  >`select type from events where subject_id = ${linkId} order by id`;
  return rows.map((row) => row.type.replace("payment_link.", ""));
}
