/** A merchant's links, opened in a browser: what the journeys of the payment page stand on. */
import type { Browser } from "playwright-core";
import type { Hex } from "../../core/domain/networks.ts";
import { type PayerSide, startPayerSide } from "../links/payer-side.ts";
import type { WorldOptions } from "../support/world.ts";
import { launchBrowser, type Visit, visit } from "./browser.ts";
import { makeTestWallet, type TestWallet, type WalletOptions } from "./test-wallet.ts";

export type CheckoutWorld = Omit<PayerSide, "wallet"> & {
  merchantWallet: Hex;
  browser: Browser;
  urlOf: (linkId: string, query?: string) => string;
  wallet: (options?: WalletOptions) => Promise<TestWallet>;
  /** Opens a link with these wallets in the page. */
  open: (
    linkId: string,
    wallets?: readonly TestWallet[],
    options?: Parameters<typeof visit>[2] & { query?: string },
  ) => Promise<Visit>;
  stop: () => Promise<void>;
};

export async function startCheckoutWorld(options: WorldOptions = {}): Promise<CheckoutWorld> {
  const side = await startPayerSide(options);
  const browser = await launchBrowser();
  const urlOf = (linkId: string, query = "") => `${side.world.baseUrl}/pay/${linkId}${query}`;
  return {
    ...side,
    merchantWallet: side.wallet,
    browser,
    urlOf,
    wallet: (options) => makeTestWallet(side.rpcUrl, options),
    open: (linkId, wallets = [], { query = "", prepare, ...options } = {}) =>
      visit(browser, urlOf(linkId, query), {
        ...options,
        prepare: async (page) => {
          await prepare?.(page);
          for (const wallet of wallets) await wallet.install(page);
        },
      }),
    stop: async () => {
      await browser.close();
      await side.world.stop();
    },
  };
}
