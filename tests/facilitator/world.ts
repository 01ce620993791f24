/** A running service with the facilitator, an API key with its scope, and standard clients. */
import { createHash, randomBytes } from "node:crypto";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { useFacilitator } from "x402/verify";
import type { ApiKeyScope } from "../../core/domain/api-key-scopes.ts";
import { newApiKeyId } from "../../core/domain/ids.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { insertApiKey } from "../../db/api-keys/api-keys.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePayer, type Payer, type SignedPayment, signPayment } from "../support/payer.ts";
import { randomAddress, type SeededMerchant, seedMerchant } from "../support/seed.ts";
import { startWorld, type World } from "../support/world.ts";

const { caip2, usdc } = NETWORKS["base-sepolia"];
export const EXTRA = { name: usdc.name, version: usdc.version };

/** Longer than a busy machine needs for a settlement, and no longer: some tests wait for an answer without its outcome. */
const PAY_WAIT_MS = 20_000;

export type FacilitatorWorld = {
  world: World;
  sql: Sql;
  merchant: SeededMerchant;
  url: string;
  key: string;
  v1: ReturnType<typeof useFacilitator>;
  v2: HTTPFacilitatorClient;
  stop: () => Promise<void>;
};

export async function startFacilitatorWorld(): Promise<FacilitatorWorld> {
  const world = await startWorld({ env: { FACILITATOR: "1", PAY_WAIT_MS: PAY_WAIT_MS.toString() } });
  const { sql } = world;
  const merchant = await seedMerchant(sql);
  const key = await makeKey(sql, merchant.userId, ["facilitator"]);
  const url = `${world.baseUrl}/facilitator` as const;
  const headers = { authorization: `Bearer ${key}`, prefer: "no-repeat" };
  const createAuthHeaders = async () => ({ verify: headers, settle: headers, supported: headers });
  return {
    ...{ world, sql, merchant, url, key },
    v1: useFacilitator({ url: url as `${string}://${string}`, createAuthHeaders }),
    v2: new HTTPFacilitatorClient({ url, createAuthHeaders }),
    stop: world.stop,
  };
}

export async function makeKey(sql: Sql, userId: string, scopes: ApiKeyScope[]): Promise<string> {
  const key = `sk_${randomBytes(32).toString("base64url")}`;
  const keyHash = createHash("sha256").update(key).digest();
  await insertApiKey(sql, {
    ...{ id: newApiKeyId(), userId, name: "test", prefix: key.slice(0, 10) },
    ...{ keyHash, scopes },
  });
  return key;
}

export type Purchase = { payer: Payer; payTo: Hex; amount: bigint; payment: SignedPayment };

let lastAmount = 20_000n;

/** A funded payer's signed payment for another service's resource. */
export async function purchase(
  { world }: FacilitatorWorld,
  terms: { payTo?: Hex; funds?: bigint; validBefore?: number } = {},
): Promise<Purchase> {
  lastAmount += 1n;
  const amount = lastAmount;
  const payer = makePayer();
  await fundUsdc(world.chain.rpcUrl, payer.address, terms.funds ?? amount * 2n);
  const payTo = terms.payTo ?? randomAddress();
  const window = terms.validBefore === undefined ? {} : { validBefore: terms.validBefore };
  const payment = await signPayment(payer, { to: payTo, amountUnits: amount, ...window });
  return { payer, payTo, amount, payment };
}

function authorizationOf({ signature, ...fields }: SignedPayment) {
  return {
    signature,
    authorization: {
      ...fields,
      validAfter: String(fields.validAfter),
      validBefore: String(fields.validBefore),
    },
  };
}

/** Payload and requirements as version 2 has them. */
export function inVersion2({ payTo, amount, payment }: Purchase) {
  const requirements = {
    ...{ scheme: "exact", network: caip2 as `${string}:${string}`, amount: amount.toString() },
    ...{ asset: usdc.address, payTo, maxTimeoutSeconds: 300, extra: EXTRA },
  };
  const resource = { url: "https://shop.test/report", description: "a report", mimeType: "text/plain" };
  const payload = {
    x402Version: 2,
    resource,
    accepted: requirements,
    payload: authorizationOf(payment),
  };
  return { payload, requirements };
}

/** Payload and requirements as version 1 has them. */
export function inVersion1({ payTo, amount, payment }: Purchase) {
  const requirements = {
    ...{ scheme: "exact" as const, network: "base-sepolia" as const, maxAmountRequired: amount.toString() },
    ...{ resource: "https://shop.test/report" as const, description: "a report", mimeType: "text/plain" },
    ...{ asset: usdc.address, payTo, maxTimeoutSeconds: 300, extra: EXTRA },
  };
  const payload = {
    ...{ x402Version: 1, scheme: "exact" as const, network: "base-sepolia" as const },
    payload: authorizationOf(payment),
  };
  return { payload, requirements };
}
