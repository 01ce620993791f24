/** From a verified address to a wallet: the documented fields, the second network, and what must be refused. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createWallet } from "../../api/accounts/create-wallet.ts";
import { accountAddress, accountOriginOf } from "../../core/chain/passkey-account.ts";
import { CONTRACTS } from "../../core/domain/networks.ts";
import { callRpcText } from "../../local/chain/rpc.ts";
import type { PasskeyQuirks, SoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { newEmail, newPasskey, signUp, verifiedUser } from "../support/sign-up.ts";
import { untilBlocked } from "../support/until-blocked.ts";

let world: ApiWorld;

beforeAll(async () => {
  world = await startApiWorld({
    networks: ["base", "base-sepolia"],
    env: { NETWORKS: "base,base-sepolia", PASSKEY_ATTACHMENT: "platform" },
  });
}, 120_000);
afterAll(() => world?.stop());

const START = "/v1/wallets/setup/start";
const COMPLETE = "/v1/wallets/setup/complete";

async function attempt(client: Client, passkey: SoftwarePasskey, quirks?: PasskeyQuirks): Promise<Answer> {
  const { body } = await client.post(START, {});
  const passkeyResponse = await passkey.register(body.passkeyChallenge, quirks);
  return client.post(COMPLETE, { challengeId: body.challengeId, passkeyResponse });
}

function expectInvalid(answer: Answer, field = "passkeyResponse"): void {
  expect(answer.status).toBe(400);
  expect(answer.body.error).toMatchObject({ code: "VALIDATION_ERROR", details: { field } });
  expect(answer.headers.getSetCookie()).toEqual([]);
}

describe("POST /v1/wallets/setup/start", () => {
  test("returns the documented creation options, challengeId at the top and inside", async () => {
    const { client, userId, email } = await verifiedUser(world.baseUrl);
    const { status, body } = await client.post(START, {});
    expect(status).toBe(200);
    expect(body).toMatchObject({
      userId,
      passkeyChallenge: {
        challengeId: body.challengeId,
        timeout: 60_000,
        rp: { name: "USDC Payments", id: "localhost" },
        user: { id: Buffer.from(userId).toString("base64url"), name: email, displayName: email },
        pubKeyCredParams: [{ alg: -7, type: "public-key" }],
        authenticatorSelection: {
          authenticatorAttachment: "platform",
          userVerification: "required",
          requireResidentKey: true,
        },
        attestation: "direct",
        excludeCredentials: [],
      },
      nextStep: "complete-wallet-setup",
    });
    expect(body.passkeyChallenge.pubKeyCredParams).toHaveLength(1);
    expect(Buffer.from(body.passkeyChallenge.challenge, "base64url")).toHaveLength(48);
    expect(typeof body.instructions).toBe("string");
    const [row] = await world.sql<{ network: string }[]>`
      select network from challenges where id = ${body.challengeId}`;
    expect(row?.network).toBe("base-sepolia");
  });

  test("accepts a request without a body", async () => {
    const { client } = await verifiedUser(world.baseUrl);
    expect((await client.post(START)).status).toBe(200);
  });

  test("error: 401 without a session, 400 for an unknown network", async () => {
    expect((await openClient(world.baseUrl).post(START, {})).status).toBe(401);
    const { client } = await verifiedUser(world.baseUrl);
    expectInvalid(await client.post(START, { network: "ethereum" }), "network");
  });
});

test("error: 403 on both steps before the e-mail address is verified", async () => {
  const email = newEmail();
  const client = openClient(world.baseUrl);
  const { body: user } = await client.post("/v1/identity/register", { email });
  const { body: test } = await client.post("/v1/test/token", { email });
  const headers = { "x-test-mode": "true", authorization: `Bearer ${test.token}` };
  const started = await client.post(START, {}, headers);
  expect(started.status).toBe(403);
  expect(started.body.error).toMatchObject({ code: "FORBIDDEN", details: { field: "status" } });
  const passkey = await newPasskey(world.baseUrl);
  const completed = await client.post(
    COMPLETE,
    {
      challengeId: `ch_${crypto.randomUUID()}`,
      passkeyResponse: await passkey.register({ challenge: "AAAA", user: { id: "AAAA" } }),
    },
    headers,
  );
  expect(completed.status).toBe(403);
  expect(await world.sql`select 1 from passkeys where user_id = ${user.userId}`).toHaveLength(0);
});

describe("POST /v1/wallets/setup/complete", () => {
  test("makes the user ACTIVE, the wallet and a new session, in the documented shape", async () => {
    const { client, userId, email } = await verifiedUser(world.baseUrl);
    const passkey = await newPasskey(world.baseUrl);
    const before = client.cookies.get("authToken");
    const answer = await attempt(client, passkey);
    expect(answer.status).toBe(200);
    const address = accountAddress(accountOriginOf(passkey.publicKey));
    expect(answer.body).toEqual({
      user: {
        id: userId,
        email,
        status: "ACTIVE",
        permissions: ["CREATE_PAYMENT_LINK", "VIEW_TRANSACTIONS", "MANAGE_WALLET"],
      },
      wallet: { address, isNewWallet: true, network: "base-sepolia", deployed: false },
      status: "wallet-setup-complete",
      message: expect.any(String),
      autoSignedIn: true,
    });
    expect(client.cookies.get("authToken")).not.toBe(before);
    const stale = openClient(world.baseUrl);
    stale.cookies.set("authToken", before ?? "");
    expect((await stale.get("/v1/auth/me")).status).toBe(401);
    const me = await client.get("/v1/auth/me");
    expect(me.body).toMatchObject({
      status: "ACTIVE",
      hasWallet: true,
      walletAddress: address,
      wallet: { address, network: "base-sepolia" },
      permissions: ["CREATE_PAYMENT_LINK", "VIEW_TRANSACTIONS", "MANAGE_WALLET"],
    });
    expect((await client.get("/v1/auth/status")).body).toEqual({
      status: "ACTIVE",
      completedSteps: ["registration", "email_verification", "wallet_setup", "activation"],
    });
    const events = await world.sql<{ type: string }[]>`
      select type from events where user_id = ${userId} order by id`;
    expect(events.map(({ type }) => type)).toEqual([
      "user.registered",
      "user.verified",
      "wallet.created",
      "user.activated",
    ]);
  });

  test("returns the address that the factory computes on the chain", async () => {
    const { walletAddress, passkey } = await signUp(world.baseUrl);
    const owner = `${passkey.publicKey.x.slice(2)}${passkey.publicKey.y.slice(2)}`;
    const word = (value: number) => value.toString(16).padStart(64, "0");
    // getAddress(bytes[] owners, uint256 nonce)
    const data = `0x250b1b41${word(64)}${word(0)}${word(1)}${word(32)}${word(64)}${owner}`;
    const { rpcUrl } = world.chainOf("base-sepolia");
    const answer = await callRpcText(rpcUrl, "eth_call", [
      { to: CONTRACTS.smartWalletFactory, data },
      "latest",
    ]);
    expect(`0x${answer.slice(26)}`).toBe(walletAddress);
  });

  test("queues the deployment on a testnet, and not on base", async () => {
    const { userId, client, passkey } = await signUp(world.baseUrl);
    const started = await client.post(START, { network: "base" });
    await client.post(COMPLETE, {
      challengeId: started.body.challengeId,
      passkeyResponse: await passkey.authenticate(started.body.passkeyRequest),
    });
    const wallets = await world.sql<{ id: string; network: string }[]>`
      select id, network from wallets where user_id = ${userId} order by network desc`;
    const jobs = await world.sql<{ key: string }[]>`
      select key from graphile_worker.jobs where key = any(${wallets.map(({ id }) => `deploy_wallet:${id}`)})`;
    expect(wallets.map(({ network }) => network)).toEqual(["base-sepolia", "base"]);
    expect(jobs.map(({ key }) => key)).toEqual([`deploy_wallet:${wallets[0]?.id}`]);
  });

  test.each([
    ["an attestation of its own", { attestation: "packed-self" }],
    [
      "members the browser adds to clientDataJSON",
      { clientDataBefore: { other_keys_can_be_added_here: "x" } },
    ],
  ] satisfies [string, PasskeyQuirks][])("accepts %s", async (_name, quirks) => {
    const { client } = await verifiedUser(world.baseUrl);
    expect((await attempt(client, await newPasskey(world.baseUrl), quirks)).status).toBe(200);
  });

  test.each([
    ["another origin", { origin: "https://evil.example" }],
    ["another RP id", { rpId: "evil.example" }],
    ["the type of a sign-in", { type: "webauthn.get" }],
    ["a cross-origin frame", { crossOrigin: true }],
    ["another challenge", { challenge: Buffer.alloc(48, 7).toString("base64url") }],
    ["no user verification", { userVerified: false }],
    ["no user present", { userPresent: false }],
    ["an EdDSA key", { alg: -8 }],
    ["an RSA key", { alg: -257 }],
    ["a key off the curve", { point: { x: Buffer.alloc(32, 1), y: Buffer.alloc(32, 2) } }],
    ["a key with short coordinates", { point: { x: Buffer.alloc(31, 1), y: Buffer.alloc(31, 2) } }],
  ] satisfies [string, PasskeyQuirks][])("error: refuses %s", async (_name, quirks) => {
    const { client, userId } = await verifiedUser(world.baseUrl);
    expectInvalid(await attempt(client, await newPasskey(world.baseUrl), quirks));
    const [user] = await world.sql<{ status: string }[]>`select status from users where id = ${userId}`;
    expect(user?.status).toBe("WALLET_SETUP_PENDING");
    expect(await world.sql`select 1 from passkeys where user_id = ${userId}`).toHaveLength(0);
  });

  test("error: refuses an id that is not the attested one", async () => {
    const { client } = await verifiedUser(world.baseUrl);
    const { body } = await client.post(START, {});
    const response = await (await newPasskey(world.baseUrl)).register(body.passkeyChallenge);
    const id = Buffer.alloc(32, 9).toString("base64url");
    const passkeyResponse = { ...response, id, rawId: id };
    expectInvalid(await client.post(COMPLETE, { challengeId: body.challengeId, passkeyResponse }));
  });

  test("error: a challenge is valid once, for its user, purpose and network, for 60 seconds", async () => {
    const { client } = await verifiedUser(world.baseUrl);
    const passkey = await newPasskey(world.baseUrl);
    const begin = async (from: Client) => (await from.post(START, {})).body;
    const answer = async (started: { passkeyChallenge: { challenge: string } }) =>
      passkey.register(started.passkeyChallenge);

    const failed = await begin(client);
    const wrong = await passkey.register(failed.passkeyChallenge, { origin: "https://evil.example" });
    expectInvalid(await client.post(COMPLETE, { challengeId: failed.challengeId, passkeyResponse: wrong }));
    const right = { challengeId: failed.challengeId, passkeyResponse: await answer(failed) };
    expectInvalid(await client.post(COMPLETE, right), "challengeId");

    const other = await verifiedUser(world.baseUrl);
    const foreign = await begin(other.client);
    const taken = { challengeId: foreign.challengeId, passkeyResponse: await answer(foreign) };
    expectInvalid(await client.post(COMPLETE, taken), "challengeId");

    const elsewhere = await begin(client);
    const onBase = {
      challengeId: elsewhere.challengeId,
      network: "base",
      passkeyResponse: await answer(elsewhere),
    };
    expectInvalid(await client.post(COMPLETE, onBase), "network");

    const late = await begin(client);
    await world.sql`update challenges set expires_at = now() where id = ${late.challengeId}`;
    const tooLate = { challengeId: late.challengeId, passkeyResponse: await answer(late) };
    expectInvalid(await client.post(COMPLETE, tooLate), "challengeId");
  });

  test("error: refuses another user's passkey", async () => {
    const owner = await signUp(world.baseUrl);
    const { client } = await verifiedUser(world.baseUrl);
    expectInvalid(await attempt(client, owner.passkey));
  });

  test("error: refuses the public key of another user's wallet on either network; its owner sets up the second one", async () => {
    const owner = await signUp(world.baseUrl);
    const bytes = (coordinate: string) => Buffer.from(coordinate.slice(2), "hex");
    const point = { x: bytes(owner.passkey.publicKey.x), y: bytes(owner.passkey.publicKey.y) };
    for (const network of ["base", "base-sepolia"]) {
      const { client, userId } = await verifiedUser(world.baseUrl);
      const { body } = await client.post(START, { network });
      const response = await (await newPasskey(world.baseUrl)).register(body.passkeyChallenge, { point });
      expectInvalid(
        await client.post(COMPLETE, { challengeId: body.challengeId, passkeyResponse: response }),
      );
      expect(await world.sql`select 1 from wallets where user_id = ${userId}`).toHaveLength(0);
      expect(await world.sql`select 1 from passkeys where user_id = ${userId}`).toHaveLength(0);
    }
    const { body } = await owner.client.post(START, { network: "base" });
    const passkeyResponse = await owner.passkey.authenticate(body.passkeyRequest);
    const answer = await owner.client.post(COMPLETE, { challengeId: body.challengeId, passkeyResponse });
    expect(answer.body.wallet).toMatchObject({ network: "base", address: owner.walletAddress });
  });

  test("race: of two users with one public key on different networks, the second waits for the first and is refused", async () => {
    const [first, second] = [await newPasskey(world.baseUrl), await newPasskey(world.baseUrl)];
    const bytes = (coordinate: string) => Buffer.from(coordinate.slice(2), "hex");
    const point = { x: bytes(first.publicKey.x), y: bytes(first.publicKey.y) };
    const one = await verifiedUser(world.baseUrl);
    const other = await verifiedUser(world.baseUrl);
    const { body } = await other.client.post(START, { network: "base-sepolia" });
    const passkeyResponse = await second.register(body.passkeyChallenge, { point });
    const credential = {
      id: first.credentialId,
      userId: one.userId,
      publicKeyX: point.x,
      publicKeyY: point.y,
    };
    const completing = await world.sql.begin(async (tx) => {
      await tx`
        insert into passkeys (id, user_id, cose_key, public_key_x, public_key_y, device_type, backed_up, rp_id)
        values (
          ${credential.id}, ${one.userId}, ${Buffer.alloc(77)}, ${point.x}, ${point.y}, 'multiDevice', true, 'localhost'
        )`;
      const deps = { config: { walletDeployment: "lazy" } } as Parameters<typeof createWallet>[1];
      const passkey = credential as unknown as Parameters<typeof createWallet>[2]["passkey"];
      expect(await createWallet(tx, deps, { passkey, network: "base", requestId: "req_1" })).toBeDefined();
      const answering = other.client.post(COMPLETE, { challengeId: body.challengeId, passkeyResponse });
      await untilBlocked(world.sql, answering);
      return { answering };
    });
    expectInvalid(await completing.answering);
    expect(await world.sql`select 1 from wallets where user_id = ${other.userId}`).toHaveLength(0);
  });

  test("race: ten concurrent completions with ten passkeys create one wallet", async () => {
    const { client, userId } = await verifiedUser(world.baseUrl);
    const ready = await Promise.all(
      Array.from({ length: 10 }, async () => {
        const { body } = await client.post(START, {});
        const passkey = await newPasskey(world.baseUrl);
        return {
          challengeId: body.challengeId,
          passkeyResponse: await passkey.register(body.passkeyChallenge),
        };
      }),
    );
    const cookie = `authToken=${client.cookies.get("authToken")}`;
    const answers = await Promise.all(
      ready.map((body) => openClient(world.baseUrl).post(COMPLETE, body, { cookie })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
    expect(await world.sql`select 1 from wallets where user_id = ${userId}`).toHaveLength(1);
    expect(await world.sql`select 1 from passkeys where user_id = ${userId}`).toHaveLength(1);
  });

  test("race: one response sent 20 times concurrently is accepted once", async () => {
    const { client } = await verifiedUser(world.baseUrl);
    const { body } = await client.post(START, {});
    const passkeyResponse = await (await newPasskey(world.baseUrl)).register(body.passkeyChallenge);
    const cookie = `authToken=${client.cookies.get("authToken")}`;
    const given = { challengeId: body.challengeId, passkeyResponse };
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => openClient(world.baseUrl).post(COMPLETE, given, { cookie })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  });

  test("error: 400, never 500, for mutated attestation objects", async () => {
    const { client } = await verifiedUser(world.baseUrl);
    const { body } = await client.post(START, {});
    const good = await (await newPasskey(world.baseUrl)).register(body.passkeyChallenge);
    for (let at = 0; at < 200; at++) {
      const bytes = Buffer.from(good.response.attestationObject, "base64url");
      const index = (at * 37) % bytes.length;
      bytes[index] = (bytes[index] ?? 0) ^ (1 + (at % 255));
      const { body: fresh } = at % 20 === 0 ? await client.post(START, {}) : { body };
      const attestationObject = bytes.subarray(0, at % 7 === 0 ? index : bytes.length).toString("base64url");
      const passkeyResponse = { ...good, response: { ...good.response, attestationObject } };
      const answer = await client.post(COMPLETE, { challengeId: fresh.challengeId, passkeyResponse });
      expect(answer.status).toBe(400);
    }
  });
});
