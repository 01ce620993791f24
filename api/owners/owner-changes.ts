/** Reads and cancels owner changes and derives their status: a change has one operation per network, and one challenge for all of them. */

import { anyChainHash } from "../../core/chain/user-operation-hash.ts";
import { conflict, notFound } from "../../core/domain/errors.ts";
import { OWNER_CHANGE_ID } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { OperationState } from "../../core/domain/wallet-operation.ts";
import { notify } from "../../db/postgres/notifications.ts";
import type { User } from "../../db/schema.ts";
import {
  cancelOperation,
  findByIdempotencyKey,
  listOperationsOfChange,
  type OperationView,
} from "../../db/wallet-ops/operations.ts";
import { findOwnerChange } from "../../db/wallet-ops/owner-changes.ts";
import type { OwnerChange } from "../../db/wallet-ops/schema.ts";
import type { ApiDeps } from "../http/deps.ts";
import { toUserOperation } from "../wallet-ops/to-user-operation.ts";
import { statusOf } from "../wallet-ops/wire.ts";

/** At least one operation; all of them have the same challenge. */
export type ChangeView = OwnerChange & { operations: OperationView[]; first: OperationView };

/** Throws NOT_FOUND for another user's, and for what cannot be an id. */
export async function getChange(
  { sql }: Pick<ApiDeps, "sql">,
  { id, user }: { id: string; user: User },
): Promise<ChangeView> {
  const change = OWNER_CHANGE_ID.test(id) ? await findOwnerChange(sql, { id, userId: user.id }) : undefined;
  if (!change) throw notFound("Owner change");
  const operations = await listOperationsOfChange(sql, { changeId: id, userId: user.id });
  const [first] = operations;
  if (!first) throw new Error(`owner change ${id} has no operation`);
  return { ...change, operations, first };
}

/** The current state of what this Idempotency-Key prepared earlier. Throws CONFLICT when the key was used with another request. */
export async function findChangeByKey(
  { sql }: Pick<ApiDeps, "sql">,
  {
    user,
    idempotencyKey: key,
    request,
  }: { user: User; idempotencyKey: string | undefined; request: unknown },
): Promise<ChangeView | undefined> {
  if (key === undefined) return undefined;
  const known = await findByIdempotencyKey(sql, { userId: user.id, kind: "OWNERS", key, request });
  const changeId = known?.operation.ownerChangeId;
  if (!known || !changeId || statusOf(known.operation) === "EXPIRED") return undefined;
  if (known.isSameRequest) return getChange({ sql }, { id: changeId, user });
  throw conflict("This Idempotency-Key was used with another request.", {
    field: "Idempotency-Key",
    issue: "other_request",
  });
}

/** Thrown to roll back: a change is cancelled on all of its networks, or on none. */
class NotCancellableError extends Error {}

/** Throws CONFLICT once it was signed, also if a third party has executed it on one network. */
export async function cancelChange(deps: ApiDeps, named: { id: string; user: User }): Promise<ChangeView> {
  const { operations } = await getChange(deps, named);
  const areCancelled = await deps.sql
    .begin(async (tx) => {
      for (const { id } of operations)
        if (!(await cancelOperation(tx, { id, userId: named.user.id }))) throw new NotCancellableError();
      await notify(tx, [named.id]);
      return true;
    })
    .catch((error: unknown) => {
      if (error instanceof NotCancellableError) return false;
      throw error;
    });
  const change = await getChange(deps, named);
  if (areCancelled) return change;
  const status = statusOfChange(change);
  throw conflict(`An owner change can only be cancelled before it is signed; this one is ${status}`, {
    field: "status",
    issue: status,
  });
}

/** How far towards CONFIRMED each state is. */
const ORDER: readonly OperationState[] = [
  "FAILED",
  "EXPIRED",
  "CANCELLED",
  "AWAITING_SIGNATURE",
  "QUEUED",
  "SIGNED",
  "BROADCAST",
  "MINED",
  "CONFIRMED",
];

/** The status on the network that is furthest behind, ignoring networks where it waits for the wallet's deployment. */
export function statusOfChange({ operations, first }: ChangeView): OperationState {
  const states = operations.filter((operation) => !waitsForDeployment(operation)).map(statusOf);
  return ORDER.find((state) => states.includes(state)) ?? statusOf(first);
}

/** On a network without a deployed account, a signed change for every network is executed with the account's first other operation. */
export function waitsForDeployment({ isAnyChain, state, isDeployed }: OperationView): boolean {
  return isAnyChain && state === "QUEUED" && !isDeployed;
}

/** The 32 bytes that the passkey signs for all of its operations. */
export function signedHashOf({ first }: Pick<ChangeView, "first">): Hex {
  return first.isAnyChain ? anyChainHash(toUserOperation(first)) : first.userOpHash;
}
