/** The wallet that payment pages show on the local chain: one click pays, and nothing but a wallet's own methods reaches the node. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser } from "playwright-core";
import { testWalletAddress } from "../../local/chain/accounts.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { openClient } from "../support/http-client.ts";
import { signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";
import { isBrowserThere, launchBrowser, visit } from "./browser.ts";

const UNITS = 20_000_000n;
const account = testWalletAddress();

let world: World;
let browser: Browser | undefined;
let linkId: string;
beforeAll(async () => {
  world = await startWorld({ env: { NODE_ENV: "test", TEST_WALLET: account } });
  await fundUsdc(world.chain.rpcUrl, account, UNITS);
  const merchant = await signUp(world.baseUrl);
  linkId = (await merchant.client.post("/v1/payment-links", { amount: 5, description: "Try it" })).body.id;
  if (isBrowserThere) browser = await launchBrowser();
}, 120_000);
afterAll(async () => {
  await browser?.close();
  await world?.stop();
});

const ask = (method: string, params: unknown[] = []) =>
  openClient(world.baseUrl).post("/v1/test/wallet", { linkId, method, params });

test("answers only for its own account, and refuses every other method", async () => {
  expect((await ask("eth_requestAccounts")).body).toEqual({ result: [account] });
  expect((await ask("eth_chainId")).body).toEqual({ result: "0x14a34" });
  for (const method of ["anvil_setBalance", "evm_mine", "eth_sendRawTransaction", "constructor"])
    expect((await ask(method)).body).toEqual({
      error: { code: 4200, message: `${method} is not supported` },
    });
  expect((await ask("eth_signTypedData_v4", [account, "{"])).status).toBe(400);
  const { body } = await ask("eth_signTypedData_v4", [`0x${"1".repeat(40)}`, "{}"]);
  expect(body.error.code).toBe(-32_000);
});

describe.if(isBrowserThere)("in a browser", () => {
  test("pays with one click", async () => {
    if (!browser) throw new Error("there is no browser");
    const { page, expectClean, close } = await visit(browser, `${world.baseUrl}/pay/${linkId}`);
    await page.getByRole("button", { name: "Pay with Test wallet" }).click();
    await page.getByText(/^Thank you\./).waitFor({ timeout: 40_000 });
    expect(await readUsdcBalance(world.chain.rpcUrl, account)).toBe(UNITS - 5_000_000n);
    expectClean();
    await close();
  });
});
