/** Unmodified middleware sells to unmodified clients through us, every pair of them; the examples do, too. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { x402Client } from "@x402/core/client";
import type { PaymentPayload, PaymentRequired } from "@x402/core/types";
import { registerExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { findFreePort } from "../../local/free-port.ts";
import { waitFor } from "../links/payer-side.ts";
import { makePayer, type Payer } from "../support/payer.ts";
import { randomAddress } from "../support/seed.ts";
import { buyers, PRICE, REPORT, sellers } from "./sellers.ts";
import { type FacilitatorWorld, startFacilitatorWorld } from "./world.ts";

const EXAMPLES = join(import.meta.dir, "../../examples");

let lab: FacilitatorWorld;
beforeAll(async () => {
  lab = await startFacilitatorWorld();
}, 120_000);
afterAll(() => lab?.stop());

async function newBuyer(units: bigint): Promise<Payer> {
  const payer = makePayer();
  await fundUsdc(lab.world.chain.rpcUrl, payer.address, units);
  return payer;
}

const balanceOf = (address: Hex) => readUsdcBalance(lab.world.chain.rpcUrl, address);

describe.each(Object.keys(sellers))("%s", (sellerName) => {
  test.each(Object.keys(buyers))("sells to %s", async (buyerName) => {
    const payTo = randomAddress();
    const seller = await sellers[sellerName]?.(lab, payTo);
    const buy = buyers[buyerName];
    if (!seller || !buy) throw new Error("there is no such pair");
    const payer = await newBuyer(PRICE);
    const buying = buy(payer, seller.url);
    // a client of version 1 reads the terms in the body, where these sellers have none: they never meet, with any facilitator
    const isPossible = !(sellerName.includes("version 2") && buyerName.includes("version 1"));
    try {
      if (isPossible) expect(await buying).toEqual({ status: 200, body: REPORT });
      else await expect(buying.then(({ status }) => status)).rejects.toThrow();
      expect(await balanceOf(payTo)).toBe(isPossible ? PRICE : 0n);
      expect(await balanceOf(payer.address)).toBe(isPossible ? 0n : PRICE);
    } finally {
      await seller.stop();
    }
  });
});

test.each(Object.keys(sellers).filter((name) => name.includes("version 2")))(
  "%s: a payer who adds a payment-identifier to a payment buys once with it",
  async (name) => {
    const payTo = randomAddress();
    const seller = await sellers[name]?.(lab, payTo);
    if (!seller) throw new Error("there is no such seller");
    try {
      const payer = await newBuyer(PRICE);
      const client = new x402Client();
      registerExactEvmScheme(client, { signer: privateKeyToAccount(payer.privateKey) });
      const asked = await fetch(seller.url);
      const required = Buffer.from(asked.headers.get("payment-required") ?? "", "base64").toString();
      const payment = await client.createPaymentPayload(JSON.parse(required) as PaymentRequired);
      const info = { required: false, id: "chosen_by_the_payer_0001" };
      const identified = { ...payment, extensions: { "payment-identifier": { info, schema: {} } } };
      const header = Buffer.from(JSON.stringify(identified)).toString("base64");
      const buy = () => fetch(seller.url, { headers: { "payment-signature": header } });
      expect((await buy()).status).toBe(200);
      expect((await buy()).status).toBe(402);
      expect(await balanceOf(payTo)).toBe(PRICE);
    } finally {
      await seller.stop();
    }
  },
);

/** What an example needs of its environment. */
function settingsOf(payTo: Hex): Record<string, string> {
  const { PATH = "", HOME = "" } = process.env;
  return { PATH, HOME, FACILITATOR_URL: lab.url, FACILITATOR_KEY: lab.key, PAY_TO: payTo };
}

describe("examples/paid-api", () => {
  test("sells its report, and again for another payment; a copied payment buys nothing", async () => {
    const payTo = randomAddress();
    const PORT = String(await findFreePort());
    const command = [process.execPath, join(EXAMPLES, "paid-api/main.ts")];
    const seller = Bun.spawn(command, {
      env: { ...settingsOf(payTo), PORT },
      stdout: "ignore",
      stderr: "inherit",
    });
    try {
      const url = `http://127.0.0.1:${PORT}/report`;
      await waitFor(
        "the example to answer",
        async () => (await fetch(url).catch(() => undefined))?.status === 402,
      );
      const payer = await newBuyer(2n * PRICE);
      const seen: string[] = [];
      const spy = async (input: string | URL | Request, init?: RequestInit) => {
        const request =
          input instanceof Request ? new Request(input, init) : new Request(String(input), init);
        const signature = request.headers.get("payment-signature");
        if (signature) seen.push(signature);
        return fetch(request);
      };
      const client = new x402Client();
      registerExactEvmScheme(client, { signer: privateKeyToAccount(payer.privateKey) });
      const buy = wrapFetchWithPayment(spy as typeof fetch, client);
      for (const bought of [1n, 2n]) {
        const answer = await buy(url, { method: "GET" });
        expect(answer.status).toBe(200);
        expect(await answer.json()).toEqual({ city: "Lisbon", outlook: "sunny" });
        expect(await balanceOf(payTo)).toBe(bought * PRICE);
      }
      expect(seen).toHaveLength(2);
      const copied = await fetch(url, { headers: { "payment-signature": seen[0] ?? "" } });
      expect(copied.status).toBe(402);
      expect(await balanceOf(payTo)).toBe(2n * PRICE);
    } finally {
      seller.kill();
      await seller.exited;
    }
  });
});

describe("examples/paid-tool", () => {
  test("asks for payment, answers a paid call with its settlement, and refuses the same payment again", async () => {
    const payTo = randomAddress();
    const args = [join(EXAMPLES, "paid-tool/main.ts")];
    const client = new Client({ name: "agent", version: "1.0.0" });
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args, env: settingsOf(payTo) }),
    );
    try {
      const call = (payment?: PaymentPayload) =>
        client.callTool({
          ...{ name: "forecast", arguments: { city: "Lisbon" } },
          ...(payment ? { _meta: { "x402/payment": payment } } : {}),
        });
      const asked = await call();
      expect(asked.isError).toBe(true);
      const required = asked.structuredContent as unknown as PaymentRequired;
      expect(required).toMatchObject({ x402Version: 2, accepts: [{ amount: "20000", payTo }] });
      expect(JSON.parse((asked.content as { text: string }[])[0]?.text ?? "")).toEqual(required);

      const payer = await newBuyer(40_000n);
      const wallet = new x402Client();
      registerExactEvmScheme(wallet, { signer: privateKeyToAccount(payer.privateKey) });
      const payment = await wallet.createPaymentPayload(required);
      const paid = await call(payment);
      expect(paid).toMatchObject({ content: [{ type: "text", text: "Lisbon: sunny" }] });
      expect(paid._meta?.["x402/payment-response"]).toMatchObject({
        ...{ success: true, network: "eip155:84532", transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/) },
      });
      expect(await balanceOf(payTo)).toBe(20_000n);

      const again = await call(payment);
      expect(again).toMatchObject({ isError: true, structuredContent: { x402Version: 2 } });
      const cheaper = { ...payment, accepted: { ...payment.accepted, amount: "1" } };
      expect(await call(cheaper)).toMatchObject({ isError: true });
      expect(await call({} as PaymentPayload)).toMatchObject({ isError: true });
      expect(await balanceOf(payTo)).toBe(20_000n);
    } finally {
      await client.close();
    }
  });
});
