/** Every state that a payer can meet, brought about for a picture. */
import type { Page } from "playwright-core";
import { callRpc } from "../../local/chain/rpc.ts";
import { newPayer, sendUsdc } from "../links/payers.ts";
import type { CheckoutWorld } from "./checkout-world.ts";
import type { TestWallet } from "./test-wallet.ts";

export type PictureState = {
  name: string;
  /** A link, or the whole path of another page. */
  path: string;
  wallets?: readonly TestWallet[];
  isPhone?: boolean;
  isScriptless?: boolean;
  prepare?: (page: Page) => Promise<void>;
  /** Brings the state about once the page is there. */
  act?: (page: Page) => Promise<void>;
};

const SEEN_EVENT = (link: object) => `event: status\ndata: ${JSON.stringify({ ...link, seen: true })}\n\n`;
/** As in an in-app browser that lets no page copy. */
const NO_CLIPBOARD =
  "Object.defineProperty(navigator, 'clipboard', { value: undefined }); document.execCommand = () => false";
const ORDER = {
  description: "Two coffees, a cinnamon roll and a bag of beans (250 g)",
  reference: "2026-1047",
  successUrl: "https://shop.example/thanks",
  cancelUrl: "https://shop.example/basket",
};

export async function listStates(world: CheckoutWorld): Promise<PictureState[]> {
  const { ann, rpcUrl, merchantWallet } = world;
  const { sql } = world.world;
  let cents = 1_250;
  const create = async (fields: Record<string, unknown> = {}) => {
    cents += 5;
    const answer = await ann.client.post("/v1/payment-links", { amount: cents / 100, ...ORDER, ...fields });
    if (answer.status !== 201) throw new Error(answer.text);
    return answer.body as { id: string; amount: number };
  };
  const link = async (fields: Record<string, unknown> = {}) => `/pay/${(await create(fields)).id}`;
  const units = (amount: number) => BigInt(Math.round(amount * 1e6));
  const wallet = await world.wallet();
  const mine = async () => (await callRpc(rpcUrl, "evm_mine")) as unknown;

  /** Paid by a transfer, `depth` blocks deep. */
  const paid = async (depth: number) => {
    const { id, amount } = await create();
    const payer = await newPayer(rpcUrl, units(amount));
    await sendUsdc(rpcUrl, payer, merchantWallet, units(amount));
    for (let block = 1; block < depth; block++) await mine();
    await world.waitForStatus(id, depth < 3 ? "PENDING" : "PAID");
    return id;
  };
  const click = (text: string) => (page: Page) => page.getByText(text).first().click();
  const choose = async (page: Page) => {
    await page.locator("#pay button.button").first().click();
  };

  const settled = await paid(3);
  const refunded = await paid(3);
  const partly = await paid(3);
  await sql`update payment_links set refunded_units = coalesce(paid_units, amount_units) where id = ${refunded}`;
  await sql`update payment_links set refunded_units = 5000000 where id = ${partly}`;
  const cancelled = await create();
  await ann.client.post(`/v1/payment-links/${cancelled.id}/cancel`);
  const expired = await create();
  await sql`
    update payment_links
    set created_at = now() - interval '2 days', expires_at = now() - interval '1 minute'
    where id = ${expired.id}`;
  const usedUp = await create({ maxPayments: 1, amount: null, minAmount: 1, maxAmount: 50 });
  await ann.client.post(`/v1/payment-links/${usedUp.id}/cancel`);
  const full = await create({ maxPayments: 1, amount: null, minAmount: 1, maxAmount: 50 });
  await ann.client.post(`/api/v1/public/payment-links/${full.id}/uses`, { amount: 20 });
  const misfit = await create();
  await sql`update payment_links set exception = 'UNDERPAID' where id = ${misfit.id}`;
  const soon = await create();
  await sql`
    update payment_links
    set created_at = now() - interval '2 days', expires_at = now() + interval '14 minutes'
    where id = ${soon.id}`;
  const held = new Promise(() => {});
  const declining = await world.wallet({ declines: { method: "eth_signTypedData_v4", times: 9 } });
  const openAmount = { amount: null, minAmount: 5, maxAmount: 500, maxPayments: null };

  const states: PictureState[] = [
    { name: "open", path: await link(), wallets: [wallet] },
    {
      name: "open, three wallets",
      path: await link(),
      wallets: [
        wallet,
        await world.wallet({ name: "Another" }),
        await world.wallet({ name: "A wallet with quite a long name" }),
      ],
    },
    {
      name: "open, no wallet",
      path: await link(),
      act: (page) => page.getByText("No wallet found").waitFor(),
    },
    { name: "open, no wallet, touch", path: await link(), isPhone: true },
    { name: "open, no script", path: await link(), isScriptless: true },
    { name: "open, soon over", path: `/pay/${soon.id}`, wallets: [wallet] },
    {
      name: "open, large amount, long text",
      path: await link({ amount: 999_999.999999, description: "W".repeat(120) }),
      wallets: [wallet],
    },
    { name: "reusable, fixed amount", path: await link({ maxPayments: null }) },
    { name: "reusable, open amount", path: await link(openAmount) },
    {
      name: "reusable, amount refused",
      path: await link(openAmount),
      act: async (page) => {
        await page.locator("input[name=amount]").fill("4");
        await page.locator("form button").click();
        await page.getByRole("alert").waitFor();
      },
    },
    { name: "by hand", path: await link(), wallets: [wallet], act: click("Pay manually") },
    {
      name: "by hand, no clipboard",
      path: await link(),
      wallets: [wallet],
      prepare: async (page) => {
        await page.addInitScript(NO_CLIPBOARD);
      },
      act: async (page) => {
        await page.getByText("Pay manually").click();
        for (const button of await page.locator("[data-copy]").all()) await button.click();
      },
    },
    {
      name: "wrong network",
      path: await link(),
      wallets: [await world.wallet({ chainId: 1, fails: { wallet_switchEthereumChain: -32603 } })],
      act: async (page) => {
        await choose(page);
        await page.getByRole("alert").waitFor();
      },
    },
    {
      name: "claim form",
      path: await link(),
      wallets: [wallet],
      act: async (page) => {
        await page.getByText("Pay manually").click();
        await page.getByText("Sent, but not shown here?").click();
        await page.getByLabel("Transaction hash").fill("0x12");
      },
    },
    {
      name: "confirm in wallet",
      path: await link(),
      wallets: [await world.wallet({ holdUntil: held })],
      act: async (page) => {
        await choose(page);
        await page.getByText("Confirm in").waitFor();
      },
    },
    {
      name: "declined",
      path: await link(),
      wallets: [declining],
      act: async (page) => {
        await choose(page);
        await page.getByRole("alert").waitFor();
      },
    },
    {
      name: "too little",
      path: await link(),
      wallets: [await world.wallet({ fundsUnits: 3_000_000n })],
      act: async (page) => {
        await choose(page);
        await page.getByRole("alert").waitFor();
      },
    },
    {
      name: "seen",
      ...(await (async () => {
        const { id } = await create();
        const shown = (await ann.client.get(`/api/v1/public/payment-links/${id}/data`)).body;
        return {
          path: `/pay/${id}`,
          wallets: [wallet],
          prepare: async (page: Page) => {
            await page.route("**/events", (route) =>
              route.fulfill({ contentType: "text/event-stream", body: SEEN_EVENT(shown) }),
            );
          },
          act: (page: Page) => page.getByText("A payment has been seen").waitFor(),
        };
      })()),
    },
    {
      name: "sent by me",
      path: await link(),
      wallets: [await world.wallet()],
      act: async (page) => {
        await choose(page);
        await page.getByText("Please do not pay again.").waitFor();
      },
    },
    {
      name: "transfer unclear",
      path: await link(),
      wallets: [
        await world.wallet({
          // nothing is sent, so that no block ends what is to be seen
          fails: { eth_signTypedData_v4: 4200, eth_sendTransaction: -32603 },
        }),
      ],
      act: async (page) => {
        await choose(page);
        await page.getByRole("button", { name: "Send a transfer instead" }).click();
        await page.getByText("You may already have sent").waitFor();
      },
    },
    { name: "paid", path: `/pay/${settled}` },
    {
      name: "paid by me",
      path: await link(),
      wallets: [await world.wallet()],
      act: async (page) => {
        await choose(page);
        await page.getByText("In a block").waitFor();
        const blocks = setInterval(() => void mine(), 1_000);
        await page
          .getByText("Thank you.")
          .waitFor()
          .finally(() => clearInterval(blocks));
      },
    },
    { name: "refunded", path: `/pay/${refunded}` },
    { name: "partly refunded", path: `/pay/${partly}` },
    { name: "expired", path: `/pay/${expired.id}` },
    { name: "cancelled", path: `/pay/${cancelled.id}` },
    { name: "reusable, over", path: `/pay/${usedUp.id}` },
    { name: "reusable, full", path: `/pay/${full.id}` },
    { name: "Arabic, reusable, full", path: `/pay/${full.id}?lang=ar` },
    { name: "unknown", path: "/pay/link_AAAAAAAAAAAAAAAAAAAAAA" },
    { name: "other amount came", path: `/pay/${misfit.id}`, wallets: [wallet] },
    {
      name: "uncertain",
      path: await link(),
      wallets: [wallet],
      prepare: async (page) => {
        await page.route("**/pay/link_*", async (route) => {
          const answer = await route.fetch();
          const text = (await answer.text()).replace('"paymentUncertain":false', '"paymentUncertain":true');
          await route.fulfill({ response: answer, body: text });
        });
        await page.route("**/events", (route) => route.abort());
        await page.route("**/data", (route) => route.abort());
      },
    },
    { name: "receipt", path: `/pay/${settled}/receipt` },
    {
      name: "Arabic, by hand",
      path: `${await link()}?lang=ar`,
      wallets: [wallet],
      act: async (page) => page.locator("#by-hand > summary").click(),
    },
    { name: "Arabic, paid", path: `/pay/${settled}?lang=ar` },
    { name: "Arabic, receipt", path: `/pay/${settled}/receipt?lang=ar` },
    { name: "German", path: `${await link()}?lang=de`, wallets: [wallet] },
  ];
  // last made and first taken: every later block confirms it
  const confirming = await paid(2);
  return [
    { name: "confirming, by somebody", path: `/pay/${confirming}` },
    { name: "Arabic, confirming", path: `/pay/${confirming}?lang=ar` },
    ...states,
  ];
}
