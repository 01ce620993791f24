/** Leaving in a real browser: the service is stopped, the page comes from this machine, the passkey is bound to the service's domain. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import type { Hex } from "../../core/domain/networks.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc, callRpcText } from "../../local/chain/rpc.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { findBarriers, isBrowserThere } from "../checkout/browser.ts";
import { makeTestWallet } from "../checkout/test-wallet.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { HOST, type LeaveVisit, type LeaveWorld, startLeaveWorld } from "./leave-world.ts";

let world: LeaveWorld;
beforeAll(async () => {
  if (isBrowserThere) world = await startLeaveWorld();
}, 90_000);
afterAll(() => world?.stop());

const chooseFile = (page: Page, text = world.walletFile) =>
  page
    .locator("input[type=file]")
    .setInputFiles({ name: "wallet.json", mimeType: "application/json", buffer: Buffer.from(text) });

/** Steps 1 and 2. */
async function readWallet(page: Page): Promise<void> {
  await chooseFile(page);
  await page.getByLabel("Node (RPC URL)").fill(world.rpcUrl);
  await page.getByRole("button", { name: "Read the wallet" }).click();
  await page.getByRole("heading", { name: "3. What to move" }).waitFor();
}

/** Step 3. */
async function enterTransfer(
  page: Page,
  to: Hex,
  { amount, signer }: { amount?: string; signer?: string } = {},
) {
  await page.getByLabel("Recipient's address").fill(to);
  if (amount) await page.getByLabel("Amount in USDC").fill(amount);
  if (signer) await page.getByLabel(signer).check();
  await page.getByRole("button", { name: "Review" }).click();
}

async function sign(page: Page): Promise<void> {
  await page.getByText("Simulated: USDC accepts this transfer now.").waitFor();
  await page.getByRole("button", { name: "Sign with the passkey" }).click();
}

async function expectClean({ page, problems }: LeaveVisit): Promise<void> {
  expect(problems).toEqual([]);
  expect(await findBarriersAsIs(page)).toEqual([]);
}

/** axe is put into the page by the debugger: the page's own policy would not let it run. */
const findBarriersAsIs = (page: Page) => findBarriers(page);

const balanceOf = (address: Hex) => readUsdcBalance(world.rpcUrl, address);
const codeOf = (address: Hex) => callRpcText(world.rpcUrl, "eth_getCode", [address, "latest"]);

describe.if(isBrowserThere)("leaving", () => {
  test("the service is gone, and the page that was saved is the one that is built", async () => {
    expect(await world.isServiceGone()).toBe(true);
    expect(world.leavePage).toBe(readFileSync(join(import.meta.dir, "../../web/dist/leave.html"), "utf8"));
  });

  test("the passkey moves everything out of an account that is not deployed; a browser wallet pays the gas", async () => {
    await fundUsdc(world.rpcUrl, world.wallet, 25_500_000n);
    expect(await codeOf(world.wallet)).toBe("0x");
    const [payer, to] = [await makeTestWallet(world.rpcUrl, { fundsUnits: 0n }), randomAddress()];
    const visit = await world.open(world.urls.home, { prepare: payer.install });
    const { page } = visit;
    await page.getByText("The file is read here and sent nowhere.").waitFor();
    await expectClean(visit);
    await readWallet(page);
    await page.getByText(`Passkeys of ${HOST} can sign on this page.`).waitFor();
    await page.getByText("25.50 USDC on Base Sepolia").waitFor();
    await expectClean(visit);
    await enterTransfer(page, to);
    await sign(page);
    await page.getByText("Signed, not sent yet.").waitFor();
    expect(await balanceOf(to)).toBe(0n);
    await expectClean(visit);
    await page.getByRole("button", { name: "Send with Test Wallet" }).click();
    await page.getByRole("heading", { name: "Done" }).waitFor();
    await page.getByText("0.00 USDC").waitFor();
    expect(await balanceOf(to)).toBe(25_500_000n);
    expect(await balanceOf(world.wallet)).toBe(0n);
    expect(payer.hashes).toHaveLength(1);
    await page.getByText(payer.hashes[0] ?? "no hash").waitFor();
    expect(await codeOf(world.wallet)).not.toBe("0x");
    await expectClean(visit);
    await visit.close();
  });

  test("a part leaves by a transaction that somebody else sends, and the page notices", async () => {
    await fundUsdc(world.rpcUrl, world.wallet, 10_000_000n);
    const to = randomAddress();
    const visit = await world.open(world.urls.home);
    const { page } = visit;
    await readWallet(page);
    await enterTransfer(page, to, { amount: "4.000001" });
    await sign(page);
    await page.getByText("Send it in another way").click();
    const data = (await page.getByLabel("Data of the transaction").inputValue()) as Hex;
    const entryPoint = "0x5ff137d4b0fdcd49dca30c7cf57e578a026d2789";
    await page.getByText(entryPoint, { exact: true }).waitFor();
    await expectClean(visit);
    const transaction = { from: localAccount(3).address, to: entryPoint, data, gas: "0x90000" };
    await callRpc(world.rpcUrl, "eth_sendTransaction", [transaction]);
    await page.getByRole("heading", { name: "Done" }).waitFor();
    await page.getByText("5.999999 USDC").waitFor();
    expect(await balanceOf(to)).toBe(4_000_001n);
    await expectClean(visit);
    await visit.close();
  });
});
