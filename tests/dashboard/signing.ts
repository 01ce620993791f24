/** What leaves a wallet is what was typed: a service that offers anything else to sign gets no signature. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { findBarriers, isBrowserThere, type Visit } from "../checkout/browser.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { waitFor } from "../support/relay-lab.ts";
import { newEmail } from "../support/sign-up.ts";
import { createLinkInBrowser, type DashboardWorld, signUpInBrowser } from "./dashboard-world.ts";
import { withOtherTransfer } from "./tampered-answer.ts";

const REFUSED = /differs from what is shown here/;
const PREPARE = "**/v1/wallets/send/prepare";

export const testSigning = (service: () => DashboardWorld) =>
  describe.if(isBrowserThere)("signing in the dashboard", () => {
    let dashboard: DashboardWorld;
    let visit: Visit;
    let page: Page;
    let linkId: string;

    beforeAll(async () => {
      dashboard = service();
      visit = await dashboard.open("/", { allowedErrors: /status of 40[14]/ });
      page = visit.page;
      await page.addInitScript(`{
      const get = navigator.credentials.get.bind(navigator.credentials);
      globalThis.prompts = 0;
      navigator.credentials.get = (options) => { globalThis.prompts += 1; return get(options); };
    }`);
      await signUpInBrowser(page, newEmail());
      linkId = await createLinkInBrowser(page, "12.5", "Two coffees and a book");
      const [checkout] = await Promise.all([
        page.context().waitForEvent("page"),
        page.getByRole("link", { name: "Open and pay" }).click(),
      ]);
      await checkout.getByRole("button", { name: /Test wallet/ }).click();
      await page.locator(".big").getByText("Paid").waitFor();
      await checkout.close();
      await page.reload();
    }, 240_000);
    afterAll(() => visit?.close());

    const dialog = () => page.getByRole("dialog");
    const sign = () => dialog().getByRole("button", { name: "Sign with passkey" });
    const prompts = () => page.evaluate("prompts") as Promise<number>;
    const signatures = async () => {
      const [row] = await dashboard.world.sql<{ count: number }[]>`
      select count(*)::int as count from wallet_operations where signature is not null`;
      return row?.count ?? -1;
    };

    /** Signs what is offered, which must be refused before the passkey is asked for. */
    async function expectRefused(): Promise<void> {
      const before = await prompts();
      await sign().click();
      await dialog().getByText(REFUSED).waitFor();
      expect(await prompts()).toBe(before);
      expect(await signatures()).toBe(0);
      await dialog().getByRole("button", { name: "Do not sign" }).click();
      await dialog().waitFor({ state: "detached" });
    }

    async function reviewSend(to: string, amount: string): Promise<void> {
      await page.goto(`${dashboard.world.baseUrl}/send`);
      await page.getByLabel("Recipient's address").fill(to);
      await page.getByLabel("Amount", { exact: true }).fill(amount);
      await page.getByRole("button", { name: "Review" }).click();
      await sign().waitFor();
    }

    const lies: Record<
      string,
      (given: { to: string; units: bigint }) => Omit<Parameters<typeof withOtherTransfer>[1], "id">
    > = {
      "another recipient": ({ units }) => ({ to: randomAddress(), units }),
      "a micro-USDC more": ({ to, units }) => ({ to, units: units + 1n }),
      "another network": ({ to, units }) => ({ to, units, network: "base" }),
    };
    for (const [what, lie] of Object.entries(lies))
      test(`a send whose answer has ${what} is refused, even if its hash and challenge match it`, async () => {
        const to = randomAddress();
        const network = lie({ to, units: 1n }).network;
        await page.route(PREPARE, async (route) => {
          const response = await route.fetch();
          const answer = await response.json();
          const told = withOtherTransfer(answer, { id: answer.sendId, ...lie({ to, units: 1_250_000n }) });
          if (network) told.summary.network = network;
          await route.fulfill({ response, json: told });
        });
        await reviewSend(to, "1.25");
        await expectRefused();
        await page.unroute(PREPARE);
      });

    test("a refund whose answer names another recipient or amount is refused, even if all of the answer is consistent", async () => {
      const { to: payer } = await readRefund();
      for (const lie of [
        { to: randomAddress(), units: 2_500_000n },
        { to: payer, units: 2_500_001n },
      ]) {
        await page.goto(`${dashboard.world.baseUrl}/links/${linkId}?open=refund`);
        await page.route("**/refunds", async (route) => {
          if (route.request().method() !== "POST") return route.fallback();
          const response = await route.fetch();
          const answer = await response.json();
          const told = withOtherTransfer(answer, { id: answer.refundId, linkId, ...lie });
          const amount = `${lie.units / 1_000_000n}.${lie.units % 1_000_000n}`;
          return route.fulfill({ response, json: { ...told, to: lie.to, amount } });
        });
        await dialog().getByLabel("Amount", { exact: true }).fill("2.5");
        await dialog().getByText("It goes back to the payer").waitFor();
        await dialog().getByRole("button", { name: "Review" }).click();
        await expectRefused();
        await page.unroute("**/refunds");
      }
    });

    /** Once the page has cancelled the refund that it refused to sign. */
    async function readRefund(): Promise<{ to: string }> {
      const payment = await waitFor("the whole payment to be refundable", async () => {
        const answer = await page.request.get(
          `${dashboard.world.baseUrl}/v1/payment-links/${linkId}/refunds`,
        );
        const { payments } = await answer.json();
        expect(payments).toMatchObject([{ amount: "12.500000", pays: true }]);
        return payments[0].refundable === "12.500000" ? payments[0] : undefined;
      });
      return { to: payment.payer };
    }

    test("a refund to another address is refused when the answer sends it to the payer", async () => {
      const { to: payer } = await readRefund();
      await page.goto(`${dashboard.world.baseUrl}/links/${linkId}?open=refund`);
      await page.route("**/refunds", async (route) => {
        if (route.request().method() !== "POST") return route.fallback();
        const response = await route.fetch();
        const answer = await response.json();
        const told = withOtherTransfer(answer, { id: answer.refundId, linkId, to: payer, units: 1_000_000n });
        return route.fulfill({ response, json: { ...told, to: payer } });
      });
      await dialog().getByLabel("Amount", { exact: true }).fill("1");
      await dialog().getByText("To another address").click();
      await dialog().getByLabel("Recipient's address").fill(randomAddress());
      await dialog().getByRole("button", { name: "Review" }).click();
      await expectRefused();
      await page.unroute("**/refunds");
    });

    test("a requested refund is shown in full; closing its sheet leaves the request, declining ends it", async () => {
      const { to: payer } = await readRefund();
      const { baseUrl, sql } = dashboard.world;
      const asked = await page.request.post(`${baseUrl}/v1/payment-links/${linkId}/refund-requests`, {
        data: { amount: "0.75", reason: "One coffee was cold" },
        headers: { origin: baseUrl },
      });
      expect(asked.status()).toBe(201);
      const { refundId } = await asked.json();
      const stateOf = async () =>
        (await (await page.request.get(`${baseUrl}/v1/refunds/${refundId}`)).json()).status;
      await page.goto(`${baseUrl}/links/${linkId}?open=refund`);
      await dialog().getByText("One coffee was cold").waitFor();
      expect(await dialog().locator(`.address[title="${payer}"]`).count()).toBeGreaterThan(0);
      expect(await findBarriers(page)).toEqual([]);
      await dialog().getByRole("button", { name: "Review the request" }).click();
      await sign().waitFor();
      await dialog().getByRole("button", { name: "Do not sign" }).click();
      await dialog().waitFor({ state: "detached" });
      expect(["REQUESTED", "AWAITING_SIGNATURE"]).toContain(await stateOf());
      await page.goto(`${baseUrl}/links/${linkId}?open=refund`);
      await dialog().getByRole("button", { name: "Decline" }).click();
      await dialog().getByText("One coffee was cold").waitFor({ state: "detached" });
      expect(await stateOf()).toBe("CANCELLED");
      expect(
        await sql`select from wallet_operations where id = ${refundId} and signature is not null`,
      ).toHaveLength(0);
    });

    test("Enter never signs: neither on the button nor held from the form before it; the space bar does", async () => {
      await page.goto(`${dashboard.world.baseUrl}/send`);
      await page.getByLabel("Recipient's address").fill(randomAddress());
      await page.getByLabel("Amount", { exact: true }).fill("0.5");
      const before = await prompts();
      await page.keyboard.press("Enter");
      await sign().waitFor();
      expect(await findBarriers(page)).toEqual([]);
      await page.keyboard.press("Enter");
      await sign().focus();
      for (let times = 0; times < 5; times++) await page.keyboard.press("Enter");
      expect(await prompts()).toBe(before);
      expect(await signatures()).toBe(0);
      if (!(await dialog().isVisible())) throw new Error("Enter closed the sheet");
      await sign().focus();
      await page.keyboard.press(" ");
      await dialog().getByText("Confirmed").waitFor();
      expect(await prompts()).toBe(before + 1);
      expect(await signatures()).toBe(1);
    });

    test("no error was logged, and nothing was requested from another origin", () => {
      visit.expectClean();
    });
  });
