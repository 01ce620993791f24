/**
 * Two people in two browsers: a merchant invites an accountant by mail, who reads and exports with a passkey of their own, asks for a refund as
 * an operator, is removed, and comes back as an owner who signs.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import type { Page } from "playwright-core";
import { findBarriers, isBrowserThere, type Visit } from "../checkout/browser.ts";
import { newEmail } from "../support/sign-up.ts";
import { createLinkInBrowser, type DashboardWorld, signUpInBrowser } from "./dashboard-world.ts";

const OWNERS_PREPARE = "**/v1/wallets/owners/prepare";
/** `addOwnerPublicKey` of the account, behind which the key stands. */
const ADD_PUBLIC_KEY = "29565e3b";

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const menu = (page: Page) => page.getByRole("navigation", { name: "Screens" });
const heading = (page: Page, name: string) =>
  page.getByRole("heading", { level: 1, name, exact: true }).waitFor();

/** For whoever changes these screens: `PICTURES=folder` keeps what was seen. */
async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env.PICTURES;
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: `${folder}/${name}.png` });
}

export const testMembers = (service: () => DashboardWorld) =>
  describe.if(isBrowserThere)("members in the dashboard", () => {
    let dashboard: DashboardWorld;
    let owner: Visit;
    let member: Visit;
    let linkId: string;
    const [ownerEmail, memberEmail] = [newEmail(), newEmail()];

    beforeAll(async () => {
      dashboard = service();
      // who is not known yet is answered 404 before the account is made
      const allowedErrors = /status of (40[134])|ERR_FAILED/;
      owner = await dashboard.open("/", { allowedErrors });
      member = await dashboard.open("/invitations", { allowedErrors });
    }, 120_000);
    afterAll(async () => {
      await owner?.close();
      await member?.close();
    });

    test("the merchant invites an accountant, who gets a mail with the link to accept", async () => {
      const { page } = owner;
      await signUpInBrowser(page, ownerEmail);
      linkId = await createLinkInBrowser(page, "12.50", "Two coffees");
      await menu(page).getByRole("link", { name: "Members" }).click();
      await heading(page, "Members");
      await button(page, "Invite a person").click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("E-mail address").fill(memberEmail);
      await dialog.getByLabel("Role").selectOption("accountant");
      await picture(page, "invite");
      await button(page, "Send the invitation").click();
      await page.getByRole("heading", { name: "Open invitations" }).waitFor();
      expect(await findBarriers(page)).toEqual([]);
      await picture(page, "members-open");
      const mail = await dashboard.world.mailbox.waitForMail(memberEmail);
      expect(mail.text).toContain(`${dashboard.world.baseUrl}/invitations`);
      expect(mail.text).toContain("accountant");
    });

    test("the accountant registers with a passkey of their own, accepts, and sees the merchant's link", async () => {
      const { page } = member;
      await page.getByLabel("E-mail address").fill(memberEmail);
      await button(page, "Continue").click();
      await button(page, "Read the code from the local mailbox").click();
      await button(page, "Create passkey").click();
      await heading(page, "Invitations");
      await picture(page, "invitation");
      expect(await findBarriers(page)).toEqual([]);
      await button(page, "Accept").click();
      await heading(page, "Overview");
      await menu(page).getByRole("link", { name: "Links" }).click();
      await page.getByRole("link", { name: "Two coffees" }).first().waitFor();
    });

    test("the accountant makes and downloads an export, and is offered nothing that the role lacks", async () => {
      const { page } = member;
      const entries = await menu(page).getByRole("link").allTextContents();
      expect(entries).toEqual([
        "Overview",
        "Links",
        "Transactions",
        "Documents",
        "Statements",
        "Exports",
        "Saved exports",
        "Exchange rates",
        "Wallet",
        "Members",
        "Security",
      ]);
      expect(await button(page, "New payment link").count()).toBe(0);
      await page.getByRole("link", { name: "Two coffees" }).first().click();
      await page.getByRole("heading", { name: "Two coffees" }).waitFor();
      expect(await button(page, "Cancel link").count()).toBe(0);
      await menu(page).getByRole("link", { name: "Transactions" }).click();
      await heading(page, "Transactions");
      await menu(page).getByRole("link", { name: "Exports", exact: true }).click();
      await button(page, "Create the file").click();
      const link = page.getByRole("link", { name: "Download" });
      await link.waitFor();
      await picture(page, "accountant-exports");
      const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
      expect(await download.failure()).toBeNull();
      await menu(page).getByRole("link", { name: "Exchange rates" }).click();
      await page.getByLabel("First day").fill("2026-01-01");
      await page.getByLabel("One USDC is").fill("0.9");
      await button(page, "Save").click();
      await page.getByText("0.9 EUR").waitFor();
      await page.getByText("Your books use the rates of ECB.").waitFor();
      // the source is chosen by whoever may change the settings
      expect(await page.locator(".notice.info").getByRole("link").count()).toBe(0);
      await page.goto(`${dashboard.world.baseUrl}/send`);
      await heading(page, "Not for your role");
      expect(await findBarriers(page)).toEqual([]);
      await picture(page, "not-for-your-role");
      await menu(page).getByRole("link", { name: "Members" }).click();
      await page.getByText(ownerEmail).waitFor();
      expect(await button(page, "Invite a person").count()).toBe(0);
      await picture(page, "members-accountant");
    });

    test("the service refuses what the page does not offer, whatever the browser sends", async () => {
      const statuses = await member.page.evaluate(
        async ({ merchantId, id }) => {
          const send = async (method: string, path: string, body?: object) => {
            const headers = { "x-merchant": merchantId, "content-type": "application/json" };
            return (await fetch(path, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) }))
              .status;
          };
          return [
            await send("GET", "/v1/transactions"),
            await send("POST", "/v1/payment-links", { amount: 1, description: "x" }),
            await send("POST", `/v1/payment-links/${id}/cancel`),
            await send("POST", "/v1/wallets/send/prepare", { to: merchantId, amount: "1" }),
            await send("GET", "/v1/api-keys"),
            await send("GET", "/v1/security-events"),
            await send("POST", "/v1/members/invitations", { email: "x@example.com", role: "owner" }),
          ];
        },
        { merchantId: await merchantIdOf(owner.page), id: linkId },
      );
      expect(statuses).toEqual([200, 403, 403, 403, 403, 403, 403]);
    });

    test("an operator requests a refund, the merchant prepares and signs it, and the operator sees it arrive", async () => {
      const { page } = owner;
      await menu(page).getByRole("link", { name: "Members" }).click();
      // leaving the page would abort the change
      const changed = page.waitForResponse((answer) => answer.request().method() === "PATCH");
      await page.getByLabel(`Role of ${memberEmail}`).selectOption("operator");
      expect((await changed).status()).toBe(200);
      await page.goto(`${dashboard.world.baseUrl}/links/${linkId}`);
      const [checkout] = await Promise.all([
        page.context().waitForEvent("page"),
        page.getByRole("link", { name: "Open and pay" }).click(),
      ]);
      await checkout.getByRole("button", { name: /Test wallet/ }).click();
      await page.locator(".big").getByText("Paid").waitFor();
      await checkout.close();

      const asking = member.page;
      for (const path of ["/exchange-rates", "/saved-exports"]) {
        await asking.goto(`${dashboard.world.baseUrl}${path}`);
        await heading(asking, "Not for your role");
      }
      await asking.goto(`${dashboard.world.baseUrl}/links/${linkId}`);
      await button(asking, "Ask for a refund").click();
      await asking.getByRole("dialog").getByLabel("Amount", { exact: true }).fill("2.5");
      await asking.getByRole("dialog").getByLabel("Reason").fill("One coffee was cold");
      expect(await findBarriers(asking)).toEqual([]);
      await picture(asking, "ask-for-a-refund");
      // its answer is lost once, and the request is made once
      await asking.route("**/refund-requests", async (route) => {
        expect((await route.fetch()).status()).toBe(201);
        await route.abort();
      });
      await button(asking, "Send the request").click();
      await asking.getByRole("dialog").getByText("The service did not answer.").waitFor();
      await asking.unroute("**/refund-requests");
      await button(asking, "Send the request").click();
      await asking.getByText("An owner of the wallet signs it, or declines.").waitFor();
      expect(await button(asking, "Review the request").count()).toBe(0);
      await picture(asking, "refund-asked-for");

      await button(page, "Review the request").click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("One coffee was cold").waitFor();
      await picture(page, "refund-requested");
      await button(page, "Review the request").last().click();
      await dialog.getByRole("button", { name: "Sign with passkey" }).click();
      await dialog.getByText("Confirmed").waitFor();
      await picture(page, "refund-signed");
      await dialog.getByRole("button", { name: "Close" }).last().click();
      await asking.locator(".timeline").getByText("Refunded").waitFor();
      expect(await refundsOf(page, linkId)).toEqual([{ status: "CONFIRMED", amount: "2.500000" }]);
    });

    test("removed, the accountant is signed out at once without touching the page", async () => {
      await menu(owner.page).getByRole("link", { name: "Members" }).click();
      await heading(owner.page, "Members");
      await button(owner.page, `Remove ${memberEmail}`).click();
      await button(owner.page, "Remove").click();
      await button(owner.page, `Remove ${memberEmail}`).waitFor({ state: "detached" });
      const { page } = member;
      await page.getByRole("dialog", { name: "Sign in again" }).waitFor();
      await picture(page, "signed-out");
      await button(page, "Use passkey").click();
      await heading(page, "Overview");
      await menu(page).getByRole("link", { name: "Links" }).click();
      await page.getByText("No links yet").waitFor();
      expect(await page.getByText("Two coffees").count()).toBe(0);
    });

    test("invited again as an owner, the member becomes one by the merchant's signature, which adds no other key", async () => {
      const { page } = owner;
      const dialog = page.getByRole("dialog");
      await button(page, "Invite a person").click();
      await dialog.getByLabel("E-mail address").fill(memberEmail);
      await dialog.getByLabel("Role").selectOption("owner");
      await button(page, "Send the invitation").click();
      await page.getByRole("heading", { name: "Open invitations" }).waitFor();
      await member.page.goto(`${dashboard.world.baseUrl}/invitations`);
      await button(member.page, "Accept").click();
      await heading(member.page, "Overview");

      const promote = button(page, `Make an owner: ${memberEmail}`);
      await promote.waitFor();
      await picture(page, "members-owner-to-be");
      await page.route(OWNERS_PREPARE, async (route) => {
        const response = await route.fetch();
        const answer = await response.json();
        const { callData } = answer.userOperation;
        const key = callData.indexOf(ADD_PUBLIC_KEY) + ADD_PUBLIC_KEY.length;
        const other = `${callData.slice(0, key)}${"ab".repeat(32)}${callData.slice(key + 64)}`;
        const json = { ...answer, userOperation: { ...answer.userOperation, callData: other } };
        await route.fulfill({ response, json });
      });
      const sign = dialog.getByRole("button", { name: "Sign with passkey" });
      await promote.click();
      await button(page, "Review").click();
      await sign.click();
      await dialog.getByText(/differs from what is shown here/).waitFor();
      await picture(page, "owner-refused");
      await page.unroute(OWNERS_PREPARE);
      await button(page, "Do not sign").click();
      await dialog.waitFor({ state: "detached" });

      await promote.click();
      expect(await findBarriers(page)).toEqual([]);
      await picture(page, "owner-to-be");
      await button(page, "Review").click();
      await sign.waitFor();
      expect(await findBarriers(page)).toEqual([]);
      await picture(page, "owner-to-sign");
      await sign.click();
      await dialog.getByText("Confirmed").waitFor();
      await picture(page, "owner-signed");
      await dialog.getByRole("button", { name: "Close" }).last().click();
      // the indexer has seen the passkey among the wallet's owners
      await promote.waitFor({ state: "detached" });
    });

    test("the new owner refunds with a passkey of their own", async () => {
      const { page } = member;
      await page.goto(`${dashboard.world.baseUrl}/links/${linkId}`);
      await button(page, "Refund").click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Amount", { exact: true }).fill("1");
      await button(page, "Review").click();
      await dialog.getByRole("button", { name: "Sign with passkey" }).click();
      await dialog.getByText("Confirmed").waitFor();
      expect(await refundsOf(owner.page, linkId)).toEqual([
        { status: "CONFIRMED", amount: "1.000000" },
        { status: "CONFIRMED", amount: "2.500000" },
      ]);
    });
  });

/** Newest first. */
async function refundsOf(page: Page, linkId: string): Promise<{ status: string; amount: string }[]> {
  const path = `/v1/payment-links/${linkId}/refunds`;
  const { refunds } = await (await page.request.get(new URL(path, page.url()).href)).json();
  return refunds.map(({ status, amount }: { status: string; amount: string }) => ({ status, amount }));
}

const merchantIdOf = (page: Page): Promise<string> =>
  page.evaluate(async () => ((await (await fetch("/v1/auth/me")).json()) as { id: string }).id);
