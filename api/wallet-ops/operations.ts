/** What sends and refunds have in common after preparation: finding, cancelling, and waiting for a status change. */

import { conflict, notFound } from "../../core/domain/errors.ts";
import { REFUND_ID, SEND_ID } from "../../core/domain/ids.ts";
import { presentTransaction } from "../../core/domain/transaction.ts";
import type { OperationKind, OperationState } from "../../core/domain/wallet-operation.ts";
import { listPasskeys } from "../../db/auth/passkeys.ts";
import { notify } from "../../db/postgres/notifications.ts";
import type { User } from "../../db/schema.ts";
import { findTransaction } from "../../db/transactions/transactions.ts";
import { cancelOperation, findOperation, type OperationView } from "../../db/wallet-ops/operations.ts";
import type { ApiDeps } from "../http/deps.ts";
import { statusOf, type Transports } from "./wire.ts";

type Named = { user: User; id: string; kind: Exclude<OperationKind, "OWNERS"> };

const NAMES = { SEND: "Send", REFUND: "Refund" } as const;
const ID_FORMS = { SEND: SEND_ID, REFUND: REFUND_ID } as const;

/** Throws NOT_FOUND for another user's operation and for malformed ids. */
export async function getOperation(
  { sql }: Pick<ApiDeps, "sql">,
  { user, id, kind }: Named,
): Promise<OperationView> {
  const isId = ID_FORMS[kind].test(id);
  const operation = isId ? await findOperation(sql, { id, userId: user.id, kind }) : undefined;
  if (operation) return operation;
  throw notFound(NAMES[kind]);
}

/** How many requests per process may wait concurrently; others get an immediate response. */
const WAITS_MAX = 500;
let waits = 0;

/** The operation as soon as its status differs from `known`, or after `wait` seconds. Throws NOT_FOUND as above. */
export async function awaitOperation(
  deps: Pick<ApiDeps, "sql" | "outcomes">,
  named: Named,
  { known, wait }: { known?: OperationState | undefined; wait: number },
): Promise<OperationView> {
  if (known === undefined || wait === 0 || waits >= WAITS_MAX) return getOperation(deps, named);
  const readChange = async () => {
    const operation = await getOperation(deps, named);
    return statusOf(operation) === known ? undefined : operation;
  };
  waits += 1;
  try {
    const changed = await deps.outcomes.watch(named.id).settle(readChange, wait * 1_000);
    return changed ?? (await getOperation(deps, named));
  } finally {
    waits -= 1;
  }
}

/** Throws CONFLICT once it was signed. */
export async function cancel(deps: ApiDeps, named: Named): Promise<OperationView> {
  const { id, user, kind } = named;
  await getOperation(deps, named);
  const isCancelled = await deps.sql.begin(async (tx) => {
    if (!(await cancelOperation(tx, { id, userId: user.id }))) return false;
    await notify(tx, [id]);
    return true;
  });
  const operation = await getOperation(deps, named);
  if (isCancelled) return operation;
  const status = statusOf(operation);
  throw conflict(`${NAMES[kind]} can only be cancelled before it is signed; this one is ${status}`, {
    field: "status",
    issue: status,
  });
}

/** The history rows of an operation, one per recipient; a service fee has a separate row, which is not included. */
export async function presentHistory({ sql }: ApiDeps, user: User, { items }: OperationView) {
  const ids = items.flatMap(({ transactionId, isFee }) => (isFee ? [] : (transactionId ?? [])));
  const rows = await Promise.all(ids.map((id) => findTransaction(sql, { id, userId: user.id })));
  return rows.flatMap((row) => (row ? [presentTransaction(row)] : []));
}

export async function transportsOf({ sql, config }: ApiDeps, user: User): Promise<Transports> {
  const passkeys = await listPasskeys(sql, user.id, config.passkey.rpId);
  return new Map(passkeys.map(({ id, transports }) => [id, transports]));
}
