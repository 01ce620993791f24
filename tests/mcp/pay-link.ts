/** An agent that pays with its own key within the limits set by the person who started it; every link is paid on the chain by the running service. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { NETWORKS } from "../../core/domain/networks.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { limitSigner } from "../../mcp/limit-signer.ts";
import { openSpending } from "../../mcp/spending.ts";
import { readStdioSettings } from "../../mcp/stdio.ts";
import type { ToolRefusal } from "../../mcp/tool-result.ts";
import { createClient } from "../../sdk/client.ts";
import type { MerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import type { SignedPayment } from "../support/payer.ts";
import type { Merchant } from "../support/sign-up.ts";
import { broadcastAsStranger } from "../support/stranger.ts";
import { connectInMemory, connectStdio, type McpClient } from "./mcp-client.ts";

let world: MerchantWorld;
let ann: Merchant;
const clients: McpClient[] = [];

async function newPayer(units: bigint) {
  const privateKey = generatePrivateKey();
  const account = privateKeyToAccount(privateKey);
  await fundUsdc(world.chain.rpcUrl, account.address, units);
  return { privateKey, account };
}

export function testPayLink(service: () => { world: MerchantWorld; ann: Merchant }): void {
  beforeAll(() => {
    ({ world, ann } = service());
  });
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()));
  });

  describe("pay_link", () => {
    type Given = { units?: bigint; limit?: bigint; session?: bigint; chainId?: number; fetch?: typeof fetch };

    /** A payer in this process, whose own network may be made to fail; the service is the running one. */
    async function openPayer({ units = 1_000_000n, limit = units, session = limit, ...given }: Given = {}) {
      const { account } = await newPayer(units);
      const service = createClient({ baseUrl: world.baseUrl });
      const spending = openSpending({ perCallUnits: limit, perSessionUnits: session });
      const payer = {
        account,
        chainId: given.chainId ?? 84_532,
        spending,
        fetch: given.fetch,
        waitMs: 60_000,
      };
      const agent = await connectInMemory({ service, baseUrl: world.baseUrl, payer });
      clients.push(agent);
      return { agent, payer };
    }
    async function newLink(amount: number): Promise<{ id: string; url: string; aiUrl: string }> {
      return (await ann.client.post("/v1/payment-links", { amount, description: "To be paid" })).body;
    }
    const paymentsOf = async (linkId: string) =>
      (await world.sql<{ state: string }[]>`select state from payments where link_id = ${linkId}`).length;

    test("over stdio pays a link by its id, its url or its aiUrl, and reports what is left", async () => {
      const { privateKey } = await newPayer(1_000_000n);
      const limits = { PAY_LIMIT: "0.25", PAY_SESSION_LIMIT: "0.6" };
      const agent = await connectStdio({
        SERVICE_URL: world.baseUrl,
        PAYER_PRIVATE_KEY: privateKey,
        ...limits,
      });
      clients.push(agent);
      const [first, second, third] = [await newLink(0.25), await newLink(0.25), await newLink(0.2)];
      const paid = await agent.call("pay_link", { link: first.id, maxAmount: 1 });
      expect(paid.value).toMatchObject({ paid: true, amount: "0.250000", sessionLimitLeft: "0.350000" });
      const [row] = await world.sql<
        { state: string }[]
      >`select state from payments where link_id = ${first.id}`;
      expect(["MINED", "CONFIRMED"]).toContain(row?.state ?? "");
      expect((await agent.call("pay_link", { link: second.url, maxAmount: 1 })).value.sessionLimitLeft).toBe(
        "0.100000",
      );
      // 0.2 is within the limit of a call, and beyond what the session has left
      const refused = await agent.call("pay_link", { link: third.aiUrl, maxAmount: 1 });
      expect(refused.text).toStartWith("SPENDING_LIMIT: ");
      expect(await paymentsOf(third.id)).toBe(0);
    });

    test.each([
      ["exactly maxAmount and both limits", { limit: 300_000n }, 0.3, undefined],
      ["a millionth above maxAmount", { limit: 1_000_000n }, 0.299999, "OVER_LIMIT"],
      [
        "a millionth above the limit of a call",
        { limit: 299_999n, session: 1_000_000n },
        0.3,
        "SPENDING_LIMIT",
      ],
      [
        "a millionth above what the session has left",
        { limit: 1_000_000n, session: 299_999n },
        0.3,
        "SPENDING_LIMIT",
      ],
      ["another network than the payer's", { chainId: 8_453 }, 0.3, "NETWORK_NOT_ALLOWED"],
    ])("a link of 0.3 USDC: %s", async (_, given, maxAmount, code) => {
      const { agent } = await openPayer(given);
      const { id } = await newLink(0.3);
      const { text } = await agent.call("pay_link", { link: id, maxAmount });
      expect(text).toStartWith(code === undefined ? '{"paid":true' : `${code}: `);
      expect(await paymentsOf(id)).toBe(code === undefined ? 1 : 0);
    });

    test("error: a URL of another service is not requested, even if it ends like a link", async () => {
      const asked: string[] = [];
      const watching = ((url: string | URL) => {
        asked.push(String(url));
        return fetch(url);
      }) as typeof fetch;
      const { agent } = await openPayer({ fetch: watching });
      const { id } = await newLink(0.1);
      for (const link of [
        `https://evil.example/v1/x402/${id}`,
        `${world.baseUrl}.evil.example/pay/${id}`,
        "link_x",
      ])
        expect((await agent.call("pay_link", { link, maxAmount: 1 })).text).toStartWith("NOT_A_LINK: ");
      expect(asked).toEqual([]);
    });

    test("error: after an unknown outcome the next call checks that payment and signs no second one", async () => {
      let isDeaf = true;
      // every answer to a payment is lost after the service has taken it
      const lossy = (async (url: string | URL, init?: RequestInit) => {
        const answer = await fetch(url, init);
        if (isDeaf && init?.method === "POST") throw new TypeError("the answer was lost");
        return answer;
      }) as typeof fetch;
      const { agent, payer } = await openPayer({ units: 2_000_000n, fetch: lossy });
      payer.waitMs = 0;
      const impatient = await connectInMemory({
        ...{ service: createClient({ baseUrl: world.baseUrl }), baseUrl: world.baseUrl, payer },
      });
      clients.push(impatient);
      const { id } = await newLink(0.4);
      const lost = await impatient.call("pay_link", { link: id, maxAmount: 1 });
      expect(lost.text).toStartWith("OUTCOME_UNKNOWN: ");
      expect(payer.spending.leftUnits).toBe(1_600_000n);
      expect((await impatient.call("pay_link", { link: id, maxAmount: 1 })).text).toStartWith(
        "OUTCOME_UNKNOWN: ",
      );
      isDeaf = false;
      const found = await waitFor("the outcome", async () => {
        const { isError, value } = await impatient.call("pay_link", { link: id, maxAmount: 1 });
        return isError ? undefined : value;
      });
      expect(found).toMatchObject({ paid: true, isEarlierPayment: true, sessionLimitLeft: "1.600000" });
      expect(await paymentsOf(id)).toBe(1);
      // a server that was restarted, or another one, with the same key: it reports the payment that it did not make
      const restarted = await agent.call("pay_link", { link: id, maxAmount: 1 });
      const { amount, txHash, sessionLimitLeft } = found;
      const same = { paid: true, isEarlierPayment: true, amount, txHash, sessionLimitLeft };
      expect(restarted.value).toMatchObject(same);
      expect(await paymentsOf(id)).toBe(1);
      const stranger = await openPayer();
      expect((await stranger.agent.call("pay_link", { link: id, maxAmount: 1 })).text).toStartWith(
        "LINK_ALREADY_PAID: ",
      );
    });

    test("behavior: a call that its client cancelled while it paid is reported by the next one, and pays a reusable link once", async () => {
      const held = Promise.withResolvers<void>();
      const sent = Promise.withResolvers<void>();
      // the service has taken the payment when the client gives up
      const slow = (async (url: string | URL, init?: RequestInit) => {
        const answer = await fetch(url, init);
        if (init?.method !== "POST") return answer;
        sent.resolve();
        await held.promise;
        return answer;
      }) as typeof fetch;
      const { agent, payer } = await openPayer({ units: 2_000_000n, fetch: slow });
      const given = { amount: 0.3, description: "A call of an API", maxPayments: null };
      const { id } = (await ann.client.post("/v1/payment-links", given)).body;
      const stop = new AbortController();
      const cancelled = agent.call("pay_link", { link: id, maxAmount: 1 }, { signal: stop.signal });
      await sent.promise;
      stop.abort();
      await expect(cancelled).rejects.toThrow();
      held.resolve();
      const answer = await waitFor("the outcome", async () => {
        const { isError, text, value } = await agent.call("pay_link", { link: id, maxAmount: 1 });
        if (isError) expect(text).toStartWith("BUSY: ");
        return isError ? undefined : value;
      });
      expect(answer).toMatchObject({ paid: true, isEarlierPayment: true, sessionLimitLeft: "1.700000" });
      expect(answer.txHash).toMatch(/^0x[0-9a-f]{64}$/);
      const payments = async () => (await ann.client.get(`/v1/payment-links/${id}/payments`)).body.payments;
      expect(await payments()).toHaveLength(1);
      // it was reported: the next call is another payment
      const again = await agent.call("pay_link", { link: id, maxAmount: 1 });
      expect(again.value).toMatchObject({ paid: true, sessionLimitLeft: "1.400000" });
      expect(again.value.isEarlierPayment).toBeUndefined();
      expect(await payments()).toHaveLength(2);
      expect(payer.spending.leftUnits).toBe(1_400_000n);
    });

    test("behavior: a call that its client cancelled before its turn to sign signs nothing", async () => {
      const held = Promise.withResolvers<void>();
      const asked = Promise.withResolvers<void>();
      const slow = (async (url: string | URL, init?: RequestInit) => {
        asked.resolve();
        await held.promise;
        return fetch(url, init);
      }) as typeof fetch;
      const { agent, payer } = await openPayer({ units: 2_000_000n, fetch: slow });
      const { id } = await newLink(0.3);
      const stop = new AbortController();
      const cancelled = agent.call("pay_link", { link: id, maxAmount: 1 }, { signal: stop.signal });
      await asked.promise;
      stop.abort();
      await expect(cancelled).rejects.toThrow();
      held.resolve();
      // payments are signed one after the other: this one only after the cancelled one has ended
      const { id: other } = await newLink(0.2);
      const { value } = await agent.call("pay_link", { link: other, maxAmount: 1 });
      expect(value).toMatchObject({ paid: true, sessionLimitLeft: "1.800000" });
      expect(await paymentsOf(id)).toBe(0);
      expect(payer.spending.leftUnits).toBe(1_800_000n);
    });

    test("race: of five concurrent payments of which the session's limit covers one, one is made", async () => {
      const { agent, payer } = await openPayer({ units: 2_000_000n, limit: 300_000n, session: 500_000n });
      const links = await Promise.all(Array.from({ length: 5 }, () => newLink(0.3)));
      const answers = await Promise.all(
        links.map(({ id }) => agent.call("pay_link", { link: id, maxAmount: 1 })),
      );
      const codes = answers.map(({ isError, text }) => (isError ? text.split(":")[0] : "paid")).toSorted();
      expect(codes).toEqual([...Array(4).fill("SPENDING_LIMIT"), "paid"]);
      expect(payer.spending.leftUnits).toBe(200_000n);
    });

    test("race: the same link in five concurrent calls is paid once", async () => {
      const { agent, payer } = await openPayer({ units: 2_000_000n });
      const { id } = await newLink(0.3);
      const answers = await Promise.all(
        Array.from({ length: 5 }, () => agent.call("pay_link", { link: id, maxAmount: 1 })),
      );
      expect(answers.filter(({ isError }) => !isError)).toHaveLength(1);
      expect(payer.spending.leftUnits).toBe(1_700_000n);
      expect(await paymentsOf(id)).toBe(1);
    });

    test("error: a refused payment counts for the session, since the service holds its signature; the rest can be spent", async () => {
      const { agent, payer } = await openPayer({ units: 100_000n, limit: 500_000n, session: 600_000n });
      const { id } = await newLink(0.5);
      const { text } = await agent.call("pay_link", { link: id, maxAmount: 1 });
      expect(text).toStartWith("INSUFFICIENT_FUNDS: ");
      expect(payer.spending.leftUnits).toBe(100_000n);
      const { id: other } = await newLink(0.1);
      expect((await agent.call("pay_link", { link: other, maxAmount: 1 })).value).toMatchObject({
        paid: true,
      });
    });

    test.each([
      ["PAYER_PRIVATE_KEY", { PAYER_PRIVATE_KEY: "0x12" }],
      ["PAY_NETWORK", { PAYER_PRIVATE_KEY: `0x${"1".repeat(64)}`, PAY_NETWORK: "solana" }],
      ["PAY_LIMIT", { PAYER_PRIVATE_KEY: `0x${"1".repeat(64)}`, PAY_LIMIT: "1.0000001" }],
      ["SERVICE_URL", { SERVICE_URL: "ftp://pay.example.org" }],
    ])("error: %s is refused at startup by its name, without its value", (name, env) => {
      const read = () => readStdioSettings(env);
      expect(read).toThrow(name);
      expect(read).not.toThrow(Object.values(env)[0] ?? "");
    });
  });

  describe("a dishonest service", () => {
    type Requirements = Record<string, unknown>;

    /** Serves links of its own: asks as `ask` says, keeps every authorization that it gets, and calls each payment refused. */
    function startLiar(ask: Requirements) {
      const payTo = privateKeyToAccount(generatePrivateKey()).address;
      const kept: SignedPayment[] = [];
      const honest = {
        ...{ amount: "300000", chainId: 84_532, network: "base-sepolia", payTo, maxTimeoutSeconds: 300 },
        asset: NETWORKS["base-sepolia"].usdc.address,
        extra: { name: "USDC", version: "2" },
      };
      const server = Bun.serve({
        port: 0,
        hostname: "127.0.0.1",
        async fetch(request) {
          if (request.method === "GET")
            return Response.json({ accepts: [{ ...honest, ...ask }] }, { status: 402 });
          const { payload } = (await request.json()) as { payload: SignedPayment };
          kept.push(payload);
          return Response.json({ success: false, error: "LINK_EXPIRED", message: "It has expired" });
        },
      });
      return { url: server.url.origin, payTo, kept, stop: () => server.stop(true) };
    }

    async function openVictim(liar: { url: string }, { limit, session }: { limit: bigint; session: bigint }) {
      const { account } = await newPayer(5_000_000n);
      let signatures = 0;
      const counting = {
        address: account.address,
        signTypedData: (typedData: Parameters<typeof account.signTypedData>[0]) => {
          signatures += 1;
          return account.signTypedData(typedData);
        },
      };
      const spending = openSpending({ perCallUnits: limit, perSessionUnits: session });
      const agent = await connectInMemory({
        service: createClient({ baseUrl: liar.url }),
        baseUrl: liar.url,
        payer: { account: counting, chainId: 84_532, spending, waitMs: 5_000 },
      });
      clients.push(agent);
      return { agent, account, spending, signatures: () => signatures };
    }
    const newId = () => `link_${generatePrivateKey().slice(2, 24)}`;

    test("gets no more than the session's limit, even if it executes payments that it reports as refused", async () => {
      const liar = startLiar({});
      try {
        const { agent, account, spending } = await openVictim(liar, { limit: 300_000n, session: 700_000n });
        const codes: (string | undefined)[] = [];
        for (let call = 0; call < 4; call += 1)
          codes.push((await agent.call("pay_link", { link: newId(), maxAmount: 1 })).text.split(":")[0]);
        expect(codes).toEqual(["LINK_EXPIRED", "LINK_EXPIRED", "SPENDING_LIMIT", "SPENDING_LIMIT"]);
        expect(spending.leftUnits).toBe(100_000n);
        for (const payment of liar.kept) await broadcastAsStranger(world.chain.rpcUrl, payment);
        await waitFor("both transfers", async () =>
          (await readUsdcBalance(world.chain.rpcUrl, liar.payTo)) === 600_000n ? true : undefined,
        );
        expect(await readUsdcBalance(world.chain.rpcUrl, account.address)).toBe(4_400_000n);
      } finally {
        await liar.stop();
      }
    });

    test.each<[string, Requirements, string]>([
      ["a millionth above the limit", { amount: "300001" }, "SPENDING_LIMIT"],
      ["a negative amount, which would raise the limit", { amount: "-5000000" }, "NOT_PAYABLE"],
      ["an amount in hexadecimal", { amount: "0x1" }, "NOT_PAYABLE"],
      ["a second amount behind the first", { amount: ["1", "9000000"] }, "NOT_PAYABLE"],
      ["another token", { asset: NETWORKS.base.usdc.address }, "UNKNOWN_TOKEN"],
      [
        "another network",
        { chainId: 8_453, network: "base-sepolia", asset: NETWORKS.base.usdc.address },
        "NETWORK_NOT_ALLOWED",
      ],
      ["an authorization of a day", { maxTimeoutSeconds: 86_400 }, "VALIDITY_NOT_ALLOWED"],
    ])("gets no signature when it asks for %s", async (_, ask, code) => {
      const liar = startLiar(ask);
      try {
        const victim = await openVictim(liar, { limit: 300_000n, session: 1_000_000n });
        const { text } = await victim.agent.call("pay_link", { link: newId(), maxAmount: 1 });
        expect(text).toStartWith(`${code}: `);
        expect(victim.signatures()).toBe(0);
        expect(victim.spending.leftUnits).toBe(1_000_000n);
        expect(liar.kept).toEqual([]);
      } finally {
        await liar.stop();
      }
    });

    const account = privateKeyToAccount(generatePrivateKey());
    const domain = {
      ...{ name: "USDC", version: "2", chainId: 84_532 },
      verifyingContract: NETWORKS["base-sepolia"].usdc.address,
    };
    const message = { from: account.address, value: 300_000n };
    test.each<[string, object, boolean]>([
      ["the exact limit", {}, true],
      ["a millionth more", { message: { ...message, value: 300_001n } }, false],
      ["less than nothing", { message: { ...message, value: -1n } }, false],
      ["an amount as text", { message: { ...message, value: "1" } }, false],
      ["money of another payer", { message: { ...message, from: liarsAddress() } }, false],
      ["another chain", { domain: { ...domain, chainId: 8_453 } }, false],
      ["another contract", { domain: { ...domain, verifyingContract: liarsAddress() } }, false],
      ["another domain", { domain: { ...domain, name: "Permit2" } }, false],
      ["a permit", { primaryType: "Permit" }, false],
    ])("the signer is asked for %s", async (_, changed, isSigned) => {
      const spent: bigint[] = [];
      const silent = { address: account.address, signTypedData: async () => "0x01" as const };
      const spend = (units: bigint) => void spent.push(units);
      const signer = limitSigner(silent, { chainId: 84_532, allowedUnits: 300_000n, spend });
      const typedData = { primaryType: "TransferWithAuthorization", domain, message, ...changed };
      const outcome = await signer.signTypedData(typedData).catch((error: ToolRefusal) => error.code);
      expect(outcome).toBe(isSigned ? "0x01" : "NOT_SIGNED");
      expect(spent).toEqual(isSigned ? [300_000n] : []);
    });
  });

  function liarsAddress() {
    return privateKeyToAccount(generatePrivateKey()).address;
  }
}
