/** The span of a payment in one of our transactions belongs to its request's trace, and a payment without a trace has none. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { type SpanOptions, useTracer } from "../../core/tracing/spans.ts";
import { storeTraces } from "../../db/traces/traces.ts";
import type { RelayNetwork } from "../../worker/sender/relay-network.ts";
import { traceRelay } from "../../worker/sender/trace-relay.ts";
import { type BooksLab, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";

const TRACEPARENT = `00-${"a1".repeat(16)}-${"b2".repeat(8)}-01`;
let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks();
});
afterEach(() => useTracer(undefined));
afterAll(() => lab?.stop());

test("of two payments in a transaction, the one with a trace has a span in it", async () => {
  const spans: { name: string; options: SpanOptions }[] = [];
  const span = { traceparent: TRACEPARENT, setName: () => {}, setAttributes: () => {}, end: () => {} };
  useTracer({
    start(name, options) {
      spans.push({ name, options });
      return span;
    },
  });
  await storeTraces(lab.sql, [{ subjectId: "pay_traced", traceparent: TRACEPARENT }]);
  const network = { deps: { sql: lab.sql }, chain: { network: { id: NETWORK } } } as unknown as RelayNetwork;
  const relay = { relayId: 7n, txHash: randomHash(), raw: "0x", nonce: 3n } as const;
  const subjects = [{ id: "pay_traced", linkId: "link_1" }, { id: "pay_other" }];
  await traceRelay(network, relay, { subjects, startMs: 1, sent: Promise.resolve() });
  expect(spans).toHaveLength(1);
  expect(spans[0]).toMatchObject({ name: "relay", options: { parent: TRACEPARENT, startMs: 1 } });
  expect(spans[0]?.options.attributes).toMatchObject({ "payment.id": "pay_traced", "link.id": "link_1" });
});
