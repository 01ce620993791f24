/** The wallet screen on two networks, in a real browser: a second network, the wallet file, a second owner, and taking it away. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import type { Page, Route } from "playwright-core";
import { newTransactionId } from "../../core/domain/ids.ts";
import { findBarriers, isBrowserThere, type Visit } from "../checkout/browser.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { waitFor } from "../support/relay-lab.ts";
import { newEmail } from "../support/sign-up.ts";
import { addAuthenticator, type DashboardWorld, startDashboardWorld } from "./dashboard-world.ts";
import { withOtherTransfer } from "./tampered-answer.ts";

setDefaultTimeout(120_000);

const OWNERS_PREPARE = "**/v1/wallets/owners/prepare";
const REFUSED = /differs from what is shown here/;

describe.if(isBrowserThere)("the wallet screen", () => {
  let dashboard: DashboardWorld;
  let visit: Visit;
  let page: Page;
  const email = newEmail();

  beforeAll(async () => {
    dashboard = await startDashboardWorld({ bothNetworks: true });
    visit = await dashboard.open("/wallet", { allowedErrors: /status of 40[014]/ });
    page = visit.page;
    await page.getByLabel("E-mail address").fill(email);
    await button("Continue").click();
    await button("Read the code from the local mailbox").click();
    await page.getByLabel("Network").selectOption("base-sepolia");
    await button("Create passkey").click();
    await page.getByRole("heading", { level: 1, name: "Wallet" }).waitFor();
  }, 240_000);
  afterAll(async () => {
    await visit?.close();
    await dashboard?.stop();
  });

  const button = (name: string) => page.getByRole("button", { name, exact: true });
  const dialog = () => page.getByRole("dialog");
  const sign = () => dialog().getByRole("button", { name: "Sign with passkey" });
  const panel = (name: string) => page.getByRole("region", { name, exact: true });
  const signed = async () => {
    const [row] = await dashboard.world.sql<{ count: number }[]>`
      select count(*)::int as count from wallet_operations where signature is not null`;
    return row?.count ?? -1;
  };

  test("a second network is set up with the same passkey, at the same address", async () => {
    const first = await panel("Base Sepolia").locator(".address").first().textContent();
    await button("Set up Base").click();
    await panel("Base").getByText("Deployed with the first send").waitFor();
    expect(await panel("Base").locator(".address").first().textContent()).toBe(first);
    expect(await button("Set up Base").count()).toBe(0);
    expect(await findBarriers(page)).toEqual([]);
  });

  test("the wallet file and the page for leaving are downloaded, and the file names wallet and owner", async () => {
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download the wallet file" }).click(),
    ]);
    const text = readFileSync(await file.path(), "utf8");
    const address = (await panel("Base").locator(".address").first().getAttribute("title")) ?? "none";
    expect(text.toLowerCase()).toContain(address.toLowerCase());
    expect(text).toContain("owners");
    const [leave] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download the page" }).click(),
    ]);
    expect(leave.suggestedFilename()).toEndWith(".html");
  });

  /** On a security key of its own, up to the sheet that shows what the first passkey signs. */
  async function makeSecondPasskey(): Promise<void> {
    const first = dashboard.authenticatorOf(page);
    await first.setPresence(false);
    const second = await addAuthenticator(page, { transport: "usb" });
    await button("Add a passkey").click();
    await dialog().getByLabel("Name of the passkey").fill("Key in the safe");
    await dialog().getByRole("button", { name: "Create passkey" }).click();
    await sign().waitFor();
    await second.remove();
    await first.setPresence(true);
  }

  test("a new owner whose key the service exchanges is refused before the passkey is asked for", async () => {
    const before = await signed();
    await page.route(OWNERS_PREPARE, async (route: Route) => {
      const response = await route.fetch();
      const answer = await response.json();
      const { callData } = answer.userOperation;
      const selector = callData.indexOf("29565e3b") + 8;
      const other = `${callData.slice(0, selector)}${"ab".repeat(32)}${callData.slice(selector + 64)}`;
      await route.fulfill({
        response,
        json: { ...answer, userOperation: { ...answer.userOperation, callData: other } },
      });
    });
    await makeSecondPasskey();
    await sign().click();
    await dialog().getByText(REFUSED).waitFor();
    expect(await signed()).toBe(before);
    await page.unroute(OWNERS_PREPARE);
    await dialog().getByRole("button", { name: "Do not sign" }).click();
    await dialog().waitFor({ state: "detached" });
  });

  test("a second passkey becomes an owner: immediately where the wallet is deployed, elsewhere with its first send", async () => {
    await panel("Base Sepolia").getByText("Deployed", { exact: true }).waitFor();
    await makeSecondPasskey();
    await dialog().getByText("All networks, with one signature").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await sign().click();
    await dialog().getByText("Confirmed").waitFor();
    expect(await dialog().getByRole("heading").allTextContents()).toEqual(["Signed"]);
    await dialog().getByText("Takes effect with the first send there.").waitFor();
    await dialog().getByRole("button", { name: "Close" }).last().click();
    await panel("Base Sepolia").getByText("Key in the safe").waitFor();
    await panel("Base").getByText("Takes effect with the first send there.").waitFor();
    await waitFor("the second owner in the books", async () => {
      const added = await dashboard.world.sql`
        select from account_changes change
        join wallets on wallets.network = change.network and hex_of(wallets.address) = change.wallet_address
        where change.type = 'OWNER_ADDED' and change.network = 'base-sepolia'
          and not change.subject = any(wallets.owners)`;
      return added.length === 1;
    });
    expect(await findBarriers(page)).toEqual([]);
  });

  test("a send whose answer moves it to the other network, where the merchant has the same address, is refused", async () => {
    const before = await signed();
    const to = randomAddress();
    await page.route("**/v1/wallets/send/prepare", async (route) => {
      const response = await route.fetch();
      const answer = await response.json();
      const terms = { id: answer.sendId, to, units: 500_000n, network: "base" as const };
      const told = withOtherTransfer(answer, terms);
      told.summary.network = "base";
      await route.fulfill({ response, json: told });
    });
    await dashboard.fund(page, 1_000_000n);
    await page.goto(`${dashboard.world.baseUrl}/send`);
    await page.getByLabel("Network").selectOption("base-sepolia");
    await page.getByLabel("Recipient's address").fill(to);
    await page.getByLabel("Amount", { exact: true }).fill("0.5");
    await button("Review").click();
    await sign().click();
    await dialog().getByText(REFUSED).waitFor();
    expect(await signed()).toBe(before);
    await page.unroute("**/v1/wallets/send/prepare");
    await dialog().getByRole("button", { name: "Do not sign" }).click();
    await page.goto(`${dashboard.world.baseUrl}/wallet`);
  });

  test("a send of 1,000 has to be written as 1000.00 or 1.00", async () => {
    await page.goto(`${dashboard.world.baseUrl}/send`);
    await page.getByLabel("Network").selectOption("base-sepolia");
    await page.getByLabel("Recipient's address").fill(randomAddress());
    await page.getByLabel("Amount", { exact: true }).fill("1,000");
    await button("Review").click();
    await page.getByText("can be read in two ways").waitFor();
    await page.goto(`${dashboard.world.baseUrl}/wallet`);
  });

  test("a link over 1,000 or a word is refused with a hint about what to type, and one over 12,50 asks for 12.50", async () => {
    await page.goto(`${dashboard.world.baseUrl}/links?new=1`);
    await page.getByLabel("What for").fill("A decimal comma");
    const amount = page.getByLabel("Amount", { exact: true });
    for (const [typed, message] of [
      ["1,000", "can be read in two ways"],
      ["ten", "Not an amount"],
    ] as const) {
      await amount.fill(typed);
      await button("Create link").click();
      await page.getByText(message).waitFor();
    }
    expect(await dashboard.world.sql`select from payment_links`).toHaveLength(0);
    await amount.fill("12,50");
    await button("Create link").click();
    await page.getByRole("heading", { level: 1, name: "A decimal comma" }).waitFor();
    const [link] = await dashboard.world.sql`select amount_units from payment_links`;
    expect(link?.amountUnits).toBe(12_500_000n);
    await page.goto(`${dashboard.world.baseUrl}/wallet`);
  });

  test("with two owners, the screen does not say that one passkey owns the wallet alone", async () => {
    await panel("Base Sepolia").getByText("Key in the safe").waitFor();
    expect(await page.locator("main").textContent()).not.toContain("alone");
  });

  test("an owner is removed on one network, and a service that would remove another one gets no signature", async () => {
    const remove = panel("Base Sepolia").getByRole("button", { name: "Remove Key in the safe" });
    const before = await signed();
    await page.route(OWNERS_PREPARE, async (route) => {
      const { owners } = await (
        await page.request.get(`${dashboard.world.baseUrl}/v1/wallets/owners`)
      ).json();
      const body = { network: "base-sepolia", remove: { ownerId: owners[0].ownerId } };
      await route.continue({ postData: JSON.stringify(body) });
    });
    await remove.click();
    await dialog().getByRole("button", { name: "Review" }).click();
    await sign().click();
    await dialog().getByText(REFUSED).waitFor();
    expect(await signed()).toBe(before);
    await page.unroute(OWNERS_PREPARE);
    await dialog().getByRole("button", { name: "Do not sign" }).click();
    await dialog().waitFor({ state: "detached" });
    await remove.click();
    expect(await findBarriers(page)).toEqual([]);
    await dialog().getByRole("button", { name: "Review" }).click();
    await sign().waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await sign().click();
    await dialog().getByText("Confirmed").waitFor();
    await dialog().getByRole("button", { name: "Close" }).last().click();
    await remove.waitFor({ state: "detached" });
    const removed = await dashboard.world.sql`select from account_changes where type = 'OWNER_REMOVED'`;
    expect(removed.length).toBe(1);
  });

  test("a recipient of a payout that the service refuses is marked in its row until the lines are edited", async () => {
    await page.goto(`${dashboard.world.baseUrl}/payout`);
    const recipients = page.getByLabel("Recipients", { exact: true });
    const lines = (amount: string) => `${randomAddress()}, 0.1\n\n0x${"aB".repeat(20)}, ${amount}`;
    await recipients.fill(lines("0.2"));
    await button("Review").click();
    const mistyped = "is mistyped: its capital letters do not match the address checksum (EIP-55)";
    await page.getByText(`Line 3: ${mistyped}`).waitFor();
    const row = page.getByRole("row").filter({ hasText: mistyped });
    expect(await row.locator("td").first().textContent()).toBe("3");
    expect(await findBarriers(page)).toEqual([]);
    await recipients.fill(lines("0.3"));
    await row.waitFor({ state: "detached" });
  });

  test("a send filled in by a link is marked as such, prepares nothing, can be cleared, and is discarded by a reload", async () => {
    const to = randomAddress();
    const notice = page.getByText("A link filled in this form");
    const filled = { to, amount: "1.25", note: "Rent & heat" };
    const open = (network: string) =>
      page.goto(`${dashboard.world.baseUrl}/send?${new URLSearchParams({ ...filled, network })}`);
    const read = async () =>
      Promise.all(
        ["Recipient's address", "Amount", "Note"].map((label) =>
          page.getByLabel(label, { exact: true }).inputValue(),
        ),
      );
    const prepared = async () => (await dashboard.world.sql`select from wallet_operations`).length;
    const before = await prepared();
    for (const network of ["base", "base-sepolia"]) {
      await open(network);
      await notice.waitFor();
      expect(await page.getByLabel("Network").inputValue()).toBe(network);
    }
    expect(await read()).toEqual([to, "1.25", "Rent & heat"]);
    expect(new URL(page.url()).search).toBe("");
    expect(await findBarriers(page)).toEqual([]);
    await button("Clear the form").click();
    await notice.waitFor({ state: "detached" });
    expect(await read()).toEqual(["", "", ""]);
    await open("base");
    await notice.waitFor();
    await page.reload();
    await button("Review").waitFor();
    expect(await notice.count()).toBe(0);
    expect(await read()).toEqual(["", "", ""]);
    expect(await prepared()).toBe(before);
  });

  test("the largest balance fits on one line, on a desktop and on a phone", async () => {
    await dashboard.fund(page, 1_234_567_890_123_456n);
    const balance = page
      .getByRole("region", { name: "Balances" })
      .locator(".tile")
      .first()
      .locator(".amount");
    for (const width of [1280, 390, 320]) {
      await page.setViewportSize({ width, height: 800 });
      await page.goto(dashboard.world.baseUrl);
      await balance.getByText(/^1,234,567,\d{3}\.\d+$/).waitFor();
      const lines = await balance.evaluate((one) => one.getClientRects().length);
      expect(`${width}: ${lines}`).toBe(`${width}: 1`);
    }
    expect(await findBarriers(page)).toEqual([]);
  });

  test("the overview sums up only real USDC: test USDC is on neither its tile nor its chart", async () => {
    const { sql, baseUrl } = dashboard.world;
    const rows = [
      { network: "base", type: "PAYMENT_LINK", units: 12_340_000 },
      { network: "base", type: "RECEIVE", units: 2_000_000 },
      { network: "base-sepolia", type: "PAYMENT_LINK", units: 500_000_000 },
    ];
    for (const { network, type, units } of rows)
      await sql`
        insert into transactions (id, owner, network, type, status, amount_units, counterparty, detected_at)
        select ${newTransactionId()}, owner_key(users.id), ${network}, ${type}, 'CONFIRMED', ${units}, ${randomAddress()}, now()
        from users
        where email = ${email}`;
    await page.goto(baseUrl);
    const tile = page.locator(".tile", { hasText: "Received through links" });
    await tile.getByText("12.34").waitFor();
    expect(await tile.locator(".below").textContent()).toBe("Base");
    const chart = page.getByRole("region", { name: "Received on Base in 30 days" });
    expect(await chart.locator(".sums").textContent()).toBe("7 days 14.3430 days 14.34USDC");
    expect(await findBarriers(page)).toEqual([]);
  });

  test("no error was logged, and nothing was requested from another origin", () => {
    visit.expectClean();
  });
});
