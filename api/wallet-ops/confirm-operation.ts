/** Confirms a send or refund with an owner's signature: QUEUED with its history rows, event and job. */
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { conflict } from "../../core/domain/errors.ts";
import { newTransactionId } from "../../core/domain/ids.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { currentTraceparent } from "../../core/tracing/spans.ts";
import { recordEvents } from "../../db/events/events.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { findCursor } from "../../db/ledger/cursors.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { storeTraces } from "../../db/traces/traces.ts";
import { type OpenedHistory, type OperationView, openHistory } from "../../db/wallet-ops/operations.ts";
import { isBehindNonce } from "../../db/wallet-ops/refunds.ts";
import type { ApiDeps } from "../http/deps.ts";
import { type Confirmation, confirmSigned } from "./confirm-signed.ts";
import { getOperation } from "./operations.ts";
import { toUserOperation } from "./to-user-operation.ts";
import { statusOf } from "./wire.ts";

const LEDGER_WAIT_MS = 5_000;
const LEDGER_POLL_MS = 100;

type OperationConfirmation = Confirmation & {
  kind: "SEND" | "REFUND";
  /** Default description of the history rows, next to the items' notes. */
  history: Omit<OpenedHistory, "ids">;
  event: "wallet.send_queued" | "refund.created";
  /**
   * Called in the transaction that queues the operation, when the ledger has read every operation that spent an earlier nonce of the
   * account; throwing prevents queueing.
   */
  recheck?: (tx: Tx) => Promise<void>;
};

/** Throws NOT_FOUND and what `confirmSigned` and `recheck` throw. With `recheck` also CONFLICT while the ledger is behind. */
export async function confirmOperation(deps: ApiDeps, given: OperationConfirmation): Promise<OperationView> {
  const { first } = await confirmSigned(deps, given, {
    name: "operation",
    async read() {
      const first = await getOperation(deps, given);
      return { first, operations: [first] };
    },
    statusOf: (found) => statusOf(found.first),
    signedHashOf: (found) => signedHashOf(found.first),
    async beforeTransaction(found) {
      if (given.recheck) await awaitLedger(deps, found.first);
    },
    async afterQueueing(tx, found) {
      await given.recheck?.(tx);
      await writeQueued(tx, given, found.first);
    },
  });
  return first;
}

function signedHashOf(operation: OperationView): Hex {
  const hash = userOperationHash(toUserOperation(operation), NETWORKS[operation.network].chainId);
  if (hash === operation.userOpHash) return hash;
  throw new Error(`operation ${operation.id} does not match its stored hash: ${hash}`);
}

/**
 * Waits until the ledger has read the block at which the operation's nonce was read, and the events that spent the nonces before it: nonce and
 * block number may come from different nodes, and an operation that had ended may have been executed in between. Throws CONFLICT.
 */
async function awaitLedger({ sql }: ApiDeps, { id, network, terms }: OperationView): Promise<void> {
  const { headNumber = 0 } = terms;
  const deadlineMs = Date.now() + LEDGER_WAIT_MS;
  for (;;) {
    const cursor = await findCursor(sql, network);
    if (cursor && cursor.number >= headNumber && !(await isBehindNonce(sql, id))) return;
    if (Date.now() >= deadlineMs)
      throw conflict(
        "The chain has not yet been read up to the block at which this was prepared; confirm it again in a moment",
        {
          issue: "ledger_behind",
          retryable: true,
        },
      );
    await Bun.sleep(LEDGER_POLL_MS);
  }
}

/** History rows, event, job and notification of an operation that has just been queued. */
async function writeQueued(
  tx: Tx,
  { user, history, event }: OperationConfirmation,
  operation: OperationView,
) {
  const { id, network, items } = operation;
  await openHistory(tx, operation, { ids: items.map(() => newTransactionId()), ...history });
  const payments = items.filter(({ isFee }) => !isFee);
  const total = payments.reduce((sum, { units }) => sum + BigInt(units), 0n);
  const data = { network, amount: formatUnits(total), recipients: payments.length, linkId: history.linkId };
  await recordEvents(tx, [{ userId: user.id, type: event, subjectId: id, data }]);
  await enqueue(tx, "relay_operations", { network });
  const traceparent = currentTraceparent();
  if (traceparent) await storeTraces(tx, [{ subjectId: id, traceparent }]);
  await notify(tx, [id]);
}
