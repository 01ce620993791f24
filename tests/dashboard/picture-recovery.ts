/** Pictures of a recovery wallet: added as an owner, and used on a device without a passkey. */
import type { Page } from "playwright-core";
import { makeTestWallet } from "../checkout/test-wallet.ts";
import { ageCodes, newEmail } from "../support/sign-up.ts";
import { type DashboardWorld, signUpInBrowser } from "./dashboard-world.ts";

type Take = (shown: Page, name: string) => Promise<void>;

const HTTP_ERRORS = /status of 4\d\d/;

export async function takeRecovery(dashboard: DashboardWorld, take: Take): Promise<void> {
  const { world } = dashboard;
  const email = newEmail();
  const wallet = await makeTestWallet(world.chain.rpcUrl, { name: "Ledger" });
  const visit = await dashboard.open("/sign-in", { allowedErrors: HTTP_ERRORS });
  const { page } = visit;
  await wallet.install(page);
  await signUpInBrowser(page, email);
  await page.goto(`${world.baseUrl}/wallet`);
  await page.getByText("Deployed", { exact: true }).waitFor();
  await button(page, "Add a recovery wallet").click();
  await button(page, "Continue with Ledger").waitFor();
  await take(page, "recovery-wallet");
  await button(page, "Continue with Ledger").click();
  await button(page, "Sign with passkey").waitFor();
  await take(page, "recovery-wallet-sign");
  await button(page, "Sign with passkey").click();
  await page.getByText("Confirmed").waitFor();
  await visit.close();

  const bare = await dashboard.open("/recover", { allowedErrors: HTTP_ERRORS });
  await bare.page.getByText("No wallet was found").waitFor();
  await take(bare.page, "recover-no-wallet");
  await bare.close();

  const device = await dashboard.open("/recover", { allowedErrors: HTTP_ERRORS });
  const { page: lost } = device;
  await wallet.install(lost);
  await lost.reload();
  await button(lost, "Continue with Ledger").waitFor();
  await take(lost, "recover-begin");
  await lost.getByLabel("E-mail address").fill(newEmail());
  await button(lost, "Continue with Ledger").click();
  await lost.getByRole("alert").waitFor();
  await take(lost, "recover-not-an-owner");
  await ageCodes(world.sql, email, 61);
  await lost.getByLabel("E-mail address").fill(email);
  await button(lost, "Continue with Ledger").click();
  await button(lost, "Read the code from the local mailbox").waitFor();
  await take(lost, "recover-code");
  await button(lost, "Read the code from the local mailbox").click();
  await button(lost, "Create passkey").waitFor();
  await take(lost, "recover-passkey");
  await button(lost, "Create passkey").click();
  await button(lost, "Continue with Ledger").waitFor();
  await take(lost, "recover-choose-wallet");
  await button(lost, "Continue with Ledger").click();
  await button(lost, "Send on Base Sepolia").waitFor();
  await take(lost, "recover-send");
  await button(lost, "Send on Base Sepolia").click();
  await lost.getByText("Sent. Waiting").waitFor();
  await take(lost, "recover-sent");
  await button(lost, "Sign in with the new passkey").waitFor();
  await take(lost, "recover-done");
  await device.close();
}

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
