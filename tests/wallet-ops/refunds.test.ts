/** Refunds of links: whose money, how much, to whom; never more than came, and every book says so. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { openTerm, randomAddress, USDC } from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { refundLab } from "../support/refund-lab.ts";
import { expectRefusal } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);

let world: World;
let sql: Sql;
let merchant: Merchant;

beforeAll(async () => {
  world = await startWorld();
  sql = openDatabase(world.db.url, { name: "test", maxConnections: 4 });
  await callRpc(world.chain.rpcUrl, "anvil_autoImpersonateAccount", [true]);
  merchant = await signUp(world.baseUrl);
});
afterAll(async () => {
  await sql?.end();
  await world?.stop();
});

const { until, makeLink, linkOf, waitForPaid, paidByX402, transferFor, refund, confirm, refunded } =
  refundLab(() => ({ world, sql, merchant }));

describe("a refund", () => {
  test("goes to the x402 payer in full; link, statistics, history and events show it", async () => {
    const { linkId, payer } = await paidByX402(2);
    const before = (await merchant.client.get("/v1/payment-links/stats")).body.totalRefunded;
    const prepared = await refund(linkId, { reason: "Sold out" });
    expect(prepared.status).toBe(201);
    expect(prepared.body).toMatchObject({
      ...{ linkId, status: "AWAITING_SIGNATURE", to: payer, toSource: "x402_payer", amount: "2.000000" },
      refundable: "0.000000",
    });
    expect(prepared.body.refundId).toMatch(/^rfd_[0-9a-f]{44}$/);
    expect((await linkOf(linkId)).refundedAmount).toBe(0);
    const answer = await confirm(prepared.body);
    expect(answer.status).toBe(202);
    const shown = await until(async () => {
      const { body } = await merchant.client.get(`/v1/refunds/${prepared.body.refundId}`);
      return body.status === "CONFIRMED" ? body : undefined;
    });
    expect(shown).toMatchObject({ to: payer, note: "Sold out", reason: null, stillPossible: false });
    expect(await readUsdcBalance(world.chain.rpcUrl, payer)).toBe(2_000_000n);
    expect(await linkOf(linkId)).toMatchObject({ status: "PAID", refundedAmount: 2 });
    const stats = (await merchant.client.get("/v1/payment-links/stats")).body;
    expect(stats.totalRefunded).toBe(before + 2);
    const { body } = await merchant.client.get("/v1/transactions?types=SEND&limit=1");
    expect(body.data.transactions[0]).toMatchObject({
      ...{ id: answer.body.transaction.id, status: "CONFIRMED", title: "Refund for Bicycle" },
      metadata: { kind: "REFUND", refundId: prepared.body.refundId, linkId, reason: "Sold out" },
    });
    const events = await sql<{ type: string }[]>`
      select type from events where subject_id = ${prepared.body.refundId} order by id`;
    expect(events.map(({ type }) => type)).toEqual(["refund.created", "refund.confirmed"]);
    expectRefusal(await refund(linkId), 409, { issue: "nothing_to_refund" });
  });

  test("of a part leaves the rest; a micro-USDC more than the rest is refused", async () => {
    const { linkId, payer } = await paidByX402(3);
    await refunded(linkId, { amount: "1.2" });
    expect((await linkOf(linkId)).refundedAmount).toBe(1.2);
    const over = await refund(linkId, { amount: "1.800001" });
    expectRefusal(over, 409, { field: "amount", issue: "exceeds_refundable", refundable: 1.8 });
    await refunded(linkId, { amount: 1.8 });
    expect(await readUsdcBalance(world.chain.rpcUrl, payer)).toBe(3_000_000n);
    expect((await linkOf(linkId)).refundedAmount).toBe(3);
  });

  test("of a plain transfer goes to its sender, with a warning, or to a given address", async () => {
    const linkId = await makeLink(1.5);
    const { from } = await transferFor(linkId, 1_500_000n);
    await waitForPaid(linkId);
    const prepared = (await refund(linkId, { amount: "0.5" })).body;
    expect(prepared).toMatchObject({ to: from, toSource: "transfer_sender" });
    const codes = prepared.warnings.map(({ code }: { code: string }) => code);
    expect(codes).toContain("payer_may_be_an_exchange");
    expect(codes).not.toContain("payer_is_a_contract");
    await merchant.client.post(`/v1/refunds/${prepared.refundId}/cancel`, {});
    const toAddress = randomAddress();
    const shown = await refunded(linkId, { toAddress });
    expect(shown).toMatchObject({ to: toAddress, toSource: "given", amount: "1.500000" });
    expect(await readUsdcBalance(world.chain.rpcUrl, toAddress)).toBe(1_500_000n);
  });

  test("of a link paid twice takes the second payment by default, and caps apply to each transfer", async () => {
    const { linkId, payer } = await paidByX402(1);
    const { hash, from: second } = await transferFor(linkId, 1_000_000n);
    expect((await linkOf(linkId)).exception).toBe("DUPLICATE");
    const [row] = await sql`
      select id from transactions where tx_hash = ${hash} and owner = owner_key(${merchant.userId})`;
    const over = await refund(linkId, { transactionId: row?.id, amount: "1.000001" });
    expectRefusal(over, 409, { issue: "exceeds_refundable", refundable: 1 });
    const paymentsOf = async () =>
      (await merchant.client.get(`/v1/payment-links/${linkId}/refunds`)).body.payments;
    const one = { amount: "1.000000", refundable: "1.000000", suggested: "1.000000" };
    expect(await paymentsOf()).toMatchObject([
      { ...one, payer, pays: true },
      { ...one, payer: second, pays: false, transactionId: row?.id },
    ]);
    expect(await refunded(linkId)).toMatchObject({ to: second, amount: "1.000000" });
    expect(await paymentsOf()).toMatchObject([
      one,
      { amount: "1.000000", refundable: "0.000000", suggested: "0.000000" },
    ]);
    expect(await refunded(linkId)).toMatchObject({ to: payer, amount: "1.000000" });
    expectRefusal(await refund(linkId), 409, { issue: "nothing_to_refund" });
  });

  test("error: three payers and none named is payer_ambiguous; an unknown transaction is 404", async () => {
    const { linkId } = await paidByX402(1);
    await transferFor(linkId, 400_000n);
    await transferFor(linkId, 600_000n);
    expectRefusal(await refund(linkId), 400, { field: "transactionId", issue: "payer_ambiguous" });
    expect((await refund(linkId, { transactionId: "txn_unknown" })).status).toBe(404);
    expect((await refund(linkId, { toAddress: randomAddress(), amount: "0.6" })).status).toBe(201);
  });

  test("error: a link that was not paid has nothing to refund; bad addresses and amounts are refused", async () => {
    const linkId = await makeLink(1);
    expectRefusal(await refund(linkId), 409, { issue: "nothing_to_refund" });
    const paid = await paidByX402(1);
    expectRefusal(await refund(paid.linkId, { toAddress: USDC }), 400, { field: "toAddress" });
    expectRefusal(await refund(paid.linkId, { amount: 0 }), 400, { field: "amount" });
    expectRefusal(await refund(paid.linkId, { amount: "0.0000001" }), 400, { field: "amount" });
  });

  test("error: another merchant's link and refund are unknown on every route", async () => {
    const { linkId } = await paidByX402(1);
    const prepared = (await refund(linkId)).body;
    const { client, passkey } = await signUp(world.baseUrl);
    const { challenge } = prepared.passkeyChallenge;
    const passkeyResponse = await passkey.authenticate({ challenge });
    const answers = [
      await client.post(`/v1/payment-links/${linkId}/refunds`, {}),
      await client.get(`/v1/payment-links/${linkId}/refunds`),
      await client.get(`/v1/refunds/${prepared.refundId}`),
      await client.post(`/v1/refunds/${prepared.refundId}/cancel`, {}),
      await client.post(`/v1/refunds/${prepared.refundId}/confirm`, {
        ...{ challengeId: prepared.challengeId, passkeyResponse },
      }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404]);
    const own = await merchant.client.get(`/v1/refunds/${prepared.refundId}`);
    expect(own.body.status).toBe("AWAITING_SIGNATURE");
  });
});

describe("the reservation", () => {
  test("of 16 concurrent refunds never exceeds what was received", async () => {
    const { linkId } = await paidByX402(1);
    const answers = await Promise.all(Array.from({ length: 16 }, () => refund(linkId, { amount: "0.3" })));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(3);
    for (const answer of answers.filter(({ status }) => status !== 201))
      expectRefusal(answer, 409, { issue: "exceeds_refundable" });
    const [row] = await sql<{ sum: bigint }[]>`
      select sum(amount_units)::bigint as sum from refunds where link_id = ${linkId}`;
    expect(row?.sum).toBe(900_000n);
  });

  test("is released when it is cancelled, and when it expires", async () => {
    const { linkId } = await paidByX402(1);
    const first = (await refund(linkId)).body;
    expectRefusal(await refund(linkId), 409, { issue: "nothing_to_refund" });
    await merchant.client.post(`/v1/refunds/${first.refundId}/cancel`, {});
    const second = (await refund(linkId)).body;
    expect(second.amount).toBe("1.000000");
    await sql`update wallet_operations set expires_at = now() where id = ${second.refundId}`;
    expect((await refund(linkId)).status).toBe(201);
    const listed = (await merchant.client.get(`/v1/payment-links/${linkId}/refunds`)).body;
    const statuses = listed.refunds.map(({ status }: { status: string }) => status);
    expect(statuses).toEqual(["AWAITING_SIGNATURE", "EXPIRED", "CANCELLED"]);
  });

  test("is released when its signature is refused, and can be prepared again at once", async () => {
    const { linkId } = await paidByX402(1);
    const first = (await refund(linkId)).body;
    const wrong = await merchant.passkey.authenticate(first.passkeyChallenge, { userVerified: false });
    const path = `/v1/refunds/${first.refundId}`;
    const answer = { challengeId: first.challengeId, passkeyResponse: wrong };
    expectRefusal(await merchant.client.post(`${path}/confirm`, answer), 400, { issue: "not_verified" });
    expect((await merchant.client.get(path)).body.status).toBe("EXPIRED");
    expect((await refund(linkId)).status).toBe(201);
  });

  test("an Idempotency-Key returns the same refund again", async () => {
    const { linkId } = await paidByX402(1);
    const headers = { "idempotency-key": "refund-1" };
    const [first, again] = [await refund(linkId, {}, headers), await refund(linkId, {}, headers)];
    expect(again.status).toBe(201);
    expect(again.body.refundId).toBe(first.body.refundId);
    const rows = await sql`select from refunds where link_id = ${linkId}`;
    expect(rows).toHaveLength(1);
  });
});

test("a transfer with a refund in flight stays where the merchant assigned it", async () => {
  const linkId = await makeLink(4.321);
  const from = randomAddress();
  const { rpcUrl } = world.chain;
  await fundEth(rpcUrl, from, 10n ** 18n);
  await fundUsdc(rpcUrl, from, 77_000n);
  const data = encodeTransfer(merchant.walletAddress as Hex, 77_000n);
  const hash = await callRpc(rpcUrl, "eth_sendTransaction", [{ from, to: USDC, data, gas: "0x30d40" }]);
  const row = await until(async () => {
    const [found] = await sql<{ id: string }[]>`
      select id from transactions where tx_hash = ${hash as string} and status = 'CONFIRMED'`;
    return found;
  });
  const assigned = await merchant.client.post(`/v1/transactions/${row.id}/assign`, { linkId });
  expect(assigned.status).toBe(200);
  const prepared = (await refund(linkId)).body;
  const kept = await merchant.client.post(`/v1/transactions/${row.id}/unassign`, {});
  expectRefusal(kept, 409, { issue: "has_refunds" });
  await merchant.client.post(`/v1/refunds/${prepared.refundId}/cancel`, {});
  expect((await merchant.client.post(`/v1/transactions/${row.id}/unassign`, {})).status).toBe(200);
});

test("in the end the ledger agrees with the chain, and a rebuild changes nothing", async () => {
  await world.kill("indexer", "SIGTERM");
  await assertInvariants(sql, world.chain);
  const term = await openTerm({ ...world, sql });
  try {
    const { differences } = await rebuildNetwork(term);
    expect(differences).toEqual([]);
  } finally {
    term.close();
  }
});
