/**
 * A rolling upgrade: statements that a process prepared before a migration added columns are answered as before, on the same connection.
 * Postgres refuses those whose result would have changed ("cached plan must not change result type").
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { newLinkId, newPaymentId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { listSecurityEvents } from "../../db/accounts/security-events.ts";
import { findUser, findUserByEmail, lockUser, markActive, setDisplayName } from "../../db/accounts/users.ts";
import { listApiKeys } from "../../db/api-keys/api-keys.ts";
import { listPasskeys } from "../../db/auth/passkeys.ts";
import { findSignInPasskey, listSignInPasskeys } from "../../db/auth/sign-in-passkeys.ts";
import { listDocuments } from "../../db/documents/documents.ts";
import { findNewestPosition, listEvents } from "../../db/events/event-log.ts";
import { listExportProfiles } from "../../db/exports/export-profiles.ts";
import { fetchExportRows, openExportCursor } from "../../db/exports/export-rows.ts";
import { listExportSchedules } from "../../db/exports/export-schedules.ts";
import { listExports, startExport } from "../../db/exports/exports.ts";
import { findMerchantBooks } from "../../db/exports/merchant-books.ts";
import { findClosingBalance } from "../../db/exports/statements.ts";
import { foldLinkCounts } from "../../db/jobs/fold-count-deltas.ts";
import { findCursor } from "../../db/ledger/cursors.ts";
import { beginEpoch } from "../../db/ledger/leader-epoch.ts";
import { findWalletsToReconcile } from "../../db/ledger/reconciliation.ts";
import { addMissingHistory } from "../../db/ledger/wallet-backfills.ts";
import { findClaim } from "../../db/links/claims.ts";
import { cancelLink, findLink, findPublicLink, insertLink, listLinks } from "../../db/links/links.ts";
import { listExceptions } from "../../db/links/list-link-exceptions.ts";
import { findPayableLinks } from "../../db/links/payable-links.ts";
import { openUse } from "../../db/links/uses.ts";
import { listInvitationsTo, listOpenInvitations } from "../../db/members/invitations.ts";
import { listMembers } from "../../db/members/members.ts";
import { findUnsentNotice } from "../../db/notices/notices.ts";
import { insertPayments } from "../../db/payments/accept-payments.ts";
import { findPaymentViews } from "../../db/payments/payments.ts";
import { findSignedPayments } from "../../db/payments/payments-of-relay.ts";
import { leaseQueuedPayments } from "../../db/payments/queue.ts";
import { findNamedTransfers } from "../../db/payments/retroactive-attribution.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { listLiveSessions, renewSession } from "../../db/sessions/sessions.ts";
import { findTransaction, listTransactions } from "../../db/transactions/transactions.ts";
import { confirmAccountChanges } from "../../db/wallet-ops/account-changes.ts";
import { listRefundable } from "../../db/wallet-ops/list-refundable.ts";
import { bindBookedTransfers } from "../../db/wallet-ops/missed-events.ts";
import { findOperation } from "../../db/wallet-ops/operations.ts";
import { findOwnerChange } from "../../db/wallet-ops/owner-changes.ts";
import { leaseQueuedOperations } from "../../db/wallet-ops/queue.ts";
import { findRefund } from "../../db/wallet-ops/refunds.ts";
import { findWallet, listWallets } from "../../db/wallets/wallets.ts";
import { takeDeliveries } from "../../db/webhooks/deliveries.ts";
import { listEndpoints } from "../../db/webhooks/webhooks.ts";
import { randomHash } from "../support/ledger-lab.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { randomAddress, type SeededMerchant, seedLinks, seedMerchant } from "../support/seed.ts";

const NETWORK = "base-sepolia";
const UNITS = 1_000_000n;
const PAGE = { limit: 10 };

let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;
let reusable: string;

beforeAll(async () => {
  db = await createTestDatabase();
  // every statement on one connection, as prepared there
  sql = openDatabase(db.url, { name: "test", maxConnections: 1 });
  merchant = await seedMerchant(sql);
  [reusable = ""] = await seedLinks(sql, merchant, { isReusable: true });
  await sql`insert into cursors (network, number, hash, head_number) values (${NETWORK}, 100, '0x', 100)`;
}, 120_000);

afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

/** A link made, paid and read; then what an account reads of everything else. A statement's columns count, also when no row has them. */
function statements(): Record<string, (tx: Tx) => Promise<unknown>> {
  const { userId, address, email } = merchant;
  const own = { id: newLinkId(), userId };
  const terms = { network: NETWORK, amountUnits: UNITS, description: "a test link" } as const;
  const payment = {
    ...({ id: newPaymentId(), linkId: own.id, network: NETWORK } as const),
    ...({ token: NETWORKS[NETWORK].usdc.address, payer: randomAddress(), payerKind: "EOA" } as const),
    ...{ recipient: address, amountUnits: UNITS, validAfter: 0n, validBefore: 9_999_999_999n },
    ...{ nonce: randomHash(), signature: "0x" as Hex, idempotencyKey: null, requestId: null },
  };
  const use = {
    ...{ parentId: reusable, id: newLinkId(), tag: linkTag(newLinkId()), amountUnits: undefined },
    opener: "203.0.113.1",
  };
  return {
    insertLink: (tx) => insertLink(tx, { ...own, ...terms, tag: linkTag(own.id), expiresInHours: 1 }),
    findLink: (tx) => findLink(tx, own),
    findPublicLink: (tx) => findPublicLink(tx, own.id),
    findPayableLinks: (tx) => findPayableLinks(tx, [{ id: own.id }]),
    listLinks: (tx) => listLinks(tx, { userId }, PAGE),
    listExpired: (tx) => listLinks(tx, { userId, status: "EXPIRED" }, PAGE),
    listByReference: (tx) => listLinks(tx, { userId, reference: "A-1" }, PAGE),
    listExceptions: (tx) => listExceptions(tx, { userId }, PAGE),
    openUse: (tx) => openUse(tx, use),
    findClaim: (tx) => findClaim(tx, { linkId: own.id, txHash: randomHash(), clientAddress: address }),
    insertPayments: (tx) => insertPayments(tx, [payment]),
    findPaymentViews: (tx) => findPaymentViews(tx, [payment.id]),
    leaseQueuedPayments: (tx) => leaseQueuedPayments(tx, NETWORK, 10, 1_000),
    findSignedPayments: (tx) => findSignedPayments(tx, 1n),
    findNamedTransfers: (tx) => findNamedTransfers(tx, NETWORK),
    cancelLink: (tx) => cancelLink(tx, own),
    listTransactions: (tx) => listTransactions(tx, userId, NO_FILTER, { ...PAGE, offset: 0 }),
    findTransaction: (tx) => findTransaction(tx, { id: payment.id.replace("pay_", "txn_"), userId }),
    exportRows: async (tx) => {
      const selection = { userId, filter: NO_FILTER, limit: 10 };
      await openExportCursor(tx, selection, { detail: "accounting", order: "newest" });
      return fetchExportRows(tx, 10);
    },
    listExports: (tx) => listExports(tx, userId, 10),
    startExport: (tx) => startExport(tx, "exp_"),
    listExportProfiles: (tx) => listExportProfiles(tx, userId),
    listExportSchedules: (tx) => listExportSchedules(tx, userId),
    findMerchantBooks: (tx) => findMerchantBooks(tx, userId),
    findClosingBalance: (tx) => findClosingBalance(tx, merchant.walletId, new Date()),
    listDocuments: (tx) => listDocuments(tx, { userId }, 10),
    findUser: (tx) => findUser(tx, userId),
    findUserByEmail: (tx) => findUserByEmail(tx, email),
    lockUser: (tx) => lockUser(tx, userId),
    markActive: (tx) => markActive(tx, userId),
    setDisplayName: (tx) => setDisplayName(tx, userId, "Name"),
    listSecurityEvents: (tx) => listSecurityEvents(tx, userId, { beforeId: undefined, limit: 10 }),
    listLiveSessions: (tx) => listLiveSessions(tx, userId, { currentId: "ses_", limit: 10 }),
    renewSession: (tx) => renewSession(tx, "ses_"),
    listApiKeys: (tx) => listApiKeys(tx, userId),
    listPasskeys: (tx) => listPasskeys(tx, userId, "localhost"),
    listSignInPasskeys: (tx) => listSignInPasskeys(tx, userId, "localhost"),
    findSignInPasskey: (tx) => findSignInPasskey(tx, "id", userId),
    listMembers: (tx) => listMembers(tx, userId),
    listOpenInvitations: (tx) => listOpenInvitations(tx, userId),
    listInvitationsTo: (tx) => listInvitationsTo(tx, email),
    findUnsentNotice: (tx) => findUnsentNotice(tx, "1"),
    listWallets: (tx) => listWallets(tx, userId),
    findWallet: (tx) => findWallet(tx, userId, NETWORK),
    findOperation: (tx) => findOperation(tx, { id: "snd_", userId, kind: "SEND" }),
    findOwnerChange: (tx) => findOwnerChange(tx, { id: "own_", userId }),
    findRefund: (tx) => findRefund(tx, { id: "rfd_", userId }),
    listRefundable: (tx) => listRefundable(tx, own.id),
    leaseQueuedOperations: (tx) => leaseQueuedOperations(tx, NETWORK, { limit: 10, leaseMs: 1_000 }),
    confirmAccountChanges: (tx) => confirmAccountChanges(tx, { network: NETWORK, depthNumber: 1 }),
    bindBookedTransfers: (tx) =>
      bindBookedTransfers(tx, NETWORK, [{ itemId: 1n, blockHash: randomHash(), logIndex: 1 }]),
    listEvents: (tx) => listEvents(tx, userId, PAGE),
    findNewestPosition: (tx) => findNewestPosition(tx, userId),
    listEndpoints: (tx) => listEndpoints(tx, userId),
    takeDeliveries: (tx) => takeDeliveries(tx, { limit: 10, leaseS: 10, perEndpoint: 1, perUser: 1 }),
    findCursor: (tx) => findCursor(tx, NETWORK),
    beginEpoch: (tx) => beginEpoch(tx, NETWORK),
    findWalletsToReconcile: (tx) => findWalletsToReconcile(tx, NETWORK, { number: 100, since: 0, limit: 10 }),
    addMissingHistory: (tx) => addMissingHistory(tx, NETWORK, { addresses: [address], from: 1, to: 2 }),
    foldLinkCounts: (tx) => foldLinkCounts(tx, 10),
  };
}

/** Each in a transaction of its own. Returns what failed. */
async function runAll(): Promise<string[]> {
  const failures: string[] = [];
  for (const [name, run] of Object.entries(statements()))
    await sql.begin(run).catch((error: unknown) => failures.push(`${name}: ${error}`));
  return failures;
}

test("behavior: a column that a migration adds to any table breaks no prepared statement", async () => {
  expect(await runAll()).toEqual([]);
  const tables = await sql<{ name: string }[]>`
    select relname as name
    from pg_class
    where relkind = 'r' and relnamespace = current_schema()::regnamespace`;
  expect(tables.length).toBeGreaterThan(40);
  for (const { name } of tables) await sql`alter table ${sql(name)} add column zz_later int`;
  expect(await runAll()).toEqual([]);
}, 120_000);
