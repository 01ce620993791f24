/** Every book that a refund stands in: link, statistics, history, events, webhooks and exports, whichever way the money had come. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { exportAs } from "../exports/ask.ts";
import { parseCsv } from "../exports/read-files.ts";
import { randomAddress, USDC } from "../support/indexer-lab.ts";
import { refundLab } from "../support/refund-lab.ts";
import { confirmSend, expectRefusal, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";
import { isSigned, type Receiver, startReceiver } from "../webhooks/receiver.ts";

setDefaultTimeout(120_000);

let world: World;
let sql: Sql;
let merchant: Merchant;
let receiver: Receiver;
let secret: string;

const { until, makeLink, linkOf, paidByX402, transferFor, refund, confirm, refunded, waitForRefund } =
  refundLab(() => ({ world, sql, merchant }));

beforeAll(async () => {
  world = await startWorld({ env: { WEBHOOK_PRIVATE_TARGETS: "1" } });
  sql = openDatabase(world.db.url, { name: "test", maxConnections: 4 });
  await callRpc(world.chain.rpcUrl, "anvil_autoImpersonateAccount", [true]);
  merchant = await signUp(world.baseUrl);
  receiver = startReceiver();
  const { body } = await merchant.client.post("/v1/webhook-endpoints", { url: receiver.url });
  secret = body.data.secret;
});
afterAll(async () => {
  receiver?.stop();
  await sql?.end();
  await world?.stop();
});

/** Types of the messages about one subject, once `last` has arrived; the others may come in any order. */
async function messagesAbout(subjectId: string, last: string) {
  return until(async () => {
    const messages = receiver.received.filter(({ json }) => json.data.subjectId === subjectId);
    return messages.some(({ json }) => json.type === last) ? messages : undefined;
  });
}

const typesOf = (messages: { json: { type: string } }[]) => [
  ...new Set(messages.map(({ json }) => json.type).toSorted()),
];

/** The wallet's whole balance leaves it in a way that the service has not seen coming. */
async function drain(): Promise<bigint> {
  const { rpcUrl } = world.chain;
  const from = merchant.walletAddress as Hex;
  const units = await readUsdcBalance(rpcUrl, from);
  await fundEth(rpcUrl, from, 10n ** 18n);
  const data = encodeTransfer(randomAddress(), units);
  await callRpc(rpcUrl, "eth_sendTransaction", [{ from, to: USDC, data, gas: "0x30d40" }]);
  return units;
}

describe("money that does not match its link", () => {
  test("of an overpaid link returns the surplus by default, then the rest, never more", async () => {
    const linkId = await makeLink(1);
    const { from } = await transferFor(linkId, 1_500_000n);
    expect((await linkOf(linkId)).exception).toBe("OVERPAID");
    const { body } = await merchant.client.get(`/v1/payment-links/${linkId}/refunds`);
    expect(body.payments).toMatchObject([{ payer: from, refundable: "1.500000", suggested: "0.500000" }]);
    expect(await refunded(linkId)).toMatchObject({ to: from, amount: "0.500000" });
    expectRefusal(await refund(linkId, { amount: "1.000001" }), 409, { refundable: 1 });
    expect(await refunded(linkId, { amount: 1 })).toMatchObject({ to: from, amount: "1.000000" });
    expect(await linkOf(linkId)).toMatchObject({ status: "ACTIVE", refundedAmount: 1.5 });
    expectRefusal(await refund(linkId), 409, { issue: "nothing_to_refund" });
  });

  test("of an underpaid link is returned in full, never more", async () => {
    const linkId = await makeLink(1);
    const { from } = await transferFor(linkId, 400_000n);
    expect((await linkOf(linkId)).exception).toBe("UNDERPAID");
    expectRefusal(await refund(linkId, { amount: "0.400001" }), 409, { refundable: 0.4 });
    expect(await refunded(linkId)).toMatchObject({ to: from, amount: "0.400000" });
    expect(await linkOf(linkId)).toMatchObject({ status: "ACTIVE", refundedAmount: 0.4 });
    expectRefusal(await refund(linkId), 409, { issue: "nothing_to_refund" });
  });

  test("that arrived too late pays its link, and is returned", async () => {
    const linkId = await makeLink(1);
    await sql`update payment_links set created_at = now() - interval '3 hours', expires_at = now() - interval '1 hour' where id = ${linkId}`;
    const { from } = await transferFor(linkId, 1_000_000n);
    expect(await linkOf(linkId)).toMatchObject({ status: "PAID", exception: "PAID_LATE" });
    expectRefusal(await refund(linkId, { amount: "1.000001" }), 409, { refundable: 1 });
    expect(await refunded(linkId)).toMatchObject({ to: from, amount: "1.000000" });
    expect(await linkOf(linkId)).toMatchObject({ status: "PAID", refundedAmount: 1 });
  });
});

describe("a webhook endpoint", () => {
  test("receives a refund's request, signature and confirmation, and the history row's events", async () => {
    const { linkId } = await paidByX402(2);
    const path = `/v1/payment-links/${linkId}/refund-requests`;
    const { refundId } = (await merchant.client.post(path, { amount: "0.5" })).body;
    const prepared = (await merchant.client.post(`/v1/refunds/${refundId}/prepare`, {})).body;
    const { transaction } = (await confirm(prepared)).body;
    const { to, transactionHash } = await waitForRefund(refundId);
    const messages = await messagesAbout(refundId, "refund.confirmed");
    expect(messages.every((message) => isSigned(message, secret))).toBe(true);
    expect(typesOf(messages)).toEqual(["refund.confirmed", "refund.created", "refund.requested"]);
    const dataOf = (type: string) => messages.find(({ json }) => json.type === type)?.json.data;
    // as GET showed it when the message was sent
    const link = expect.objectContaining({ id: linkId, status: "PAID" });
    const money = { amount: "0.500000", linkId, network: "base-sepolia", subjectId: refundId, link };
    expect(dataOf("refund.requested")).toEqual({ ...money, to, requestedBy: merchant.userId });
    expect(dataOf("refund.created")).toEqual({ ...money, recipients: 1 });
    expect(dataOf("refund.confirmed")).toEqual({ ...money, recipients: 1, txHash: transactionHash });
    expect(typesOf(await messagesAbout(transaction.id, "transaction.confirmed"))).toContain(
      "transaction.confirmed",
    );
    const declined = (await merchant.client.post(path, { amount: "0.5" })).body.refundId;
    await merchant.client.post(`/v1/refunds/${declined}/cancel`, {});
    const [cancelled] = (await messagesAbout(declined, "refund.cancelled")).filter(
      ({ json }) => json.type === "refund.cancelled",
    );
    expect(cancelled?.json.data).toEqual({ linkId, subjectId: declined, link });
  });

  test("receives the failure of a refund and of a send; the refund can be requested again", async () => {
    const { linkId } = await paidByX402(1);
    const prepared = (await refund(linkId)).body;
    const units = await drain();
    const { transaction } = (await confirm(prepared)).body;
    expect(await waitForRefund(prepared.refundId, "FAILED")).toMatchObject({ reason: "INSUFFICIENT_FUNDS" });
    const messages = await messagesAbout(prepared.refundId, "refund.failed");
    expect(typesOf(messages)).toEqual(["refund.created", "refund.failed"]);
    expect(messages.find(({ json }) => json.type === "refund.failed")?.json.data).toEqual({
      ...{ reason: "INSUFFICIENT_FUNDS", network: "base-sepolia", amount: "1.000000", recipients: 1, linkId },
      subjectId: prepared.refundId,
      link: expect.objectContaining({ id: linkId, status: "PAID" }),
    });
    const failed = await messagesAbout(transaction.id, "transaction.failed");
    expect(failed[0]?.json.data).toMatchObject({ reason: "INSUFFICIENT_FUNDS" });
    await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, units);
    expect((await linkOf(linkId)).refundedAmount).toBe(0);
    expect(await refunded(linkId)).toMatchObject({ amount: "1.000000" });

    const sent = await prepareSend(merchant, { to: randomAddress(), amount: "0.25" });
    await confirmSend(merchant, sent);
    const { transactionHash: txHash } = await waitForSend(merchant, sent.sendId);
    const sentMessages = await messagesAbout(sent.sendId, "wallet.send_confirmed");
    expect(typesOf(sentMessages)).toEqual(["wallet.send_confirmed", "wallet.send_queued"]);
    expect(sentMessages.find(({ json }) => json.type === "wallet.send_confirmed")?.json.data).toEqual({
      ...{ txHash, network: "base-sepolia", amount: "0.250000", recipients: 1, linkId: null },
      subjectId: sent.sendId,
    });
    const lost = await prepareSend(merchant, { to: randomAddress(), amount: "0.25" });
    const left = await drain();
    await confirmSend(merchant, lost);
    await waitForSend(merchant, lost.sendId, "FAILED");
    const lostMessages = await messagesAbout(lost.sendId, "wallet.send_failed");
    expect(typesOf(lostMessages)).toEqual(["wallet.send_failed", "wallet.send_queued"]);
    await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, left);
  });
});

test("statistics, history and the accounting profile agree on what was refunded", async () => {
  const { linkId, payer } = await paidByX402(3);
  await refunded(linkId, { amount: "1.25", reason: "=Damaged" });
  await refunded(linkId, { amount: "0.75" });
  const [{ total } = { total: "" }] = await sql<{ total: string }[]>`
    select sum(amount_units)::text as total
    from refunds
    join wallet_operations op using (id)
    where op.state = 'CONFIRMED' and refunds.user_id = ${merchant.userId}`;
  const stats = (await merchant.client.get("/v1/payment-links/stats")).body;
  expect(BigInt(Math.round(stats.totalRefunded * 1_000_000))).toBe(BigInt(total));
  expect((await linkOf(linkId)).refundedAmount).toBe(2);

  const { text } = await exportAs(merchant.client, { format: "csv", profile: "accounting" });
  const [header = [], ...records] = parseCsv(text);
  expect(header.slice(-3)).toEqual(["kind", "refund_of", "fee_usdc"]);
  const rows = records.map((record) =>
    Object.fromEntries(header.map((name, index) => [name, record[index] ?? ""])),
  );
  const paid = rows.find((row) => row["Payment Link ID"] === linkId && row.kind === "PAYMENT");
  expect(paid).toMatchObject({ Amount: "3.000000", refund_of: "", fee_usdc: "", Payer: payer });
  const back = rows.filter((row) => row["Payment Link ID"] === linkId && row.kind === "REFUND");
  expect(back.map((row) => row.Amount)).toEqual(["0.750000", "1.250000"]);
  for (const row of back)
    expect(row).toMatchObject({
      ...{ Type: "SEND", Payee: payer, Payer: merchant.walletAddress, Description: "Bicycle" },
      ...{ refund_of: paid?.["Transaction ID"] ?? "none", fee_usdc: "0.000000", "Network Fee (ETH)": "" },
    });
  expect(rows.filter((row) => row.kind === "SEND").map((row) => row.refund_of)).not.toContain(
    paid?.["Transaction ID"],
  );
  const sums = rows
    .filter((row) => row.kind === "REFUND" && row.Status === "CONFIRMED")
    .reduce((sum, row) => sum + BigInt((row.Amount ?? "").replace(".", "")), 0n);
  expect(sums).toBe(BigInt(total));

  const json = JSON.parse((await exportAs(merchant.client, { format: "json", profile: "accounting" })).text);
  const object = json.find((row: { id: string }) => row.id === back[1]?.["Transaction ID"]);
  expect(object.accounting).toMatchObject({ kind: "REFUND", refundOf: paid?.["Transaction ID"] });
  expect(object.metadata).toMatchObject({ kind: "REFUND", linkId, reason: "=Damaged" });
});

test("the documented CSV keeps its eight columns", async () => {
  const [header] = parseCsv((await exportAs(merchant.client, { format: "csv" })).text);
  expect(header).toEqual("Date,Type,Amount,Currency,Status,Network,Description,Transaction Hash".split(","));
});
