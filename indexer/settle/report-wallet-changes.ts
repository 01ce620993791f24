/**
 * Reports changes of a wallet to its user, whoever made them: owners added or removed, an upgrade, money sent. Event, security trail and
 * mail are written in the transaction that makes the change deep enough.
 */

import type { EventType } from "../../core/domain/event-types.ts";
import { formatUnits } from "../../core/domain/money.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { type NoticeKind, nameOfOwner } from "../../core/domain/notice-mail.ts";
import { addressOfOwner, ownerIdOf } from "../../core/domain/owner.ts";
import type { SecurityEventType } from "../../core/domain/security-event.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { recordEvents } from "../../db/events/events.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { addNotice } from "../../db/notices/notices.ts";
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
import type { BlockContent } from "../source/decode-logs.ts";
import type { Isolate } from "./isolate-refused.ts";

type Words = { notice: NoticeKind; event: EventType; trail: SecurityEventType };

const WORDS: Record<AccountChangeType, Words> = {
  OWNER_ADDED: { notice: "owner_added", event: "wallet.owner_added", trail: "owner_added" },
  OWNER_REMOVED: { notice: "owner_removed", event: "wallet.owner_removed", trail: "owner_removed" },
  UPGRADED: { notice: "wallet_upgraded", event: "wallet.upgraded", trail: "wallet_upgraded" },
};

/** One by one where records are isolated. */
export async function storeAccountChanges(
  tx: Tx,
  network: NetworkId,
  changes: readonly NewAccountChange[],
  isolate?: Isolate,
): Promise<void> {
  if (!isolate) return recordAccountChanges(tx, network, changes);
  for (const change of changes)
    await isolate({ kind: "account_change", txHash: change.txHash }, (part) =>
      recordAccountChanges(part, network, [change]),
    );
}

/** Blocks up to `depthNumber` are deep enough; `after` is how deep they were before. One by one where records are isolated. */
export async function reportWalletChanges(
  tx: Tx,
  { network, after, depthNumber }: { network: NetworkId; after: number; depthNumber: number },
  isolate: Isolate = (_record, write) => write(tx),
): Promise<void> {
  const changes = await isolate({ kind: "report" }, (part) =>
    confirmAccountChanges(part, { network, depthNumber }),
  );
  for (const change of changes ?? []) {
    if (change.isFirst) continue;
    const { txHash } = change;
    await isolate({ kind: "report", txHash }, (part) => reportChange(part, network, change));
  }
  const transfers = await isolate({ kind: "report" }, (part) =>
    listOutgoing(part, { network, after, to: depthNumber }),
  );
  for (const sent of transfers ?? [])
    await isolate({ kind: "report", txHash: sent.txHash }, (part) => reportSent(part, network, sent));
}

async function reportSent(tx: Tx, network: NetworkId, sent: OutgoingTransfers): Promise<void> {
  const { userId, walletId, txHash, units, recipients, recipient, isOurs } = sent;
  const details = { network, txHash, amount: formatUnits(units), recipients, recipient, isOurs };
  await addNotice(tx, { userId, kind: "money_sent", key: `sent:${walletId}:${txHash}`, details });
  if (isOurs) return;
  await recordSecurityEvent(tx, {
    userId,
    type: "money_sent_elsewhere",
    clientAddress: null,
    requestId: null,
    details: { network, txHash, amount: details.amount },
  });
}

async function reportChange(tx: Tx, network: NetworkId, change: ConfirmedChange): Promise<void> {
  const { userId, walletId, type, subject, txHash, logIndex, ownerChangeId } = change;
  const { notice, event, trail } = WORDS[type];
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
  await recordEvents(tx, [{ userId, type: event, subjectId: walletId, data: details }]);
  await recordSecurityEvent(tx, { userId, type: trail, clientAddress: null, requestId: null, details });
  await addNotice(tx, {
    ...{ userId, kind: notice, key: `account:${network}:${txHash}:${logIndex}` },
    details: { network, txHash, isOurs, owner: type === "UPGRADED" ? subject : nameOfOwner(address) },
  });
  if (type === "OWNER_REMOVED") await deleteSessionsOfRemovedPasskeys(tx, userId);
  // it names the owners
  await enqueue(tx, "send_wallet_file", { userId });
}

/** As rows of what the accounts in these blocks wrote themselves. */
export function accountChangesOf(blocks: readonly BlockContent[]): NewAccountChange[] {
  return blocks.flatMap(({ block, accountLogs }) =>
    accountLogs.map((log) => ({ ...log, blockNumber: block.number, blockHash: block.hash })),
  );
}
