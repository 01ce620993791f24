/** A recovery wallet in a real browser: it is added as an owner, and on another device it brings the account back without any old passkey. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Page } from "playwright-core";
import { findBarriers, isBrowserThere, type Visit } from "../checkout/browser.ts";
import { makeTestWallet, type TestWallet } from "../checkout/test-wallet.ts";
import { ageCodes, newEmail } from "../support/sign-up.ts";
import { type DashboardWorld, signUpInBrowser, startDashboardWorld } from "./dashboard-world.ts";

setDefaultTimeout(120_000);

const OWNERS_PREPARE = "**/v1/wallets/owners/prepare";
/** Signed out, unknown address, not an owner, a recovery session on another screen. */
const REFUSALS = /status of 40[0134]/;

describe.if(isBrowserThere)("a recovery wallet", () => {
  let dashboard: DashboardWorld;
  let visit: Visit;
  let page: Page;
  let own: TestWallet;
  let other: TestWallet;
  const email = newEmail();

  const button = (name: string, within = page) => within.getByRole("button", { name, exact: true });
  const dialog = () => page.getByRole("dialog");
  const owners = () => page.getByRole("region", { name: "Base Sepolia", exact: true });

  beforeAll(async () => {
    dashboard = await startDashboardWorld();
    const { rpcUrl } = dashboard.world.chain;
    [own, other] = await Promise.all([
      makeTestWallet(rpcUrl, { name: "Ledger" }),
      makeTestWallet(rpcUrl, { name: "Other wallet" }),
    ]);
    visit = await dashboard.open("/sign-in", { allowedErrors: REFUSALS });
    page = visit.page;
    await own.install(page);
    await signUpInBrowser(page, email);
    await page.goto(`${dashboard.world.baseUrl}/wallet`);
    await owners().getByText("Deployed", { exact: true }).waitFor();
  }, 240_000);
  afterAll(async () => {
    await visit?.close();
    await dashboard?.stop();
  });

  async function prove(name: string): Promise<void> {
    await button("Add a recovery wallet").click();
    await dialog().getByLabel("Name of the wallet").fill(name);
    await dialog().getByRole("button", { name: "Continue with Ledger" }).click();
    await dialog().getByRole("button", { name: "Sign with passkey" }).waitFor();
  }

  test("an address that the service exchanges gets no signature", async () => {
    await page.route(OWNERS_PREPARE, async (route) => {
      const response = await route.fetch();
      const text = await response.text();
      await route.fulfill({
        response,
        body: text.replaceAll(own.address.slice(2), other.address.slice(2)),
      });
    });
    await prove("Ledger in the safe");
    await dialog().getByRole("button", { name: "Sign with passkey" }).click();
    await dialog()
      .getByText(/differs from what is shown here/)
      .waitFor();
    await page.unroute(OWNERS_PREPARE);
    await dialog().getByRole("button", { name: "Do not sign" }).click();
    await dialog().waitFor({ state: "detached" });
  });

  test("its address becomes an owner, under the chosen name", async () => {
    await button("Add a recovery wallet").click();
    await button("Continue with Ledger").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await dialog().getByRole("button", { name: "Cancel" }).click();
    await prove("Ledger in the safe");
    expect(await findBarriers(page)).toEqual([]);
    expect((await dialog().locator(".address").first().getAttribute("title"))?.toLowerCase()).toBe(
      own.address,
    );
    await dialog().getByRole("button", { name: "Sign with passkey" }).click();
    await dialog().getByText("Confirmed").waitFor();
    await dialog().getByRole("button", { name: "Close" }).last().click();
    await owners().getByText("Ledger in the safe").waitFor();
    visit.expectClean();
  });

  test("on a device without a passkey, wallet and mailbox open the account, and a new passkey signs in and owns it", async () => {
    const device = await dashboard.open("/sign-in", { allowedErrors: REFUSALS });
    const { page: lost } = device;
    for (const wallet of [own, other]) await wallet.install(lost);
    await lost.reload();
    await lost.getByRole("link", { name: "Lost your passkey?" }).click();
    await lost.getByRole("heading", { name: "Recover your account" }).waitFor();
    expect(await findBarriers(lost)).toEqual([]);
    expect(await button("Continue with Ledger", lost).isDisabled()).toBe(true);
    await lost.getByLabel("E-mail address").fill(email);
    await button("Continue with Other wallet", lost).click();
    await lost.getByText("This wallet's account is not an owner").waitFor();
    await ageCodes(dashboard.world.sql, email, 61);
    await button("Continue with Ledger", lost).click();
    await button("Read the code from the local mailbox", lost).click();
    await lost.getByRole("heading", { name: "Create a new passkey" }).waitFor();
    expect(await findBarriers(lost)).toEqual([]);
    // its session has no other screen
    await lost.goto(`${dashboard.world.baseUrl}/links`);
    await lost.getByLabel("Name of the passkey").fill("New phone");
    await button("Create passkey", lost).click();
    await lost.getByRole("heading", { name: "Make the new passkey an owner" }).waitFor();
    await lost.reload();
    await button("Continue with Other wallet", lost).click();
    await button("Send on Base Sepolia", lost).click();
    await lost.getByText(/is not an owner on Base Sepolia yet/).waitFor();
    expect(other.hashes).toEqual([]);
    expect(await findBarriers(lost)).toEqual([]);
    await lost.reload();
    await button("Continue with Ledger", lost).click();
    await button("Send on Base Sepolia", lost).click();
    await lost.getByRole("heading", { name: "Account recovered" }).waitFor();
    await button("Sign in with the new passkey", lost).click();
    await lost.getByRole("heading", { level: 1, name: "Wallet" }).waitFor();
    await lost.getByText("New phone").first().waitFor();
    await lost.getByText("Ledger in the safe").waitFor();
    expect(own.hashes).toHaveLength(1);
    device.expectClean();
    await device.close();
  });

  test("a session that is not for a recovery is led to its account, and one that is given up to the sign-in", async () => {
    const device = await dashboard.open("/recover", { allowedErrors: REFUSALS });
    const { page: lost } = device;
    await button("Back to sign-in", lost).click();
    await lost.getByRole("heading", { name: "Sign in or sign up" }).waitFor();
    await signUpInBrowser(lost, newEmail());
    await lost.goto(`${dashboard.world.baseUrl}/recover`);
    await lost.getByRole("heading", { name: "Overview" }).waitFor();
    device.expectClean();
    await device.close();
  });
});
