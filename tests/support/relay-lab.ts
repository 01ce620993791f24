/** A whole service with one relayer key whose chain is driven by the test: for relays that get stuck, lost or reorganised away. */
import { privateKeyToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import type { ServiceProgram } from "../../local/processes/service-process.ts";
import type { FaultProxy } from "../rpc/fault-proxy.ts";
import type { TestChain } from "./chain.ts";
import { makePayer, type SignedPayment, shapeA, signPayment } from "./payer.ts";
import { openPauses } from "./poll.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "./seed.ts";
import { type ProcessName, type Service, startFaultyWorld } from "./world.ts";

const NETWORK = "base-sepolia";
/** A busy machine settles later than production's payers would wait. */
const PAY_WAIT_MS = 30_000;

export type PayBody = {
  success: boolean;
  error: string | null;
  message?: string;
  txHash: string | null;
  retryable?: boolean;
  settled?: boolean;
  paymentId?: string;
};

export type Lab = {
  service: Service;
  chain: TestChain;
  db: { url: string };
  sql: Sql;
  proxy: FaultProxy;
  /** The second node of the service, with `hasSpare`. */
  spare: FaultProxy | undefined;
  merchant: SeededMerchant;
  /** The only key relaying, unless the lab was started with others. */
  relayer: Hex;
  /** What processes get beside the defaults, read at each start of one. */
  env: Record<string, string>;
  rpc: (method: string, params?: readonly unknown[]) => Promise<unknown>;
  stop: () => Promise<void>;
};

/** `keys`: how many of the local relayer keys the workers get. `way`: the service's way to its database, when it is not the direct one. */
export async function startLab(
  options: {
    keys?: number;
    env?: Record<string, string>;
    processes?: readonly ProcessName[];
    hasMetrics?: boolean;
    hasSpare?: boolean;
    way?: (databaseUrl: string) => string;
    programOf?: (name: ProcessName) => ServiceProgram | undefined;
  } = {},
): Promise<Lab> {
  const keys = localRelayerKeys().slice(0, options.keys ?? 1);
  const [key] = keys;
  if (!key) throw new Error("there is no relayer key");
  const env: Record<string, string> = {
    RELAYER_PRIVATE_KEYS: keys.join(","),
    PAY_WAIT_MS: PAY_WAIT_MS.toString(),
    ...options.env,
  };
  const service = await startFaultyWorld({
    env,
    ...(options.processes ? { processes: options.processes } : {}),
    ...(options.hasMetrics ? { hasMetrics: true } : {}),
    ...(options.hasSpare ? { hasSpare: true } : {}),
    ...(options.way ? { databaseWay: options.way } : {}),
    ...(options.programOf ? { programOf: options.programOf } : {}),
  });
  const { chain, db, sql, proxy, spare, stop } = service;
  return {
    ...{ service, chain, db, sql, proxy, spare, env, stop },
    merchant: await seedMerchant(sql),
    relayer: privateKeyToAccount(key).address.toLowerCase() as Hex,
    rpc: (method, params = []) => callRpc(chain.rpcUrl, method, params),
  };
}

export type Order = { linkId: string; payment: SignedPayment };

let lastAmount = 1_000_000n;

/** A link with an amount of its own, and a funded payer's authorization for it. */
export async function newOrder(lab: Lab, terms: { validForS?: number } = {}): Promise<Order> {
  lastAmount += 1n;
  const amountUnits = lastAmount;
  const linkId = await seedLink(lab.sql, lab.merchant, { amountUnits });
  const payer = makePayer();
  await fundUsdc(lab.chain.rpcUrl, payer.address, amountUnits * 2n);
  const validBefore = Math.floor(Date.now() / 1000) + (terms.validForS ?? 300);
  const payment = await signPayment(payer, { to: lab.merchant.address, amountUnits, validBefore });
  return { linkId, payment };
}

/** One after another: signing is arithmetic, and many at once would keep the loop from answering Postgres. */
export async function newOrders(lab: Lab, count: number): Promise<Order[]> {
  const orders: Order[] = [];
  while (orders.length < count) orders.push(await newOrder(lab));
  return orders;
}

export async function pay(
  lab: Lab,
  { linkId, payment }: Order,
  name: ProcessName = "api",
): Promise<{ status: number; body: PayBody }> {
  const response = await fetch(`${lab.service.baseUrlOf(name)}/v1/x402/${linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(shapeA(payment)),
  });
  return { status: response.status, body: (await response.json()) as PayBody };
}

/**
 * As callers are told to: the same request again while the answer is an error that says so. A payment waits seconds for a node or for the
 * ledger, which a busy machine may exceed.
 */
export function payWithRetries(lab: Lab, order: Order): ReturnType<typeof pay> {
  return waitFor("an answer that is not to be retried", async () => {
    const answer = await pay(lab, order);
    return !(answer.status === 500 && answer.body.retryable) && answer;
  });
}

/** The same requests again, until each has settled: a payment that was answered 202 ends unsent where a node or the ledger takes too long, until it is repeated. */
export async function payOut(lab: Lab, orders: readonly Order[]): Promise<void> {
  for (const order of orders)
    await waitFor(`${order.linkId} to be paid`, async () => {
      const { status, body } = await pay(lab, order);
      return status === 200 || (status === 409 && body.error === "NONCE_USED");
    });
}

/** Shows payments without waiting for their answers, until all are stored: what counts is read from the database and the chain. */
export async function queueAll(lab: Lab, orders: readonly Order[]): Promise<void> {
  for (const order of orders) pay(lab, order).catch(() => {});
  await waitFor("all payments to be stored", async () => {
    const rows = await Promise.all(orders.map(({ linkId }) => paymentOf(lab, linkId)));
    return rows.every((row) => row !== undefined && row.state !== "FAILED");
  });
}

/** Until each has a relay. What failed because a node or the ledger took too long is shown again. */
export async function waitUntilSigned(lab: Lab, orders: readonly Order[]): Promise<void> {
  await waitFor("all payments to be signed", async () => {
    const rows = await Promise.all(orders.map(({ linkId }) => paymentOf(lab, linkId)));
    const failed = orders.filter((_, index) => rows[index]?.state === "FAILED");
    if (failed.length > 0) await queueAll(lab, failed);
    return rows.every((row) => row !== undefined && row.relayId !== null);
  });
}

/** The first value `read` gives that is not undefined or false. */
export async function waitFor<T>(
  what: string,
  read: () => Promise<T | undefined | false>,
  timeoutMs = 90_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  const pause = openPauses();
  for (;;) {
    const value = await read();
    if (value !== undefined && value !== false) return value;
    if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms for ${what}`);
    await pause();
  }
}

export async function linkStatus({ sql }: Lab, linkId: string): Promise<string | undefined> {
  const [row] = await sql<{ status: string }[]>`select status from payment_links where id = ${linkId}`;
  return row?.status;
}

export function waitForLink(lab: Lab, linkId: string, status: string, timeoutMs?: number) {
  return waitFor(
    `${linkId} to be ${status}`,
    async () => (await linkStatus(lab, linkId)) === status,
    timeoutMs,
  );
}

export type PaymentRow = {
  id: string;
  state: string;
  reason: string | null;
  relayId: bigint | null;
  reverts: number;
  txHash: string | null;
};

export async function paymentOf({ sql }: Lab, linkId: string): Promise<PaymentRow | undefined> {
  const [row] = await sql<PaymentRow[]>`
    select id, state, reason, relay_id, reverts, tx_hash
    from payments
    where link_id = ${linkId}
    order by created_at desc
    limit 1`;
  return row;
}

export type RelayRow = {
  id: bigint;
  nonce: bigint;
  relayer: string;
  kind: string;
  state: string;
  txHash: string | null;
  succeeded: boolean | null;
  gasUsed: bigint | null;
};

export async function relaysOf({ sql }: Lab): Promise<RelayRow[]> {
  return sql<RelayRow[]>`
    select id, nonce, relayer, kind, state, tx_hash, succeeded, gas_used
    from relays
    where network = ${NETWORK}
    order by id`;
}

/** Spends nonces of the relayer's own key behind the service's back. */
export async function spendNonces(lab: Lab, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    await lab.rpc("eth_sendTransaction", [{ from: lab.relayer, to: lab.relayer, value: "0x0" }]);
  }
}

/** Transfers of a link on the canonical chain. */
export async function countTransfers({ sql }: Lab, linkId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from transfers where link_id = ${linkId} and status <> 'ORPHANED'`;
  return row?.count ?? 0;
}
