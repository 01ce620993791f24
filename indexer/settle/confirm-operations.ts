/** Ends operations that are deep enough, each in its own savepoint, so that one that the database refuses does not block the others. */

import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { confirmDeepOperations, findConfirmableOperations } from "../../db/wallet-ops/confirm-operations.ts";
import type { Isolate } from "./isolate-refused-records.ts";

/** Returns the operations that ended. */
export async function confirmOperationsIsolated(
  tx: Tx,
  depth: { network: NetworkId; depthNumber: number },
  isolate: Isolate,
): Promise<string[]> {
  const ended: string[] = [];
  for (const id of await findConfirmableOperations(tx, depth)) {
    const ids = await isolate({ kind: "conclusion", operationId: id }, (part) =>
      confirmDeepOperations(part, { ...depth, id }),
    );
    ended.push(...(ids ?? []));
  }
  return ended;
}
