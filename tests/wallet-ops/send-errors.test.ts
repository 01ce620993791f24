/** What a send's preparation and confirmation refuse, each rule just inside and just outside. API and chain only: nothing is relayed. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { encodeFunctionData, getAddress, parseAbi } from "viem";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, openClient } from "../support/http-client.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { confirmSend, prepareSend } from "../support/sends.ts";
import { type Merchant, newPasskey, signUp } from "../support/sign-up.ts";

const PREPARE = "/v1/wallets/send/prepare";
const CONFIRM = "/v1/wallets/send/confirm";
const USDC = NETWORKS["base-sepolia"].usdc.address;
const TO: Hex = "0x52908400098527886e0f7030069857d2e4169ee7";

let world: ApiWorld;
let merchant: Merchant;

beforeAll(async () => {
  world = await startApiWorld({ env: { NETWORKS: "base-sepolia" } });
  merchant = await funded(5_000_000n);
}, 60_000);
afterAll(() => world?.stop());

async function funded(units: bigint): Promise<Merchant> {
  const made = await signUp(world.baseUrl);
  await fundUsdc(world.chainOf("base-sepolia").rpcUrl, made.walletAddress as Hex, units);
  return made;
}

function prepare(body: unknown, headers?: Record<string, string>): Promise<Answer> {
  return merchant.client.post(PREPARE, body, headers);
}

function expectRefusal(answer: Answer, status: number, details: Record<string, unknown>): void {
  expect({ status: answer.status, details: answer.body?.error?.details }).toMatchObject({ status, details });
}

async function stateOf(sendId: string): Promise<string | undefined> {
  const [row] = await world.sql<
    { state: string }[]
  >`select state from wallet_operations where id = ${sendId}`;
  return row?.state;
}

describe("a recipient", () => {
  const refused: [string, string, string][] = [
    ["no address", "0x1234", "invalid"],
    ["no address, but its length", `0x${"g".repeat(40)}`, "invalid"],
    ["the zero address", `0x${"0".repeat(40)}`, "zero_address"],
    ["the token", USDC, "token_contract"],
    ["the EntryPoint", CONTRACTS.entryPointV06, "not_a_recipient"],
    ["the factory", CONTRACTS.smartWalletFactory, "not_a_recipient"],
    ["a wrong checksum", "0x52908400098527886E0F7030069857D2E4169Ee7", "bad_checksum"],
  ];
  for (const [what, to, issue] of refused) {
    test(`error: ${what} is refused as ${issue}`, async () => {
      expectRefusal(await prepare({ to, amount: "1" }), 400, { field: "to", issue });
    });
  }

  test("error: the wallet itself is refused as own_wallet", async () => {
    const answer = await prepare({ to: merchant.walletAddress, amount: "1" });
    expectRefusal(answer, 400, { field: "to", issue: "own_wallet" });
  });

  test("is taken in lower case, in upper case and with its checksum", async () => {
    for (const to of [TO, `0x${TO.slice(2).toUpperCase()}`, getAddress(TO)]) {
      const { body } = await prepare({ to, amount: "1" });
      expect(body.summary.payments).toEqual([{ to: TO, amount: "1.000000", note: "" }]);
    }
  });

  test("error: one of several is named by its place", async () => {
    const payments = [
      { to: TO, amount: "1" },
      { to: USDC, amount: "1" },
    ];
    expectRefusal(await prepare({ payments }), 400, { field: "payments.1.to", issue: "token_contract" });
  });

  test("error: 403 payment_not_allowed names who is blocked by the token", async () => {
    const blocked = randomAddress();
    const { rpcUrl } = world.chainOf("base-sepolia");
    const data = encodeFunctionData({
      abi: parseAbi(["function blacklist(address account)"]),
      functionName: "blacklist",
      args: [blocked],
    });
    const from = localAccount(9).address;
    await callRpc(rpcUrl, "eth_sendTransaction", [{ from, to: USDC, data, gas: "0x30d40" }]);
    const payments = [
      { to: TO, amount: "1" },
      { to: blocked, amount: "1" },
    ];
    expectRefusal(await prepare({ payments }), 403, {
      issue: "payment_not_allowed",
      position: 1,
      to: blocked,
    });
  });
});

describe("an amount", () => {
  for (const amount of [0, -1, "0", "-1", "0.0000001", 0.0000001, "1e1", "1,5", "abc", "", null, true]) {
    test(`error: ${JSON.stringify(amount)} is refused`, async () => {
      expectRefusal(await prepare({ to: TO, amount }), 400, { field: "amount" });
    });
  }

  test("error: below SEND_MIN is below_minimum, SEND_MIN itself is taken", async () => {
    const below = await prepare({ to: TO, amount: "0.009999" });
    expectRefusal(below, 400, { field: "amount", issue: "below_minimum" });
    expect((await prepare({ to: TO, amount: "0.01" })).status).toBe(201);
  });

  test("error: a micro-USDC over the balance is insufficient_funds, the balance itself is taken", async () => {
    const over = await prepare({ to: TO, amount: "5.000001" });
    expectRefusal(over, 409, { field: "amount", issue: "insufficient_funds" });
    const { body } = await prepare({ to: TO, amount: 5 });
    expect(body.summary).toMatchObject({ total: "5.000000", balanceAfter: "0.000000" });
  });

  test("error: the sum of a payout is compared with the balance", async () => {
    const payments = [
      { to: TO, amount: "2.5" },
      { to: randomAddress(), amount: "2.500001" },
    ];
    expectRefusal(await prepare({ payments }), 409, { issue: "insufficient_funds" });
  });

  test("error: an amount beyond every supply is insufficient_funds, not a failure", async () => {
    const answer = await prepare({ to: TO, amount: "999999999999999999" });
    expectRefusal(answer, 409, { issue: "insufficient_funds" });
  });
});

describe("a payout", () => {
  const of = (count: number) => Array.from({ length: count }, () => ({ to: TO, amount: "0.01" }));

  test("error: 0 and 101 recipients and both forms are refused, 100 are taken", async () => {
    expectRefusal(await prepare({ payments: [] }), 400, { field: "payments" });
    expectRefusal(await prepare({ payments: of(101) }), 400, { field: "payments" });
    expectRefusal(await prepare({ payments: of(1), to: TO, amount: "1" }), 400, { field: "payments" });
    const { body, status } = await prepare({ payments: of(100) });
    expect(status).toBe(201);
    expect(body.summary.total).toBe("1.000000");
  });

  test("error: neither form names `to`", async () => {
    expectRefusal(await prepare({}), 400, { field: "to" });
  });
});

describe("who may send", () => {
  test("error: 404 without a wallet, 400 for a network that is not enabled", async () => {
    expectRefusal(await prepare({ network: "base", to: TO, amount: "1" }), 400, { field: "network" });
    await world.sql`update wallets set network = 'base' where user_id = ${merchant.userId}`;
    expect((await prepare({ to: TO, amount: "1" })).status).toBe(404);
    await world.sql`update wallets set network = 'base-sepolia' where user_id = ${merchant.userId}`;
    expect((await prepare({ to: TO, amount: "1" })).status).toBe(201);
  });

  test("error: an API key of any scope is refused on every route", async () => {
    const key = await merchant.client.post("/v1/api-keys", {
      name: "Shop",
      scopes: ["links:read", "links:write", "transactions:read", "exports", "webhooks"],
    });
    expect(key.status).toBe(201);
    const stranger = openClient(world.baseUrl);
    const headers = { authorization: `Bearer ${key.body.data.key}` };
    const { sendId } = await prepareSend(merchant, { to: TO, amount: "1" });
    const answers = [
      await stranger.post(PREPARE, { to: TO, amount: "1" }, headers),
      await stranger.post(CONFIRM, {}, headers),
      await stranger.get("/v1/wallets/sends", headers),
      await stranger.get(`/v1/wallets/sends/${sendId}`, headers),
      await stranger.post(`/v1/wallets/sends/${sendId}/cancel`, {}, headers),
    ];
    for (const answer of answers) expect([401, 403]).toContain(answer.status);
  });

  test("error: another user's send is unknown on every route, and stays as it is", async () => {
    const prepared = await prepareSend(merchant, { to: TO, amount: "1" });
    const other = await funded(1_000_000n);
    const { client, passkey } = other;
    expect((await client.get(`/v1/wallets/sends/${prepared.sendId}`)).status).toBe(404);
    expect((await client.post(`/v1/wallets/sends/${prepared.sendId}/cancel`, {})).status).toBe(404);
    const passkeyResponse = await passkey.authenticate({ challenge: prepared.passkeyChallenge.challenge });
    const { sendId, challengeId } = prepared;
    expect((await client.post(CONFIRM, { sendId, challengeId, passkeyResponse })).status).toBe(404);
    const own = await prepareSend(other, { to: TO, amount: "1" });
    const swapped = { sendId: own.sendId, challengeId, passkeyResponse };
    expectRefusal(await client.post(CONFIRM, swapped), 400, { field: "challengeId" });
    expect((await client.get("/v1/wallets/sends")).body.sends).toHaveLength(1);
    expect(await stateOf(sendId)).toBe("AWAITING_SIGNATURE");
  });
});

describe("a signature", () => {
  const origin = "http://evil.example";
  const quirks: [string, Parameters<typeof confirmSend>[2]][] = [
    ["another origin", { origin }],
    ["another RP id", { rpId: "evil.example" }],
    ["no user verification", { userVerified: false }],
    ["no user presence", { userPresent: false }],
    ["another challenge", { challenge: Buffer.alloc(32, 7).toString("base64url") }],
    ["a frame of another site", { crossOrigin: true }],
    ["a registration", { type: "webauthn.create" }],
  ];
  for (const [what, quirk] of quirks) {
    test(`error: ${what} is not_verified and uses the challenge up`, async () => {
      const prepared = await prepareSend(merchant, { to: TO, amount: "1" });
      const refused = await confirmSend(merchant, prepared, quirk);
      expectRefusal(refused, 400, { field: "passkeyResponse", issue: "not_verified" });
      const late = await confirmSend(merchant, prepared);
      expectRefusal(late, 400, { field: "challengeId", issue: "invalid_or_expired" });
      expect(await stateOf(prepared.sendId)).toBe("AWAITING_SIGNATURE");
    });
  }

  test("error: another passkey is not_verified", async () => {
    const prepared = await prepareSend(merchant, { to: TO, amount: "1" });
    const passkey = await newPasskey(world.baseUrl);
    const { challenge, rpId } = prepared.passkeyChallenge;
    const answer = await merchant.client.post(CONFIRM, {
      ...{ sendId: prepared.sendId, challengeId: prepared.challengeId },
      passkeyResponse: await passkey.authenticate({ challenge, rpId }),
    });
    expectRefusal(answer, 400, { field: "passkeyResponse", issue: "not_verified" });
  });

  test("error: another credential's answer under this credential's id is not_verified", async () => {
    const prepared = await prepareSend(merchant, { to: TO, amount: "1" });
    const { challenge, rpId } = prepared.passkeyChallenge;
    const forged = await (await newPasskey(world.baseUrl)).authenticate({ challenge, rpId });
    const { credentialId: id } = merchant.passkey;
    const answer = await merchant.client.post(CONFIRM, {
      ...{ sendId: prepared.sendId, challengeId: prepared.challengeId },
      passkeyResponse: { ...forged, id, rawId: id },
    });
    expectRefusal(answer, 400, { field: "passkeyResponse", issue: "not_verified" });
  });

  test("error: a sign-in's challenge does not confirm a send, and a send's does not sign in", async () => {
    const prepared = await prepareSend(merchant, { to: TO, amount: "1" });
    const options = await merchant.client.post("/v1/auth/options", { email: merchant.email });
    const confirmed = await merchant.client.post(CONFIRM, {
      ...{ sendId: prepared.sendId, challengeId: options.body.challengeId },
      passkeyResponse: await merchant.passkey.authenticate(options.body),
    });
    expectRefusal(confirmed, 400, { field: "challengeId" });
    const signedIn = await openClient(world.baseUrl).post("/v1/auth/verify", {
      ...{ challengeId: prepared.challengeId, email: merchant.email },
      authenticationResponse: await merchant.passkey.authenticate(prepared.passkeyChallenge),
    });
    expect(signedIn.status).toBe(401);
  });

  test("error: after ten minutes it is EXPIRED and refused, a second before it is taken", async () => {
    const user = await funded(2_000_000n);
    const age = (id: string, seconds: number) => world.sql`
      with op as (
        update wallet_operations set expires_at = expires_at - make_interval(secs => ${seconds})
        where id = ${id} returning challenge_id
      )
      update challenges set expires_at = expires_at - make_interval(secs => ${seconds})
      from op where challenges.id = op.challenge_id`;
    const late = await prepareSend(user, { to: TO, amount: "1" });
    await age(late.sendId, 600);
    expectRefusal(await confirmSend(user, late), 400, { field: "challengeId", issue: "invalid_or_expired" });
    const shown = await user.client.get(`/v1/wallets/sends/${late.sendId}`);
    expect(shown.body).toMatchObject({ status: "EXPIRED", stillPossible: true });
    const listed = await user.client.get("/v1/wallets/sends?status=EXPIRED");
    expect(listed.body.sends.map(({ sendId }: { sendId: string }) => sendId)).toEqual([late.sendId]);
    const intime = await prepareSend(user, { to: TO, amount: "1" });
    await age(intime.sendId, 590);
    expect((await confirmSend(user, intime)).status).toBe(202);
  });

  test("error: a row that was changed after preparation does not make its hash: nothing is queued", async () => {
    const prepared = await prepareSend(merchant, { to: TO, amount: "1" });
    await world.sql`
      update wallet_operations set call_data = replace(call_data, ${TO.slice(2)}, ${randomAddress().slice(2)})
      where id = ${prepared.sendId}`;
    expect((await confirmSend(merchant, prepared)).status).toBe(500);
    expect(await stateOf(prepared.sendId)).toBe("AWAITING_SIGNATURE");
  });
});

describe("a confirmed send", () => {
  test("answers the same assertion again, also many at once, and refuses another one", async () => {
    const user = await funded(2_000_000n);
    const prepared = await prepareSend(user, { to: TO, amount: "1" });
    const { sendId, challengeId } = prepared;
    const passkeyResponse = await user.passkey.authenticate(prepared.passkeyChallenge);
    const body = { sendId, challengeId, passkeyResponse };
    const answers = await Promise.all(Array.from({ length: 8 }, () => user.client.post(CONFIRM, body)));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(202));
    const ids = answers.map(({ body: { transaction } }) => transaction.id);
    expect(new Set(ids).size).toBe(1);
    expect(await world.sql`select from transactions where operation_id = ${sendId}`).toHaveLength(1);
    const other = await confirmSend(user, prepared, { s: "low", clientDataAfter: { extra: "1" } });
    expectRefusal(other, 409, { issue: "already_confirmed" });
    expect((await user.client.post(`/v1/wallets/sends/${sendId}/cancel`, {})).status).toBe(409);
  });

  test("error: while it is on its way the wallet prepares nothing else, and another tab's is nonce_taken", async () => {
    const user = await funded(2_000_000n);
    const [first, second] = [
      await prepareSend(user, { to: TO, amount: "1" }),
      await prepareSend(user, { to: TO, amount: "1" }),
    ];
    expect(first.userOpHash).not.toBe(second.userOpHash);
    expect(first.userOperation.nonce).toBe(second.userOperation.nonce);
    const answers = await Promise.all([confirmSend(user, first), confirmSend(user, second)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409]);
    const loser = answers.find(({ status }) => status === 409);
    expectRefusal(loser as Answer, 409, { issue: "nonce_taken" });
    const winner = answers.find(({ status }) => status === 202)?.body.sendId;
    const answer = await user.client.post(PREPARE, { to: TO, amount: "1" });
    expectRefusal(answer, 409, { issue: "operation_in_flight", id: winner });
    expect(await world.sql`select from transactions where user_id = ${user.userId}`).toHaveLength(1);
  });

  test("error: once another operation has spent its nonce it is nonce_taken", async () => {
    const user = await funded(2_000_000n);
    const prepared = await prepareSend(user, { to: TO, amount: "1" });
    await world.sql`
      insert into wallet_operation_events (
        network, block_number, block_hash, tx_hash, log_index, user_op_hash, sender, nonce, succeeded, gas_used
      )
      values (
        'base-sepolia', 1, '0x01', '0x02', 3, '0x04', ${user.walletAddress}, ${prepared.userOperation.nonce}::text::numeric,
        true, 1
      )`;
    expectRefusal(await confirmSend(user, prepared), 409, { issue: "nonce_taken" });
    expect(await stateOf(prepared.sendId)).toBe("AWAITING_SIGNATURE");
  });

  test("error: a cancelled send is refused as cancelled, and cannot be cancelled again", async () => {
    const prepared = await prepareSend(merchant, { to: TO, amount: "1" });
    const cancel = `/v1/wallets/sends/${prepared.sendId}/cancel`;
    const cancelled = await merchant.client.post(cancel, {});
    expect(cancelled.body).toMatchObject({ status: "CANCELLED", stillPossible: true });
    expectRefusal(await confirmSend(merchant, prepared), 409, { issue: "cancelled" });
    expectRefusal(await merchant.client.post(cancel, {}), 409, { issue: "CANCELLED" });
  });
});

describe("an Idempotency-Key", () => {
  test("gives the same send again, as it is now, and is free once that was cancelled", async () => {
    const headers = { "idempotency-key": "key-1" };
    const body = { to: TO, amount: "1", note: "Rent" };
    const first = await prepare(body, headers);
    const again = await prepare(body, headers);
    expect([first.status, again.status]).toEqual([201, 201]);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    const other = await prepare({ ...body, amount: "1.01" }, headers);
    expectRefusal(other, 409, { field: "Idempotency-Key" });
    await merchant.client.post(`/v1/wallets/sends/${first.body.sendId}/cancel`, {});
    const fresh = await prepare(body, headers);
    expect(fresh.body.sendId).not.toBe(first.body.sendId);
  });

  test("sixteen at once prepare one send", async () => {
    const headers = { "idempotency-key": "key-2" };
    const answers = await Promise.all(
      Array.from({ length: 16 }, () => prepare({ to: TO, amount: "1" }, headers)),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
    expect(new Set(answers.map(({ body }) => body.sendId)).size).toBe(1);
  });
});

describe("the list of sends", () => {
  test("is newest first, page by page", async () => {
    const user = await funded(2_000_000n);
    const made: string[] = [];
    for (let count = 0; count < 3; count++) {
      made.unshift((await prepareSend(user, { to: TO, amount: "1" })).sendId);
    }
    const first = (await user.client.get("/v1/wallets/sends?limit=2")).body;
    const second = (await user.client.get(`/v1/wallets/sends?limit=2&cursor=${first.nextCursor}`)).body;
    const ids = [...first.sends, ...second.sends].map(({ sendId }) => sendId);
    expect(ids).toEqual(made);
    expect([first.pagination.hasNextPage, second.pagination.hasNextPage]).toEqual([true, false]);
    expect(second.nextCursor).toBeNull();
    const broken = await user.client.get("/v1/wallets/sends?cursor=nonsense");
    expectRefusal(broken, 400, { field: "cursor" });
  });
});

describe("warnings", () => {
  test("tell of a recipient that was never paid, one that resembles a known one, and a contract", async () => {
    const user = await funded(2_000_000n);
    const known: Hex = `0xabcd${"1".repeat(32)}1234`;
    await world.sql`
      insert into transactions (id, user_id, network, type, status, amount_units, counterparty, detected_at)
      values (${`txn_${Bun.randomUUIDv7()}`}, ${user.userId}, 'base-sepolia', 'SEND', 'CONFIRMED', 1, ${known}, now())`;
    const codesFor = async (to: Hex) =>
      (await prepareSend(user, { to, amount: "1" })).warnings.map(({ code }: { code: string }) => code);
    expect(await codesFor(known)).toEqual(["single_owner"]);
    expect(await codesFor(`0xabcd${"2".repeat(32)}1234`)).toEqual([
      ...["new_recipient", "resembles_known_recipient", "single_owner"],
    ]);
    expect(await codesFor(`0xabce${"1".repeat(32)}1234`)).toEqual(["new_recipient", "single_owner"]);
    expect(await codesFor(deterministicDeployer())).toContain("recipient_is_contract");
  });
});

/** A contract that is none of the wallet's infrastructure: the deterministic deployer. */
function deterministicDeployer(): Hex {
  return "0x4e59b44847b379578588920ca78fbf26c0b4956c";
}

test("error: 500 network_unreachable, retryable, while no node answers", async () => {
  await world.chainOf("base-sepolia").stop();
  const answer = await prepare({ to: TO, amount: "1" });
  expectRefusal(answer, 500, { issue: "network_unreachable", retryable: true });
});
