/** Unmodified clients from npm pay a link with what one 402 gives them. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { x402Client as AxiosX402Client, wrapAxiosWithPayment } from "@x402/axios";
import { x402Client } from "@x402/core/client";
import type { PaymentRequired, PaymentRequirements } from "@x402/core/types";
import { ExactEvmScheme, registerExactEvmScheme } from "@x402/evm/exact/client";
import {
  decodeSignedOffers,
  extractOffersFromPaymentRequired,
  extractReceiptFromResponse,
  verifyOfferSignatureJWS,
  verifyReceiptMatchesOffer,
  verifyReceiptSignatureJWS,
} from "@x402/extensions/offer-receipt";
import { wrapFetchWithPayment as wrapFetchV2 } from "@x402/fetch";
import axios from "axios";
import { privateKeyToAccount } from "viem/accounts";
import { withPaymentInterceptor } from "x402-axios";
import { createSigner, wrapFetchWithPayment as wrapFetchV1 } from "x402-fetch";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePayer, type Payer, shapeA, shapeB, signPayment } from "../support/payer.ts";
import { type SeededMerchant, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";
import { PATIENT_ENV, startWorld, type World } from "../support/world.ts";

/** Under the default spending cap of every client ($0.10). */
const AMOUNT = 90_000n;
let world: World;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  world = await startWorld({ env: PATIENT_ENV });
  sql = world.sql;
  merchant = await seedMerchant(sql);
}, 120_000);

afterAll(() => world?.stop());

type Paid = { status: number; header: string | null };
type Client = (payer: Payer, url: string, method: "GET" | "POST") => Promise<Paid>;

const clients: Record<string, { pays: Client; answerHeader: string }> = {
  "x402-fetch (version 1)": {
    answerHeader: "x-payment-response",
    pays: async (payer, url, method) => {
      const signer = await createSigner("base-sepolia", payer.privateKey);
      const response = await wrapFetchV1(fetch, signer)(url, { method });
      return { status: response.status, header: response.headers.get("x-payment-response") };
    },
  },
  "x402-axios (version 1)": {
    answerHeader: "x-payment-response",
    pays: async (payer, url, method) => {
      const signer = await createSigner("base-sepolia", payer.privateKey);
      const response = await withPaymentInterceptor(axios.create(), signer).request({ url, method });
      return { status: response.status, header: String(response.headers["x-payment-response"] ?? "") };
    },
  },
  "@x402/fetch (version 2)": {
    answerHeader: "payment-response",
    pays: async (payer, url, method) => {
      const response = await wrapFetchV2(fetch, makeClientV2(payer))(url, { method });
      return { status: response.status, header: response.headers.get("payment-response") };
    },
  },
  "@x402/axios (version 2)": {
    answerHeader: "payment-response",
    pays: async (payer, url, method) => {
      const response = await wrapAxiosWithPayment(axios.create(), makeAxiosClient(payer)).request({
        url,
        method,
      });
      return { status: response.status, header: String(response.headers["payment-response"] ?? "") };
    },
  },
};

function makeClientV2(payer: Payer) {
  const client = new x402Client();
  registerExactEvmScheme(client, { signer: privateKeyToAccount(payer.privateKey) });
  return client;
}

/** This client depends on an older core with a class of its own. */
function makeAxiosClient(payer: Payer) {
  const scheme = new ExactEvmScheme(privateKeyToAccount(payer.privateKey));
  return new AxiosX402Client().register("eip155:84532", scheme);
}

async function prepare() {
  const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
  const payer = makePayer();
  await fundUsdc(world.chain.rpcUrl, payer.address, AMOUNT);
  return { linkId, payer };
}

async function expectPaid(linkId: string, payer: Payer) {
  const [row] = await sql<{ status: string; fromAddress: string }[]>`
    select link.status, transfers.from_address
    from payment_links link
    join transfers on transfers.link_id = link.id and transfers.pays
    where link.id = ${linkId}`;
  expect(row).toEqual({ status: "PAID", fromAddress: payer.address });
}

describe("standard clients", () => {
  for (const [name, { pays }] of Object.entries(clients)) {
    for (const [method, path] of [
      ["GET", ""],
      ["POST", "/pay"],
    ] as const) {
      test(`${name} pays with ${method} on ${path || "the link itself"}`, async () => {
        const { linkId, payer } = await prepare();
        const paid = await pays(payer, `${world.baseUrl}/v1/x402/${linkId}${path}`, method);
        expect(paid.status).toBe(200);
        const receipt = JSON.parse(Buffer.from(paid.header ?? "", "base64").toString());
        expect(receipt).toMatchObject({ success: true });
        expect(receipt.payer.toLowerCase()).toBe(payer.address);
        expect(receipt.transaction).toMatch(/^0x[0-9a-f]{64}$/);
        await expectPaid(linkId, payer);
      });
    }
  }

  test("version 2 pays on the path of shape B by reading the header", async () => {
    const { linkId, payer } = await prepare();
    const response = await wrapFetchV2(fetch, makeClientV2(payer))(`${world.baseUrl}/x402/${linkId}`);
    expect(response.status).toBe(200);
    await expectPaid(linkId, payer);
  });
});

describe("the two documented shapes, read from the 402 they are paid from", () => {
  test("a client of shape A pays with the terms it read", async () => {
    const { linkId, payer } = await prepare();
    const asked = (await (await fetch(`${world.baseUrl}/v1/x402/${linkId}`)).json()) as {
      accepts: { amount: string; recipient: `0x${string}`; network: "base-sepolia"; aiUrl: string }[];
    };
    const [offer] = asked.accepts;
    if (!offer) throw new Error("nothing was offered");
    const payment = await signPayment(payer, { to: offer.recipient, amountUnits: BigInt(offer.amount) });
    const response = await fetch(`${offer.aiUrl.replace(/^https?:\/\/[^/]+/, world.baseUrl)}/pay`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(shapeA(payment, offer.network)),
    });
    expect(response.status).toBe(200);
    await expectPaid(linkId, payer);
  });

  test("a client of shape B pays with the terms it read", async () => {
    const { linkId, payer } = await prepare();
    const asked = (await (await fetch(`${world.baseUrl}/x402/${linkId}`)).json()) as {
      accepts: { maxAmountRequired: number; payTo: `0x${string}`; network: "base-sepolia"; scheme: string }[];
    };
    const [offer] = asked.accepts;
    if (!offer) throw new Error("nothing was offered");
    expect(offer.scheme).toBe("evm-erc3009");
    const payment = await signPayment(payer, {
      to: offer.payTo,
      amountUnits: BigInt(offer.maxAmountRequired),
    });
    const response = await fetch(`${world.baseUrl}/x402/${linkId}/pay`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(shapeB(payment, offer.network)),
    });
    expect(response.status).toBe(200);
    await expectPaid(linkId, payer);
  });
});

describe("signed offers and receipts, verified by the reference with the key that the service publishes", () => {
  const termsOf = async (linkId: string) => {
    const response = await fetch(`${world.baseUrl}/v1/x402/${linkId}`);
    const header = Buffer.from(response.headers.get("payment-required") ?? "", "base64").toString();
    return JSON.parse(header) as PaymentRequired;
  };

  test("an offer names the terms of the 402, and holds for five minutes but not beyond the link", async () => {
    for (const expiresInS of [3_600, 200]) {
      const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT, expiresInS });
      const [row] = await sql<
        { expiresAt: Date }[]
      >`select expires_at from payment_links where id = ${linkId}`;
      const endS = Math.floor((row?.expiresAt.getTime() ?? 0) / 1_000);
      const askedS = Math.floor(Date.now() / 1_000);
      const required = await termsOf(linkId);
      const [offer] = extractOffersFromPaymentRequired(required);
      if (offer?.format !== "jws") throw new Error("no offer");
      const verified = await verifyOfferSignatureJWS(offer);
      const [{ scheme, network, asset, payTo, amount } = {}] =
        required.accepts as Partial<PaymentRequirements>[];
      const resourceUrl = `${world.baseUrl}/v1/x402/${linkId}`;
      expect(verified).toMatchObject({ version: 1, resourceUrl, scheme, network, asset, payTo, amount });
      expect(verified.validUntil).toBeLessThanOrEqual(Math.min(endS, Date.now() / 1_000 + 300));
      expect(verified.validUntil).toBeGreaterThanOrEqual(Math.min(endS, askedS + 300));
    }
  });

  test("an offer of a link that cannot be paid is not made", async () => {
    const { linkId } = await prepare();
    await sql`update payment_links set expires_at = now() where id = ${linkId}`;
    expect(extractOffersFromPaymentRequired(await termsOf(linkId))).toEqual([]);
  });

  test.each(["x402-fetch (version 1)", "@x402/fetch (version 2)"])(
    "%s gets a receipt that matches its offer",
    async (name) => {
      const { linkId, payer } = await prepare();
      const [offer] = decodeSignedOffers(extractOffersFromPaymentRequired(await termsOf(linkId)));
      const url = `${world.baseUrl}/v1/x402/${linkId}`;
      const { header } = (await clients[name]?.pays(payer, url, "GET")) ?? { header: null };
      const response = new Response(null, { headers: { "payment-response": header ?? "" } });
      const receipt = extractReceiptFromResponse(response);
      if (receipt?.format !== "jws" || !offer) throw new Error("no receipt");
      expect(verifyReceiptMatchesOffer(receipt, offer, [payer.address])).toBe(true);
      const [row] = await sql`select tx_hash from transfers where link_id = ${linkId} and pays`;
      expect((await verifyReceiptSignatureJWS(receipt)).transaction).toBe(row?.txHash);
    },
  );

  test("a reusable link is a price that can be paid repeatedly, with receipts for the link that was called", async () => {
    const [linkId = ""] = await seedLinks(sql, merchant, { amountUnits: AMOUNT, isReusable: true });
    const url = `${world.baseUrl}/v1/x402/${linkId}`;
    const payer = makePayer();
    await fundUsdc(world.chain.rpcUrl, payer.address, 2n * AMOUNT);
    const receipts = [];
    for (let call = 0; call < 2; call++) {
      const response = await wrapFetchV2(fetch, makeClientV2(payer))(url);
      expect(response.status).toBe(200);
      const receipt = extractReceiptFromResponse(response);
      if (receipt?.format !== "jws") throw new Error("no receipt");
      receipts.push(await verifyReceiptSignatureJWS(receipt));
    }
    expect(receipts.map(({ resourceUrl }) => resourceUrl)).toEqual([url, url]);
    expect(new Set(receipts.map(({ transaction }) => transaction)).size).toBe(2);
  });
});
