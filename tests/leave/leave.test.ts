/** Leaving in a real browser: the service is stopped, the page comes from this machine, the passkey is bound to the service's domain. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { encodeAddOwner, encodeCreateAccount, encodeRemoveOwner } from "../../core/chain/passkey-account.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc, callRpcText } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { findBarriers, isBrowserThere } from "../checkout/browser.ts";
import { makeTestWallet } from "../checkout/test-wallet.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { HOST, type LeaveVisit, type LeaveWorld, startLeaveWorld } from "./leave-world.ts";

setDefaultTimeout(120_000);

const SIGNED_WITHIN_MS = 3_000;

let world: LeaveWorld;
beforeAll(async () => {
  if (isBrowserThere) world = await startLeaveWorld();
}, 120_000);
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

/** Nothing was loaded or asked for elsewhere, the console is empty, and axe finds no barrier. */
async function expectClean({ page, problems }: LeaveVisit): Promise<void> {
  expect(problems).toEqual([]);
  expect(await findBarriers(page)).toEqual([]);
}

/** Does nothing to an account that exists. */
async function deploy(): Promise<void> {
  const { owners } = JSON.parse(world.walletFile);
  const call = { to: CONTRACTS.smartWalletFactory, data: encodeCreateAccount(owners, 0n), gas: "0x60000" };
  await callRpc(world.rpcUrl, "eth_sendTransaction", [{ from: localAccount(3).address, ...call }]);
}

/** The account calls itself, as it does for an operation of its owner. */
async function callItself(data: Hex, to = world.wallet): Promise<void> {
  await callRpc(world.rpcUrl, "anvil_impersonateAccount", [world.wallet]);
  await fundEth(world.rpcUrl, world.wallet, 10n ** 18n);
  await callRpc(world.rpcUrl, "eth_sendTransaction", [{ from: world.wallet, to, data, gas: "0x40000" }]);
  await callRpc(world.rpcUrl, "anvil_stopImpersonatingAccount", [world.wallet]);
}

/** Sends what the page shows under "Send it in another way", from an account that has nothing to do with it. */
async function sendByHand(page: Page): Promise<void> {
  await page.getByText("Send it in another way").click();
  const data = await page.getByLabel("Data of the transaction").inputValue();
  const to = await page.locator("details[open] dd bdi").first().textContent();
  const transaction = { from: localAccount(3).address, to, data, gas: "0xd0000" };
  await callRpc(world.rpcUrl, "eth_sendTransaction", [transaction]);
}

const balanceOf = (address: Hex) => readUsdcBalance(world.rpcUrl, address);
const codeOf = (address: Hex) => callRpcText(world.rpcUrl, "eth_getCode", [address, "latest"]);

describe.if(isBrowserThere)("leaving", () => {
  beforeEach(() => fundUsdc(world.rpcUrl, world.wallet, 10_000_000n));

  test("without the service, the saved page is the page that is built", async () => {
    expect(await world.isServiceGone()).toBe(true);
    expect(world.leavePage).toBe(readFileSync(join(import.meta.dir, "../../web/dist/leave.html"), "utf8"));
  });

  test("the passkey moves everything out of an undeployed account; a browser wallet pays the gas", async () => {
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

  test("a partial amount is refunded by another sender's transaction, and the page notices", async () => {
    const to = randomAddress();
    const visit = await world.open(world.urls.home);
    const { page } = visit;
    await readWallet(page);
    await enterTransfer(page, to, { amount: "4.000001" });
    await sign(page);
    await sendByHand(page);
    await page.getByRole("heading", { name: "Done" }).waitFor();
    await page.getByText("5.999999 USDC").waitFor();
    expect(await balanceOf(to)).toBe(4_000_001n);
    // the screen is the one of the test before
    expect(visit.problems).toEqual([]);
    await visit.close();
  });

  test("a related origin could use the passkey while the service listed it", () => {
    expect(world.signsAsRelated).toBe(true);
  });

  test("under another domain the browser refuses the passkey, and the page says why and what to do", async () => {
    const visit = await world.open(world.urls.elsewhere, {
      colorScheme: "dark",
      viewport: { width: 320, height: 700 },
    });
    const { page } = visit;
    await readWallet(page);
    await page.getByText("This page was opened at leave.helper.example").waitFor();
    await page.getByText("Where this page must be opened", { exact: true }).click();
    await page.getByText(`127.0.0.1 ${HOST}`).waitFor();
    await expectClean(visit);
    await enterTransfer(page, randomAddress(), { amount: "1" });
    await sign(page);
    await page.getByText(`The browser does not let this page use the passkeys of ${HOST}`).waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
    await visit.close();
  });

  test("without the passkey nothing is signed", async () => {
    const visit = await world.open(world.urls.home, { hasPasskey: false });
    await readWallet(visit.page);
    await enterTransfer(visit.page, randomAddress(), { amount: "1" });
    await sign(visit.page);
    await visit.page.getByText("Nothing was signed").waitFor();
    await visit.close();
  });

  test("a transfer changed while the passkey prompt is open is not sent, whatever the passkey signs", async () => {
    const visit = await world.open(world.urls.home);
    const { page } = visit;
    await readWallet(page);
    await enterTransfer(page, randomAddress(), { amount: "1" });
    await page.evaluate(`{
      const get = navigator.credentials.get.bind(navigator.credentials);
      navigator.credentials.get = (options) =>
        new Promise((resolve, reject) => {
          globalThis.useThePasskey = () => get(options).then(resolve, reject);
        });
    }`);
    await sign(page);
    await page.waitForFunction("globalThis.useThePasskey !== undefined");
    await page.getByRole("button", { name: "Change 3. What to move" }).click();
    const recipient = page.getByLabel("Recipient's address");
    await recipient.fill(randomAddress());
    await page.evaluate("useThePasskey()");
    // the signature is checked and simulated before it would be offered
    await page.waitForTimeout(SIGNED_WITHIN_MS);
    expect(await page.getByText("Signed, not sent yet.").count()).toBe(0);
    expect(await recipient.isVisible()).toBe(true);
    await visit.close();
  });

  test("a transfer declined in the wallet can be sent again, and a lost response does not hide it", async () => {
    const declines = { method: "eth_sendTransaction", times: 1 };
    const payer = await makeTestWallet(world.rpcUrl, { fundsUnits: 0n, declines, losesAnswer: true });
    const visit = await world.open(world.urls.home, { prepare: payer.install });
    const { page } = visit;
    const to = randomAddress();
    await readWallet(page);
    await enterTransfer(page, to, { amount: "0.5" });
    await sign(page);
    await page.getByRole("button", { name: "Send with Test Wallet" }).click();
    await page.getByText("You declined in Test Wallet. Nothing was sent.").waitFor();
    expect(await balanceOf(to)).toBe(0n);
    await page.getByRole("button", { name: "Send with Test Wallet" }).click();
    await page.getByRole("heading", { name: "Done" }).waitFor();
    expect(await balanceOf(to)).toBe(500_000n);
    expect(payer.hashes).toHaveLength(1);
    await visit.close();
  });

  test("of two transfers signed with one nonce only one is executed, and both pages say what happened to theirs", async () => {
    const [late, quick] = [await world.open(world.urls.home), await world.open(world.urls.home)];
    const stale = await world.open(world.urls.home);
    const [first, second] = [randomAddress(), randomAddress()];
    await readWallet(stale.page);
    await enterTransfer(stale.page, first, { amount: "1" });
    for (const [{ page }, to] of [
      [late, first],
      [quick, second],
    ] as const) {
      await readWallet(page);
      await enterTransfer(page, to, { amount: "1" });
      await sign(page);
      await page.getByText("Signed, not sent yet.").waitFor();
    }
    await sendByHand(quick.page);
    await quick.page.getByRole("heading", { name: "Done" }).waitFor();
    await late.page.getByRole("heading", { name: "Replaced" }).waitFor();
    await sign(stale.page);
    await stale.page.getByText("Another operation of this wallet was executed in the meantime").waitFor();
    expect([await balanceOf(first), await balanceOf(second)]).toEqual([0n, 1_000_000n]);
    for (const visit of [late, quick, stale]) await visit.close();
  });

  test("a transfer that reverts is reported as one that moved nothing", async () => {
    const visit = await world.open(world.urls.home);
    const { page } = visit;
    const to = randomAddress();
    await readWallet(page);
    await enterTransfer(page, to, { amount: "4" });
    await sign(page);
    await page.getByText("Signed, not sent yet.").waitFor();
    const { usdc } = NETWORKS["base-sepolia"];
    await callItself(encodeTransfer(randomAddress(), await balanceOf(world.wallet)), usdc.address);
    await sendByHand(page);
    await page.getByRole("heading", { name: "Nothing was moved" }).waitFor();
    await page.getByText("ERC20: transfer amount exceeds balance").waitFor();
    expect(await balanceOf(to)).toBe(0n);
    await expectClean(visit);
    await visit.close();
  });

  test("a node of another network, and one that does not answer, are refused with an explanation", async () => {
    const visit = await world.open(world.urls.home);
    const { page } = visit;
    await chooseFile(page);
    const read = async (url: string) => {
      await page.getByLabel("Node (RPC URL)").fill(url);
      await page.getByRole("button", { name: "Read the wallet" }).click();
    };
    await page.getByLabel("Network").selectOption("Base");
    await read(world.rpcUrl);
    await page.getByText("its chain id is 84532, Base has 8453").waitFor();
    await read("http://127.0.0.1:1");
    await page.getByText("127.0.0.1:1 cannot be reached from this page").waitFor();
    await read(world.urls.home);
    await page.getByText("did not answer as a node does (HTTP 200)").waitFor();
    await visit.close();
  });

  test("an owner address moves the funds from any place, without a passkey", async () => {
    await fundUsdc(world.rpcUrl, world.wallet, 8_000_000n);
    const [owner, stranger] = await Promise.all(
      ["Owner's Wallet", "Other Wallet"].map((name) =>
        makeTestWallet(world.rpcUrl, { name, fundsUnits: 0n }),
      ),
    );
    if (!owner || !stranger) throw new Error("two wallets were made");
    await deploy();
    await callItself(encodeAddOwner(owner.address));
    const to = randomAddress();
    const visit = await world.open(world.urls.elsewhere, {
      hasPasskey: false,
      prepare: async (page) => {
        await owner.install(page);
        await stranger.install(page);
      },
    });
    const { page } = visit;
    await readWallet(page);
    await enterTransfer(page, to, { amount: "3", signer: "the owner address" });
    await page.getByRole("button", { name: "Go on to the browser wallet" }).click();
    await page.getByRole("button", { name: "Send with Other Wallet" }).click();
    await page.getByText("is not the owner address").waitFor();
    await expectClean(visit);
    await page.getByRole("button", { name: "Send with Owner's Wallet" }).click();
    await page.getByRole("heading", { name: "Done" }).waitFor();
    await page.getByText("5.00 USDC", { exact: true }).waitFor();
    expect(await balanceOf(to)).toBe(3_000_000n);
    expect(stranger.hashes).toEqual([]);
    await visit.close();
  });

  test("a wallet with more owners than fit into one read is moved by the last of them", async () => {
    const owner = await makeTestWallet(world.rpcUrl, { name: "Last Owner", fundsUnits: 0n });
    await deploy();
    for (let added = 0; added < 105; added++) await callItself(encodeAddOwner(randomAddress()));
    await callItself(encodeAddOwner(owner.address));
    const prepare = (page: Page) => owner.install(page);
    const { page, close } = await world.open(world.urls.elsewhere, { hasPasskey: false, prepare });
    await readWallet(page);
    await enterTransfer(page, randomAddress(), { amount: "3", signer: `the owner address ${owner.address}` });
    await page.getByRole("button", { name: "Go on to the browser wallet" }).waitFor();
    await close();
  });

  test("a passkey that was removed as an owner is refused before anything is sent", async () => {
    const { owners } = JSON.parse(world.walletFile);
    await deploy();
    await callItself(encodeAddOwner(randomAddress()));
    await callItself(encodeRemoveOwner(0, owners[0]));
    const visit = await world.open(world.urls.home);
    await readWallet(visit.page);
    await enterTransfer(visit.page, randomAddress(), { amount: "1" });
    await sign(visit.page);
    await visit.page.getByText("This passkey is not an owner of the account any more").waitFor();
    await visit.close();
  });
});
