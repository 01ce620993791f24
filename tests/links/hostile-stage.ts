/** The environment of the hostile campaign: the service, the real chain, the links, and a record of who did what. */
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { insist } from "../payments/campaign-load.ts";
import type { TestChain } from "../support/chain.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import type { Service } from "../support/world.ts";
import { PAYER_PAGE } from "./payer-side.ts";

export type Shop = { merchant: Merchant; wallet: Hex };

export type HostileLink = {
  id: string;
  shop: Shop;
  wallet: Hex;
  /** Links of one group have one price in one wallet, which no other group uses. */
  group: number;
  amountUnits: bigint;
  payAmountUnits: bigint | undefined;
  tag: Hex;
  merchantName: string;
  /** The merchant cancelled it between these. */
  cancelled?: { fromMs: number; toMs: number };
};

/** What one payer did to pay one link. A payer of the campaign intends one link only. */
export type Deed = {
  linkId: string;
  payer: Hex;
  way: string;
  amountUnits: bigint;
  isSecond: boolean;
  /** Of the payer's own transaction. */
  txHash?: Hex;
  /** Of the authorization, and when it was first sent to us. */
  nonce?: Hex;
  shownAtMs?: number;
  /** When the service accepted the payer's proof, or claim. */
  provenAtMs?: number;
  claimedAtMs?: number;
  /** The transaction that paid the link according to the service. */
  toldSettled?: string;
};

/** What one attacker did to have `linkId` paid with another payer's money. */
export type Theft = {
  kind: string;
  linkId: string;
  txHash?: Hex;
  status: number;
  answeredAtMs: number;
  /** Of the authorization presented for `linkId`, when the response said that it paid that link. */
  paidWithNonce?: Hex;
};

export type Stage = {
  service: Service;
  sql: Sql;
  /** The real one, whatever the service sees of it. */
  chain: TestChain;
  baseUrl: () => string;
  deeds: Deed[];
  thefts: Theft[];
  /** Responses that must never occur. */
  wrong: string[];
  answers: Record<string, number>;
};

export type Reply = {
  status: number;
  // a caller reads documented fields; a wrong path fails an expectation
  // biome-ignore lint/suspicious/noExplicitAny: the shape is what is under test
  body: any;
  headers: Headers;
};

const PAUSE_MS = 100;
const REQUEST_TIMEOUT_MS = 20_000;
const PATIENCE_MS = 90_000;
const SHOPS_SIGN_UP_AT_ONCE = 4;

export async function openShops(baseUrl: string, count: number): Promise<Shop[]> {
  const shops: Shop[] = [];
  while (shops.length < count) {
    const wanted = Math.min(SHOPS_SIGN_UP_AT_ONCE, count - shops.length);
    const merchants = await Promise.all(Array.from({ length: wanted }, () => signUp(baseUrl)));
    shops.push(...merchants.map((merchant) => ({ merchant, wallet: merchant.walletAddress as Hex })));
  }
  return shops;
}

/** One request to any API process, repeated while they are killed or their database is. All of these are repeatable. */
export async function ask(stage: Stage, path: string, init: RequestInit = {}): Promise<Reply> {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const reply = await askOnce(stage, path, init).catch(() => undefined);
    if (reply && reply.status < 500) return reply;
    if (reply) stage.answers[reply.status] = (stage.answers[reply.status] ?? 0) + 1;
    if (Date.now() > deadline) throw new Error(`${path}: no answer within ${PATIENCE_MS} ms`);
    await Bun.sleep(PAUSE_MS);
  }
}

/** Throws when the process is killed during it. */
export async function askOnce({ baseUrl }: Stage, path: string, init: RequestInit): Promise<Reply> {
  const response = await fetch(`${baseUrl()}${path}`, {
    ...init,
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  });
  const text = await response.text();
  return { status: response.status, body: JSON.parse(text), headers: response.headers };
}

export function isRetryable({ status, body }: Reply): boolean {
  return status === 500 && (body?.retryable === true || body?.error?.details?.retryable === true);
}

export function postJson(body: unknown, headers: Record<string, string> = {}): RequestInit {
  return {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  };
}

/** As the merchant's browser; every process knows the session. */
export function askAsMerchant(stage: Stage, { merchant }: Shop, path: string, body: unknown, key?: string) {
  const cookie = [...merchant.client.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  return ask(stage, path, postJson(body, { cookie, ...(key ? { "idempotency-key": key } : {}) }));
}

export async function makeHostileLink(
  stage: Stage,
  { shop, group, amountUnits, key }: { shop: Shop; group: number; amountUnits: bigint; key: string },
): Promise<HostileLink> {
  const terms = { amount: Number(amountUnits) / 1e6, description: `Order ${key}` };
  const made = await askAsMerchant(stage, shop, "/v1/payment-links", terms, key);
  if (made.status !== 201) throw new Error(`no link was made: ${made.status} ${JSON.stringify(made.body)}`);
  const id: string = made.body.id;
  const { body } = await ask(stage, `${PAYER_PAGE}/${id}/data`);
  return {
    ...{ id, shop, wallet: shop.wallet, group, amountUnits, tag: body.tag, merchantName: body.merchantName },
    payAmountUnits: body.payAmount === null ? undefined : BigInt(Math.round(body.payAmount * 1e6)),
  };
}

/** Claims that a transaction paid a link. */
export function claim(
  stage: Stage,
  linkId: string,
  given: { transactionHash: Hex; clientWalletAddress: Hex; signature?: Hex },
): Promise<Reply> {
  return ask(stage, `${PAYER_PAGE}/${linkId}/complete`, postJson(given));
}

/** Waits until the indexer has the transaction in its ledger. */
export async function waitUntilSeen({ sql }: Stage, txHash: Hex): Promise<void> {
  await waitPatiently(`${txHash} to be in the ledger`, async () => {
    const rows = await insist(() => sql`select 1 from transfers where tx_hash = ${txHash} limit 1`);
    return rows.length > 0;
  });
}

/** Polls rarely: hundreds wait concurrently. */
export async function waitPatiently(what: string, isDone: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await isDone())) {
    if (Date.now() > deadline) throw new Error(`waited ${PATIENCE_MS} ms for ${what}`);
    await Bun.sleep(PAUSE_MS);
  }
}
