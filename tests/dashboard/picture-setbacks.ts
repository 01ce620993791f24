/** What is shown when an answer does not arrive or something changed elsewhere: outdated data, a failed sign-out, an unanswered signature. */
import type { Page } from "playwright-core";
import { randomAddress } from "../support/indexer-lab.ts";
import { newEmail } from "../support/sign-up.ts";
import {
  addAuthenticator,
  createLinkInBrowser,
  type DashboardWorld,
  signUpInBrowser,
} from "./dashboard-world.ts";
import { takeChanges } from "./picture-changes.ts";

type Take = (shown: Page, name: string) => Promise<void>;

const FUNDS_UNITS = 50_000_000n;
/** As a proxy answers for a service that is being restarted. */
const BAD_GATEWAY = { status: 502, contentType: "text/html", body: "<h1>Bad Gateway</h1>" };
const READS = "**/v1/**";
const OUTDATED = { overview: "/", links: "/links", transactions: "/transactions", wallet: "/wallet" };

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });

export async function takeSetbacks(dashboard: DashboardWorld, take: Take): Promise<void> {
  const { page, close } = await dashboard.open("/", { allowedErrors: /./ });
  await signUpInBrowser(page, newEmail());
  await takeEmpty(page, { dashboard, take });
  const linkId = await createLinkInBrowser(page, "12.5", "Two coffees and a book");
  await dashboard.fund(page, FUNDS_UNITS);
  await takeChanges(page, { dashboard, take });
  await takeOutdated(page, { dashboard, take, linkId });
  await takeSignature(page, { dashboard, take });
  await takeOwnerChange(page, { dashboard, take });
  await takeSignOut(page, { dashboard, take });
  await close();
}

type Given = { dashboard: DashboardWorld; take: Take };

async function takeEmpty(page: Page, { dashboard, take }: Given) {
  await page.goto(`${dashboard.world.baseUrl}/transactions`);
  await page.getByText("No transactions yet").waitFor();
  await take(page, "empty-transactions");
}

/** The service is away while a screen is open: what was read stays, with a note. */
async function takeOutdated(page: Page, { dashboard, take, linkId }: Given & { linkId: string }) {
  const { baseUrl } = dashboard.world;
  for (const [name, path] of Object.entries({ ...OUTDATED, link: `/links/${linkId}` })) {
    await page.goto(`${baseUrl}${path}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.locator(".skeleton").first().waitFor({ state: "hidden" });
    await page.waitForTimeout(500);
    await page.route(READS, (route) =>
      /auth\/me|stream/.test(route.request().url()) ? route.continue() : route.fulfill(BAD_GATEWAY),
    );
    for (const description of ["Made elsewhere", "And another"])
      await page.request.post(`${baseUrl}/v1/payment-links`, { data: { amount: 3, description } });
    await page.request.patch(`${baseUrl}/v1/payment-links/${linkId}`, { data: { discoverable: false } });
    await page
      .getByText("The service answered 502.")
      .first()
      .waitFor({ timeout: 12_000 })
      .catch(() => console.error(`${path}: nothing was read again`));
    await take(page, `outdated-${name}`);
    await page.unroute(READS);
  }
}

async function takeSignature(page: Page, { dashboard, take }: Given) {
  const { baseUrl } = dashboard.world;
  const dialog = page.getByRole("dialog");
  for (const lang of ["en", "de"]) {
    await page.goto(`${baseUrl}/send?lang=${lang}`);
    await page.locator("main input").nth(0).fill(randomAddress());
    await page.locator("main input").nth(1).fill("1.25");
    await page.locator("main button[type=submit]").click();
    await page.locator("dialog .to-sign").waitFor();
    await page.route("**/send/confirm", (route) => route.fulfill(BAD_GATEWAY));
    await dialog.locator(".actions .main").click();
    await dialog.getByText("502").waitFor();
    await take(page, `send-unanswered-${lang}`);
    await page.route("**/sends/**", (route) => route.fulfill(BAD_GATEWAY));
    await dialog.locator(".actions .button").last().click();
    await dialog.locator(".outcome").waitFor();
    await page.waitForTimeout(1_000);
    await take(page, `send-followed-${lang}`);
    await page.unrouteAll();
    await dialog.waitFor({ state: "detached" });
  }
}

async function takeOwnerChange(page: Page, { dashboard, take }: Given) {
  const { baseUrl } = dashboard.world;
  const dialog = page.getByRole("dialog");
  await page.goto(`${baseUrl}/wallet`);
  const first = dashboard.authenticatorOf(page);
  await first.setPresence(false);
  const second = await addAuthenticator(page, { transport: "usb" });
  await button(page, "Add a passkey").click();
  await dialog.getByLabel("Name of the passkey").fill("Key in the safe");
  await button(page, "Create passkey").click();
  await button(page, "Sign with passkey").waitFor();
  await second.remove();
  await first.setPresence(true);
  await page.route("**/owners/confirm", (route) => route.fulfill(BAD_GATEWAY));
  await button(page, "Sign with passkey").click();
  await dialog.getByText("502").waitFor();
  await take(page, "owner-unanswered");
  await page.route("**/owners/changes/**", (route) => route.fulfill(BAD_GATEWAY));
  await button(page, "Do not sign").click();
  await page.waitForTimeout(2_000);
  await take(page, "owner-followed");
  await page.unroute("**/owners/changes/**");
  await button(page, "Do not sign").click();
  await page.waitForTimeout(2_000);
  await take(page, "owner-followed-after");
  await page.unrouteAll();
}

async function takeSignOut(page: Page, { dashboard, take }: Given) {
  const { baseUrl } = dashboard.world;
  for (const lang of ["en", "de"]) {
    await page.goto(`${baseUrl}/links?lang=${lang}`);
    await page.route("**/v1/auth/logout", (route) => route.fulfill(BAD_GATEWAY));
    await page.locator(".foot .button.quiet").click();
    await page.locator(".notice.bad").waitFor();
    await take(page, `sign-out-failed-${lang}`);
    await page.unrouteAll();
  }
  await page.goto(`${baseUrl}/developers/webhooks`);
  await button(page, "Add endpoint").first().click();
  await page.getByLabel("Address of your server").fill(`${baseUrl}/health`);
  await page.getByRole("dialog").getByRole("button", { name: "Add endpoint" }).click();
  await page.getByText("I have kept it").waitFor();
  await take(page, "webhook-secret");
  await page.getByText("I have kept it").click();
  await take(page, "webhook-secret-kept");
}
