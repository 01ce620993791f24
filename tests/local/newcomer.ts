/** What a newcomer does after `npm start`, by clicks alone: signs up, makes a link, pays it with the test wallet, and refunds it. */
import type { Browser, Page } from "playwright-core";
import { type Visit, visit } from "../checkout/browser.ts";
import { addAuthenticator, signUpInBrowser } from "../dashboard/dashboard-world.ts";

export const FIRST_LINK = "My first link";
export type Lap = { step: string; ms: number };
type Options = {
  /** Called with the page that shows the step's result. */
  onStep?: (step: string, shown: Page) => Promise<void>;
};

/** `address`: of the dashboard, as the start prints it. Leaves the refunded link's screen open; `close` the visit. */
export async function tryService(
  browser: Browser,
  address: string,
  { onStep }: Options = {},
): Promise<{ visit: Visit; laps: Lap[] }> {
  const laps: Lap[] = [];
  let last = performance.now();
  const lap = async (step: string, shown: Page) => {
    laps.push({ step, ms: Math.round(performance.now() - last) });
    await onStep?.(step, shown);
    last = performance.now();
  };
  const newcomer = await visit(browser, address, {
    // whoever is not signed in is answered 401, and an address that is not known 404
    allowedErrors: /status of 40[14]/,
    prepare: async (page) => {
      // this authenticator answers whatever asks it, also the list of passkeys at the address field
      await page.addInitScript("PublicKeyCredential.isConditionalMediationAvailable = async () => false");
      await addAuthenticator(page);
    },
  });
  const { page } = newcomer;
  const dialog = page.getByRole("dialog");
  await page.getByLabel("E-mail address").waitFor();
  await lap("the dashboard opens", page);
  await signUpInBrowser(page, "newcomer@example.com");
  await page.getByRole("heading", { name: "First steps" }).waitFor();
  await lap("signed up, with a passkey", page);
  await page.getByRole("link", { name: "Create a link" }).click();
  await dialog.getByLabel("Amount", { exact: true }).fill("12.5");
  await dialog.getByLabel("What for").fill(FIRST_LINK);
  await lap("a link is filled in", page);
  await dialog.getByRole("button", { name: "Create link" }).click();
  await page.getByRole("heading", { name: FIRST_LINK }).waitFor();
  await lap("a link is made", page);
  const [checkout] = await Promise.all([
    page.context().waitForEvent("page"),
    page.getByRole("link", { name: "Open and pay" }).click(),
  ]);
  await checkout.getByRole("button", { name: /Test wallet/ }).waitFor();
  await lap("its page opens", checkout);
  await checkout.getByRole("button", { name: /Test wallet/ }).click();
  await checkout.getByText(/^Thank you\./).waitFor();
  await lap("paid with the test wallet", checkout);
  await checkout.close();
  await page.locator(".big").getByText("Paid").waitFor();
  await lap("the dashboard shows it", page);
  await page.getByRole("button", { name: "Refund", exact: true }).click();
  await dialog.getByRole("button", { name: "Review" }).click();
  await dialog.getByRole("button", { name: "Sign with passkey" }).waitFor();
  await lap("the refund is reviewed", page);
  await dialog.getByRole("button", { name: "Sign with passkey" }).click();
  await dialog.getByText("Confirmed").waitFor();
  await lap("the refund is confirmed", page);
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await page.getByText("Refunded").first().waitFor();
  await lap("the link is refunded", page);
  return { visit: newcomer, laps };
}
