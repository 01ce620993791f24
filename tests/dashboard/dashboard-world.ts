/** The whole service and one Chromium with a passkey authenticator: what the journeys of the dashboard stand on. */
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { testWalletAddress } from "../../local/chain/accounts.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { launchBrowser, type Visit, visit } from "../checkout/browser.ts";
import { startWorld, type World, type WorldOptions } from "../support/world.ts";

const AUTHENTICATOR = {
  protocol: "ctap2",
  ctap2Version: "ctap2_1",
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
  defaultBackupEligibility: true,
  defaultBackupState: true,
} as const;
const FUNDED_WITHIN_MS = 90_000;
const TEST_WALLET_UNITS = 10_000_000_000n;
/** Whoever is not signed in is answered 401, which Chromium logs as an error; nothing else may be. */
const SIGNED_OUT = /status of 401/;

type OpenOptions = BrowserContextOptions & { allowedErrors?: RegExp };

export type DashboardWorld = {
  world: World;
  browser: Browser;
  /** A person with an authenticator of their own. */
  open: (path: string, options?: OpenOptions) => Promise<Visit>;
  /** The one that `open` gave this page. */
  authenticatorOf: (page: Page) => Authenticator;
  /** Sends USDC to the first wallet of whoever is signed in, and waits until the service has seen it. */
  fund: (page: Page, units: bigint) => Promise<void>;
  stop: () => Promise<void>;
};

export async function startDashboardWorld(
  options: Pick<WorldOptions, "bothNetworks" | "env"> = {},
): Promise<DashboardWorld> {
  const testWallet = testWalletAddress();
  const env = { TEST_WALLET: testWallet, WEBHOOK_PRIVATE_TARGETS: "1", ...options.env };
  const [world, browser] = await Promise.all([startWorld({ ...options, env }), launchBrowser()]);
  await fundUsdc(world.chain.rpcUrl, testWallet, TEST_WALLET_UNITS);
  const authenticators = new WeakMap<Page, Authenticator>();
  const prepare = async (page: Page) => {
    // it answers whatever asks it: a list of passkeys at the address field would sign in by itself, so this browser has none
    await page.addInitScript("PublicKeyCredential.isConditionalMediationAvailable = async () => false");
    authenticators.set(page, await addAuthenticator(page));
  };
  return {
    authenticatorOf: (page) => {
      const found = authenticators.get(page);
      if (!found) throw new Error("this page has no authenticator");
      return found;
    },
    fund: async (page, units) => {
      const { wallet } = await (await page.request.get(`${world.baseUrl}/v1/auth/me`)).json();
      const url = `${world.baseUrl}/v1/wallets/balance?network=${wallet.network}`;
      await fundUsdc(world.chain.rpcUrl, wallet.address, units);
      const deadline = Date.now() + FUNDED_WITHIN_MS;
      for (;;) {
        const { balance } = await (await page.request.get(url)).json();
        if (Number(balance.amount) * 1_000_000 >= Number(units)) return;
        if (Date.now() > deadline) throw new Error(`the wallet holds ${balance.amount}`);
        await Bun.sleep(100);
      }
    },
    world,
    browser,
    open: (path, { allowedErrors = SIGNED_OUT, ...options } = {}) =>
      visit(browser, `${world.baseUrl}${path}`, { ...options, allowedErrors, prepare }),
    stop: async () => {
      await browser.close();
      await world.stop();
    },
  };
}

export type Authenticator = {
  /** Its touch comes by itself until this is false. */
  setPresence: (isOn: boolean) => Promise<void>;
  remove: () => Promise<void>;
};

export async function addAuthenticator(
  page: Page,
  { transport = "internal" }: { transport?: "internal" | "usb" } = {},
): Promise<Authenticator> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { ...AUTHENTICATOR, transport },
  });
  return {
    setPresence: async (enabled) =>
      void (await cdp.send("WebAuthn.setAutomaticPresenceSimulation", { authenticatorId, enabled })),
    remove: async () => void (await cdp.send("WebAuthn.removeVirtualAuthenticator", { authenticatorId })),
  };
}

const button = (page: Page, name: string | RegExp) =>
  page.getByRole("button", { name, exact: typeof name === "string" });

/** Run in a page: by how many pixels it, or a panel, which would cut it off without a sign, is too narrow for its content. */
export const TOO_NARROW_PX = `Math.max(...[document.documentElement, ...document.querySelectorAll(".panel")].map(
  ({ scrollWidth, clientWidth }) => scrollWidth - clientWidth))`;

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
