/** The days of the history and of exports in the browser of a merchant whose day begins four hours after that of UTC. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { isBrowserThere, type Visit } from "../checkout/browser.ts";
import { newEmail } from "../support/sign-up.ts";
import { type DashboardWorld, signUpInBrowser } from "./dashboard-world.ts";

const DEVICE_ZONE = "America/New_York";
const BOOKS_ZONE = "Asia/Tokyo";
const OCTOBER = "dateFrom=2026-10-01&dateTo=2026-10-31";

export const testChosenDays = (service: () => DashboardWorld) =>
  describe.if(isBrowserThere)("days chosen in the dashboard", () => {
    let dashboard: DashboardWorld;
    let visit: Visit;
    let page: Page;

    beforeAll(async () => {
      dashboard = service();
      // who is not known yet is answered 404 before the account is made
      visit = await dashboard.open("/", { allowedErrors: /status of 40[14]/, timezoneId: DEVICE_ZONE });
      page = visit.page;
      await signUpInBrowser(page, newEmail());
    }, 120_000);
    afterAll(() => visit?.close());

    test("select the history by the clock that it is shown in", async () => {
      const [request] = await Promise.all([
        page.waitForRequest(/\/v1\/transactions\?/),
        page.goto(`${dashboard.world.baseUrl}/transactions?${OCTOBER}`),
      ]);
      const { searchParams } = new URL(request.url());
      expect([searchParams.get("dateFrom"), searchParams.get("dateTo")]).toEqual([
        ...["2026-10-01T04:00:00.000Z", "2026-11-01T03:59:59.999Z"],
      ]);
      expect(await page.getByLabel("From", { exact: true }).inputValue()).toBe("2026-10-01");
    });

    test("of an export are those of the books for bookkeeping, and of this device for the rest", async () => {
      const { baseUrl, sql } = dashboard.world;
      const books = await page.request.patch(`${baseUrl}/v1/settings/books`, {
        data: { timeZone: BOOKS_ZONE },
      });
      expect(books.status()).toBe(200);
      await page.goto(`${baseUrl}/exports?${OCTOBER}`);
      const files = page.getByRole("region", { name: "Files", exact: true }).getByRole("listitem");
      for (const [columns, name, zone, from, before] of [
        ["books", "For bookkeeping", BOOKS_ZONE, "2026-09-30T15:00:00.000Z", "2026-10-31T15:00:00.000Z"],
        ["accounting", "For accounting", DEVICE_ZONE, "2026-10-01T04:00:00.000Z", "2026-11-01T04:00:00.000Z"],
      ] as const) {
        await page.getByLabel("Columns").selectOption(columns);
        await page.getByText(`Times in ${zone}.`).waitFor();
        await page.getByRole("button", { name: "Create the file" }).click();
        await files.filter({ hasText: name }).getByText("Oct 1, 2026 – Oct 31, 2026").waitFor();
        const [made] = await sql`select request from exports order by created_at desc limit 1`;
        expect(made?.request).toMatchObject({ timeZone: zone, filter: { from, before } });
      }
    });

    test("no error was logged, and nothing was requested from another origin", () => {
      visit.expectClean();
    });
  });
