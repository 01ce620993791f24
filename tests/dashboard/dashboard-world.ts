/** The whole service and one Chromium with a passkey authenticator: what the journeys of the dashboard stand on. */
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { testWalletAddress } from "../../local/chain/accounts.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { launchBrowser, type Visit, visit } from "../checkout/browser.ts";
import { startWorld, type World, type WorldOptions } from "../support/world.ts";

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
const TEST_WALLET_UNITS = 10_000_000_000n;
/** Whoever is not signed in is answered 401, which Chromium logs as an error; nothing else may be. */
const SIGNED_OUT = /status of 401/;

type OpenOptions = BrowserContextOptions & { allowedErrors?: RegExp };

export type DashboardWorld = {
  world: World;
  browser: Browser;
  /** A person with an authenticator of their own. */
  open: (path: string, options?: OpenOptions) => Promise<Visit>;
  stop: () => Promise<void>;
};

export async function startDashboardWorld(
  options: Pick<WorldOptions, "bothNetworks" | "env"> = {},
): Promise<DashboardWorld> {
  const testWallet = testWalletAddress();
  const env = { TEST_WALLET: testWallet, WEBHOOK_PRIVATE_TARGETS: "1", ...options.env };
  const [world, browser] = await Promise.all([startWorld({ ...options, env }), launchBrowser()]);
  await fundUsdc(world.chain.rpcUrl, testWallet, TEST_WALLET_UNITS);
  return {
    world,
    browser,
    open: (path, { allowedErrors = SIGNED_OUT, ...options } = {}) =>
      visit(browser, `${world.baseUrl}${path}`, { ...options, allowedErrors, prepare: prepareBrowser }),
    stop: async () => {
      await browser.close();
      await world.stop();
    },
  };
}

/** The authenticator answers whatever asks it: a list of passkeys at the address field would sign in by itself, so this browser has none. */
async function prepareBrowser(page: Page): Promise<void> {
  await page.addInitScript("PublicKeyCredential.isConditionalMediationAvailable = async () => false");
  await addAuthenticator(page);
}

/** Its touch comes by itself until `setPresence(false)`. */
export async function addAuthenticator(
  page: Page,
): Promise<{ setPresence: (isOn: boolean) => Promise<void> }> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", { options: AUTHENTICATOR });
  return {
    setPresence: async (enabled) =>
      void (await cdp.send("WebAuthn.setAutomaticPresenceSimulation", { authenticatorId, enabled })),
  };
}

const button = (page: Page, name: string | RegExp) =>
  page.getByRole("button", { name, exact: typeof name === "string" });

/** From nothing to the overview: address, code of the local mailbox, passkey. */
export async function signUpInBrowser(page: Page, email: string): Promise<void> {
  await page.getByLabel("E-mail address").fill(email);
  await button(page, "Continue").click();
  await button(page, "Read the code from the local mailbox").click();
  await button(page, "Create passkey").click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

/** Leads to the new link's own screen. */
export async function createLinkInBrowser(page: Page, amount: string, description: string): Promise<string> {
  await page.getByRole("link", { name: "New payment link" }).first().click();
  await page.getByLabel("Amount", { exact: true }).fill(amount);
  await page.getByLabel("What for").fill(description);
  await button(page, "Create link").click();
  await page.getByRole("heading", { name: description }).waitFor();
  const id = /link_[\w-]+/.exec(page.url())?.[0];
  if (!id) throw new Error(`${page.url()} is not a link's screen`);
  return id;
}
