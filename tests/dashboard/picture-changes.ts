/** What changes while it is looked at: a refund's payment, a link's last payment; and what a browser without a clipboard shows instead. */
import type { Page } from "playwright-core";
import { randomAddress } from "../support/indexer-lab.ts";
import { createLinkInBrowser, type DashboardWorld } from "./dashboard-world.ts";

type Take = (shown: Page, name: string) => Promise<void>;
type Given = { dashboard: DashboardWorld; take: Take };

const NO_CLIPBOARD =
  "Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true })";

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const paymentOf = (id: string, amount: string) => ({
  ...{ transactionId: id, payer: randomAddress(), amount, refundable: amount, suggested: amount, pays: true },
});

export async function takeChanges(page: Page, { dashboard, take }: Given): Promise<void> {
  await takeUsedUp(page, { dashboard, take });
  await takeRefundChanges(page, { dashboard, take });
  await takeNoClipboard(page, { dashboard, take });
}

async function takeUsedUp(page: Page, { dashboard, take }: Given) {
  const { baseUrl } = dashboard.world;
  const fields = { amount: 20, maxPayments: 1, description: "The last ticket" };
  const made = await page.request.post(`${baseUrl}/v1/payment-links`, {
    data: { ...fields, amount: null, minAmount: 1, maxAmount: 50 },
  });
  const { id } = await made.json();
  await page.request.post(`${baseUrl}/api/v1/public/payment-links/${id}/uses`, { data: { amount: 20 } });
  for (const lang of ["en", "de"]) {
    await page.goto(`${baseUrl}/links?lang=${lang}`);
    await page.getByRole("row").filter({ hasText: fields.description }).waitFor();
    await take(page, `used-up-list-${lang}`);
    await page.goto(`${baseUrl}/links/${id}?lang=${lang}`);
    await page.locator("main .notice").waitFor();
    await take(page, `used-up-${lang}`);
  }
}

/** The payment chosen for a refund is refunded elsewhere, or undone by the chain. */
async function takeRefundChanges(page: Page, { dashboard, take }: Given) {
  const { baseUrl } = dashboard.world;
  const dialog = page.getByRole("dialog");
  const [first, second] = [paymentOf("tx_1", "12.500000"), paymentOf("tx_2", "12.500000")];
  const refundedElsewhere = { ...first, refundable: "0.000000" };
  for (const [name, payments] of Object.entries({
    "refunded-elsewhere": [refundedElsewhere, second],
    "refunded-elsewhere-alone": [refundedElsewhere],
    undone: [second],
    "undone-alone": [],
  })) {
    await page.goto(baseUrl);
    const id = await createLinkInBrowser(page, "12.5", "Two coffees and a book");
    let shown = payments.length === 1 ? [first] : [first, second];
    if (name === "undone") shown = [first, second];
    await page.route(`**/${id}/refunds`, (route) =>
      route.fulfill({ json: { refunds: [], refundable: "12.500000", payments: shown } }),
    );
    await page.goto(`${baseUrl}/links/${id}?open=refund`);
    await dialog.locator(".goes-back").waitFor();
    await dialog.getByLabel("Amount", { exact: true }).fill("2.5");
    shown = payments;
    const read = page.waitForResponse(`**/${id}/refunds`);
    await page.request.patch(`${baseUrl}/v1/payment-links/${id}`, { data: { discoverable: true } });
    await page.request.post(`${baseUrl}/v1/payment-links`, { data: { amount: 1, description: "An event" } });
    await read;
    await page.waitForTimeout(500);
    await take(page, `refund-${name}`);
    await page.unrouteAll();
  }
}

async function takeNoClipboard(page: Page, { dashboard, take }: Given) {
  const { baseUrl } = dashboard.world;
  await page.goto(`${baseUrl}/links`);
  await page.evaluate(NO_CLIPBOARD);
  await page.getByRole("row").getByRole("button", { name: "Copy the link" }).first().click();
  await page.locator(".by-hand").waitFor();
  await take(page, "no-clipboard-list");
  await page.goto(`${baseUrl}/wallet?lang=de`);
  await page.evaluate(NO_CLIPBOARD);
  await page.locator("button.copy").first().click();
  await page.locator(".by-hand").waitFor();
  await take(page, "no-clipboard-wallet-german");
  await page.goto(`${baseUrl}/developers/keys`);
  await page.evaluate(NO_CLIPBOARD);
  await button(page, "New API key").first().click();
  await page.getByLabel("Name").fill("Shop server");
  await button(page, "Create key").click();
  await button(page, "Copy the key").click();
  await page.locator(".by-hand").waitFor();
  await take(page, "no-clipboard-key");
}
