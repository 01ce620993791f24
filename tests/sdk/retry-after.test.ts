/** A payment of the SDK that a rate limit holds back. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { sendPayment, signPayment, UnknownOutcomeError } from "../../sdk/pay-link.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

let world: MerchantWorld;
let ann: Merchant;

beforeAll(async () => {
  world = await startMerchantWorld({ blockTimeS: 1 });
  ann = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

test("a payment that a rate limit refuses is sent again after the time that it names, within its own", async () => {
  const { aiUrl } = (await ann.client.post("/v1/payment-links", { amount: 0.2, description: "Busy" })).body;
  const limited = (retryAfter: string, times: number) => {
    const sentAtMs: number[] = [];
    const busy = async (url: string | URL | Request, init?: RequestInit) => {
      if (init?.method !== "POST") return fetch(url, init);
      sentAtMs.push(Date.now());
      if (sentAtMs.length > times) return fetch(url, init);
      return new Response("busy", { status: 429, headers: { "retry-after": retryAfter } });
    };
    return { sentAtMs, fetch: busy as typeof fetch };
  };
  const account = privateKeyToAccount(generatePrivateKey());
  await fundUsdc(world.chain.rpcUrl, account.address, 1_000_000n);
  const attempt = await signPayment(aiUrl, account, { maxAmount: 1 });
  const endless = limited("3600", 99);
  const startMs = Date.now();
  await expect(sendPayment(attempt, { fetch: endless.fetch, waitMs: 1_000 })).rejects.toBeInstanceOf(
    UnknownOutcomeError,
  );
  expect(endless.sentAtMs.length).toBeLessThanOrEqual(3);
  expect(Date.now() - startMs).toBeLessThan(60_000);
  const once = limited("2", 1);
  expect((await sendPayment(attempt, { fetch: once.fetch })).amountUnits).toBe(200_000n);
  const [first = 0, second = 0] = once.sentAtMs;
  expect(second - first).toBeGreaterThanOrEqual(1_950);
});
