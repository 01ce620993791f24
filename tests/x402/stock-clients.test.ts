/** Unmodified clients from npm pay a link with what one 402 gives them. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { x402Client as AxiosX402Client, wrapAxiosWithPayment } from "@x402/axios";
import { x402Client } from "@x402/core/client";
import { ExactEvmScheme, registerExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment as wrapFetchV2 } from "@x402/fetch";
import axios from "axios";
import { privateKeyToAccount } from "viem/accounts";
import { withPaymentInterceptor } from "x402-axios";
import { createSigner, wrapFetchWithPayment as wrapFetchV1 } from "x402-fetch";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePayer, type Payer, shapeA, shapeB, signPayment } from "../support/payer.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { startWorld, type World } from "../support/world.ts";

/** Under the default spending cap of every client ($0.10). */
const AMOUNT = 90_000n;
let world: World;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  world = await startWorld();
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
