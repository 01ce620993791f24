/** Secrets that are shown once: they are not lost by a key pressed too early, and what they belong to can be revoked by its name. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { findBarriers, isBrowserThere, type Visit } from "../checkout/browser.ts";
import { newEmail } from "../support/sign-up.ts";
import { type DashboardWorld, signUpInBrowser } from "./dashboard-world.ts";

const NAME = "Shop  server";

export const testOneTimeSecrets = (service: () => DashboardWorld) =>
  describe.if(isBrowserThere)("an API key's secret in the dashboard", () => {
    let visit: Visit;
    let page: Page;

    beforeAll(async () => {
      visit = await service().open("/", { allowedErrors: /status of 40[14]/ });
      page = visit.page;
      await signUpInBrowser(page, newEmail());
      await page.goto(`${service().world.baseUrl}/developers/keys`);
    }, 120_000);
    afterAll(() => visit?.close());

    const dialog = () => page.getByRole("dialog");
    const button = (name: string) => dialog().getByRole("button", { name, exact: true });

    test("stays on the screen, whatever is pressed, until it is kept", async () => {
      await page.getByRole("button", { name: "New API key" }).first().click();
      await dialog().getByLabel("Name").fill(NAME);
      await button("Create key").click();
      const secret = dialog().getByText(/^sk_/);
      await secret.waitFor();
      for (let times = 0; times < 3; times++) await page.keyboard.press("Escape");
      expect(await secret.isVisible()).toBe(true);
      expect(await button("Close").count()).toBe(0);
      expect(await button("Done").isDisabled()).toBe(true);
      // as in a browser without a clipboard
      await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
      await dialog().getByRole("button", { name: "Copy the key" }).click();
      await dialog().getByRole("alert").getByText("Copy the selected text").waitFor();
      // its text is selected as it gets the focus, after it is drawn
      await dialog().getByRole("textbox", { name: "Copy the key" }).and(page.locator(":focus")).waitFor();
      expect(await page.evaluate("document.getSelection().toString()")).toBe(
        await secret.first().textContent(),
      );
      expect(await findBarriers(page)).toEqual([]);
      await dialog().getByLabel("I have kept it").check();
      await dialog().getByRole("alert").waitFor({ state: "detached" });
      await page.keyboard.press("Escape");
      await dialog().waitFor({ state: "detached" });
    });

    test("is revoked by its key's name as the page shows it, with one space where it has two", async () => {
      await page.getByRole("button", { name: "Revoke" }).click();
      await dialog().getByLabel("Type its name").fill("Shop server");
      await button("Revoke").click();
      await page.getByText("Revoked", { exact: true }).waitFor();
      visit.expectClean();
    });
  });
