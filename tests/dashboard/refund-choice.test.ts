/** A refund whose payment was chosen stays that payment's, whatever is refunded elsewhere while its form is open. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Page } from "playwright-core";
import { isBrowserThere, type Visit } from "../checkout/browser.ts";
import { refundLab } from "../support/refund-lab.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type DashboardWorld, startDashboardWorld } from "./dashboard-world.ts";

setDefaultTimeout(120_000);

describe.if(isBrowserThere)("the payment chosen for a refund", () => {
  let dashboard: DashboardWorld;
  let merchant: Merchant;
  let visit: Visit;
  let page: Page;

  beforeAll(async () => {
    dashboard = await startDashboardWorld();
    const { baseUrl } = dashboard.world;
    merchant = await signUp(baseUrl);
    visit = await dashboard.open("/");
    page = visit.page;
    const cookies = [...merchant.client.cookies].map(([name, value]) => ({ name, value, url: baseUrl }));
    await page.context().addCookies(cookies);
  }, 240_000);
  afterAll(async () => {
    await visit?.close();
    await dashboard?.stop();
  });

  const { makeLink, transferFor, refunded } = refundLab(() => {
    const { world } = dashboard;
    return { world, sql: world.sql, merchant };
  });
  const dialog = () => page.getByRole("dialog");
  const shownPayer = () => dialog().locator(".goes-back .address").getAttribute("title");
  const payments = async (linkId: string): Promise<{ payer: string; transactionId: string }[]> =>
    (await merchant.client.get(`/v1/payment-links/${linkId}/refunds`)).body.payments;

  async function openRefund() {
    const linkId = await makeLink(5);
    for (const units of [1_000_000n, 2_000_000n, 3_000_000n]) await transferFor(linkId, units);
    const [first, second, third] = await payments(linkId);
    if (!first || !second || !third) throw new Error("three payments were made");
    await page.goto(`${dashboard.world.baseUrl}/links/${linkId}?open=refund`);
    await dialog().getByLabel("Which payment").waitFor();
    return { linkId, first, second, third };
  }

  test("is not replaced by the next one when an earlier payment is refunded elsewhere", async () => {
    const { linkId, first, second } = await openRefund();
    await dialog().getByLabel("Which payment").selectOption({ index: 1 });
    expect(await shownPayer()).toBe(second.payer);
    await refunded(linkId, { transactionId: first.transactionId });
    await dialog().locator("option").nth(2).waitFor({ state: "detached" });
    expect(await shownPayer()).toBe(second.payer);
    const prepared = page.waitForRequest((request) => request.method() === "POST");
    await dialog().getByRole("button", { name: "Review" }).click();
    expect((await prepared).postDataJSON()).toMatchObject({
      transactionId: second.transactionId,
      amount: "2.000000",
    });
    await dialog().getByRole("button", { name: "Do not sign" }).click();
  });

  test("is not replaced by another when it is itself refunded elsewhere", async () => {
    const { linkId, first } = await openRefund();
    expect(await shownPayer()).toBe(first.payer);
    await refunded(linkId, { transactionId: first.transactionId });
    await dialog().getByText("At most 0.00").waitFor();
    expect(await shownPayer()).toBe(first.payer);
    await dialog().getByRole("button", { name: "Review" }).click();
    await dialog().getByText("Nothing is left to refund.").waitFor();
  });
});
