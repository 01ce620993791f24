/** What pictures of the screens alone do not show: the way in, what a click opens, a session that ended, long names and large amounts. */
import type { Page } from "playwright-core";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { newEmail, signUp } from "../support/sign-up.ts";
import { insertHistory } from "../transactions/history.ts";
import { createLinkInBrowser, type DashboardWorld, signUpInBrowser } from "./dashboard-world.ts";
import type { GoogleProvider } from "./google-account.ts";

type Take = (shown: Page, name: string) => Promise<void>;

const LARGE_UNITS = 1_234_567_890_123_456n;
const LONG_NAME = "Gesellschaft für Versuchswirtschaft und Teehandel mbH & Co KG";
const HTTP_ERRORS = /status of 4\d\d/;

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });

/** From the address field to the wallet, with what can go wrong. */
export async function takeWayIn(dashboard: DashboardWorld, take: Take): Promise<void> {
  const { page, close } = await dashboard.open("/sign-in", { allowedErrors: HTTP_ERRORS });
  await page.getByLabel("E-mail address").waitFor();
  await take(page, "sign-in");
  await page.goto(`${dashboard.world.baseUrl}/sign-in?error=link_required`);
  await page.getByRole("alert").waitFor();
  await take(page, "sign-in-not-linked");
  await page.getByLabel("E-mail address").fill(newEmail());
  await button(page, "Continue").click();
  await page.getByLabel("6-digit code").fill("000000");
  await page.getByRole("alert").waitFor();
  await take(page, "sign-in-wrong-code");
  await button(page, "Read the code from the local mailbox").click();
  await button(page, "Create passkey").waitFor();
  await take(page, "sign-in-passkey");
  await close();
  const stranger = await dashboard.open("/setings", { allowedErrors: HTTP_ERRORS });
  await stranger.page.getByRole("link", { name: "Go to the start page" }).waitFor();
  await take(stranger.page, "no-such-page");
  await stranger.close();
}

/** Google accounts: chosen before there is a wallet, linked later, and refused. */
export async function takeGoogle(
  dashboard: DashboardWorld,
  google: GoogleProvider,
  take: Take,
): Promise<void> {
  const { baseUrl } = dashboard.world;
  google.offer({ sub: "first", email: newEmail(), email_verified: true });
  const { page, close } = await dashboard.open("/sign-in", { allowedErrors: HTTP_ERRORS });
  await page.getByRole("link", { name: "Continue with Google" }).click();
  await page.getByRole("link", { name: "@" }).click();
  await button(page, "Create passkey").waitFor();
  await take(page, "google-create-wallet");
  await button(page, "Create passkey").click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  const long = "accounts-payable.and.receivable.northern-branch@books.cafe-aurora-and-daughters.example";
  google.offer({ sub: "second", email: long, email_verified: true });
  await page.goto(`${baseUrl}/security`);
  await button(page, "Link a Google account").click();
  await page.getByRole("link", { name: "@" }).click();
  await page.getByText("The Google account is linked").waitFor();
  await take(page, "google-linked");
  await page
    .getByRole("button", { name: /^Unlink / })
    .last()
    .click();
  await page.getByRole("dialog").waitFor();
  await take(page, "google-unlink");
  await page.goto(`${baseUrl}/security?google=linked_elsewhere`);
  await page.getByRole("alert").waitFor();
  await take(page, "google-refused");
  await close();
}

/** Dialogs of a merchant with one paid link. */
export async function takeDialogs(dashboard: DashboardWorld, page: Page, take: Take): Promise<void> {
  const { baseUrl } = dashboard.world;
  const open = (path: string) => page.goto(`${baseUrl}${path}`);
  const dialog = page.getByRole("dialog");
  await open("/links?new=1");
  await dialog.getByLabel("What for").waitFor();
  await take(page, "new-link");
  for (const summary of await dialog.locator("summary").all()) await summary.click();
  await take(page, "new-link-options");
  await open("/");
  await createLinkInBrowser(page, "8", "A link to cancel");
  await take(page, "link-new");
  await button(page, "Cancel link").click();
  await take(page, "cancel-link");
  await open("/transactions");
  await page.locator("td.main button").first().click();
  await dialog.getByText("First seen").waitFor();
  await take(page, "transaction-sheet");
  await open("/links");
  await page.getByRole("link", { name: "Two coffees and a book" }).click();
  await button(page, "Refund").click();
  await dialog.getByLabel("Amount", { exact: true }).waitFor();
  await take(page, "refund");
  await dialog.getByLabel("Amount", { exact: true }).fill("2.5");
  await button(page, "Review").click();
  await button(page, "Sign with passkey").click();
  await dialog.getByText("Confirmed").waitFor();
  await take(page, "refund-confirmed");
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await page.getByText("Refunded").first().waitFor();
  await take(page, "link-partly-refunded");
  await open("/send");
  await page.getByLabel("Recipient's address").fill(randomAddress());
  await page.getByLabel("Amount", { exact: true }).fill("1.25");
  await button(page, "Review").click();
  await button(page, "Sign with passkey").waitFor();
  await take(page, "send-review");
  await button(page, "Sign with passkey").click();
  await dialog.getByText("Confirmed").waitFor();
  await take(page, "send-confirmed");
  await open("/transactions?page=99");
  await page.getByText("There is no such page").waitFor();
  await take(page, "transactions-after-the-end");
  await open("/payout");
  const table = [randomAddress(), randomAddress(), "0x12"].map((to, index) => `${to},0.${index + 1},May`);
  await page.getByLabel("Recipients").fill([...table, `${randomAddress()},12,50`].join("\n"));
  await page.getByText("can be read in two ways").waitFor();
  await take(page, "payout-fault");
  await page.getByLabel("Recipients").fill(table.slice(0, 2).join("\n"));
  await button(page, "Review").click();
  await button(page, "Sign with passkey").waitFor();
  await take(page, "payout-review");
  await open("/developers/keys");
  await button(page, "New API key").first().click();
  await take(page, "new-key");
  await dialog.getByLabel("Name").fill("Shop server");
  await button(page, "Create key").click();
  await dialog.getByText(/^sk_/).waitFor();
  await take(page, "new-key-secret");
  await open("/wallet");
  await button(page, "Add a passkey").click();
  await dialog.waitFor();
  await take(page, "add-passkey");
  await open("/links");
  await page.getByRole("heading", { level: 1, name: "Links" }).waitFor();
  await page.keyboard.press("?");
  await dialog.waitFor();
  await take(page, "shortcuts");
  await open("/no/such/screen");
  await page.getByRole("heading", { level: 1 }).waitFor();
  await take(page, "no-such-screen");
}

/** Two members of other roles and an open invitation; then one of the two in their own browser. */
export async function takeMembers(dashboard: DashboardWorld, page: Page, take: Take): Promise<void> {
  const { baseUrl } = dashboard.world;
  const post = async (path: string, data: object) => {
    const answer = await page.request.post(`${baseUrl}${path}`, { data });
    if (!answer.ok()) throw new Error(`${path}: ${await answer.text()}`);
  };
  await page.goto(`${baseUrl}/members`);
  await button(page, "Invite a person").click();
  await page.getByRole("dialog").waitFor();
  await take(page, "invite");
  await post("/v1/webhook-endpoints", { url: `${baseUrl}/health` });
  const change = await page.request.patch(`${baseUrl}/v1/settings/books`, {
    data: { legalName: "Ann", documentLanguage: "de" },
  });
  if (!change.ok()) throw new Error(await change.text());
  await post("/v1/exchange-rates", {
    ...{ currency: "EUR", dateFrom: "2026-03-01", dateTo: "2026-03-31", rate: "0.9" },
  });
  for (const role of ["operator", "viewer", "owner"]) {
    const member = await signUp(baseUrl, `${role}-with-quite-a-long-address-of-many-words@example.com`);
    await post("/v1/members/invitations", { email: member.email, role });
    const { body } = await member.client.get("/v1/auth/invitations");
    const accepted = await member.client.post(`/v1/auth/invitations/${body.data[0].id}/accept`);
    if (accepted.status >= 300) throw new Error(accepted.text);
  }
  const email = newEmail();
  await post("/v1/members/invitations", { email, role: "accountant" });
  await page.goto(`${baseUrl}/members`);
  await page.getByText("operator-with").first().waitFor();
  await take(page, "members-two-roles");
  await page.getByRole("button", { name: /^Remove operator/ }).click();
  await page.getByRole("dialog").waitFor();
  await take(page, "member-remove");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: /^Remove owner/ }).click();
  await page
    .getByRole("dialog")
    .getByRole("button", { name: /^Remove/ })
    .click();
  await page.getByRole("heading", { name: /^Remove owner/ }).waitFor({ state: "detached" });
  for (const lang of ["en", "de"]) {
    await page.goto(`${baseUrl}/security?lang=${lang}`);
    await page
      .getByText(lang === "en" ? "webhook endpoint stays active" : "Webhook-Endpunkt bleibt aktiv")
      .waitFor();
    await take(page, `removed-owner-${lang}`);
  }
  const invited = await dashboard.open("/invitations", { allowedErrors: HTTP_ERRORS });
  await invited.page.getByLabel("E-mail address").fill(email);
  await button(invited.page, "Continue").click();
  await button(invited.page, "Read the code from the local mailbox").click();
  await button(invited.page, "Create passkey").click();
  await button(invited.page, "Accept").waitFor();
  await take(invited.page, "invitations");
  await button(invited.page, "Accept").click();
  await invited.page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await take(invited.page, "overview-accountant");
  await invited.page.goto(`${baseUrl}/send`);
  await invited.page.getByRole("heading", { level: 1, name: "Not for your role" }).waitFor();
  await take(invited.page, "not-for-your-role");
  await invited.close();
}

/** Whatever the limits let through, at its longest and largest. */
export async function takeExtremes(dashboard: DashboardWorld, take: Take): Promise<void> {
  const { baseUrl, chain, sql } = dashboard.world;
  const { page, close } = await dashboard.open("/", { allowedErrors: HTTP_ERRORS });
  await signUpInBrowser(page, `a-person-with-quite-a-long-address-of-many-words-${process.pid}@example.com`);
  const me = await (await page.request.get(`${baseUrl}/v1/auth/me`)).json();
  await page.request.patch(`${baseUrl}/v1/auth/me`, { data: { displayName: LONG_NAME.slice(0, 60) } });
  await fundUsdc(chain.rpcUrl, me.wallet.address, LARGE_UNITS);
  await insertHistory(sql, me.id, [
    { amountUnits: LARGE_UNITS, description: LONG_NAME },
    { amountUnits: LARGE_UNITS, description: "W".repeat(120), type: "SEND" },
    { amountUnits: 1n, description: "0.000001", status: "PENDING" },
  ]);
  for (const [amount, description] of [
    [999_999.999999, "W".repeat(120)],
    [1, LONG_NAME],
  ] as const)
    await page.request.post(`${baseUrl}/v1/payment-links`, {
      data: {
        amount,
        description,
        reference: "R".repeat(100),
        metadata: { ["k".repeat(40)]: "v".repeat(200) },
      },
    });
  for (const path of ["", "links", "transactions", "wallet", "send", "settings", "security"]) {
    await page.goto(`${baseUrl}/${path}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.locator(".skeleton").first().waitFor({ state: "hidden" });
    await take(page, `extreme-${path || "overview"}`);
  }
  await page.goto(`${baseUrl}/transactions`);
  await page.locator("td.main button").nth(1).click();
  await page.getByRole("dialog").getByText("First seen").waitFor();
  await take(page, "extreme-transaction");
  await page.goto(`${baseUrl}/links`);
  await page.locator("td.main a").last().click();
  await page.getByText("Waiting for a payment").waitFor();
  await take(page, "extreme-link");
  await close();
}

/** The session ends while a form is filled in. */
export async function takeSessionEnd(dashboard: DashboardWorld, page: Page, take: Take): Promise<void> {
  await page.goto(`${dashboard.world.baseUrl}/links?new=1`);
  const form = page.getByRole("dialog", { name: "New payment link" });
  await form.getByLabel("Amount", { exact: true }).fill("12.5");
  await form.getByLabel("What for").fill("Typed before the session ended");
  await dashboard.world.sql`delete from sessions`;
  await button(page, "Create link").click();
  await page.getByRole("dialog", { name: "Sign in again" }).waitFor();
  await take(page, "session-ended");
  await button(page, "Use passkey").click();
  await page.getByRole("heading", { level: 1, name: "Typed before the session ended" }).waitFor();
}
