/** The wallet on a second network, and balances. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { createSoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, openClient } from "../support/http-client.ts";
import { newPasskey, signUp, verifiedUser } from "../support/sign-up.ts";

let world: ApiWorld;

beforeAll(async () => {
  world = await startApiWorld({ networks: ["base", "base-sepolia"], env: { NETWORKS: "base,base-sepolia" } });
}, 120_000);
afterAll(() => world?.stop());

const START = "/v1/wallets/setup/start";
const COMPLETE = "/v1/wallets/setup/complete";

function expectInvalid(answer: Answer): void {
  expect(answer.status).toBe(400);
  expect(answer.body.error).toMatchObject({
    code: "VALIDATION_ERROR",
    details: { field: "passkeyResponse" },
  });
  expect(answer.headers.getSetCookie()).toEqual([]);
}

describe("a second network", () => {
  test("uses the existing passkey: same address, two wallets, one passkey", async () => {
    const { client, passkey, walletAddress, userId } = await signUp(world.baseUrl);
    const { body } = await client.post(START, { network: "base" });
    expect(body.passkeyChallenge.excludeCredentials).toMatchObject([{ id: passkey.credentialId }]);
    expect(body.passkeyRequest).toMatchObject({
      challenge: body.passkeyChallenge.challenge,
      rpId: "localhost",
      userVerification: "required",
      allowCredentials: [{ id: passkey.credentialId, type: "public-key" }],
    });
    const answer = await client.post(COMPLETE, {
      challengeId: body.challengeId,
      network: "base",
      passkeyResponse: await passkey.authenticate(body.passkeyRequest),
    });
    expect(answer.status).toBe(200);
    expect(answer.body.wallet).toMatchObject({ address: walletAddress, network: "base" });
    const me = await client.get("/v1/auth/me");
    expect(me.body.wallets.map(({ network }: { network: string }) => network)).toEqual([
      "base-sepolia",
      "base",
    ]);
    expect(await world.sql`select 1 from passkeys where user_id = ${userId}`).toHaveLength(1);
  });

  test("error: registering the user's own passkey without its key neither adds a wallet nor counts as its use", async () => {
    const { client, passkey, userId } = await signUp(world.baseUrl);
    await world.sql`update sessions set passkey_at = null where user_id = ${userId}`;
    const thief = await createSoftwarePasskey({
      rpId: "localhost",
      origin: world.baseUrl,
      credentialId: passkey.credentialId,
    });
    const point = {
      x: Buffer.from(passkey.publicKey.x.slice(2), "hex"),
      y: Buffer.from(passkey.publicKey.y.slice(2), "hex"),
    };
    const { body } = await client.post(START, { network: "base" });
    const { excludeCredentials: _, ...creation } = body.passkeyChallenge;
    const passkeyResponse = await thief.register(creation, { point });
    const answer = await client.post(COMPLETE, { challengeId: body.challengeId, passkeyResponse });
    expect(answer.status).toBe(409);
    expect(answer.body.error.details).toMatchObject({ issue: "existing_passkey_required" });
    expect(await world.sql`select 1 from wallets where user_id = ${userId}`).toHaveLength(1);
    const key = await client.post("/v1/api-keys", { name: "thief's", scopes: ["exports"] });
    expect(key.body.error).toMatchObject({ details: { issue: "passkey_required" } });
  });

  test("error: 409 for a network where the wallet exists, at start and at complete", async () => {
    const { client, passkey } = await signUp(world.baseUrl);
    expect((await client.post(START, {})).status).toBe(409);
    const first = (await client.post(START, { network: "base" })).body;
    const second = (await client.post(START, { network: "base" })).body;
    const complete = async (started: typeof first) =>
      client.post(COMPLETE, {
        challengeId: started.challengeId,
        passkeyResponse: await passkey.authenticate(started.passkeyRequest),
      });
    expect((await complete(first)).status).toBe(200);
    const answer = await complete(second);
    expect(answer.status).toBe(409);
    expect(answer.body.error).toMatchObject({ code: "CONFLICT", details: { field: "network" } });
  });

  test("error: a session alone does not allow adding a passkey to an ACTIVE user", async () => {
    const { client, userId } = await signUp(world.baseUrl);
    const thief = await newPasskey(world.baseUrl);
    const { body } = await client.post(START, { network: "base" });
    const passkeyResponse = await thief.register(body.passkeyChallenge);
    const answer = await client.post(COMPLETE, { challengeId: body.challengeId, passkeyResponse });
    expect(answer.status).toBe(409);
    expect(await world.sql`select 1 from passkeys where user_id = ${userId}`).toHaveLength(1);
    expect(await world.sql`select 1 from wallets where user_id = ${userId}`).toHaveLength(1);
  });

  test("error: the assertion must be from the user's own passkey, with user verification", async () => {
    const { client, passkey } = await signUp(world.baseUrl);
    const stranger = await signUp(world.baseUrl);
    for (const [key, quirks] of [
      [stranger.passkey, {}],
      [passkey, { userVerified: false }],
      [
        await createSoftwarePasskey({
          rpId: "localhost",
          origin: world.baseUrl,
          credentialId: passkey.credentialId,
        }),
        {},
      ],
    ] as const) {
      const { body } = await client.post(START, { network: "base" });
      const passkeyResponse = await key.authenticate(
        { ...body.passkeyRequest, allowCredentials: [] },
        quirks,
      );
      expectInvalid(await client.post(COMPLETE, { challengeId: body.challengeId, passkeyResponse }));
    }
  });
});

describe("GET /v1/wallets/balance", () => {
  test("reads the chain at request time, with six places", async () => {
    const { client, walletAddress } = await signUp(world.baseUrl);
    const read = () => client.get("/v1/wallets/balance");
    expect((await read()).body).toEqual({
      wallet: { address: walletAddress, network: "base-sepolia", deployed: false },
      balance: { token: "USDC", amount: "0.000000", decimals: 6, symbol: "$" },
    });
    await fundUsdc(world.chainOf("base-sepolia").rpcUrl, walletAddress as Hex, 12_340_001n);
    expect((await read()).body.balance.amount).toBe("12.340001");
  });

  test("error: 404 where the user has no wallet, 400 for an unknown network, 401 and 403 without permission", async () => {
    const { client } = await signUp(world.baseUrl);
    const none = await client.get("/v1/wallets/balance?network=base");
    expect(none.status).toBe(404);
    expect(none.body.error.code).toBe("NOT_FOUND");
    expect((await client.get("/v1/wallets/balance?network=ethereum")).status).toBe(400);
    expect((await openClient(world.baseUrl).get("/v1/wallets/balance")).status).toBe(401);
    const pending = await verifiedUser(world.baseUrl);
    expect((await pending.client.get("/v1/wallets/balance")).status).toBe(403);
  });

  test("error: 500, never zero, while no node answers", async () => {
    const { client } = await signUp(world.baseUrl);
    process.kill(world.chainOf("base-sepolia").pid, "SIGSTOP");
    const answer = await client.get("/v1/wallets/balance").finally(() => {
      process.kill(world.chainOf("base-sepolia").pid, "SIGCONT");
    });
    expect(answer.status).toBe(500);
    expect(answer.body.error).toMatchObject({
      code: "INTERNAL_ERROR",
      details: { issue: "network_unreachable" },
    });
    expect(answer.text).not.toContain("127.0.0.1");
  }, 120_000);
});
