/** What comes in, as a merchant sees it in the browser: live from another device, open and reusable links, a cancelled one, money without a link, and the books. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import type { Locator, Page } from "playwright-core";
import { setExportProgress, setExportSize, startExport } from "../../db/exports/exports.ts";
import { testWalletAddress } from "../../local/chain/accounts.ts";
import { findBarriers, isBrowserThere, type Visit } from "../checkout/browser.ts";
import { sendUsdc } from "../links/payers.ts";
import { until } from "../support/indexer-lab.ts";
import { newEmail } from "../support/sign-up.ts";
import { type DashboardWorld, signUpInBrowser } from "./dashboard-world.ts";

/** A zone whose clock is UTC's all year. */
const DEVICE_ZONE = "Africa/Abidjan";

export const testMoneyIn = (service: () => DashboardWorld) =>
  describe.if(isBrowserThere)("incoming money in the dashboard", () => {
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

    const valuesOf = (choice: Locator) =>
      choice
        .locator("option")
        .evaluateAll((all) => all.map((one) => (one as unknown as { value: string }).value));
    const go = (name: string) =>
      page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name, exact: true }).click();
    /** Another device of the same person: the same session, not the same page. */
    const elsewhere = async (path: string, body: object = {}) => {
      const response = await page.request.post(`${dashboard.world.baseUrl}${path}`, { data: body });
      return { status: response.status(), body: await response.json() };
    };

    test("a link created on another device appears automatically, and an event updates the list without a request", async () => {
      await go("Links");
      await page.getByText("No links yet").waitFor();
      const made = await elsewhere("/v1/payment-links", { amount: 4, description: "From the phone" });
      expect(made.status).toBe(201);
      const row = page.getByRole("row").filter({ hasText: "From the phone" });
      await row.getByText("Open", { exact: true }).waitFor();
      // no list is answered from here on
      await page.route("**/v1/payment-links?**", () => undefined);
      expect((await elsewhere(`/v1/payment-links/${made.body.id}/cancel`)).status).toBe(200);
      await row.getByText("Cancelled").waitFor();
      await elsewhere("/v1/payment-links", { amount: 5, description: "Also from the phone" });
      await page.getByRole("row").nth(1).getByText("Also from the phone").waitFor();
      await page.unroute("**/v1/payment-links?**");
    });

    const pay = async () => {
      const [checkout] = await Promise.all([
        page.context().waitForEvent("page"),
        page.getByRole("link", { name: "Open and pay" }).click(),
      ]);
      return checkout;
    };

    test("an open link asks its payer for the amount, a reusable one lists two payments", async () => {
      const open = await elsewhere("/v1/payment-links", {
        ...{ amount: null, minAmount: 2, maxAmount: 9, maxPayments: 2, description: "A donation" },
      });
      expect(open.status).toBe(201);
      await page.getByRole("link", { name: "A donation" }).click();
      await page.getByText("At least").waitFor();
      for (const amount of ["2.5", "3.25"]) {
        const checkout = await pay();
        await checkout.getByLabel(/Amount/).fill(amount);
        await checkout.getByRole("button", { name: /Continue/ }).click();
        await checkout.getByRole("button", { name: /Test wallet/ }).click();
        await checkout.locator("#pay .icon.ok").waitFor();
        await checkout.close();
        await page.getByRole("region", { name: "Payments" }).getByText(amount).waitFor();
      }
      await page.getByText("no new one can begin").waitFor();
    });

    test("a link is listed for agents, and delisted again", async () => {
      const { body } = await elsewhere("/v1/payment-links", { amount: 4, description: "A guide for agents" });
      const isListed = async () => {
        const listing = await page.request.get(`${dashboard.world.baseUrl}/.well-known/x402`);
        return (await listing.text()).includes(body.id);
      };
      await page.goto(`${dashboard.world.baseUrl}/links/${body.id}`);
      await page.getByText("For agents (x402)").click();
      const box = page.getByLabel("List it for agents");
      await box.check();
      await until("it is listed", isListed);
      expect(await findBarriers(page)).toEqual([]);
      await box.uncheck();
      await until("it is not listed", async () => !(await isListed()));
    });

    test("a link is cancelled after a confirmation, and a new one like it can be created", async () => {
      await elsewhere("/v1/payment-links", { amount: 6, description: "Nobody wants this" });
      await go("Links");
      await page.getByRole("link", { name: "Nobody wants this" }).click();
      await page.getByRole("button", { name: "Cancel link", exact: true }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("Nobody can pay it any more").waitFor();
      expect(await findBarriers(page)).toEqual([]);
      await dialog.getByRole("button", { name: "Cancel link" }).click();
      await dialog.waitFor({ state: "detached" });
      await page.locator(".big").getByText("Cancelled").waitFor();
      await page.getByRole("link", { name: "Create a new one" }).waitFor();
    });

    test("money that fits two links is assigned to the one that the merchant chooses", async () => {
      const terms = { amount: 7.5 };
      const first = await elsewhere("/v1/payment-links", { ...terms, description: "Lunch for one" });
      const second = await elsewhere("/v1/payment-links", { ...terms, description: "Lunch for another" });
      // a block's time has whole seconds, and a link fits from its creation on
      await until(
        "a block can be younger",
        async () => Date.now() > Date.parse(second.body.createdAt) + 1_000,
      );
      const { wallet } = await (await page.request.get(`${dashboard.world.baseUrl}/v1/auth/me`)).json();
      await sendUsdc(dashboard.world.chain.rpcUrl, testWalletAddress(), wallet.address, 7_500_000n);
      await go("Transactions");
      const row = page.getByRole("row").filter({ hasText: "Several links match" });
      await row.getByRole("button").click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("Which link does it pay?").waitFor();
      expect(await findBarriers(page)).toEqual([]);
      await dialog
        .getByRole("listitem")
        .filter({ hasText: first.body.id })
        .getByRole("button", { name: "This one" })
        .click();
      await dialog.waitFor({ state: "detached" });
      await page.goto(`${dashboard.world.baseUrl}/links/${first.body.id}`);
      await page.locator(".big").getByText("Paid").waitFor();
    });

    test("the bookkeeping settings are saved, and a statement in their time zone can be downloaded", async () => {
      await go("Settings");
      await page.getByLabel("Legal name").fill("Lovelace Tea Ltd");
      await page.getByLabel("Postal address").fill("1 Analytical Row\nLondon");
      const zone = page.getByLabel("Time zone of the books");
      expect(await zone.inputValue()).toBe("UTC");
      expect((await valuesOf(zone))[0]).toBe(DEVICE_ZONE);
      await zone.selectOption("Asia/Tokyo");
      await page.getByText("Numbers for DATEV").click();
      await page.getByLabel("Consultant number").fill("1001");
      await page.getByLabel("Client number").fill("1");
      const accounts = page.getByRole("group", { name: "Accounts" });
      const names = ["Wallet", "Payments", "Other receipts", "Sends", "Refunds", "Fees", "Rounding"];
      for (const [index, name] of names.entries())
        await accounts.getByLabel(name, { exact: true }).fill(String(1_200 + index));
      expect(await findBarriers(page)).toEqual([]);
      const books = page.getByRole("region", { name: "Books" });
      await books.getByRole("button", { name: "Save" }).click();
      await books.getByText("Saved").waitFor();
      await page.reload();
      await until(
        "the name is there again",
        async () => (await page.getByLabel("Legal name").inputValue()) === "Lovelace Tea Ltd",
      );
      expect(await accounts.getByLabel("Rounding").inputValue()).toBe("1206");
      await go("Statements");
      await page.getByText("Days begin in Asia/Tokyo.").waitFor();
      await page.getByLabel("Period").selectOption({ index: 0 });
      await page.getByRole("button", { name: "Create the statement" }).click();
      const [file] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("link", { name: "Download" }).first().click(),
      ]);
      expect(file.suggestedFilename()).toEndWith(".pdf");
      expect(await findBarriers(page)).toEqual([]);
    });

    test("an export is tracked from its place in the queue through its rows to the file, without reloading the page", async () => {
      const { sql, kill, start } = dashboard.world;
      // nothing is made until the worker is back: its steps are written here, by its own statements
      await kill("worker", "SIGTERM");
      await go("Exports");
      await page.evaluate("globalThis.isSamePage = true");
      await page.getByRole("button", { name: "Create the file" }).click();
      const row = page.getByRole("region", { name: "Files", exact: true }).getByRole("listitem").first();
      await row.getByText("Queued", { exact: true }).waitFor();
      await row.getByText("Transactions · all days", { exact: true }).waitFor();
      const [{ id } = { id: "" }] = await sql<
        { id: string }[]
      >`select id from exports where status = 'QUEUED'`;
      const started = await startExport(sql, id);
      if (!started || !("export" in started)) throw new Error("the export was not started");
      await setExportSize(sql, id, { rows: 12_000, matched: 12_000 });
      await row.getByText("Running", { exact: true }).waitFor();
      await row.getByText("12,000 rows").waitFor();
      const bar = row.getByRole("progressbar");
      for (const rowsDone of [3_000, 9_500]) {
        await setExportProgress(sql, started.export, rowsDone);
        await until(
          `${rowsDone} rows are shown`,
          async () => (await bar.getAttribute("value")) === `${rowsDone}`,
        );
      }
      expect(await bar.getAttribute("max")).toBe("12000");
      expect(await findBarriers(page)).toEqual([]);
      expect(await row.getByRole("link", { name: "Download" }).count()).toBe(0);
      await start("worker");
      await row.getByText("Ready", { exact: true }).waitFor();
      expect(await row.getByRole("progressbar").count()).toBe(0);
      const [file] = await Promise.all([
        page.waitForEvent("download"),
        row.getByRole("link", { name: "Download" }).click(),
      ]);
      expect(file.suggestedFilename()).toEndWith(".csv");
      expect(await Bun.file((await file.path()) ?? "").text()).toContain("A donation");
      expect(await page.evaluate("globalThis.isSamePage")).toBe(true);
    });

    test("an export that cannot be made says why, and offers no file", async () => {
      await go("Exports");
      await page.getByLabel("Format").selectOption("quickbooks_csv");
      // no rate of this day is known here
      await page.getByLabel("Values in").selectOption("EUR");
      await page.getByRole("button", { name: "Create the file" }).click();
      const row = page.getByRole("region", { name: "Files", exact: true }).getByRole("listitem").first();
      await row.getByText("Failed", { exact: true }).waitFor();
      await row.getByText(/there is no EUR rate for \d{4}-\d\d-\d\d/).waitFor();
      expect(await row.getByRole("link", { name: "Download" }).count()).toBe(0);
      expect(await findBarriers(page)).toEqual([]);
    });

    test("each confirmed payment has a numbered receipt as PDF", async () => {
      await go("Documents");
      const row = page.getByRole("row").filter({ hasText: "A donation" }).first();
      await row.getByText(/^TEST-R-\d{4}-\d{5}$/).waitFor();
      const path = await row.getByRole("link", { name: /^TEST-R-/ }).getAttribute("href");
      const pdf = await page.request.get(`${dashboard.world.baseUrl}${path}`);
      expect(pdf.headers()["content-type"]).toContain("application/pdf");
      await page.getByLabel("Month").selectOption({ index: 1 });
      await page.getByRole("button", { name: "The month as ZIP" }).click();
      const files = page.getByRole("listitem").filter({ hasText: "ZIP" });
      const [file] = await Promise.all([
        page.waitForEvent("download"),
        files.getByRole("link", { name: "Download" }).first().click(),
      ]);
      expect(file.suggestedFilename()).toEndWith(".zip");
      expect(await findBarriers(page)).toEqual([]);
    });

    test("custom rates are entered for days and from a file, listed as periods, and removed", async () => {
      await go("Exchange rates");
      await page.getByText("None yet").waitFor();
      await page.getByText("Your books use the rates of ECB.").waitFor();
      expect(await findBarriers(page)).toEqual([]);
      await page.getByLabel("First day").fill("2026-01-01");
      await page.getByLabel("Last day").fill("2026-01-31");
      await page.getByLabel("One USDC is").fill("0,9231");
      await page.getByRole("button", { name: "Save" }).click();
      const rates = page.getByRole("region", { name: "Your rates" });
      await rates.getByText("0.9231 EUR").waitFor();
      await rates.getByText("Jan 1, 2026 – Jan 31, 2026").waitFor();
      await page.getByLabel("How", { exact: true }).selectOption("file");
      const choose = (text: string) =>
        page
          .getByLabel("CSV file")
          .setInputFiles({ name: "rates.csv", mimeType: "text/csv", buffer: Buffer.from(text) });
      await choose("Day,Rate\n2026-02-30,0.9\n2026-02-01,0.91\n2026-02-01,0.92");
      await page.getByText("Line 2: Not a date: write it as 2026-10-31.").waitFor();
      await page.getByText("Line 4: This date appears twice.").waitFor();
      expect(await page.getByRole("button", { name: "Save" }).isDisabled()).toBe(true);
      expect(await findBarriers(page)).toEqual([]);
      await choose("Day;Rate\n2026-02-01;0,91\n2026-02-02;0,92");
      await page.getByText("2 days", { exact: true }).waitFor();
      await page.getByRole("button", { name: "Save" }).click();
      await rates.getByText("0.92 EUR").waitFor();
      expect(await rates.getByRole("listitem").locator("strong").allTextContents()).toEqual([
        "0.92 EUR",
        "0.91 EUR",
        "0.9231 EUR",
      ]);
      await rates.getByRole("button", { name: "Remove the rate of Jan 1, 2026 – Jan 31, 2026" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
      await rates.getByText("0.9231 EUR").waitFor({ state: "detached" });
      const { data } = await (
        await page.request.get(`${dashboard.world.baseUrl}/v1/exchange-rates/own?currency=EUR`)
      ).json();
      expect(data.currencies).toEqual([{ currency: "EUR", days: 2 }]);
      // another currency leads the list to it
      await page.getByLabel("How", { exact: true }).selectOption({ index: 0 });
      await page.getByLabel("Currency").first().selectOption("CHF");
      await page.getByLabel("First day").fill("2026-03-01");
      await page.getByLabel("One USDC is").fill("0.8");
      await page.getByRole("button", { name: "Save" }).click();
      await rates.getByText("0.8 CHF").waitFor();
      expect(await rates.getByLabel("Currency").locator("option").allTextContents()).toEqual([
        "CHF · 1 day",
        "EUR · 2 days",
      ]);
    });

    test("an export is saved with custom columns, its file is made, and a schedule is paused, resumed and ended", async () => {
      await go("Saved exports");
      await page.getByText("Save an export once").waitFor();
      await page.getByRole("button", { name: "New saved export" }).first().click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Name").fill("Cash book");
      await dialog.getByLabel("Columns").selectOption("chosen");
      const titles = () =>
        dialog
          .getByRole("listitem")
          .locator("input")
          .evaluateAll((all) => all.map((one) => (one as unknown as { value: string }).value));
      await until("the first columns", async () => (await titles()).length === 7);
      await dialog.getByRole("button", { name: "Remove Kind" }).click();
      await dialog.getByLabel("Add a column").selectOption("reference");
      await dialog.getByLabel("Net", { exact: true }).fill("Amount in USDC");
      // by keyboard: the button keeps the focus while its column moves
      await dialog.getByRole("button", { name: "Move Reference up" }).focus();
      for (let n = 0; n < 6; n++) await page.keyboard.press("Enter");
      await until("the column to be first", async () => (await titles())[0] === "Reference");
      expect(await titles()).toEqual([
        "Reference",
        "Date",
        "Gross",
        "Fee",
        "Amount in USDC",
        "Currency",
        "Description",
      ]);
      // Enter in the key of the metadata adds the column, and sends nothing
      await dialog.getByText("A column of your links' metadata").click();
      await dialog.getByLabel("Key of the metadata").fill("orderId");
      await page.keyboard.press("Enter");
      await until("the metadata's column", async () => (await titles()).at(-1) === "orderId");
      const zone = dialog.getByLabel("Time zone");
      expect((await valuesOf(zone)).slice(0, 3)).toEqual(["", DEVICE_ZONE, "UTC"]);
      expect(await zone.inputValue()).toBe("");
      await zone.selectOption("America/St_Johns");
      await dialog.getByLabel("Paid links").check();
      expect(await findBarriers(page)).toEqual([]);
      await dialog.getByRole("button", { name: "Save" }).click();
      await dialog.waitFor({ state: "hidden" });
      const saved = page.getByRole("region", { name: "Saved", exact: true });
      await saved.getByText("CSV · 8 columns").waitFor();
      const zones = await dashboard.world.sql`select definition from export_profiles`;
      expect(zones.map(({ definition }) => definition.timeZone)).toEqual(["America/St_Johns"]);
      const files = page.getByRole("region", { name: "Files", exact: true }).getByRole("listitem");
      const listed = await files.count();
      await saved.getByRole("button", { name: "Create the file of Cash book" }).click();
      await dialog.getByRole("button", { name: "Create the file" }).click();
      // files of earlier exports are listed, too
      await until("the new file to be listed", async () => (await files.count()) > listed);
      const [file] = await Promise.all([
        page.waitForEvent("download"),
        files.first().getByRole("link", { name: "Download" }).click(),
      ]);
      const text = readFileSync(await file.path(), "utf8");
      expect(text).toContain("Reference,Date,Gross,Fee,Amount in USDC,Currency,Description,orderId");
      // the payments of the links, and no other movement
      expect(text).toContain("A donation");
      await page.getByRole("button", { name: "New schedule" }).click();
      await dialog.getByLabel("How often").selectOption("weekly");
      await dialog.getByLabel("Notification").selectOption("webhook");
      expect(await findBarriers(page)).toEqual([]);
      await dialog.getByRole("button", { name: "Start the schedule" }).click();
      const schedules = page.getByRole("region", { name: "Schedules" });
      await schedules.getByText("Every week · By webhook: export.ready").waitFor();
      await schedules.getByRole("button", { name: "Pause Cash book" }).click();
      await schedules.getByText("Paused").waitFor();
      await schedules.getByRole("button", { name: "Resume Cash book" }).click();
      await schedules.getByText("On", { exact: true }).waitFor();
      expect(await findBarriers(page)).toEqual([]);
      await schedules.getByRole("button", { name: "End Cash book" }).click();
      await dialog.getByRole("button", { name: "End" }).click();
      await schedules.getByText("None yet").waitFor();
      await saved.getByRole("button", { name: "Change Cash book" }).click();
      // another program's format has columns of its own
      await dialog.getByLabel("Format").selectOption("datev");
      expect(await zone.inputValue()).toBe("America/St_Johns");
      await zone.selectOption("");
      await dialog.getByText("This program's format has its own columns.").waitFor();
      await dialog.getByRole("button", { name: "Save" }).click();
      await saved.getByText("DATEV · All columns").waitFor();
      const [changed] = await dashboard.world.sql`select definition from export_profiles`;
      expect(changed?.definition.timeZone).toBeNull();
      await saved.getByRole("button", { name: "Delete Cash book" }).click();
      await dialog.getByRole("button", { name: "Delete" }).click();
      await saved.getByText("None yet").waitFor();
    });

    test("no error was logged, and nothing was requested from another origin", () => {
      visit.expectClean();
    });
  });
