/**
 * Spans of a commit that settled records of ours, in the trace of each settled payment and send, or in a new trace: `index`
 * with its parts `read` (from first hearing of a block to having read its logs), `settle` (applying them) and `notify` (notifications
 * and the commit). Never throws: traces are best effort.
 */
import { isTracing, type SpanAttributes, startSpan } from "../../core/tracing/spans.ts";
import { findTraces } from "../../db/traces/traces.ts";
import type { Term } from "../leader-term.ts";
import type { Applied, Span } from "./apply-span.ts";

/** `heardMs`: Unix time at which the first of its blocks was heard of. */
export async function traceCommit(
  term: Pick<Term, "network" | "sql" | "log">,
  { blocks, to }: Pick<Span, "blocks" | "to">,
  { heardMs, settled, ...times }: Applied & { heardMs: number },
): Promise<void> {
  if (!isTracing()) return;
  const subjectIds = [...new Set([...settled.paymentIds, ...settled.operationIds])];
  const transfers = blocks.reduce((total, block) => total + block.transfers.length, 0);
  if (subjectIds.length + transfers === 0) return;
  try {
    const traces = await findTraces(term.sql, subjectIds);
    const attributes = { network: term.network, "block.number": to.number.toString(), transfers };
    for (const [id, parent] of traces) {
      const subject = id.startsWith("pay_") ? { "payment.id": id } : { "operation.id": id };
      writeSpans(parent, { ...attributes, ...subject }, { heardMs, ...times });
    }
    if (traces.size === 0) writeSpans(undefined, attributes, { heardMs, ...times });
  } catch (error) {
    term.log.warn({ network: term.network, err: error }, "spans of a commit could not be recorded");
  }
}

function writeSpans(
  parent: string | undefined,
  attributes: SpanAttributes,
  { heardMs, readMs, settledMs, committedMs }: { heardMs: number } & Omit<Applied, "settled">,
): void {
  const whole = startSpan("index", { parent, startMs: heardMs, kind: "consumer", attributes });
  if (!whole) return;
  const parts = [
    ["read", heardMs, readMs],
    ["settle", readMs, settledMs],
    ["notify", settledMs, committedMs],
  ] as const;
  for (const [name, startMs, endMs] of parts)
    startSpan(name, { parent: whole.traceparent, startMs, attributes })?.end(undefined, endMs);
  whole.end(undefined, committedMs);
}
