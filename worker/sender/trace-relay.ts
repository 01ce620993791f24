/**
 * Spans of our transactions, one per payment or send in them, in the trace of the original request: `relay` from selection
 * until a node has responded, `mine` from signing until the receipt was read. Never throws: traces are best effort.
 */
import { isTracing, startSpan } from "../../core/tracing/spans.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { findTraces, findTracesOfRelays } from "../../db/traces/traces.ts";
import type { RelayNetwork } from "./relay-network.ts";
import type { SignedRelay } from "./send-relay.ts";

/** `linkId`: of a payment for a link of ours. */
export type TracedSubject = { id: string; linkId?: string | null };

export async function traceRelay(
  network: RelayNetwork,
  relay: SignedRelay,
  { subjects, startMs, sent }: { subjects: readonly TracedSubject[]; startMs: number; sent: Promise<void> },
): Promise<void> {
  await sent;
  if (!isTracing()) return;
  await ignoreFailure(network, async (sql) => {
    const traces = await findTraces(
      sql,
      subjects.map(({ id }) => id),
    );
    for (const { id, linkId } of subjects) {
      const parent = traces.get(id);
      if (parent === undefined) continue;
      const attributes = {
        ...attributesOf(network, relay),
        ...subjectOf(id),
        "relay.nonce": relay.nonce.toString(),
        "relay.items": subjects.length,
        ...(linkId ? { "link.id": linkId } : {}),
      };
      startSpan("relay", { parent, startMs, attributes })?.end();
    }
  });
}

export async function traceMined(
  network: RelayNetwork,
  receipts: readonly {
    relayId: bigint;
    txHash: string;
    blockNumber: bigint;
    succeeded: boolean;
    ageMs: number;
  }[],
): Promise<void> {
  if (!isTracing()) return;
  await ignoreFailure(network, async (sql) => {
    const byRelay = Map.groupBy(
      await findTracesOfRelays(
        sql,
        receipts.map(({ relayId }) => relayId),
      ),
      ({ relayId }) => relayId,
    );
    for (const receipt of receipts) {
      for (const { subjectId, traceparent } of byRelay.get(receipt.relayId) ?? []) {
        const attributes = {
          ...attributesOf(network, receipt),
          ...subjectOf(subjectId),
          "block.number": receipt.blockNumber.toString(),
        };
        const startMs = Date.now() - receipt.ageMs;
        const span = startSpan("mine", { parent: traceparent, startMs, attributes });
        span?.end(receipt.succeeded ? undefined : "reverted");
      }
    }
  });
}

function attributesOf({ chain }: RelayNetwork, { relayId, txHash }: { relayId: bigint; txHash: string }) {
  return { network: chain.network.id, "relay.id": relayId.toString(), "tx.hash": txHash };
}

function subjectOf(id: string) {
  return id.startsWith("pay_") ? { "payment.id": id } : { "operation.id": id };
}

async function ignoreFailure({ deps }: RelayNetwork, work: (sql: Sql) => Promise<void>): Promise<void> {
  try {
    await work(deps.sql);
  } catch (error) {
    deps.log.warn({ err: error }, "spans of a transaction could not be recorded");
  }
}
