/** Servers that sell `GET /report` with the unmodified middleware of each framework and version, and clients that buy it. */
import { createServer, type Server } from "node:http";
import { x402Client as AxiosX402Client, wrapAxiosWithPayment } from "@x402/axios";
import { x402Client } from "@x402/core/client";
import { ExactEvmScheme as ClientScheme, registerExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { x402ResourceServer as ExpressSeller, paymentMiddleware as expressV2 } from "@x402/express";
import { wrapFetchWithPayment as wrapFetchV2 } from "@x402/fetch";
import { x402ResourceServer as HonoSeller, paymentMiddleware as honoV2 } from "@x402/hono";
import axios from "axios";
import express from "express";
import { Hono } from "hono";
import { privateKeyToAccount } from "viem/accounts";
import { withPaymentInterceptor } from "x402-axios";
import { paymentMiddleware as expressV1 } from "x402-express";
import { createSigner, wrapFetchWithPayment as wrapFetchV1 } from "x402-fetch";
import { paymentMiddleware as honoV1 } from "x402-hono";
import type { Hex } from "../../core/domain/networks.ts";
import { findFreePort } from "../../local/free-port.ts";
import type { Payer } from "../support/payer.ts";
import type { FacilitatorWorld } from "./world.ts";

/** $0.01 */
export const PRICE = 10_000n;
export const REPORT = { outlook: "sunny" };

export type Seller = { url: string; stop: () => Promise<void> };
export type StartSeller = (lab: FacilitatorWorld, payTo: Hex) => Promise<Seller>;

const routesV1 = { "GET /report": { price: "$0.01", network: "base-sepolia" as const } };

function facilitatorV1({ url, key }: FacilitatorWorld) {
  const headers = { authorization: `Bearer ${key}`, prefer: "no-repeat" };
  return {
    url: url as `${string}://${string}`,
    createAuthHeaders: async () => ({ verify: headers, settle: headers, supported: headers }),
  };
}

function routesV2(payTo: Hex) {
  const terms = { scheme: "exact", price: "$0.01", network: "eip155:84532" as const, payTo };
  return { "GET /report": { accepts: terms, description: "Tomorrow's weather" } };
}

export const sellers: Record<string, StartSeller> = {
  "x402-express (version 1)": (lab, payTo) => {
    const app = express();
    app.use(expressV1(payTo, routesV1, facilitatorV1(lab)));
    return listenWithExpress(app);
  },
  "x402-hono (version 1)": (lab, payTo) => {
    const app = new Hono();
    app.use(honoV1(payTo, routesV1, facilitatorV1(lab)));
    return listenWithHono(app);
  },
  "@x402/express (version 2)": (lab, payTo) => {
    const app = express();
    const server = new ExpressSeller(lab.v2).register("eip155:84532", new ExactEvmScheme());
    app.use(expressV2(routesV2(payTo), server));
    return listenWithExpress(app);
  },
  "@x402/hono (version 2)": (lab, payTo) => {
    const app = new Hono();
    const server = new HonoSeller(lab.v2).register("eip155:84532", new ExactEvmScheme());
    app.use(honoV2(routesV2(payTo), server));
    return listenWithHono(app);
  },
};

async function listenWithExpress(app: ReturnType<typeof express>): Promise<Seller> {
  app.get("/report", (_request, response) => {
    response.json(REPORT);
  });
  const port = await findFreePort();
  const server: Server = createServer(app);
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const stop = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${port}/report`, stop };
}

async function listenWithHono(app: Hono): Promise<Seller> {
  app.get("/report", (context) => context.json(REPORT));
  const port = await findFreePort();
  // the default of 10 s would cut the answer to a payment that is still being settled
  const server = Bun.serve({ port, hostname: "127.0.0.1", idleTimeout: 60, fetch: app.fetch });
  return { url: `http://127.0.0.1:${port}/report`, stop: () => server.stop(true) };
}

export type Bought = { status: number; body: unknown };
export type Buy = (payer: Payer, url: string) => Promise<Bought>;

/** The version 2 clients pay both versions. */
export const buyers: Record<string, Buy> = {
  "x402-fetch (version 1)": async (payer, url) => {
    const signer = await createSigner("base-sepolia", payer.privateKey);
    return answerOf(await wrapFetchV1(fetch, signer)(url, { method: "GET" }));
  },
  "x402-axios (version 1)": async (payer, url) => {
    const signer = await createSigner("base-sepolia", payer.privateKey);
    const { status, data } = await withPaymentInterceptor(axios.create(), signer).get(url);
    return { status, body: data };
  },
  "@x402/fetch (version 2)": async (payer, url) => {
    const client = new x402Client();
    registerExactEvmScheme(client, { signer: privateKeyToAccount(payer.privateKey) });
    return answerOf(await wrapFetchV2(fetch, client)(url, { method: "GET" }));
  },
  "@x402/axios (version 2)": async (payer, url) => {
    const account = privateKeyToAccount(payer.privateKey);
    const client = new AxiosX402Client()
      .register("eip155:84532", new ClientScheme(account))
      .registerV1("base-sepolia", new ExactEvmSchemeV1(account));
    const { status, data } = await wrapAxiosWithPayment(axios.create(), client).get(url);
    return { status, body: data };
  },
};

async function answerOf(response: Response): Promise<Bought> {
  return { status: response.status, body: await response.json() };
}
