/** A real browser with a virtual authenticator, from registration to wallet, on http://localhost. Skipped with a message where there is none. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser, CDPSession, Page } from "playwright-core";
import { isBrowserThere, launchBrowser } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { openClient } from "../support/http-client.ts";
import { newEmail, readCode } from "../support/sign-up.ts";

const AUTHENTICATOR = {
  protocol: "ctap2",
  ctap2Version: "ctap2_1",
  transport: "internal",
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
  defaultBackupEligibility: true,
  defaultBackupState: true,
} as const;

let world: ApiWorld;
let browser: Browser;
let page: Page;
let cdp: CDPSession;
let authenticatorId: string;

beforeAll(async () => {
  if (!isBrowserThere) return;
  world = await startApiWorld({
    networks: ["base", "base-sepolia"],
    env: { NETWORKS: "base,base-sepolia", PASSKEY_ATTACHMENT: "platform" },
  });
  browser = await launchBrowser();
  page = await browser.newPage();
  await page.goto(`${world.baseUrl}/docs`);
  cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  ({ authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", { options: AUTHENTICATOR }));
}, 120_000);
afterAll(async () => {
  await browser?.close();
  await world?.stop();
});

type PageResponse = { status: number; body: Record<string, unknown> };

/** A request by the page itself: the browser's own cookies, origin and fetch metadata. */
function call(method: string, path: string, body?: unknown): Promise<PageResponse> {
  const script = `(async ({ method, path, body }) => {
    const init = body === undefined ? { method } : { method, body: JSON.stringify(body), headers: { "content-type": "application/json" } };
    const answer = await fetch(path, init);
    return { status: answer.status, body: await answer.json() };
  })`;
  return page.evaluate(`${script}(${JSON.stringify({ method, path, body })})`);
}

const create = (options: unknown) =>
  page.evaluate(`(async (options) => {
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
    return (await navigator.credentials.create({ publicKey })).toJSON();
  })(${JSON.stringify(options)})`);

const get = (options: unknown) =>
  page.evaluate(`(async (options) => {
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
    return (await navigator.credentials.get({ publicKey })).toJSON();
  })(${JSON.stringify(options)})`);

const credentials = async () =>
  (await cdp.send("WebAuthn.getCredentials", { authenticatorId })).credentials.map(
    ({ credentialId }) => credentialId,
  );

describe.if(isBrowserThere)("Chromium", () => {
  const email = newEmail();
  let address: unknown;

  test("registers, verifies the address and sets up a wallet with a platform passkey", async () => {
    expect((await call("POST", "/v1/identity/register", { email })).status).toBe(201);
    const otp = await readCode(openClient(world.baseUrl), email);
    expect((await call("POST", "/v1/email-verification/verify", { email, otp })).status).toBe(200);
    const started = await call("POST", "/v1/wallets/setup/start", {});
    const passkeyResponse = await create(started.body.passkeyChallenge);
    const { challengeId } = started.body;
    const done = await call("POST", "/v1/wallets/setup/complete", { challengeId, passkeyResponse });
    expect(done.status).toBe(200);
    address = (done.body.wallet as { address: string }).address;
    expect(await credentials()).toHaveLength(1);
    expect((await call("GET", "/v1/auth/me")).body).toMatchObject({ email, status: "ACTIVE" });
  });

  test("keeps the session in a cookie that scripts cannot read", async () => {
    expect(await page.evaluate("document.cookie")).toBe("");
    const cookie = (await page.context().cookies()).find(({ name }) => name === "authToken");
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict", path: "/", secure: false });
  });

  test("signs out, signs in again with the passkey, and a replayed response is refused", async () => {
    expect((await call("POST", "/v1/auth/logout")).status).toBe(200);
    expect((await call("GET", "/v1/auth/me")).status).toBe(401);
    const options = await call("POST", "/v1/auth/options", { email });
    const authenticationResponse = await get(options.body);
    const given = { challengeId: options.body.challengeId, email, authenticationResponse };
    expect((await call("POST", "/v1/auth/verify", given)).body).toMatchObject({ verified: true });
    expect((await call("GET", "/v1/auth/me")).status).toBe(200);
    expect(await call("POST", "/v1/auth/verify", given)).toMatchObject({
      status: 401,
      body: { verified: false },
    });
  });

  test("on a second network: the browser refuses to create another passkey, and the existing one answers", async () => {
    const { body } = await call("POST", "/v1/wallets/setup/start", { network: "base" });
    await expect(create(body.passkeyChallenge)).rejects.toThrow(/InvalidState/);
    const passkeyResponse = await get(body.passkeyRequest);
    const given = { challengeId: body.challengeId, passkeyResponse };
    const done = await call("POST", "/v1/wallets/setup/complete", given);
    expect(done.body.wallet).toMatchObject({ address, network: "base" });
    expect(await credentials()).toHaveLength(1);
  });

  test("renders the documentation without requests to other hosts", async () => {
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    const problems: string[] = [];
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    await page.reload();
    await page.waitForSelector("article");
    expect(await page.locator("article").count()).toBe(1);
    expect(await page.locator("nav a").count()).toBeGreaterThan(20);
    expect(asked.every((url) => url.startsWith(world.baseUrl))).toBe(true);
    expect(problems.filter((text) => !text.includes("favicon"))).toEqual([]);
  });
});
