/** A recovery that goes wrong: a service that lies, a wallet that fails, a session that ends, a transaction that never arrives. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Page, Route } from "playwright-core";
import { isBrowserThere, type Visit } from "../checkout/browser.ts";
import { makeTestWallet, type TestWallet } from "../checkout/test-wallet.ts";
import { ageCodes, newEmail } from "../support/sign-up.ts";
import { type DashboardWorld, signUpInBrowser, startDashboardWorld } from "./dashboard-world.ts";

setDefaultTimeout(120_000);

const REFUSALS = /status of 4\d\d/;
const START = "**/v1/auth/recover/start";
const ADDRESS_START = "**/v1/wallets/owners/address/start";
const COMPLETE = "**/v1/auth/recover/passkey/complete";
const OPTIONS = "/v1/auth/options";
/** Of a token: a signature of it moves money. */
const PERMIT = {
  types: {
    EIP712Domain: [{ name: "verifyingContract", type: "address" }],
    Permit: [{ name: "owner", type: "address" }],
  },
  primaryType: "Permit",
  domain: { verifyingContract: "0x036cbd53842c5426634e7929541ec2318f3dcf7e" },
};

describe.if(isBrowserThere)("a recovery", () => {
  let dashboard: DashboardWorld;
  let own: TestWallet;
  let other: TestWallet;
  const email = newEmail();

  const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
  /** Changes an answer of the service on its way. */
  const forge = (page: Page, url: string, change: (answer: Record<string, unknown>) => void) =>
    page.route(url, async (route: Route) => {
      const response = await route.fetch();
      const answer = await response.json();
      change(answer);
      await route.fulfill({ response, json: answer });
    });
  const offerPermit = (page: Page, url: string) =>
    forge(page, url, (answer) => {
      answer.typedData = { ...PERMIT, message: { owner: own.address } };
    });
  const countAsked = (wallet: TestWallet, method: string) =>
    wallet.calls.filter((asked) => asked === method).length;

  beforeAll(async () => {
    dashboard = await startDashboardWorld();
    const { rpcUrl } = dashboard.world.chain;
    [own, other] = await Promise.all([
      makeTestWallet(rpcUrl, { name: "Ledger" }),
      makeTestWallet(rpcUrl, { name: "Other wallet" }),
    ]);
  }, 240_000);
  afterAll(() => dashboard?.stop());

  async function openDevice(): Promise<Visit> {
    const device = await dashboard.open("/recover", { allowedErrors: REFUSALS });
    for (const wallet of [own, other]) await wallet.install(device.page);
    await device.page.reload();
    return device;
  }

  async function prove(page: Page): Promise<void> {
    // an address gets five codes an hour
    await ageCodes(dashboard.world.sql, email, 3_601);
    await page.getByLabel("E-mail address").fill(email);
    await button(page, "Continue with Ledger").click();
    await button(page, "Read the code from the local mailbox").click();
    await page.getByRole("heading", { name: "Create a new passkey" }).waitFor();
  }

  test("a new recovery wallet signs nothing but its proof", async () => {
    const visit = await dashboard.open("/sign-in", { allowedErrors: REFUSALS });
    const { page } = visit;
    await own.install(page);
    await signUpInBrowser(page, email);
    await page.goto(`${dashboard.world.baseUrl}/wallet`);
    await page.getByText("Deployed", { exact: true }).waitFor();
    await button(page, "Add a recovery wallet").click();
    await offerPermit(page, ADDRESS_START);
    await button(page, "Continue with Ledger").click();
    await page.getByText(/differs from what is shown here/).waitFor();
    expect(countAsked(own, "eth_signTypedData_v4")).toBe(0);
    await page.unroute(ADDRESS_START);
    await button(page, "Continue with Ledger").click();
    await button(page, "Sign with passkey").click();
    await page.getByRole("dialog").getByText("Confirmed").waitFor();
    await visit.close();
  });

  test("the recovery wallet signs nothing but the recovery, and adds no other passkey than the one made here", async () => {
    const device = await openDevice();
    const { page } = device;
    const signatures = countAsked(own, "eth_signTypedData_v4");
    await offerPermit(page, START);
    await page.getByLabel("E-mail address").fill(email);
    await button(page, "Continue with Ledger").click();
    await page.getByText(/differs from what is shown here/).waitFor();
    expect(countAsked(own, "eth_signTypedData_v4")).toBe(signatures);
    await page.unroute(START);
    await prove(page);
    await forge(page, COMPLETE, (answer) => {
      const [first] = answer.transactions as { data: string }[];
      if (first) first.data = `${first.data.slice(0, 10)}${"7".repeat(128)}`;
    });
    await button(page, "Create passkey").click();
    await page.getByText(/differs from what is shown here/).waitFor();
    await device.close();
  });

  test("a wallet that moves to another network sends nothing; another one can be taken, and a lost transaction be sent again", async () => {
    const device = await openDevice();
    const { page } = device;
    const asked: string[] = [];
    page.on("request", (request) => void (request.url().endsWith(OPTIONS) && asked.push(request.url())));
    await prove(page);
    await button(page, "Create passkey").click();
    const heading = page.getByRole("heading", { name: "Make the new passkey an owner" });
    await heading.waitFor();
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Make the new passkey an owner");
    // the limit of sign-ins belongs to everybody behind this address
    await Bun.sleep(10_000);
    expect(asked).toHaveLength(1);
    await button(page, "Continue with Other wallet").click();
    await button(page, "Send on Base Sepolia").click();
    await page.getByText(/is not an owner on Base Sepolia yet/).waitFor();
    await button(page, "Use another wallet").click();
    await button(page, "Continue with Ledger").click();
    own.options.movesWhileAsking = true;
    await button(page, "Send on Base Sepolia").click();
    await page.getByText(/^Ledger reports: “/).waitFor();
    expect(own.hashes).toEqual([]);
    Object.assign(own.options, { movesWhileAsking: false, neverSends: true });
    await button(page, "Send on Base Sepolia").click();
    await page.getByText(/^Sent. Waiting/).waitFor();
    // nothing that is left needs the session
    await page.context().clearCookies();
    await page.reload();
    await page.getByText(/^Sent. Waiting/).waitFor();
    own.options.neverSends = false;
    await button(page, "Continue with Ledger").click();
    await button(page, "Send again on Base Sepolia").click();
    await button(page, "Sign in with the new passkey").click({ timeout: 60_000 });
    await page.getByRole("heading", { level: 1, name: "Wallet" }).waitFor();
    await device.close();
  });

  /** `letNotice`: until then the page does not notice that the new passkey signs in, after which nothing could be sent. */
  const sendDenied = async (page: Page): Promise<{ letNotice: () => void }> => {
    const noticing = Promise.withResolvers<void>();
    await page.route(`**${OPTIONS}`, async (route) => {
      await noticing.promise;
      await route.continue();
    });
    await prove(page);
    await button(page, "Create passkey").click();
    await button(page, "Continue with Ledger").click();
    own.options.losesAnswer = true;
    await button(page, "Send on Base Sepolia").click();
    await page.getByText(/^Ledger reports: “/).waitFor();
    own.options.losesAnswer = false;
    return { letNotice: noticing.resolve };
  };

  test("the effect of a transaction that its wallet sent and denied is noticed", async () => {
    const device = await openDevice();
    const { page } = device;
    const { letNotice } = await sendDenied(page);
    letNotice();
    await page.getByText(/^The new passkey is an owner/).waitFor({ timeout: 60_000 });
    expect(await page.getByText(/^Send on .* first/).count()).toBe(0);
    await button(page, "Sign in with the new passkey").click();
    await page.getByRole("heading", { level: 1, name: "Wallet" }).waitFor();
    await device.close();
  });

  test("a passkey that is an owner already is not added again", async () => {
    const device = await openDevice();
    const { page } = device;
    const { letNotice } = await sendDenied(page);
    const sent = countAsked(own, "eth_sendTransaction");
    await button(page, "Send on Base Sepolia").click();
    letNotice();
    await page.getByText(/^Sent. Waiting|^The new passkey is an owner/).waitFor();
    expect(countAsked(own, "eth_sendTransaction")).toBe(sent);
    await button(page, "Sign in with the new passkey").click({ timeout: 60_000 });
    await page.getByRole("heading", { level: 1, name: "Wallet" }).waitFor();
    await device.close();
  });

  test("a wallet that sends and never answers holds up nothing", async () => {
    const device = await openDevice();
    const { page } = device;
    await prove(page);
    await button(page, "Create passkey").click();
    await button(page, "Continue with Ledger").click();
    const answer = Promise.withResolvers<void>();
    Object.assign(own.options, { answersAfter: answer.promise });
    await button(page, "Send on Base Sepolia").click();
    await button(page, "Sign in with the new passkey").click({ timeout: 60_000 });
    await page.getByRole("heading", { level: 1, name: "Wallet" }).waitFor();
    answer.resolve();
    Object.assign(own.options, { answersAfter: undefined });
    await device.close();
  });
});
