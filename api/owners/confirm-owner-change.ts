/** Confirms an owner change with an owner's signature: one assertion queues the operations on all networks, in one transaction. */
import { anyChainHash, userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { conflict } from "../../core/domain/errors.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { ownerIdOf } from "../../core/domain/owner.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { recordEvents } from "../../db/events/events.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { lockMember } from "../../db/members/members.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import type { ApiDeps } from "../http/deps.ts";
import { type Confirmation, confirmSigned } from "../wallet-ops/confirm-signed.ts";
import { toUserOperation } from "../wallet-ops/to-user-operation.ts";
import { type ChangeView, getChange, signedHashOf, statusOfChange } from "./owner-changes.ts";

/** Throws NOT_FOUND and what `confirmSigned` throws. */
export function confirmOwnerChange(deps: ApiDeps, given: Confirmation): Promise<ChangeView> {
  return confirmSigned(deps, given, {
    name: "owner change",
    read: () => getChange(deps, given),
    statusOf: statusOfChange,
    signedHashOf: provenHashOf,
    beforeQueueing: refuseFormerMember,
    afterQueueing: (tx, change) => writeQueued(tx, given, change),
  });
}

/** The stored fields must produce both the hash that the chain will report and the hash that is signed. */
function provenHashOf(change: ChangeView): Hex {
  const signedHash = signedHashOf(change);
  for (const stored of change.operations) {
    const operation = toUserOperation(stored);
    const hash = userOperationHash(operation, NETWORKS[stored.network].chainId);
    const signed = stored.isAnyChain ? anyChainHash(operation) : hash;
    if (hash !== stored.userOpHash || signed !== signedHash)
      throw new Error(`operation ${stored.id} does not match its stored hash: ${hash}`);
  }
  return signedHash;
}

/** A concurrent removal of the member waits for this transaction, and then finds the addition queued. */
async function refuseFormerMember(tx: Tx, { action, userId, memberId }: ChangeView): Promise<void> {
  if (action !== "ADD" || memberId === null) return;
  const member = await lockMember(tx, { merchantId: userId, userId: memberId });
  if (member?.role === "owner") return;
  throw conflict("This person is no longer a member with the role owner", { issue: "member_removed" });
}

async function writeQueued(
  tx: Tx,
  { user, trace }: Confirmation,
  { id, action, owner, operations }: ChangeView,
): Promise<void> {
  const ownerId = ownerIdOf(owner);
  const networks = operations.map(({ network }) => network).join(",");
  const data = { action, ownerId, networks };
  await recordEvents(tx, [{ userId: user.id, type: "wallet.owner_change_queued", subjectId: id, data }]);
  const details = { ...data, ownerChangeId: id };
  await recordSecurityEvent(tx, { userId: user.id, type: "owner_change_signed", ...trace, details });
  for (const { network } of operations) await enqueue(tx, "relay_operations", { network });
  await notify(tx, [id, ...operations.map((operation) => operation.id)]);
}
