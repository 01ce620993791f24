/**
 * A merchant who set up a wallet in Chromium with a passkey, over https and under a host name that is not localhost, saved the wallet file
 * and the page, and whose service is gone since. What is left: a chain, the browser with its authenticator, and this machine.
 */
import type { Browser, BrowserContextOptions, CDPSession, Page } from "playwright-core";
import type { Hex } from "../../core/domain/networks.ts";
import { findFreePort } from "../../local/free-port.ts";
import { makeHostCertificate } from "../../local/leave/certificate.ts";
import { type LeaveServer, serveLeavePage } from "../../local/leave/serve-page.ts";
import { launchBrowser } from "../checkout/browser.ts";
import { startApiWorld } from "../support/api-world.ts";
import type { TestChain } from "../support/chain.ts";
import { openClient } from "../support/http-client.ts";
import { newEmail, readCode } from "../support/sign-up.ts";

/** The service's name, and the RP id. */
export const HOST = "pay.merchant.example";
/** Another name that this machine serves the page under. */
export const ELSEWHERE = "leave.helper.example";

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
const PAGE_TIMEOUT_MS = 90_000;

export type LeaveWorld = {
  rpcUrl: string;
  wallet: Hex;
  /** As the merchant saved them while the service was there. */
  walletFile: string;
  leavePage: string;
  browser: Browser;
  /** Where this machine serves the page under the service's name, and under another. */
  urls: { home: string; elsewhere: string };
  /** Whether the passkey signed on the other name while the service listed that as a related origin. */
  signsAsRelated: boolean;
  isServiceGone: () => Promise<boolean>;
  open: (url: string, options?: OpenOptions) => Promise<LeaveVisit>;
  stop: () => Promise<void>;
};

type OpenOptions = BrowserContextOptions & {
  prepare?: (page: Page) => Promise<void>;
  /** Without it the browser has no passkey. */
  hasPasskey?: boolean;
};

export type LeaveVisit = {
  page: Page;
  /** Messages of the console's errors, and requests to anything but the page itself and the node. */
  problems: string[];
  close: () => Promise<void>;
};

type Credential = {
  credentialId: string;
  isResidentCredential: boolean;
  rpId?: string;
  privateKey: string;
  userHandle?: string;
  signCount: number;
};

export async function startLeaveWorld(): Promise<LeaveWorld> {
  const [home, elsewhere, frontPort, elsewherePort] = await Promise.all([
    makeHostCertificate(HOST, new Date()),
    makeHostCertificate(ELSEWHERE, new Date()),
    findFreePort(),
    findFreePort(),
  ]);
  const elsewhereOrigin = `https://${ELSEWHERE}:${elsewherePort}`;
  const service = await startApiWorld({
    env: {
      BASE_URL: `https://${HOST}:${frontPort}`,
      RP_ID: HOST,
      RP_RELATED_ORIGINS: elsewhereOrigin,
      WALLET_DEPLOYMENT: "lazy",
    },
  });
  const front = startFront(service.baseUrl, { port: frontPort, cert: home.chain, key: home.key });
  const browser = await launchBrowser([
    // browsers read /.well-known/webauthn at the default port
    `--host-resolver-rules=MAP ${HOST}:443 127.0.0.1:${frontPort}, MAP ${HOST} 127.0.0.1, MAP ${ELSEWHERE} 127.0.0.1`,
    `--ignore-certificate-errors-spki-list=${home.authorityKeyHash},${elsewhere.authorityKeyHash}`,
  ]);
  const chain: TestChain = service.chainOf("base-sepolia");
  const saved = await setUpAndSave(browser, `https://${HOST}:${frontPort}`, service.baseUrl);
  const page = saved.leavePage;
  const servers: LeaveServer[] = [
    serveLeavePage({ host: HOST, port: 0, page, certificate: home }),
    serveLeavePage({ host: ELSEWHERE, port: elsewherePort, page, certificate: elsewhere }),
  ];
  const { credential } = saved;
  const open: LeaveWorld["open"] = (url, options) =>
    openPage(browser, url, { rpcUrl: chain.rpcUrl, credential, ...options });
  const visit = await open(elsewhereOrigin);
  const signsAsRelated = await canSign(visit.page);
  await visit.close();
  await Promise.all(service.processes.map((child) => child.stop()));
  await front.stop(true);

  const [homeUrl = "", elsewhereUrl = ""] = servers.map(({ url }) => url);
  return {
    ...saved,
    signsAsRelated,
    rpcUrl: chain.rpcUrl,
    browser,
    urls: { home: homeUrl, elsewhere: elsewhereUrl },
    isServiceGone: () =>
      fetch(`${service.baseUrl}/health/live`).then(
        () => false,
        () => true,
      ),
    open,
    async stop() {
      await browser.close();
      await Promise.all(servers.map((server) => server.stop()));
      await service.stop();
    },
  };
}

/** The https proxy in front of the service, as in a deployment. */
function startFront(target: string, { port, cert, key }: { port: number; cert: string; key: string }) {
  return Bun.serve({
    hostname: "127.0.0.1",
    idleTimeout: 60,
    port,
    tls: { cert, key },
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const { method, headers } = request;
      const body = method === "GET" ? null : await request.arrayBuffer();
      const answer = await fetch(`${target}${pathname}${search}`, {
        method,
        headers,
        body,
        decompress: false,
      });
      return new Response(answer.body, answer);
    },
  });
}

/** Registration, setup and downloads by the page itself: its own cookies, origin and passkey. */
async function setUpAndSave(browser: Browser, origin: string, apiUrl: string) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${origin}/docs`);
  const { cdp, authenticatorId } = await addAuthenticator(page);
  const email = newEmail();
  await post(page, "/v1/identity/register", { email });
  const otp = await readCode(openClient(apiUrl), email);
  await post(page, "/v1/email-verification/verify", { email, otp });
  const started = await post(page, "/v1/wallets/setup/start", {});
  const passkeyResponse = await page.evaluate(`(async (options) => {
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
    return (await navigator.credentials.create({ publicKey })).toJSON();
  })(${JSON.stringify(started.passkeyChallenge)})`);
  const given = { challengeId: started.challengeId, passkeyResponse };
  const done = await post(page, "/v1/wallets/setup/complete", given);
  const download = (path: string) =>
    page.evaluate(`fetch(${JSON.stringify(path)}).then((answer) => answer.text())`);
  const walletFile = (await download("/v1/wallets/recovery")) as string;
  const leavePage = (await download("/leave?download")) as string;
  const { credentials } = await cdp.send("WebAuthn.getCredentials", { authenticatorId });
  const [credential] = credentials;
  if (!credential) throw new Error("the authenticator has no passkey");
  await context.close();
  const wallet = (done.wallet as { address: Hex }).address;
  return { wallet, walletFile, leavePage, credential: credential as Credential };
}

async function post(page: Page, path: string, body: unknown): Promise<Record<string, unknown>> {
  const answer = (await page.evaluate(`(async ({ path, body }) => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(path, { method: "POST", body: JSON.stringify(body), headers });
    return { status: answer.status, body: await answer.json() };
  })(${JSON.stringify({ path, body })})`)) as { status: number; body: Record<string, unknown> };
  if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

async function addAuthenticator(page: Page): Promise<{ cdp: CDPSession; authenticatorId: string }> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", { options: AUTHENTICATOR });
  return { cdp, authenticatorId };
}

/** Whether the browser lets this page use the merchant's passkey. */
async function canSign(page: Page): Promise<boolean> {
  const name = await page.evaluate(`(async (rpId) => {
    const challenge = crypto.getRandomValues(new Uint8Array(48));
    const publicKey = { challenge, rpId, userVerification: "required" };
    return navigator.credentials.get({ publicKey }).then(({ type }) => type, ({ name }) => name);
  })(${JSON.stringify(HOST)})`);
  if (name !== "public-key" && name !== "SecurityError") throw new Error(`the passkey answered ${name}`);
  return name === "public-key";
}

/** A context of its own, whose authenticator holds the merchant's passkey, as a synced one would. */
async function openPage(
  browser: Browser,
  url: string,
  given: OpenOptions & { rpcUrl: string; credential: Credential },
): Promise<LeaveVisit> {
  const { rpcUrl, credential, prepare, hasPasskey = true, ...options } = given;
  // an animation keeps a core busy that draws without a graphics card
  const still = { reducedMotion: "reduce" } as const;
  const context = await browser.newContext({ locale: "en-US", ...still, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PAGE_TIMEOUT_MS);
  const problems: string[] = [];
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => {
    const asked = request.url();
    const isExpected = asked.startsWith(url) || asked.startsWith(rpcUrl) || asked.startsWith("data:");
    if (!isExpected) problems.push(`request to ${asked}`);
  });
  const { cdp, authenticatorId } = await addAuthenticator(page);
  if (hasPasskey) await cdp.send("WebAuthn.addCredential", { authenticatorId, credential });
  await prepare?.(page);
  await page.goto(url, { waitUntil: "load" });
  return { page, problems, close: () => context.close() };
}
