/**
 * Statements whose plans were made while their tables were empty, and which are kept when these have grown and nobody has counted yet: a
 * fresh database, or one that grows by a campaign. They read what they ask for, by its key, and not the rest.
 */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { newClaimId, newPaymentId, newTransactionId } from "../../core/domain/ids.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { areLogsTaken, openClaim } from "../../db/links/claims.ts";
import { endClaim } from "../../db/links/end-claims.ts";
import { findFirstLinks } from "../../db/links/first-link-times.ts";
import { findPayableLinks } from "../../db/links/payable-links.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { findUnappliedTransfers } from "../../db/links/unapplied-transfers.ts";
import { insertPayments, type NewPayment } from "../../db/payments/accept-payments.ts";
import {
  checkUnpaidBeforeSigning,
  type SimulationHead,
} from "../../db/payments/check-unpaid-before-signing.ts";
import { takeDrainLease } from "../../db/payments/drain-lease.ts";
import { failPayments, findPaymentViews } from "../../db/payments/payments.ts";
import {
  findExpiredRelays,
  leaseQueuedPayments,
  markSigned,
  requeueExpired,
  requeueUnsettled,
} from "../../db/payments/queue.ts";
import { findNamedTransfers } from "../../db/payments/retroactive-attribution.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { ensureLane, takeNonce } from "../../db/relays/nonces.ts";
import { insertRelay, markMined, recordSend } from "../../db/relays/relays.ts";
import { findSentTo } from "../../db/wallet-ops/operations.ts";
import { settleTransfers } from "../../indexer/settle/settle-transfers.ts";
import { asLeased } from "../support/as-leased.ts";
import { makeTransfer, randomHash } from "../support/ledger-lab.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { randomAddress, type SeededMerchant, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

const NETWORK = "base-sepolia";
const UNITS = 1_000_000n;
const ROWS = 3_000;
/** Rows that a statement about one link, payment or transfer may touch in a table of thousands. */
const ROWS_MAX = 40;
/** Payments of one transaction. */
const CARRIED = 50;
const TABLES = [
  "payment_links",
  "payments",
  "transfers",
  "transactions",
  "claims",
  "relays",
  "relay_attempts",
  "relay_payments",
  "payment_leases",
];
const SHOWN = { network: NETWORK, payer: randomAddress(), nonce: randomHash() } as const;

let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;
let relayer: Hex;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "young", maxConnections: 1, genericPlans: true });
  for (const table of TABLES) await sql`alter table ${sql(table)} set (autovacuum_enabled = off)`;
  merchant = await seedMerchant(sql);
  relayer = randomAddress();
  await ensureLane(sql, { network: NETWORK, relayer }, 0n);
  await sql`insert into cursors (network, number, hash, head_number) values (${NETWORK}, 100, '0x', 100)`;
  await sql`insert into blocks (network, number, hash, parent_hash, block_time) values (${NETWORK}, 100, '0x', '0x', now())`;
});
afterAll(async () => {
  await sql.end({ timeout: 1 });
  await db.drop();
});

type Reads = Record<string, number>;

/** What `work` read of each table. */
async function measure(tx: Tx, work: () => Promise<unknown>): Promise<Reads> {
  const count = async () => {
    const rows = await tx<{ table: string; read: number }[]>`
      select relname as table, (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as read
      from pg_stat_xact_user_tables
      where relname = any(${TABLES}::text[])`;
    return new Map(rows.map(({ table, read }) => [table, read]));
  };
  const before = await count();
  await work();
  const after = await count();
  return Object.fromEntries([...after].map(([table, read]) => [table, read - (before.get(table) ?? 0)]));
}

function newPayment(linkId: string): NewPayment {
  return {
    ...({ id: newPaymentId(), linkId, network: NETWORK } as const),
    ...({ token: NETWORKS[NETWORK].usdc.address, payer: randomAddress(), payerKind: "EOA" } as const),
    ...{ recipient: merchant.address, amountUnits: UNITS, validAfter: 0n, validBefore: 9_999_999_999n },
    ...{ nonce: randomHash(), signature: "0x" as Hex, idempotencyKey: null, requestId: null },
  };
}

async function newRelay(tx: Tx): Promise<{ relayId: bigint; txHash: Hex }> {
  const nonce = await takeNonce(tx, { network: NETWORK, relayer });
  const attempt = { txHash: randomHash(), raw: "0x" as Hex, maxFeePerGas: 1n, maxPriorityFeePerGas: 1n };
  const call = { callTo: randomAddress(), callData: "0x" as Hex, gasLimit: 100_000n };
  const relay = { network: NETWORK, relayer, nonce, kind: "PAYMENTS", ...call, attempt } as const;
  return { relayId: await insertRelay(tx, relay), txHash: attempt.txHash };
}

/** Unread blocks hold one transfer, made by a transaction that is not ours. */
function simulationHead(): SimulationHead {
  const seen = { txHash: randomHash(), from: randomAddress(), to: merchant.address, amountUnits: UNITS };
  const unread = { payees: [merchant.address], afterNumber: 80n, afterHash: randomHash(), transfers: [seen] };
  return { network: NETWORK, headNumber: 81n, headHash: randomHash(), unread };
}

/** As processes do first of all: every plan is made before there is a row. */
async function lookAround(): Promise<void> {
  const claim = {
    ...({ linkId: "link_", network: NETWORK, txHash: randomHash(), payer: randomAddress() } as const),
    isProven: false,
  } as const;
  await findNamedTransfers(sql, NETWORK);
  await findUnappliedTransfers(sql, NETWORK);
  await checkUnpaidBeforeSigning(sql, simulationHead(), { paymentIds: ["pay_"], state: "QUEUED" });
  await requeueExpired(sql, NETWORK, 1);
  await requeueUnsettled(sql, NETWORK, 1);
  await findExpiredRelays(sql, [0n], { nowS: 0n });
  await findPaymentViews(sql, ["pay_"]);
  await findPayableLinks(sql, [{ id: "link_" }]);
  await findSentTo(sql, merchant.userId, 10);
  await findFirstLinks(sql, NETWORK, [merchant.address]);
  await areLogsTaken(sql, claim, [{ logIndex: 1, authorizationNonce: randomHash() }]);
  await sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: ["link_"], isReorg: false }));
}

/** One payment relayed and settled, one failed, a claim made, found late and ended: and nothing of it is kept. */
async function runOnce(): Promise<Record<string, Reads>> {
  const links = [await seedLink(sql, merchant), await seedLink(sql, merchant), await seedLink(sql, merchant)];
  const [paid = "", failed = "", claimed = ""] = links;
  const reads: Record<string, Reads> = {};
  await undone(async (tx) => {
    const step = async (name: string, work: () => Promise<unknown>) => {
      reads[name] = await measure(tx, work);
    };
    await step("findPayableLinks", () =>
      findPayableLinks(tx, [{ id: paid }, { id: failed, nonceTag: "0x", shown: SHOWN }]),
    );
    const [first, second] = [newPayment(paid), newPayment(failed)];
    await step("insertPayments", () => insertPayments(tx, [first, second]));
    await step("leaseQueuedPayments", () => leaseQueuedPayments(tx, NETWORK, 50, 1_000));
    await step("failPayments", () => failPayments(tx, [{ id: second.id, reason: "EXPIRED_TRANSFER" }]));
    const paymentIds = [first.id];
    await step("checkUnpaidBeforeSigning", () =>
      checkUnpaidBeforeSigning(tx, simulationHead(), { paymentIds, state: "QUEUED" }),
    );
    const { relayId, txHash } = await newRelay(tx);
    await step("markSigned", async () => markSigned(tx, relayId, await asLeased(tx, [first])));
    await step("recordSend", () => recordSend(tx, relayId, { txHash, answer: "accepted", isAccepted: true }));
    await step("findExpiredRelays", () => findExpiredRelays(tx, [relayId], { nowS: 0n }));
    await step("findPaymentViews", () => findPaymentViews(tx, [first.id]));
    const mined = { relayId, txHash, blockNumber: 90n, blockHash: randomHash(), succeeded: true };
    await step("markMined", () => markMined(tx, [{ ...mined, gasUsed: 1n, feeWei: 1n }]));
    await step("requeueExpired", () => requeueExpired(tx, NETWORK, 1));
    await step("requeueUnsettled", () => requeueUnsettled(tx, NETWORK, 1));
    const own = makeTransfer({ merchant }, 90, { payment: first, txHash });
    const { payer, nonce } = first;
    const executed = { ...own, blockNumber: 90, blockTimeS: own.block.timeS };
    const spent = [{ payer, nonce, blockNumber: 90, transfer: executed }];
    const settling = {
      network: NETWORK,
      isWatched: () => true,
      confirmedAtS: () => 1,
    } as const;
    await step("settleTransfers", () =>
      settleTransfers(tx, { ...settling, transfers: [own], spent, operations: [] }),
    );
    await step("recomputeLinkStatus", () => recomputeLinkStatus(tx, { linkIds: [paid], isReorg: false }));
    await step("findSentTo", () => findSentTo(tx, merchant.userId, 10));
    await step("findFirstLinks", () => findFirstLinks(tx, NETWORK, [merchant.address]));
    const other = makeTransfer({ merchant }, 91, { amountUnits: UNITS - 1n });
    await settleTransfers(tx, { ...settling, transfers: [other], spent: [], operations: [] });
    const claim = {
      linkId: claimed,
      network: NETWORK,
      txHash: other.txHash,
      clientAddress: other.from,
    } as const;
    const id = newClaimId();
    await step("openClaim", () =>
      openClaim(tx, {
        ...claim,
        id,
        transactionId: newTransactionId(),
        leaseS: 90,
        requestId: null,
        proof: null,
        mayHaveBlock: true,
      }),
    );
    await step("findNamedTransfers", () => findNamedTransfers(tx, NETWORK));
    const log = { logIndex: other.logIndex, authorizationNonce: randomHash() };
    await step("areLogsTaken", () =>
      areLogsTaken(tx, { ...claim, payer: other.from, isProven: false }, [log]),
    );
    await step("findUnappliedTransfers", () => findUnappliedTransfers(tx, NETWORK));
    await step("endClaim", () =>
      endClaim(tx, { id, state: "EXPIRED", reason: "not_found", isProven: false }),
    );
  });
  return reads;
}

class Undone extends Error {}

/** Runs `work` in a transaction and takes it back. */
async function undone(work: (tx: Tx) => Promise<void>): Promise<void> {
  const done = sql.begin(async (tx) => {
    await work(tx);
    throw new Undone();
  });
  await done.catch((error: unknown) => {
    if (!(error instanceof Undone)) throw error;
  });
}

/** Paid links of other merchants, with all that belongs to them, and nobody counts them. */
async function grow(): Promise<void> {
  const strangers = await Promise.all(Array.from({ length: 3 }, () => seedMerchant(sql)));
  for (const [index, { userId, address }] of strangers.entries()) {
    const hash = sql`sha256((${index} || ':' || n)::bytea)`;
    const payer = sql`substr(sha256((${index} || 'p' || n)::bytea), 1, 20)`;
    await sql.begin(async (tx) => {
      await tx`set local session_replication_role = replica`;
      await tx`
        insert into payment_links (id, user_id, network, recipient, amount_units, description, status, paid_at, expires_at)
        select 'link_' || ${index}::int || '_' || n, ${userId}, ${NETWORK}, ${address}::bytea, 5, 'd', 'PAID', now(), now()
        from generate_series(1, ${ROWS}::int) n`;
      await tx`
        insert into relays (network, relayer, nonce, kind, state, call_to, call_data_start, call_data_bytes, gas_limit, tx_hash)
        select ${NETWORK}, ${relayer}, 1000000 * (1 + ${index}::int) + n, 'PAYMENTS', 'CONFIRMED', ${relayer}, 1, 0, 1, hex_of(${hash})
        from generate_series(1, ${ROWS}::int) n`;
      await tx`
        insert into relay_payments (relay_id, payment_ids)
        select relays.id, array['pay_' || ${index}::int || '_' || (nonce - 1000000 * (1 + ${index}::int))]
        from relays
        where nonce between 1000000 * (1 + ${index}::int) + 1 and 1000000 * (1 + ${index}::int) + ${ROWS}::int`;
      await tx`
        insert into relay_attempts (tx_hash, relay_id, max_fee_per_gas, max_priority_fee_per_gas)
        select tx_hash, id, 1, 1
        from relays
        where nonce between 1000000 * (1 + ${index}::int) + 1 and 1000000 * (1 + ${index}::int) + ${ROWS}::int`;
      await tx`
        insert into payments (
          id, link_id, network, token, payer, payer_kind, recipient, amount_units, valid_after, valid_before, nonce, signature, state
        )
        select
          'pay_' || ${index}::int || '_' || n, 'link_' || ${index}::int || '_' || n, ${NETWORK},
          ${NETWORKS[NETWORK].usdc.address}, ${payer}, 'EOA', ${address}, 5, 0, 9, ${hash}, '', 'CONFIRMED'
        from generate_series(1, ${ROWS}::int) n`;
      await tx`
        insert into transfers (
          network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units,
          authorization_nonce, status, link_id, pays, payment_id
        )
        select
          ${NETWORK}, n, ${hash}, now(), ${hash}, ${index}::int, ${payer}, ${address}, 5, ${hash}, 'CONFIRMED',
          'link_' || ${index}::int || '_' || n, true, 'pay_' || ${index}::int || '_' || n
        from generate_series(1, ${ROWS}::int) n`;
      await tx`
        insert into transactions (id, owner, network, type, status, amount_units, counterparty, transfer_id, detected_at)
        select 'txn_' || id, owner_key(${userId}), network, 'PAYMENT_LINK', 'CONFIRMED', amount_units, from_address, id, now()
        from transfers
        where to_address = ${address}`;
      await tx`
        insert into claims (id, link_id, network, tx_hash, client_address, state, lease_until)
        select 'clm_' || id, link_id, network, hex_of(tx_hash), hex_of(from_address), 'MATCHED', now()
        from transfers
        where to_address = ${address}`;
    });
  }
}

test("behavior: statements planned on empty tables still read by key when the tables have grown", async () => {
  await lookAround();
  await runOnce();
  await grow();
  const reads = await runOnce();
  const expensive = Object.entries(reads).flatMap(([name, tables]) =>
    Object.entries(tables).flatMap(([table, read]) =>
      read > ROWS_MAX ? [`${name} read ${read} rows of ${table}`] : [],
    ),
  );
  expect(expensive).toEqual([]);
}, 120_000);

test("behavior: a relay's payments are read once, however many of its transfers are judged", async () => {
  await sql`update wallets set backfilled_at = now()`;
  const [judgedLink = "", ...links] = await seedLinks(sql, merchant, { count: CARRIED + 1 });
  for (const isCounted of [false, true]) {
    if (isCounted) await sql`analyze`;
    await undone(async (tx) => {
      const [judged, carried] = [newPayment(judgedLink), links.map(newPayment)];
      await insertPayments(tx, [judged, ...carried]);
      const { relayId, txHash } = await newRelay(tx);
      await markSigned(tx, relayId, await asLeased(tx, carried));
      const transfers = carried.map(({ payer, recipient, amountUnits }) => ({
        ...{ txHash, from: payer, to: recipient, amountUnits },
      }));
      const unread = { payees: [merchant.address], afterNumber: 100n, afterHash: "0x", transfers } as const;
      const asked = { network: NETWORK, headNumber: 101n, headHash: randomHash(), unread } as const;
      const reads = await measure(tx, async () => {
        const verdicts = await checkUnpaidBeforeSigning(tx, asked, {
          paymentIds: [judged.id],
          state: "QUEUED",
        });
        expect(verdicts.get(judged.id)).toBe("free");
      });
      expect(reads.payments).toBeWithin(CARRIED, 2 * CARRIED);
      expect(reads.relay_attempts).toBeWithin(1, ROWS_MAX);
      expect(reads.relay_payments).toBeWithin(1, ROWS_MAX);
    });
  }
}, 120_000);

test("behavior: leases are read by their payments, although there were none when statistics were gathered", async () => {
  await sql`analyze payments, open_payments, payment_leases`;
  await sql`
    insert into payment_leases (payment_id, until)
    select 'pay_0_' || n, now() + interval '1 minute'
    from generate_series(1, ${ROWS}::int) n`;
  const linkId = await seedLink(sql, merchant);
  const drain = { network: NETWORK, holder: "worker", batchMax: 50, leaseMs: 1_000 } as const;
  await undone(async (tx) => {
    await insertPayments(tx, [newPayment(linkId)]);
    const asked = await measure(tx, async () => expect(await takeDrainLease(tx, drain)).toBe("taken"));
    expect(asked.payment_leases).toBeWithin(0, ROWS_MAX);
    const leased = await measure(tx, async () =>
      expect(await leaseQueuedPayments(tx, NETWORK, 50, 1_000)).toHaveLength(1),
    );
    expect(leased.payment_leases).toBeWithin(0, ROWS_MAX);
  });
}, 120_000);
