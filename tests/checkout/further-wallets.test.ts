/** WalletConnect and Base Account on the payment page: offered where configured, loaded on click, and never in the way of other wallets. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { BrowserContext, Page, WebSocketRoute } from "playwright-core";
import { requireWalletFiles } from "../../api/pages/further-wallets.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { buildPages } from "../../local/processes/service-process.ts";
import { waitFor } from "../links/payer-side.ts";
import { findBarriers, isBrowserThere } from "./browser.ts";
import { type CheckoutWorld, startCheckoutWorld } from "./checkout-world.ts";
import { serveAttestation, startRelay, startRemoteWallet } from "./further-wallets-relay.ts";

const env = { WALLETCONNECT_PROJECT_ID: "0123456789abcdef0123456789abcdef", BASE_ACCOUNT: "1" };
const PAID_MS = 60_000;
/** As long as the page waits for a pairing code; longer would do as well. */
const CODE_WAIT_MS = 15_000;
const RELAY = "wss://relay.walletconnect.org/**";

/** The libraries come from the registry once; a machine without one cannot run this. */
const areLibrariesThere = await buildPages(env).then(
  () => true,
  (error) => {
    console.log(`further wallets skipped: ${error.message}`);
    return false;
  },
);

let world: CheckoutWorld;
const canRun = isBrowserThere && areLibrariesThere;
beforeAll(async () => {
  if (canRun) world = await startCheckoutWorld({ env });
}, 120_000);
afterAll(() => world?.stop());

const button = (page: Page, name: string) => page.getByRole("button", { name });

/** Nothing leaves the machine: the relay is `relay`, every other foreign address fails. `asked` lists what the page wanted. */
async function closeOff(page: Page, asked: string[], relay: (socket: WebSocketRoute) => void): Promise<void> {
  await page.route(
    (url) => url.hostname !== "localhost",
    async (route) => {
      asked.push(route.request().url());
      await route.abort();
    },
  );
  await page.routeWebSocket(RELAY, (socket) => {
    asked.push(socket.url());
    relay(socket);
  });
}

const serveKeys = (context: BrowserContext) =>
  context.route("https://keys.coinbase.com/**", (route) =>
    route.fulfill({ contentType: "text/html", body: "<title>keys</title>" }),
  );

test("an API whose configured library is not built names it, and the command to run", () => {
  const built = {
    has: (name: string) => name === "walletconnect.js",
    pathOf: String,
    respond: () => undefined,
  };
  const check = (baseAccount: boolean) =>
    requireWalletFiles(built, {
      furtherWallets: { walletConnectProjectId: env.WALLETCONNECT_PROJECT_ID, baseAccount },
    });
  expect(() => check(false)).not.toThrow();
  expect(() => check(true)).toThrow(
    "BASE_ACCOUNT is set, but base-account.js is not built: run `bun run build:web` with this setting.",
  );
});

describe.if(canRun)("further wallets", () => {
  test("are offered without their libraries; the policy names the origins they need, and no others", async () => {
    const { id } = await world.makeLink();
    const asked: string[] = [];
    const { page, expectClean, close } = await world.open(id, [], {
      prepare: (page) => closeOff(page, asked, (socket) => socket.close()),
    });
    await button(page, "Pay with WalletConnect").waitFor();
    await button(page, "Pay with Base Account").waitFor();
    await page.getByText("No wallet found in this browser").waitFor();
    const loaded = await page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)");
    expect((loaded as string[]).filter((url) => /walletconnect|base-account/.test(url))).toEqual([]);
    expect(asked).toEqual([]);
    expect(await findBarriers(page)).toEqual([]);
    const policy = (await fetch(world.urlOf(id))).headers.get("content-security-policy") ?? "";
    expect(policy).toContain(
      "; connect-src 'self' https://sepolia.base.org wss://relay.walletconnect.org; form-action",
    );
    expect(policy).toContain("; frame-src https://verify.walletconnect.org");
    expect(policy).toContain("require-trusted-types-for 'script'; trusted-types 'none'");
    expectClean();
    await close();
  });

  test("a link that can no longer be paid offers none, and its policy names no foreign origin", async () => {
    const { id } = await world.makeLink();
    expect((await world.ann.client.post(`/v1/payment-links/${id}/cancel`)).status).toBe(200);
    const answer = await fetch(world.urlOf(id));
    expect(answer.headers.get("content-security-policy")).toContain("connect-src 'self';");
    expect(await answer.text()).not.toContain("further-wallets");
  });

  test("an unreachable relay is reported, and the browser's wallet still pays", async () => {
    const { id } = await world.makeLink();
    const asked: string[] = [];
    const { page, close } = await world.open(id, [await world.wallet()], {
      prepare: async (page) => {
        await page.clock.install();
        await closeOff(page, asked, (socket) => socket.close());
      },
    });
    const library = page.waitForRequest(/\/assets\/walletconnect-/);
    await button(page, "Pay with WalletConnect").click();
    await library;
    await waitFor("a call to the relay", async () => asked.length > 0);
    await page.clock.fastForward(CODE_WAIT_MS);
    await page.getByText("WalletConnect could not be reached. Nothing was sent.").waitFor();
    expect(asked[0]).toStartWith("wss://relay.walletconnect.org/");
    await page.locator("dialog").waitFor({ state: "detached" });
    expect(await findBarriers(page)).toEqual([]);
    await button(page, "Pay with Test Wallet").click();
    await page.getByText(/^Thank you\./).waitFor({ timeout: PAID_MS });
    await close();
  });

  test("a library that fails to load is reported, the other ways remain, and a second click loads it", async () => {
    const { id } = await world.makeLink();
    const { page, context, close } = await world.open(id, [], {
      prepare: async (page) => {
        await closeOff(page, [], (socket) => socket.close());
        await page.route(/\/assets\/base-account-/, (route) => route.abort(), { times: 1 });
      },
    });
    await serveKeys(context);
    await button(page, "Pay with Base Account").click();
    await page.getByText("Base Account could not be reached. Nothing was sent.").waitFor();
    expect(await button(page, "Pay with WalletConnect").isVisible()).toBe(true);
    const popup = context.waitForEvent("page");
    await button(page, "Pay with Base Account").click();
    expect((await popup).url()).toStartWith("https://keys.coinbase.com/connect");
    await close();
  });

  test("Base Account opens its own site in a window, and asks nothing else of another origin", async () => {
    const { id } = await world.makeLink();
    const asked: string[] = [];
    const { page, context, close } = await world.open(id, [], {
      prepare: (page) => closeOff(page, asked, (socket) => socket.close()),
    });
    await serveKeys(context);
    const popup = context.waitForEvent("page");
    await button(page, "Pay with Base Account").click();
    await page.getByText("Connect in Base Account").waitFor();
    expect((await popup).url()).toStartWith("https://keys.coinbase.com/connect");
    await button(page, "Start over").click();
    await button(page, "Pay with Base Account").waitFor();
    expect(asked).toEqual([]);
    await close();
  });

  test("closing the dialog before a wallet is paired counts as a refusal", async () => {
    const { id } = await world.makeLink();
    // a relay that takes everything and answers nothing
    const { page, close } = await world.open(id, [], {
      prepare: (page) => closeOff(page, [], (socket) => socket.onMessage(() => {})),
    });
    await button(page, "Pay with WalletConnect").click();
    await button(page, "Cancel").click();
    await page.getByText("You declined in WalletConnect. Nothing was sent.").waitFor();
    await close();
  });

  test("a wallet paired by QR code declines, signs on the second attempt, and its payer is thanked", async () => {
    const { id, amountUnits } = await world.makeLink();
    const asked: string[] = [];
    const refused: string[] = [];
    const chainReads: string[] = [];
    const relay = startRelay();
    const wallet = await startRemoteWallet(relay.url, { declines: 1 });
    await fundUsdc(world.rpcUrl, wallet.address, amountUnits);
    const { page, close } = await world.open(id, [], {
      hasTouch: true,
      isMobile: true,
      prepare: async (page) => {
        await closeOff(page, asked, () => {});
        page.on("console", (message) => message.type() === "error" && refused.push(message.text()));
        await relay.serve(page);
        await serveAttestation(page);
        // the public node that balances are read from
        await page.route("https://sepolia.base.org/**", async (route) => {
          const { method, params } = route.request().postDataJSON();
          chainReads.push(method);
          await route.fulfill({ json: { result: await callRpc(world.rpcUrl, method, params) } });
        });
      },
    });
    await button(page, "Pay with WalletConnect").click();
    const app = page.getByRole("link", { name: "Open your wallet app" });
    await app.waitFor();
    expect(await page.getByRole("img", { name: /^QR code that connects a wallet/ }).isVisible()).toBe(true);
    expect(await findBarriers(page)).toEqual([]);
    await wallet.pair((await app.getAttribute("href")) ?? "");
    await page.getByText("You declined in WalletConnect. Nothing was sent.").waitFor();
    await button(page, "Send a transfer instead").waitFor();
    expect(await world.statusOf(id)).toBe("ACTIVE");
    // the session is still open: no second code
    await button(page, "Pay with WalletConnect").click();
    await page.getByText(/^Thank you\./).waitFor({ timeout: PAID_MS });
    expect(wallet.calls).toEqual(["eth_signTypedData_v4", "eth_signTypedData_v4"]);
    const paying = await world.world
      .sql`select from_address, amount_units from transfers where link_id = ${id}`;
    expect([...paying]).toEqual([{ fromAddress: wallet.address, amountUnits }]);
    expect(chainReads).toEqual(["eth_call", "eth_call"]);
    // its telemetry included
    expect(asked).toEqual([]);
    expect(refused).toEqual([]);
    await close();
    relay.stop();
  });
});
