/** Sign-in with a passkey: the documented responses, and everything that must be refused. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createSoftwarePasskey, type PasskeyQuirks } from "../../local/passkey/software-passkey.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import {
  ageCodes,
  type Merchant,
  newEmail,
  newPasskey,
  signIn,
  signUp,
  verifiedUser,
} from "../support/sign-up.ts";

let world: ApiWorld;
let client: Client;
let merchant: Merchant;
let other: Merchant;

beforeAll(async () => {
  world = await startApiWorld();
  client = openClient(world.baseUrl);
  merchant = await signUp(world.baseUrl);
  other = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

const optionsFor = async (email: string) => (await client.post("/v1/auth/options", { email })).body;
const eventsOf = async (userId: string, type: string) =>
  world.sql`select 1 from security_events where user_id = ${userId} and type = ${type}`;

function verify(
  challengeId: string,
  authenticationResponse: unknown,
  email = merchant.email,
): Promise<Answer> {
  return openClient(world.baseUrl).post("/v1/auth/verify", { challengeId, email, authenticationResponse });
}

function expectRefused(answer: Answer): void {
  expect(answer.status).toBe(401);
  expect(answer.body).toEqual({ verified: false, message: "The passkey could not be verified; start again" });
  expect(answer.headers.getSetCookie()).toEqual([]);
}

describe("POST /v1/auth/options", () => {
  test("answers an ACTIVE user with a challenge for their passkeys", async () => {
    const { status, body } = await client.post("/v1/auth/options", { email: merchant.email.toUpperCase() });
    expect(status).toBe(200);
    const rpId = new URL(world.baseUrl).hostname;
    expect(body).toMatchObject({
      success: true,
      requiresCompletion: false,
      timeout: 60_000,
      rp: { id: rpId, name: "USDC Payments" },
      rpId,
      allowCredentials: [{ id: merchant.passkey.credentialId, type: "public-key", transports: ["internal"] }],
      userVerification: "preferred",
    });
    expect(body.challengeId).toMatch(/^ch_[0-9a-f-]{36}$/);
    expect(Buffer.from(body.challenge, "base64url")).toHaveLength(48);
    expect(body.challenge).toMatch(/^[\w-]+$/);
  });

  test("answers a REGISTERED user with EMAIL_VERIFICATION_REQUIRED and says whether a mail was queued", async () => {
    const email = newEmail();
    const { body: registered } = await client.post("/v1/identity/register", { email });
    const expected = {
      success: false,
      reason: "EMAIL_VERIFICATION_REQUIRED",
      userId: registered.userId,
      userStatus: "REGISTERED",
      redirectTo: "/email-verification",
    };
    const inCoolDown = await client.post("/v1/auth/options", { email });
    expect(inCoolDown.status).toBe(200);
    expect(inCoolDown.body).toEqual({ ...expected, emailVerificationSent: false });
    await ageCodes(world.sql, email, 61);
    expect(await optionsFor(email)).toEqual({ ...expected, emailVerificationSent: true });
  });

  test("answers a WALLET_SETUP_PENDING user with WALLET_SETUP_REQUIRED", async () => {
    const { email, userId } = await verifiedUser(world.baseUrl);
    expect(await optionsFor(email)).toEqual({
      success: false,
      reason: "WALLET_SETUP_REQUIRED",
      userId,
      userStatus: "WALLET_SETUP_PENDING",
      redirectTo: "/wallet-setup",
    });
  });

  test("error: 404 for an unknown address, 400 for an address together with discoverable", async () => {
    const unknown = await client.post("/v1/auth/options", { email: newEmail() });
    expect(unknown.status).toBe(404);
    expect(unknown.body.error.code).toBe("NOT_FOUND");
    const both = await client.post("/v1/auth/options", { email: merchant.email, discoverable: true });
    expect(both.status).toBe(400);
    expect(both.body.error.details.field).toBe("email");
  });
});

describe("POST /v1/auth/verify", () => {
  test("signs in with the passkey: cookie, user, a row in the security trail", async () => {
    const before = await eventsOf(merchant.userId, "sign_in");
    const { challengeId, ...options } = await optionsFor(merchant.email);
    const own = openClient(world.baseUrl);
    const answer = await own.post("/v1/auth/verify", {
      challengeId,
      email: merchant.email,
      authenticationResponse: await merchant.passkey.authenticate(options),
    });
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      verified: true,
      user: {
        id: merchant.userId,
        email: merchant.email,
        status: "ACTIVE",
        hasWallet: true,
        walletAddress: merchant.walletAddress,
      },
    });
    expect(answer.headers.getSetCookie()[0]).toStartWith("authToken=");
    expect((await own.get("/v1/auth/me")).status).toBe(200);
    expect(await eventsOf(merchant.userId, "sign_in")).toHaveLength(before.length + 1);
  });

  test("does not require user verification, as documented", async () => {
    const { challengeId, ...options } = await optionsFor(merchant.email);
    const response = await merchant.passkey.authenticate(options, { userVerified: false });
    expect((await verify(challengeId, response)).status).toBe(200);
  });

  test("reads standard base64 with padding as well", async () => {
    const { challengeId, ...options } = await optionsFor(merchant.email);
    const { id, rawId, type, response } = await merchant.passkey.authenticate(options);
    const standard = (text: string) => Buffer.from(text, "base64url").toString("base64");
    const answer = await verify(challengeId, {
      id: standard(id),
      rawId: standard(rawId),
      type,
      response: {
        clientDataJSON: standard(response.clientDataJSON),
        authenticatorData: standard(response.authenticatorData),
        signature: standard(response.signature),
      },
    });
    expect(answer.status).toBe(200);
  });

  test.each([
    ["another origin", { origin: "https://evil.example" }],
    ["a sibling origin", { origin: "http://localhost:1" }],
    ["another RP id", { rpId: "evil.example" }],
    ["the type of a registration", { type: "webauthn.create" }],
    ["a cross-origin frame", { crossOrigin: true }],
    ["a top origin", { clientDataAfter: { topOrigin: "https://evil.example" } }],
    ["another challenge", { challenge: Buffer.alloc(48, 7).toString("base64url") }],
    ["no user present", { userPresent: false }],
  ] satisfies [string, PasskeyQuirks][])("error: refuses %s", async (_name, quirks) => {
    const before = await eventsOf(merchant.userId, "sign_in_refused");
    const { challengeId, ...options } = await optionsFor(merchant.email);
    expectRefused(await verify(challengeId, await merchant.passkey.authenticate(options, quirks)));
    expect(await eventsOf(merchant.userId, "sign_in_refused")).toHaveLength(before.length + 1);
  });

  test("error: refuses a signature over something else, and one by another key", async () => {
    const { challengeId, ...options } = await optionsFor(merchant.email);
    const response = await merchant.passkey.authenticate(options);
    const flipped = Buffer.from(response.response.authenticatorData, "base64url");
    flipped[36] = (flipped[36] ?? 0) ^ 1;
    const tampered = { ...response.response, authenticatorData: flipped.toString("base64url") };
    expectRefused(await verify(challengeId, { ...response, response: tampered }));
    const { rpId, origin } = { rpId: "localhost", origin: world.baseUrl };
    const forger = await createSoftwarePasskey({ rpId, origin, credentialId: merchant.passkey.credentialId });
    const again = await optionsFor(merchant.email);
    expectRefused(await verify(again.challengeId, await forger.authenticate(again)));
  });

  test("error: refuses a passkey of another user, known or not", async () => {
    const options = await optionsFor(merchant.email);
    const foreign = await other.passkey.authenticate({ ...options, allowCredentials: [] });
    expectRefused(await verify(options.challengeId, foreign));
    const again = await optionsFor(merchant.email);
    const unknown = await newPasskey(world.baseUrl);
    expectRefused(
      await verify(again.challengeId, await unknown.authenticate({ ...again, allowCredentials: [] })),
    );
  });

  test("error: refuses a challenge of another user, of a wallet setup, and an expired one", async () => {
    const ofOther = await optionsFor(other.email);
    const answer = await merchant.passkey.authenticate({ ...ofOther, allowCredentials: [] });
    expectRefused(await verify(ofOther.challengeId, answer));
    // it stays usable for its own user
    expect(
      (await verify(ofOther.challengeId, await other.passkey.authenticate(ofOther), other.email)).status,
    ).toBe(200);

    const [setup] = await world.sql<{ id: string; challenge: Uint8Array }[]>`
      insert into challenges (id, user_id, purpose, network, challenge, expires_at)
      values (${`ch_${crypto.randomUUID()}`}, ${merchant.userId}, 'register', 'base-sepolia', ${Buffer.alloc(48, 1)}, now() + interval '1 minute')
      returning id, challenge`;
    const challenge = Buffer.from(setup?.challenge ?? []).toString("base64url");
    expectRefused(await verify(setup?.id ?? "", await merchant.passkey.authenticate({ challenge })));

    const late = await optionsFor(merchant.email);
    await world.sql`update challenges set expires_at = now() where id = ${late.challengeId}`;
    expectRefused(await verify(late.challengeId, await merchant.passkey.authenticate(late)));
  });

  test("a challenge expires after 60 seconds", async () => {
    const { challengeId } = await optionsFor(merchant.email);
    const [row] = await world.sql<{ lifeS: number }[]>`
      select extract(epoch from expires_at - created_at)::int as life_s from challenges where id = ${challengeId}`;
    expect(row?.lifeS).toBe(60);
  });

  test("race: one response sent 50 times concurrently signs in once", async () => {
    const { challengeId, ...options } = await optionsFor(merchant.email);
    const response = await merchant.passkey.authenticate(options);
    const answers = await Promise.all(Array.from({ length: 50 }, () => verify(challengeId, response)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(49);
  });

  test("behavior: a failed response consumes the challenge", async () => {
    const { challengeId, ...options } = await optionsFor(merchant.email);
    const wrong = await merchant.passkey.authenticate(options, { origin: "https://evil.example" });
    expectRefused(await verify(challengeId, wrong));
    expectRefused(await verify(challengeId, await merchant.passkey.authenticate(options)));
  });

  test("error: an unknown address is refused like a wrong response", async () => {
    const options = await optionsFor(merchant.email);
    expectRefused(
      await verify(options.challengeId, await merchant.passkey.authenticate(options), newEmail()),
    );
  });

  test.each([
    [{}, "challengeId"],
    [{ challengeId: "ch_nope" }, "challengeId"],
    [{ challengeId: "ch_00000000-0000-4000-8000-000000000000" }, "authenticationResponse"],
  ])("error: 400 for %j", async (body, field) => {
    const answer = await client.post("/v1/auth/verify", body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: "VALIDATION_ERROR", details: { field } });
  });

  test("error: 400, never 500, for broken bodies", async () => {
    const options = await optionsFor(merchant.email);
    const good = await merchant.passkey.authenticate(options);
    const junk = ["", "AAAA", "!!", "A".repeat(70_000), 7, null, {}, [], "eyJ0eXBlIjoxfQ", "\u0000"];
    const fields = ["clientDataJSON", "authenticatorData", "signature"] as const;
    for (const value of junk) {
      for (const field of fields) {
        const answer = await verify(options.challengeId, {
          ...good,
          response: { ...good.response, [field]: value },
        });
        expect([400, 401]).toContain(answer.status);
      }
      for (const field of ["id", "rawId", "type", "response"] as const)
        expect([400, 401]).toContain((await verify(options.challengeId, { ...good, [field]: value })).status);
    }
  });
});

describe("a discoverable sign-in, without an address", () => {
  const begin = async () => (await client.post("/v1/auth/options", { discoverable: true })).body;
  const finish = (
    challengeId: string,
    authenticationResponse: unknown,
    named: object = { discoverable: true },
  ) => openClient(world.baseUrl).post("/v1/auth/verify", { challengeId, ...named, authenticationResponse });

  test("any passkey of the site may answer, and signs its own user in", async () => {
    for (const { passkey, userId } of [merchant, other]) {
      const { challengeId, ...options } = await begin();
      expect(options).toMatchObject({ success: true, allowCredentials: [], timeout: 600_000 });
      const answer = await finish(challengeId, await passkey.authenticate(options));
      expect(answer.status).toBe(200);
      expect(answer.body.user.id).toBe(userId);
      expectRefused(await finish(challengeId, await passkey.authenticate(options)));
    }
  });

  test.each([
    ["a prompt's challenge lives for a minute", {}, 60],
    ["autofill's lives for ten minutes", { discoverable: true }, 600],
  ])("%s, and not longer", async (_, named, lifeS) => {
    const { body } = await client.post("/v1/auth/options", named);
    expect(body.timeout).toBe(lifeS * 1_000);
    const [row] = await world.sql`
      select extract(epoch from expires_at - created_at)::int as life_s from challenges where id = ${body.challengeId}`;
    expect(row?.lifeS).toBe(lifeS);
    await world.sql`
      update challenges
      set expires_at = expires_at - make_interval(secs => ${lifeS + 1})
      where id = ${body.challengeId}`;
    expectRefused(await finish(body.challengeId, await merchant.passkey.authenticate(body), named));
  });

  test("needs no more than a request without an address", async () => {
    const { status, body } = await client.post("/v1/auth/options", {});
    expect(status).toBe(200);
    expect(body).toMatchObject({ success: true, requiresCompletion: false, allowCredentials: [] });
    const answer = await finish(body.challengeId, await merchant.passkey.authenticate(body), {});
    expect(answer.status).toBe(200);
    expect(answer.body.user.id).toBe(merchant.userId);
  });

  test("error: its challenge is not valid for a sign-in with an address, nor the other way round", async () => {
    const { challengeId, ...options } = await begin();
    const named = { email: merchant.email };
    expectRefused(await finish(challengeId, await merchant.passkey.authenticate(options), named));
    const own = await optionsFor(merchant.email);
    expectRefused(await finish(own.challengeId, await merchant.passkey.authenticate(own)));
  });

  test("error: an unknown passkey, another origin and a passkey that is not an owner are refused", async () => {
    const unknown = await newPasskey(world.baseUrl);
    const first = await begin();
    expectRefused(await finish(first.challengeId, await unknown.authenticate(first)));
    const second = await begin();
    const wrong = await merchant.passkey.authenticate(second, { origin: "https://evil.example" });
    expectRefused(await finish(second.challengeId, wrong));
    const removed = await signUp(world.baseUrl);
    await world.sql`update wallets set owners = array[${`0x${"11".repeat(64)}`}] where user_id = ${removed.userId}`;
    const third = await begin();
    expectRefused(await finish(third.challengeId, await removed.passkey.authenticate(third)));
  });

  test("error: 400 with an address together with discoverable, and for discoverable: false", async () => {
    const { challengeId, ...options } = await begin();
    const response = await merchant.passkey.authenticate(options);
    for (const named of [{ discoverable: false }, { discoverable: true, email: merchant.email }]) {
      const answer = await finish(challengeId, response, named);
      expect(answer.status).toBe(400);
    }
    expect((await finish(challengeId, response)).status).toBe(200);
  });
});

describe("sign counters", () => {
  const counting = async (quirks: PasskeyQuirks) => {
    const user = await verifiedUser(world.baseUrl);
    const passkey = await createSoftwarePasskey({ rpId: "localhost", origin: world.baseUrl, ...quirks });
    const started = await user.client.post("/v1/wallets/setup/start", {});
    const passkeyResponse = await passkey.register(started.body.passkeyChallenge);
    await user.client.post("/v1/wallets/setup/complete", {
      challengeId: started.body.challengeId,
      passkeyResponse,
    });
    const attempt = async (counter: number) => {
      const options = await optionsFor(user.email);
      return verify(options.challengeId, await passkey.authenticate(options, { counter }), user.email);
    };
    return { userId: user.userId, attempt };
  };

  test("error: a single-device credential whose counter does not increase is refused", async () => {
    const { attempt } = await counting({ backupEligible: false, backedUp: false, counter: 10 });
    expect((await attempt(11)).status).toBe(200);
    expectRefused(await attempt(11));
    expectRefused(await attempt(5));
    expect((await attempt(12)).status).toBe(200);
  });

  test("behavior: a synced credential whose counter decreases is accepted and recorded", async () => {
    const { attempt, userId } = await counting({ backupEligible: true, backedUp: true, counter: 10 });
    expect((await attempt(20)).status).toBe(200);
    expect((await attempt(3)).status).toBe(200);
    expect(await eventsOf(userId, "passkey_counter_regression")).toHaveLength(1);
    const [row] = await world.sql<
      { counter: bigint }[]
    >`select counter from passkeys where user_id = ${userId}`;
    expect(row?.counter).toBe(20n);
  });

  test("a credential whose counter stays 0 is always accepted", async () => {
    const { attempt, userId } = await counting({ counter: 0 });
    expect((await attempt(0)).status).toBe(200);
    expect((await attempt(0)).status).toBe(200);
    expect(await eventsOf(userId, "passkey_counter_regression")).toHaveLength(0);
  });
});

test("behavior: a pending user who holds a verified passkey finishes activation by signing in", async () => {
  const user = await signUp(world.baseUrl);
  await world.sql`delete from wallets where user_id = ${user.userId}`;
  await world.sql`update users set status = 'WALLET_SETUP_PENDING' where id = ${user.userId}`;
  const own = await signIn(user);
  const me = await own.get("/v1/auth/me");
  expect(me.body).toMatchObject({ status: "ACTIVE", walletAddress: user.walletAddress });
});
