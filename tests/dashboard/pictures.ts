/**
 * `bun tests/dashboard/pictures.ts [FOLDER] [PARTS]`: a picture of every screen, empty, filled, while it loads, and when nothing answers, of
 * the way in, of every dialog, and with long names and large amounts; light and dark, on a phone and a desk. Look at them before a release.
 * PARTS: some screens, or way-in, recovery, google, extremes, long-lists, setbacks, forms, dialogs, members, session-end, with commas between them.
 */
import { mkdirSync } from "node:fs";
import type { Page } from "playwright-core";
import { newEmail } from "../support/sign-up.ts";
import { createLinkInBrowser, signUpInBrowser, startDashboardWorld } from "./dashboard-world.ts";
import { startGoogleProvider } from "./google-account.ts";
import { seedMonthlyStatements } from "./monthly-statements.ts";
import {
  takeDialogs,
  takeExtremes,
  takeGoogle,
  takeMembers,
  takeSessionEnd,
  takeWayIn,
} from "./picture-dialogs.ts";
import { takeLongLists } from "./picture-long-lists.ts";
import { takeRecovery } from "./picture-recovery.ts";
import { takeSetbacks } from "./picture-setbacks.ts";

const SCREENS = {
  overview: "/",
  links: "/links",
  transactions: "/transactions",
  documents: "/documents",
  statements: "/statements",
  exports: "/exports",
  "saved-exports": "/saved-exports",
  "exchange-rates": "/exchange-rates",
  wallet: "/wallet",
  send: "/send",
  payout: "/payout",
  keys: "/developers/keys",
  webhooks: "/developers/webhooks",
  members: "/members",
  security: "/security",
  settings: "/settings",
} as const;
const SIZES = { desk: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } } as const;
const LOADED_WITHIN_MS = 30_000;

const folder = process.argv[2] ?? ".data/pictures/dashboard";
const wanted = process.argv[3]?.split(",");
mkdirSync(folder, { recursive: true });
const google = await startGoogleProvider();
const dashboard = await startDashboardWorld({ env: google.env });
let failures = 0;
await attempt("way-in", () => takeWayIn(dashboard, take));
await attempt("recovery", () => takeRecovery(dashboard, take));
await attempt("google", () => takeGoogle(dashboard, google, take));
await attempt("extremes", () => takeExtremes(dashboard, take));
await attempt("long-lists", () => takeLongLists(dashboard, take));
await attempt("setbacks", () => takeSetbacks(dashboard, take));
const visit = await dashboard.open("/", { allowedErrors: /./ });
const { page } = visit;
await signUpInBrowser(page, newEmail());
await takeAll("empty");
await page.goto(dashboard.world.baseUrl);
await createLinkInBrowser(page, "12.5", "Two coffees and a book");
const [checkout] = await Promise.all([
  page.context().waitForEvent("page"),
  page.getByRole("link", { name: "Open and pay" }).click(),
]);
await checkout.getByRole("button", { name: /Test wallet/ }).click();
await page.locator(".big").getByText("Paid").waitFor();
await checkout.close();
await take(page, "link-paid");
await fillBooks();
await seedMonthlyStatements(dashboard.world.sql);
await takeAll("filled");
await attempt("forms", takeForms);
await attempt("dialogs", () => takeDialogs(dashboard, page, take));
await attempt("members", () => takeMembers(dashboard, page, take));
await attempt("session-end", () => takeSessionEnd(dashboard, page, take));
await page.route("**/v1/**", (route) => (isOfSession(route.request().url()) ? route.continue() : undefined));
await takeAll("loading", { isLoaded: false });
await page.unrouteAll();
await page.route("**/v1/**", (route) =>
  isOfSession(route.request().url()) ? route.continue() : route.abort(),
);
await takeAll("broken");
await visit.close();
await dashboard.stop();
await google.stop();
process.exit(failures === 0 ? 0 : 1);

/** One part that fails does not cost the pictures of the others. */
async function attempt(part: string, run: () => Promise<void>): Promise<void> {
  if (wanted && !wanted.includes(part)) return;
  await run().catch((error) => {
    failures += 1;
    console.error(`${part}: ${error}`);
  });
}

function isOfSession(url: string): boolean {
  return url.endsWith("/v1/auth/me");
}

async function takeAll(state: string, { isLoaded = true } = {}): Promise<void> {
  for (const [name, path] of Object.entries(SCREENS)) {
    if (wanted && !wanted.includes(name)) continue;
    await page.goto(`${dashboard.world.baseUrl}${path}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    if (isLoaded)
      await page.locator(".skeleton").first().waitFor({ state: "hidden", timeout: LOADED_WITHIN_MS });
    await take(page, `${name}-${state}`);
  }
}

/** Rates and saved exports, with the dialogs that a click opens. */
async function fillBooks(): Promise<void> {
  const { baseUrl } = dashboard.world;
  const send = (path: string, data: object) => page.request.post(`${baseUrl}${path}`, { data });
  for (const [month, rate] of ["0.9231", "0.9187", "0.9"].entries()) {
    const of = `2026-0${month + 1}`;
    await send("/v1/exchange-rates", {
      ...{ currency: "EUR", dateFrom: `${of}-01`, dateTo: `${of}-28`, rate },
    });
  }
  await send("/v1/exchange-rates", {
    ...{ currency: "CHF", dateFrom: "2026-01-01", dateTo: "2026-01-01", rate: "0.8" },
  });
  const columns = ["date", "description", "net"].map((column) => ({ column, title: column }));
  const saved = await send("/v1/export-profiles", {
    name: "Monthly books for the adviser",
    format: "xlsx",
    columns,
  });
  await send("/v1/export-profiles", { name: "DATEV", format: "datev", fiatCurrency: "EUR" });
  const { id: profileId } = (await saved.json()).data;
  for (const frequency of ["weekly", "monthly"])
    await send("/v1/export-schedules", { profileId, frequency, delivery: "mail" });
  await page.goto(`${baseUrl}/saved-exports`);
  await page.getByRole("button", { name: "Pause Monthly books for the adviser" }).first().click();
  await page.getByText("Paused").waitFor();
  await page.getByRole("button", { name: "Change Monthly books for the adviser" }).click();
  await page.getByRole("button", { name: "Move Net up" }).waitFor();
  await take(page, "saved-export-form");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "New schedule" }).click();
  await take(page, "schedule-form");
  await page.goto(`${baseUrl}/exchange-rates`);
  await page.getByLabel("How", { exact: true }).selectOption("file");
  const buffer = Buffer.from("Day,Rate\n2026-02-30,0.9\n2026-02-01,zero");
  await page.getByLabel("CSV file").setInputFiles({ name: "rates.csv", mimeType: "text/csv", buffer });
  await page.getByText("Line 3").waitFor();
  await take(page, "rates-file");
  await page
    .getByRole("button", { name: /^Remove the rate/ })
    .first()
    .click();
  await take(page, "rates-remove");
}

/** What a click opens, and the same in German. */
async function takeForms(): Promise<void> {
  const { baseUrl } = dashboard.world;
  await page.goto(baseUrl);
  await createLinkInBrowser(page, "3", "A listed guide");
  await page.getByText("For agents (x402)").click();
  await take(page, "link-agents");
  await page.goto(`${baseUrl}/settings`);
  await page.getByText("Numbers for DATEV").click();
  await take(page, "settings-datev");
  await page.goto(`${baseUrl}/documents?month=${new Date().toISOString().slice(0, 7)}`);
  await page.getByRole("button", { name: "The month as ZIP" }).click();
  const archive = page.getByRole("listitem").filter({ hasText: "ZIP" });
  await archive.getByRole("link", { name: "Download" }).waitFor();
  await take(page, "documents-zip");
  await page.goto(`${baseUrl}/developers/webhooks`);
  await page.getByRole("button", { name: "Add endpoint" }).first().click();
  await take(page, "endpoint-form");
  await page.getByLabel("Address of your server").fill(`${baseUrl}/health`);
  await page.getByRole("dialog").getByRole("button", { name: "Add endpoint" }).click();
  await page.getByText("I have kept it").click();
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("button", { name: "Log", exact: true }).click();
  await page.getByRole("button", { name: "Send a test event" }).click();
  await page.getByText("webhook.test").waitFor();
  await take(page, "webhooks-test");
  await page.getByRole("button", { name: /^Delete / }).click();
  await page.getByRole("dialog").getByText("Delete this endpoint?").waitFor();
  await take(page, "endpoint-delete");
  await page.goto(`${baseUrl}/security?lang=de`);
  await page.getByText("Passkey hinzugefügt").waitFor();
  await take(page, "security-german");
  await page.goto(`${baseUrl}/wallet?lang=de`);
  await page.getByRole("heading", { name: "Inhaber", exact: true }).waitFor();
  await take(page, "wallet-german");
  await page.goto(`${baseUrl}/send?lang=de`);
  await page
    .locator("input")
    .nth(0)
    .fill(`0x${"5a".repeat(20)}`);
  await page.locator("input").nth(1).fill("1.25");
  await page.locator("button[type=submit]").click();
  await page.locator("dialog .to-sign").waitFor();
  await take(page, "sign-sheet-german");
}

async function take(shown: Page, name: string): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await shown.emulateMedia({ colorScheme });
    // the first picture after the change may still hold colours of the other scheme
    await shown.screenshot();
    for (const [size, viewport] of Object.entries(SIZES)) {
      await shown.setViewportSize(viewport);
      await shown.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
      await shown.screenshot({ path: `${folder}/${name}-${size}-${colorScheme}.png`, fullPage: true });
    }
  }
  await shown.setViewportSize(SIZES.desk);
}
