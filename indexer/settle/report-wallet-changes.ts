/**
 * Reports changes of a wallet to its user, whoever made them: owners added or removed, an upgrade, its deployment, money sent. Event, security trail and
 * e-mail are written in the transaction that confirms the change.
 */

import type { EventType } from "../../core/domain/event-types.ts";
import { ROLE_BEFORE_CHAIN } from "../../core/domain/member.ts";
import { formatUnits } from "../../core/domain/money.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { type NoticeKind, nameOfOwner } from "../../core/domain/notice-mail.ts";
import { addressOfOwner, ownerIdOf } from "../../core/domain/owner.ts";
import type { SecurityEventDetails, SecurityEventType } from "../../core/domain/security-event.ts";
import { recordChainSecurityEvents } from "../../db/accounts/security-events.ts";
import { recordEvents } from "../../db/events/events.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { endWhatRoleMade } from "../../db/members/end-what-role-made.ts";
import { lockFormerOwners } from "../../db/members/members.ts";
import { addChainNotices } from "../../db/notices/notices.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { deleteSessionsOfRemovedPasskeys } from "../../db/sessions/sessions.ts";
import {
  type AccountChangeType,
  type ConfirmedChange,
  confirmAccountChanges,
  listOutgoing,
  type NewAccountChange,
  type OutgoingTransfers,
  recordAccountChanges,
} from "../../db/wallet-ops/account-changes.ts";
import { markWalletsDeployed } from "../../db/wallets/deployments.ts";
import type { BlockContent } from "../source/decode-logs.ts";
import type { Isolate } from "./isolate-refused-records.ts";

type Words = { notice: NoticeKind; event: EventType; trail: SecurityEventType };

const WORDS: Record<AccountChangeType, Words> = {
  OWNER_ADDED: { notice: "owner_added", event: "wallet.owner_added", trail: "owner_added" },
  OWNER_REMOVED: { notice: "owner_removed", event: "wallet.owner_removed", trail: "owner_removed" },
  UPGRADED: { notice: "wallet_upgraded", event: "wallet.upgraded", trail: "wallet_upgraded" },
};

/** Rows per statement. */
const PART_ROWS = 1_000;

/** One by one while records are isolated. */
export async function storeAccountChanges(
  tx: Tx,
  network: NetworkId,
  changes: readonly NewAccountChange[],
  isolate?: Isolate,
): Promise<void> {
  if (!isolate) {
    for (const part of inParts(changes, PART_ROWS)) await recordAccountChanges(tx, network, part);
    return;
  }
  for (const change of changes)
    await isolate({ kind: "account_change", txHash: change.txHash }, (part) =>
      recordAccountChanges(part, network, [change]),
    );
}

/**
 * Blocks up to `depthNumber` are deep enough; `after` is how deep they were before. All at once, since an owner can write thousands of changes into
 * a block; one by one where records are isolated.
 */
export async function reportWalletChanges(
  tx: Tx,
  { network, after, depthNumber }: { network: NetworkId; after: number; depthNumber: number },
  isolate?: Isolate,
): Promise<void> {
  const size = isolate ? 1 : PART_ROWS;
  const write: Isolate = isolate ?? ((_record, written) => written(tx));
  const confirmed = await write({ kind: "report" }, (part) =>
    confirmAccountChanges(part, { network, depthNumber }),
  );
  // an account writes nothing before it is deployed: owners that wait for it are added now
  const written = [...new Set(confirmed?.map(({ walletId }) => walletId))];
  for (const ids of inParts(written, size))
    await write({ kind: "report" }, (part) => markWalletsDeployed(part, ids));
  const changes = (confirmed ?? []).filter(({ isFirst }) => !isFirst);
  for (const part of inParts(changes, size))
    await write({ kind: "report", txHash: part[0]?.txHash }, (within) =>
      reportChanges(within, network, part),
    );
  const transfers =
    (await write({ kind: "report" }, (part) => listOutgoing(part, { network, after, to: depthNumber }))) ??
    [];
  for (const part of inParts(transfers, size))
    await write({ kind: "report", txHash: part[0]?.txHash }, (within) => reportSent(within, network, part));
}

function inParts<Row>(rows: readonly Row[], size: number): Row[][] {
  return Array.from({ length: Math.ceil(rows.length / size) }, (_, index) =>
    rows.slice(index * size, (index + 1) * size),
  );
}

async function reportSent(
  tx: Tx,
  network: NetworkId,
  transfers: readonly OutgoingTransfers[],
): Promise<void> {
  const reports = transfers.map((sent) => {
    const { userId, walletId, txHash, units, recipients, recipient, isOurs } = sent;
    const details = { network, txHash, amount: formatUnits(units), recipients, recipient, isOurs };
    return { userId, kind: "money_sent" as const, key: `sent:${walletId}:${txHash}`, details };
  });
  const newKeys = await addChainNotices(tx, reports);
  const elsewhere = reports.filter(({ key, details }) => !details.isOurs && newKeys.has(key));
  await recordChainSecurityEvents(
    tx,
    elsewhere.map(({ userId, details: { txHash, amount } }) => ({
      userId,
      type: "money_sent_elsewhere",
      details: { network, txHash, amount },
    })),
  );
}

async function reportChanges(tx: Tx, network: NetworkId, changes: readonly ConfirmedChange[]): Promise<void> {
  const reports = changes.map((change) => reportOf(network, change));
  await recordEvents(
    tx,
    reports.map(({ event }) => event),
  );
  const former = await endFormerOwners(tx, changes);
  await recordChainSecurityEvents(
    tx,
    reports.map(({ trail }, index) => ({ ...trail, details: { ...trail.details, ...former[index] } })),
  );
  await addChainNotices(
    tx,
    reports.map(({ notice }) => notice),
  );
  const removedFrom = changes.flatMap(({ type, userId }) => (type === "OWNER_REMOVED" ? [userId] : []));
  for (const userId of new Set(removedFrom)) await deleteSessionsOfRemovedPasskeys(tx, userId);
  // it contains the owners
  for (const userId of new Set(changes.map((change) => change.userId)))
    await enqueue(tx, "send_wallet_file", { userId });
}

/**
 * Members who were owners by a removed passkey act in a lesser role: what only an owner may make ends with it. Returns, for the trail, who it was and
 * what stays, at the index of the removal.
 */
async function endFormerOwners(
  tx: Tx,
  changes: readonly ConfirmedChange[],
): Promise<Readonly<Record<number, SecurityEventDetails>>> {
  const removals = changes.filter(({ type }) => type === "OWNER_REMOVED");
  if (removals.length === 0) return {};
  const owners = removals.map(({ userId, subject }) => ({ merchantId: userId, owner: subject }));
  const former: Record<number, SecurityEventDetails> = {};
  for (const member of await lockFormerOwners(tx, owners)) {
    const by = { clientAddress: null, requestId: null };
    const left = await endWhatRoleMade(tx, member, { to: ROLE_BEFORE_CHAIN, by });
    const index = changes.findLastIndex(
      ({ type, userId, subject }) =>
        type === "OWNER_REMOVED" && userId === member.merchantId && subject === member.owner,
    );
    former[index] = { memberId: member.userId, email: member.email, ...left };
  }
  return former;
}

function reportOf(network: NetworkId, change: ConfirmedChange) {
  const { userId, walletId, type, subject, txHash, logIndex, ownerChangeId } = change;
  const words = WORDS[type];
  const address = type === "UPGRADED" ? subject : addressOfOwner(subject);
  const isOurs = ownerChangeId !== null;
  const details = {
    network,
    txHash,
    isOurs,
    ownerChangeId,
    ...(type === "UPGRADED" ? { implementation: subject } : { ownerId: ownerIdOf(subject) }),
    ...(type !== "UPGRADED" && address ? { address } : {}),
  };
  const owner = type === "UPGRADED" ? subject : nameOfOwner(address);
  return {
    event: { userId, type: words.event, subjectId: walletId, data: details },
    trail: { userId, type: words.trail, details },
    notice: {
      ...{ userId, kind: words.notice, key: `account:${network}:${txHash}:${logIndex}` },
      details: { network, txHash, isOurs, owner },
    },
  };
}

/** Rows for what the accounts wrote themselves in these blocks. */
export function accountChangesOf(blocks: readonly BlockContent[]): NewAccountChange[] {
  return blocks.flatMap(({ block, accountLogs }) =>
    accountLogs.map((log) => ({ ...log, blockNumber: block.number, blockHash: block.hash })),
  );
}
