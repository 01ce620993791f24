/** Traces over real processes: one trace from the HTTP request through the job to the mined transaction, received by a local collector. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { payByHand } from "../payments/second-payer.ts";
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from "../support/otlp-receiver.ts";
import { shapeA } from "../support/payer.ts";
import { type Lab, newOrder, type Order, paymentOf, startLab, waitFor } from "../support/relay-lab.ts";

const PAY_ROUTE = "POST /v1/x402/:linkId/pay";
let receiver: OtlpReceiver;
let lab: Lab;

beforeAll(async () => {
  receiver = await startOtlpReceiver();
  lab = await startLab({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url } });
}, 120_000);
afterAll(async () => {
  await lab?.stop();
  await receiver?.stop();
});

async function payIn(order: Order, traceparent: string): Promise<void> {
  const response = await fetch(`${lab.service.baseUrl}/v1/x402/${order.linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json", traceparent },
    body: JSON.stringify(shapeA(order.payment)),
  });
  expect(response.status).toBe(200);
}

const hex = (bytes: number) => Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex");
const spanOf = (name: string, traceId: string) =>
  receiver.spans.find((span) => span.name === name && span.traceId === traceId);
const waitForSpan = (name: string, traceId: string): Promise<ReceivedSpan> =>
  waitFor(`the span ${name} of ${traceId}`, async () => spanOf(name, traceId));

test("a payment is one trace from the caller's span to the mined transaction, without personal data", async () => {
  const order = await newOrder(lab);
  const [traceId, callerId] = [hex(16), hex(8)];
  await payIn(order, `00-${traceId}-${callerId}-01`);
  const request = await waitForSpan(PAY_ROUTE, traceId);
  const payment = await paymentOf(lab, order.linkId);
  expect(request).toMatchObject({ service: "usdc-payments-api", parentId: callerId, kind: 2, status: 0 });
  expect(request.attributes).toMatchObject({
    "http.response.status_code": 200,
    "payment.id": payment?.id,
    "link.id": order.linkId,
  });
  const job = await waitForSpan("job relay_payments", traceId);
  expect(job).toMatchObject({ service: "usdc-payments-worker", parentId: request.spanId, kind: 5 });
  for (const name of ["relay", "mine"]) {
    const span = await waitForSpan(name, traceId);
    expect(span).toMatchObject({ service: "usdc-payments-worker", parentId: request.spanId, status: 0 });
    expect(span.attributes).toMatchObject({
      "payment.id": payment?.id,
      "tx.hash": payment?.txHash,
      "relay.id": payment?.relayId?.toString(),
      network: "base-sepolia",
    });
    expect(span.endNs).toBeGreaterThanOrEqual(span.startNs);
  }
  expect((await waitForSpan("relay", traceId)).attributes["link.id"]).toBe(order.linkId);
  const text = JSON.stringify(
    receiver.spans.map(({ name, attributes }) => ({ name, attributes })),
  ).toLowerCase();
  expect(text).toContain(order.linkId.toLowerCase());
  for (const personal of [order.payment.from, order.payment.signature, lab.merchant.address, "@"])
    expect(text).not.toContain(personal.toLowerCase());
});

test("the indexer's reading, settling and notifying are in the payment's trace", async () => {
  const order = await newOrder(lab);
  const traceId = hex(16);
  await payIn(order, `00-${traceId}-${hex(8)}-01`);
  const whole = await waitForSpan("index", traceId);
  const payment = await paymentOf(lab, order.linkId);
  const [relay] = await lab.sql<{ blockNumber: bigint }[]>`
    select block_number from relays where id = ${payment?.relayId?.toString() ?? null}::bigint`;
  const request = await waitForSpan(PAY_ROUTE, traceId);
  const expected = {
    service: "usdc-payments-indexer",
    attributes: {
      "payment.id": payment?.id,
      network: "base-sepolia",
      "block.number": relay?.blockNumber.toString(),
    },
  };
  expect(whole).toMatchObject({ ...expected, parentId: request.spanId, kind: 5, status: 0 });
  const [read, settle, notify] = await Promise.all(
    ["read", "settle", "notify"].map((name) => waitForSpan(name, traceId)),
  );
  for (const part of [read, settle, notify])
    expect(part).toMatchObject({ ...expected, parentId: whole.spanId, status: 0 });
  // one after the other, without a gap
  const bounds = [read, settle, notify].map((part) => [part?.startNs, part?.endNs]);
  expect(bounds.map(([startNs]) => startNs)).toEqual([whole.startNs, read?.endNs, settle?.endNs]);
  expect(notify?.endNs).toBe(whole.endNs);
  expect(whole.endNs).toBeGreaterThan(whole.startNs);
});

test("behavior: a plain transfer, which belongs to no request, is a trace of the indexer only", async () => {
  const hash = await payByHand(lab, 654_321n);
  const [transfer] = await waitFor("the transfer to be read", async () => {
    const rows = await lab.sql<{ blockNumber: bigint }[]>`
      select block_number from transfers where tx_hash = ${hash}`;
    return rows.length === 1 && rows;
  });
  const blockNumber = transfer?.blockNumber.toString();
  const whole = await waitFor("its span", async () =>
    receiver.spans.find(
      ({ name, attributes }) => name === "index" && attributes["block.number"] === blockNumber,
    ),
  );
  expect(whole).toMatchObject({ parentId: "", attributes: { transfers: 1, network: "base-sepolia" } });
  expect((await waitForSpan("settle", whole.traceId)).parentId).toBe(whole.spanId);
});

test("behavior: a trace that its caller did not sample is not exported", async () => {
  const [unsampled, sampled] = [hex(16), hex(16)];
  await payIn(await newOrder(lab), `00-${unsampled}-${hex(8)}-00`);
  await payIn(await newOrder(lab), `00-${sampled}-${hex(8)}-01`);
  for (const name of ["mine", "index"]) await waitForSpan(name, sampled);
  expect(receiver.spans.filter((span) => span.traceId === unsampled)).toEqual([]);
});

test("error: a malformed traceparent starts a trace of its own", async () => {
  const zeros = "0".repeat(32);
  const order = await newOrder(lab);
  await payIn(order, `00-${zeros}-${hex(8)}-01`);
  const request = await waitFor("the request's span", async () =>
    receiver.spans.find((span) => span.name === PAY_ROUTE && span.attributes["link.id"] === order.linkId),
  );
  expect(request.parentId).toBe("");
  expect(request.traceId).not.toBe(zeros);
  await waitForSpan("mine", request.traceId);
});
