/** A refund whose payment was chosen stays that payment's, whatever is refunded elsewhere while its form is open. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Page } from "playwright-core";
import { callRpc } from "../../local/chain/rpc.ts";
import { isBrowserThere, type Visit } from "../checkout/browser.ts";
import { refundLab } from "../support/refund-lab.ts";
import { waitFor } from "../support/relay-lab.ts";
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
    const { linkId, first, second } = await openRefund();
    expect(await shownPayer()).toBe(first.payer);
    await refunded(linkId, { transactionId: first.transactionId });
    await dialog()
      .getByText("Nothing of this payment is left to refund: it was refunded elsewhere.")
      .waitFor();
    expect(await shownPayer()).toBe(first.payer);
    expect(await dialog().getByRole("button", { name: "Review" }).isDisabled()).toBe(true);
    expect(await dialog().getByText("Leave empty for").count()).toBe(0);
    await dialog()
      .getByLabel("Which payment")
      .selectOption({ label: await optionOf(second.payer) });
    expect(await dialog().getByRole("button", { name: "Review" }).isDisabled()).toBe(false);
  });

  test("that the chain undoes is reported, and another one is chosen before anything is prepared", async () => {
    const { linkId, first, second, third } = await openRefund();
    await dialog().getByLabel("Which payment").selectOption({ index: 2 });
    expect(await shownPayer()).toBe(third.payer);
    await dialog().getByLabel("Amount", { exact: true }).fill("0.5");
    await undoNewestTransfer(linkId);
    await dialog().getByText("the chain has undone it").waitFor();
    expect(await dialog().getByRole("button", { name: "Review" }).count()).toBe(0);
    expect(await dialog().locator("option:not([value=''])").count()).toBe(2);
    await dialog()
      .getByLabel("Which payment")
      .selectOption({ label: await optionOf(second.payer) });
    expect(await shownPayer()).toBe(second.payer);
    expect(await dialog().getByLabel("Amount", { exact: true }).inputValue()).toBe("");
    expect(first.payer).not.toBe(second.payer);
  });

  test("is refunded once although the answer to its review was lost, and is not called refunded meanwhile", async () => {
    const { linkId, first } = await openRefund();
    await page.route("**/refunds", async (route) => {
      if (route.request().method() !== "POST") return route.fallback();
      expect((await route.fetch()).status()).toBe(201);
      return route.fulfill({ status: 502, contentType: "text/html", body: "<h1>Bad Gateway</h1>" });
    });
    await dialog().getByRole("button", { name: "Review" }).click();
    await dialog().getByText("The service answered 502.").waitFor();
    await page.unroute("**/refunds");
    // what was reserved is read again, as after a lost connection
    await merchant.client.post("/v1/payment-links", { amount: 1, description: "Another event" });
    await dialog().getByText("At most 0.00").waitFor();
    await dialog().getByRole("button", { name: "Review" }).click();
    await dialog().getByRole("button", { name: "Do not sign" }).waitFor();
    expect(await dialog().locator(".to-sign .address").getAttribute("title")).toBe(first.payer);
    expect(await dialog().locator(".to-sign .amount").textContent()).toBe("1.00");
    const { refunds } = (await merchant.client.get(`/v1/payment-links/${linkId}/refunds`)).body;
    expect(refunds).toHaveLength(1);
    await dialog().getByRole("button", { name: "Do not sign" }).click();
  });

  test("is asked for with what is left by then when its first amount was refused", async () => {
    const { linkId, second } = await openRefund();
    await dialog().getByLabel("Which payment").selectOption({ index: 1 });
    let isFirst = true;
    await page.route("**/refunds", async (route) => {
      if (route.request().method() === "POST" && isFirst) {
        isFirst = false;
        await refunded(linkId, { transactionId: second.transactionId, amount: 0.5 });
      }
      return route.fallback();
    });
    await dialog().getByRole("button", { name: "Review" }).click();
    await dialog().getByText("Leave empty for 1.50").waitFor();
    await dialog().getByText("At most 1.500000 USDC can be refunded").waitFor();
    const repeated = page.waitForRequest((request) => request.method() === "POST");
    await dialog().getByRole("button", { name: "Review" }).click();
    expect((await repeated).postDataJSON()).toMatchObject({
      transactionId: second.transactionId,
      amount: "1.500000",
    });
    await dialog().getByRole("button", { name: "Do not sign" }).waitFor();
    expect(await dialog().locator(".to-sign .amount").textContent()).toBe("1.50");
    await dialog().getByRole("button", { name: "Do not sign" }).click();
    await page.unroute("**/refunds");
  });

  test("is released when the form is closed while its review is under way", async () => {
    const { linkId } = await openRefund();
    let letThrough = () => {};
    const held = new Promise<void>((resolve) => {
      letThrough = resolve;
    });
    await page.route("**/refunds", async (route) => {
      if (route.request().method() !== "POST") return route.fallback();
      const answer = await route.fetch();
      await held;
      return route.fulfill({ response: answer });
    });
    const asked = page.waitForRequest((request) => request.method() === "POST");
    await dialog().getByRole("button", { name: "Review" }).click();
    await asked;
    await dialog().getByRole("button", { name: "Cancel" }).click();
    await dialog().waitFor({ state: "detached" });
    letThrough();
    await waitFor("it is cancelled", async () => {
      const { refunds } = (await merchant.client.get(`/v1/payment-links/${linkId}/refunds`)).body;
      return refunds[0]?.status === "CANCELLED";
    });
    await page.unroute("**/refunds");
  });

  const optionOf = async (payer: string) =>
    (await dialog()
      .locator("option", { hasText: payer.slice(-4) })
      .textContent()) ?? "";

  /** Replaces the blocks from its own on by empty ones. */
  async function undoNewestTransfer(linkId: string): Promise<void> {
    const { sql, chain } = dashboard.world;
    const { rpcUrl } = chain;
    const [row] = await sql<{ blockNumber: bigint }[]>`
      select max(block_number) as block_number from transfers where link_id = ${linkId}`;
    const head = Number(await callRpc(rpcUrl, "eth_blockNumber"));
    await callRpc(rpcUrl, "anvil_reorg", [head - Number(row?.blockNumber) + 1, []]);
    await callRpc(rpcUrl, "evm_setTime", [Math.floor(Date.now() / 1000)]);
  }
});
