/** Who may confirm a prepared send, and how often: signatures, challenges, repeats, two tabs. API and chain only: nothing is relayed. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, openClient } from "../support/http-client.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { confirmSend, expectRefusal, prepareSend } from "../support/sends.ts";
import { type Merchant, newPasskey, signUp } from "../support/sign-up.ts";

const PREPARE = "/v1/wallets/send/prepare";
const CONFIRM = "/v1/wallets/send/confirm";
const TO: Hex = "0x52908400098527886e0f7030069857d2e4169ee7";

let world: ApiWorld;
let merchant: Merchant;

beforeAll(async () => {
  world = await startApiWorld();
  merchant = await funded(5_000_000n);
}, 120_000);
afterAll(() => world?.stop());

async function funded(units: bigint): Promise<Merchant> {
  const made = await signUp(world.baseUrl);
  await fundUsdc(world.chainOf("base-sepolia").rpcUrl, made.walletAddress as Hex, units);
  return made;
}

async function stateOf(sendId: string): Promise<string | undefined> {
  const [row] = await world.sql<
    { state: string }[]
  >`select state from wallet_operations where id = ${sendId}`;
  return row?.state;
}

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
    test(`error: ${what} is not_verified, uses up the challenge, and ends the send`, async () => {
      const prepared = await prepareSend(merchant, { to: TO, amount: "1" });
      const refused = await confirmSend(merchant, prepared, quirk);
      expectRefusal(refused, 400, { field: "passkeyResponse", issue: "not_verified" });
      const late = await confirmSend(merchant, prepared);
      expectRefusal(late, 400, { field: "challengeId", issue: "invalid_or_expired" });
      expect(await stateOf(prepared.sendId)).toBe("EXPIRED");
    });
  }

  test("after one that is not_verified, the same Idempotency-Key prepares a send that can be signed", async () => {
    const user = await funded(1_000_000n);
    const [asked, key] = [{ to: TO, amount: "1" }, { "idempotency-key": "order-7" }];
    const refused = await confirmSend(user, await prepareSend(user, asked, key), { origin });
    expectRefusal(refused, 400, { issue: "not_verified" });
    expect((await confirmSend(user, await prepareSend(user, asked, key))).status).toBe(202);
  });

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

  test("error: after ten minutes it is EXPIRED and refused, a second before it is accepted", async () => {
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

  test("error: a row that was changed after preparation does not match its hash: nothing is queued", async () => {
    const prepared = await prepareSend(merchant, { to: TO, amount: "1" });
    await world.sql`
      update wallet_operations set call_data = replace(call_data, ${TO.slice(2)}, ${randomAddress().slice(2)})
      where id = ${prepared.sendId}`;
    expect((await confirmSend(merchant, prepared)).status).toBe(500);
    expect(await stateOf(prepared.sendId)).toBe("AWAITING_SIGNATURE");
  });
});

describe("a confirmed send", () => {
  test("returns the same answer for the same assertion, even concurrently, and refuses another one", async () => {
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

  test("error: while it is in flight the wallet prepares nothing else, and another tab's is nonce_taken", async () => {
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
    expect(await world.sql`select from transactions where owner = owner_key(${user.userId})`).toHaveLength(1);
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
