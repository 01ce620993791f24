/** Refunds that a program or an operator asks for, and that an owner of the wallet prepares and signs. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newChallengeId } from "../../core/domain/ids.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { readUsdcBalance } from "../../local/chain/usdc.ts";
import { type Answer, openClient } from "../support/http-client.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { refundLab } from "../support/refund-lab.ts";
import { expectRefusal } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);

let world: World;
let sql: Sql;
let merchant: Merchant;
let key: { id: string; headers: Record<string, string> };

const { until, makeLink, linkOf, paidByX402, refund, confirm, waitForRefund } = refundLab(() => ({
  ...{ world, sql, merchant },
}));

beforeAll(async () => {
  world = await startWorld();
  sql = openDatabase(world.db.url, { name: "test", maxConnections: 4 });
  await callRpc(world.chain.rpcUrl, "anvil_autoImpersonateAccount", [true]);
  merchant = await signUp(world.baseUrl);
  key = await makeKey(merchant, ["refunds:request"]);
});
afterAll(async () => {
  await sql?.end();
  await world?.stop();
});

async function makeKey({ client }: Merchant, scopes: string[]): Promise<typeof key> {
  const { status, text, body } = await client.post("/v1/api-keys", { name: "Shop", scopes });
  if (status !== 201) throw new Error(text);
  return { id: body.data.id, headers: { authorization: `Bearer ${body.data.key}` } };
}

/** A program without a session. */
const program = () => openClient(world.baseUrl);

function ask(linkId: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<Answer> {
  return program().post(`/v1/payment-links/${linkId}/refund-requests`, body, { ...key.headers, ...headers });
}

const prepare = (id: string): Promise<Answer> => merchant.client.post(`/v1/refunds/${id}/prepare`, {});
const cancel = (id: string): Promise<Answer> => merchant.client.post(`/v1/refunds/${id}/cancel`, {});
const eventsOf = async (id: string) =>
  (
    await sql<{ type: string }[]>`
      select type from events where subject_id = ${id} order by id`
  ).map(({ type }) => type);

describe("a refund request", () => {
  test("by an API key waits for the owner, who sees who requested it, signs it, and the payer is refunded", async () => {
    const { linkId, payer } = await paidByX402(2);
    const asked = await ask(linkId, { amount: "1.5", reason: "Sold out" });
    expect(asked.status).toBe(201);
    expect(asked.body).toMatchObject({
      ...{ linkId, status: "REQUESTED", to: payer, toSource: "x402_payer", amount: "1.500000" },
      ...{ requestedBy: { type: "api_key", id: key.id, name: "Shop" }, note: "Sold out" },
      // nothing is reserved and nothing can be signed yet
      ...{ refundable: "2.000000", userOpHash: null, transactionHash: null, stillPossible: false },
    });
    const { refundId } = asked.body;
    expect(refundId).toMatch(/^rfd_[0-9a-f]{44}$/);
    const listed = (await merchant.client.get("/v1/refunds?status=REQUESTED")).body.refunds;
    expect(listed.map((shown: { refundId: string }) => shown.refundId)).toEqual([refundId]);

    const prepared = await prepare(refundId);
    expect(prepared.status).toBe(201);
    expect(prepared.body).toMatchObject({
      ...{ refundId, linkId, status: "AWAITING_SIGNATURE", to: payer, amount: "1.500000" },
      refundable: "0.500000",
    });
    expect((await confirm(prepared.body)).status).toBe(202);
    expect(await waitForRefund(refundId)).toMatchObject({ requestedBy: { id: key.id }, note: "Sold out" });
    expect(await readUsdcBalance(world.chain.rpcUrl, payer)).toBe(1_500_000n);
    expect((await linkOf(linkId)).refundedAmount).toBe(1.5);
    // the program reads what became of it
    const seen = await program().get(`/v1/refunds/${refundId}`, key.headers);
    expect(seen.body).toMatchObject({ status: "CONFIRMED", amount: "1.500000" });
    expect(await eventsOf(refundId)).toEqual(["refund.requested", "refund.created", "refund.confirmed"]);
    const [again, cancelled] = [await prepare(refundId), await cancel(refundId)];
    expectRefusal(again, 409, { field: "status", issue: "CONFIRMED" });
    expectRefusal(cancelled, 409, { field: "status", issue: "CONFIRMED" });
  });

  test("by a session names the user", async () => {
    const { linkId } = await paidByX402(1);
    const path = `/v1/payment-links/${linkId}/refund-requests`;
    const { status, body } = await merchant.client.post(path, {});
    expect(status).toBe(201);
    expect(body.requestedBy).toMatchObject({ type: "user", id: merchant.userId });
    expect(body.amount).toBe("1.000000");
    await cancel(body.refundId);
  });

  test("error: is refused for the same reasons as a refund", async () => {
    const unpaid = await makeLink(1);
    expectRefusal(await ask(unpaid), 409, { issue: "nothing_to_refund" });
    const { linkId } = await paidByX402(1);
    expectRefusal(await ask(linkId, { amount: "1.000001" }), 409, {
      ...{ field: "amount", issue: "exceeds_refundable", refundable: 1 },
    });
    expectRefusal(await ask(linkId, { amount: 0 }), 400, { field: "amount" });
    const toItself = await ask(linkId, { toAddress: merchant.walletAddress });
    expectRefusal(toItself, 400, { field: "toAddress", issue: "own_wallet" });
    expect(toItself.body.error.message).toBe("toAddress is this wallet itself");
    expectRefusal(await ask(linkId, { reason: "" }), 400, { field: "reason" });
    expect((await ask(linkId, { transactionId: "txn_unknown" })).status).toBe(404);
    // not a request for the whole amount, to whoever paid
    for (const misspelt of [{ ammount: "0.5" }, { amount: "0.5", toAdress: randomAddress() }]) {
      const answer = await ask(linkId, misspelt);
      expectRefusal(answer, 400, { field: "body" });
      expect(answer.body.error.message).toContain(Object.keys(misspelt).at(-1));
      expect((await refund(linkId, misspelt)).status).toBe(400);
    }
    expect((await merchant.client.get(`/v1/payment-links/${linkId}/refunds`)).body.refunds).toEqual([]);
  });

  test("is confirmed only after it was prepared", async () => {
    const { linkId } = await paidByX402(1);
    const { refundId } = (await ask(linkId)).body;
    const other = (await refund(linkId)).body;
    const passkeyResponse = await merchant.passkey.authenticate(other.passkeyChallenge);
    const early = await merchant.client.post(`/v1/refunds/${refundId}/confirm`, {
      ...{ challengeId: other.challengeId, passkeyResponse },
    });
    expectRefusal(early, 400, { field: "challengeId", issue: "invalid_or_expired" });
    expectRefusal(await merchant.client.post(`/v1/refunds/${other.refundId}/prepare`, {}), 409, {
      ...{ field: "status", issue: "AWAITING_SIGNATURE" },
    });
    await cancel(other.refundId);
    await cancel(refundId);
  });

  test("an Idempotency-Key returns the same request in its current state, and is free once it was cancelled", async () => {
    const { linkId } = await paidByX402(1);
    const headers = { "idempotency-key": "ask-1" };
    const [first, again] = [await ask(linkId, {}, headers), await ask(linkId, {}, headers)];
    expect([first.status, again.status]).toEqual([201, 201]);
    expect(again.body.refundId).toBe(first.body.refundId);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expectRefusal(await ask(linkId, { amount: "0.5" }, headers), 409, { field: "Idempotency-Key" });
    await prepare(first.body.refundId);
    expect((await ask(linkId, {}, headers)).body.status).toBe("AWAITING_SIGNATURE");
    await cancel(first.body.refundId);
    const fresh = await ask(linkId, {}, headers);
    expect(fresh.body.refundId).not.toBe(first.body.refundId);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => ask(linkId, {}, { "idempotency-key": "ask-2" })),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
    expect(new Set(answers.map(({ body }) => body.refundId)).size).toBe(1);
  });

  test("error: fifty per link can be open, not one more", async () => {
    const { linkId } = await paidByX402(1);
    const { refundId } = (await ask(linkId)).body;
    await sql`
      insert into refunds (
        id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units, requested_by
      )
      select
        'rfd_' || lpad(to_hex(n), 44, '0'), user_id, link_id, network, paid_tx_hash, paid_log_index, to_address,
        to_source, amount_units, requested_by
      from refunds, generate_series(1, 49) n
      where id = ${refundId}`;
    expectRefusal(await ask(linkId), 409, { issue: "too_many_requests" });
    await cancel(refundId);
    expect((await ask(linkId)).status).toBe(201);
  });
});

describe("a prepared request", () => {
  test("is prepared again with a new challenge until it is signed; the older challenge is no longer valid", async () => {
    const { linkId, payer } = await paidByX402(1);
    const { refundId } = (await ask(linkId)).body;
    const first = (await prepare(refundId)).body;
    const second = (await prepare(refundId)).body;
    expect(second.challengeId).not.toBe(first.challengeId);
    expectRefusal(await confirm(first), 400, { field: "challengeId", issue: "invalid_or_expired" });
    expect((await confirm(second)).status).toBe(202);
    await waitForRefund(refundId);
    expect(await readUsdcBalance(world.chain.rpcUrl, payer)).toBe(1_000_000n);
  });

  test("waits for its owner again if it is not signed in time, and then takes the wallet's current nonce", async () => {
    const { linkId, payer } = await paidByX402(1);
    const { refundId } = (await ask(linkId, { amount: "0.4" })).body;
    const first = (await prepare(refundId)).body;
    await sql`update wallet_operations set expires_at = now() where id = ${refundId}`;
    const lapsed = (await merchant.client.get(`/v1/refunds/${refundId}`)).body;
    expect(lapsed).toMatchObject({ status: "REQUESTED", stillPossible: true });
    // another operation spends the nonce in between
    const other = (await refund(linkId, { amount: "0.6" })).body;
    expect((await confirm(other)).status).toBe(202);
    await waitForRefund(other.refundId);
    const second = (await prepare(refundId)).body;
    expect(BigInt(second.userOperation.nonce)).toBe(BigInt(first.userOperation.nonce) + 1n);
    expect(second.userOpHash).not.toBe(first.userOpHash);
    expect((await confirm(second)).status).toBe(202);
    await waitForRefund(refundId);
    expect(await readUsdcBalance(world.chain.rpcUrl, payer)).toBe(1_000_000n);
  });

  test("is cancelled with its reservation; what was cancelled is never prepared", async () => {
    const { linkId } = await paidByX402(1);
    const { refundId } = (await ask(linkId)).body;
    await prepare(refundId);
    expectRefusal(await refund(linkId), 409, { issue: "nothing_to_refund" });
    expect((await cancel(refundId)).body.status).toBe("CANCELLED");
    expectRefusal(await prepare(refundId), 409, { field: "status", issue: "CANCELLED" });
    expectRefusal(await cancel(refundId), 409, { field: "status", issue: "CANCELLED" });
    const declined = (await ask(linkId)).body.refundId;
    expect((await cancel(declined)).body.status).toBe("CANCELLED");
    expectRefusal(await prepare(declined), 409, { field: "status", issue: "CANCELLED" });
    expect(await eventsOf(declined)).toEqual(["refund.requested", "refund.cancelled"]);
  });

  test("error: cancelled while it is being prepared can never be signed", async () => {
    const { linkId } = await paidByX402(1);
    const { refundId } = (await ask(linkId)).body;
    const held = await holdRow(`select from refunds where id = '${refundId}' for update`);
    const preparing = prepare(refundId);
    await waiting(1);
    await held.tx`update refunds set cancelled_at = now() where id = ${refundId}`;
    await held.release();
    expectRefusal(await preparing, 409, { field: "status", issue: "CANCELLED" });
    expect(await sql`select from wallet_operations where id = ${refundId}`).toHaveLength(0);
  });

  test("cancelled after its preparation is cancelled with its operation", async () => {
    const { linkId } = await paidByX402(1);
    const { refundId } = (await ask(linkId)).body;
    const held = await holdRow(`select from refunds where id = '${refundId}' for update`);
    const preparing = prepare(refundId);
    await waiting(1);
    const cancelling = cancel(refundId);
    await waiting(2);
    await held.release();
    const [prepared, cancelled] = [await preparing, await cancelling];
    expect([prepared.status, cancelled.status]).toEqual([201, 200]);
    expect((await merchant.client.get(`/v1/refunds/${refundId}`)).body.status).toBe("CANCELLED");
    expectRefusal(await confirm(prepared.body), 409, { issue: "cancelled" });
  });
});

/** Locks a row until `release`. */
async function holdRow(query: string): Promise<{ tx: Sql; release: () => Promise<void> }> {
  const connection = openDatabase(world.db.url, { name: "test-lock", maxConnections: 1 });
  await connection`begin`;
  await connection.unsafe(query);
  const release = async () => {
    await connection`commit`;
    await connection.end();
  };
  return { tx: connection, release };
}

/** Until so many transactions wait for a lock. */
async function waiting(count: number): Promise<void> {
  await until(async () => {
    const rows = await sql`
      select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`;
    return rows.length >= count ? true : undefined;
  });
}

describe("the sum of refunds and requests", () => {
  test("of 16 concurrent ones never exceeds what was received, however they were requested", async () => {
    const { linkId } = await paidByX402(1);
    const asked = await Promise.all(Array.from({ length: 8 }, () => ask(linkId, { amount: "0.3" })));
    // requests reserve nothing: all of them are taken
    expect(asked.map(({ status }) => status)).toEqual(asked.map(() => 201));
    const answers = await Promise.all([
      ...asked.map(({ body }) => prepare(body.refundId)),
      ...Array.from({ length: 8 }, () => refund(linkId, { amount: "0.3" })),
    ]);
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(3);
    for (const answer of answers.filter(({ status }) => status !== 201))
      expectRefusal(answer, 409, { field: "amount", issue: "exceeds_refundable" });
  });
});

test("a reorganisation that moves a refunded transfer to another position releases nothing of it", async () => {
  const { linkId } = await paidByX402(1);
  const { refundId } = (await ask(linkId, { amount: "0.7" })).body;
  await confirm((await prepare(refundId)).body);
  await waitForRefund(refundId);
  // what the refund row is left with when the block that holds the transfer is another one now
  await sql`update refunds set paid_log_index = paid_log_index + 1000 where id = ${refundId}`;
  expectRefusal(await refund(linkId, { amount: "0.300001" }), 409, { refundable: 0.3 });
  expectRefusal(await ask(linkId, { amount: "0.300001" }), 409, { refundable: 0.3 });
  expect((await refund(linkId, { amount: "0.3" })).status).toBe(201);
});

describe("who may", () => {
  test("error: an API key of another scope is refused, one with the scope never prepares, signs or cancels", async () => {
    const { linkId } = await paidByX402(1);
    const { refundId } = (await ask(linkId)).body;
    const reader = await makeKey(merchant, ["links:read", "links:write", "transactions:read", "webhooks"]);
    const lacking = [
      await program().post(`/v1/payment-links/${linkId}/refund-requests`, {}, reader.headers),
      await program().get(`/v1/payment-links/${linkId}/refunds`, reader.headers),
      await program().get("/v1/refunds", reader.headers),
      await program().get(`/v1/refunds/${refundId}`, reader.headers),
    ];
    for (const answer of lacking) expectRefusal(answer, 403, { field: "scope" });
    const signing = ["prepare", "confirm", "cancel", "void"].map((name) => `/v1/refunds/${refundId}/${name}`);
    for (const path of [...signing, `/v1/payment-links/${linkId}/refunds`]) {
      const answer = await program().post(path, {}, key.headers);
      expectRefusal(answer, 403, { issue: "session_required" });
    }
    expect((await program().post(`/v1/payment-links/${linkId}/refund-requests`, {})).status).toBe(401);
    expect((await program().get("/v1/refunds")).status).toBe(401);
    expect((await merchant.client.get(`/v1/refunds/${refundId}`)).body.status).toBe("REQUESTED");
  });

  test("error: another merchant's link and request are unknown on every route, also to their keys", async () => {
    const { linkId } = await paidByX402(1);
    const { refundId } = (await ask(linkId)).body;
    const stranger = await signUp(world.baseUrl);
    const { headers } = await makeKey(stranger, ["refunds:request"]);
    const confirmation = { challengeId: newChallengeId(), passkeyResponse: await anAssertion() };
    const answers = [
      await stranger.client.post(`/v1/payment-links/${linkId}/refund-requests`, {}),
      await stranger.client.get(`/v1/refunds/${refundId}`),
      await stranger.client.post(`/v1/refunds/${refundId}/prepare`, {}),
      await stranger.client.post(`/v1/refunds/${refundId}/confirm`, confirmation),
      await stranger.client.post(`/v1/refunds/${refundId}/cancel`, {}),
      await stranger.client.post(`/v1/refunds/${refundId}/void`, {}),
      await program().post(`/v1/payment-links/${linkId}/refund-requests`, {}, headers),
      await program().get(`/v1/payment-links/${linkId}/refunds`, headers),
      await program().get(`/v1/refunds/${refundId}`, headers),
    ];
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404));
    expect((await stranger.client.get("/v1/refunds")).body.refunds).toEqual([]);
    expect((await merchant.client.get(`/v1/refunds/${refundId}`)).body.status).toBe("REQUESTED");
  });

  async function anAssertion() {
    return merchant.passkey.authenticate({ challenge: Buffer.alloc(32).toString("base64url") });
  }
});

test("the list of refunds is newest first, page by page, and filtered by status", async () => {
  const { linkId } = await paidByX402(1);
  const made: string[] = [];
  for (let count = 0; count < 3; count++)
    made.unshift((await ask(linkId, { amount: "0.1", toAddress: randomAddress() })).body.refundId);
  const first = (await merchant.client.get("/v1/refunds?limit=2")).body;
  const second = (await merchant.client.get(`/v1/refunds?limit=1&cursor=${first.nextCursor}`)).body;
  const ids = [...first.refunds, ...second.refunds].map(({ refundId }) => refundId);
  expect(ids).toEqual(made);
  expect(first.pagination).toEqual({ hasNextPage: true, limit: 2 });
  const broken = await merchant.client.get("/v1/refunds?cursor=nonsense");
  expectRefusal(broken, 400, { field: "cursor" });
  expect((await merchant.client.get("/v1/refunds?status=NONSENSE")).status).toBe(400);
  expect((await merchant.client.get("/v1/refunds?limit=101")).status).toBe(400);
  await cancel(made[1] ?? "");
  const cancelled = (await merchant.client.get("/v1/refunds?status=CANCELLED&limit=1")).body.refunds;
  expect(cancelled[0]?.refundId).toBe(made[1]);
});
