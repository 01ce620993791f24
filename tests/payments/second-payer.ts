/** What the unpaid check before signing protects: a link that one payer pays by a plain transfer while another pays it by an authorization. */
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { newPayer, sendUsdc } from "../links/payers.ts";
import { freeze } from "../support/freeze.ts";
import { makePayer, type SignedPayment, signPayment } from "../support/payer.ts";
import { type Lab, type Order, relaysOf, waitFor } from "../support/relay-lab.ts";

/** Another funded payer's authorization for the link of an order. */
export async function secondOrder(lab: Lab, { linkId, payment }: Order): Promise<Order> {
  const payer = makePayer();
  const amountUnits = BigInt(payment.value);
  await fundUsdc(lab.chain.rpcUrl, payer.address, amountUnits);
  return { linkId, payment: await signPayment(payer, { to: lab.merchant.address, amountUnits }) };
}

/** A plain transfer of `units` to the merchant, not through the service; mined when this returns. */
export async function payByHand(lab: Lab, units: bigint): Promise<Hex> {
  const payer = await newPayer(lab.chain.rpcUrl, units);
  return sendUsdc(lab.chain.rpcUrl, payer, lab.merchant.address, units);
}

export function balanceOf(lab: Lab, { payment }: Order): Promise<bigint> {
  return readUsdcBalance(lab.chain.rpcUrl, payment.from);
}

/** Stops the indexer where it is, runs `work`, and lets it go on. */
export async function whileIndexerStands<T>(lab: Lab, work: () => Promise<T>): Promise<T> {
  const pid = lab.service.pidOf("indexer");
  await freeze(pid);
  try {
    return await work();
  } finally {
    process.kill(pid, "SIGCONT");
  }
}

/** Until the worker has simulated a stored payment and handed its lease back, because the ledger or a node could not tell yet. */
export async function waitUntilPutOff(lab: Lab, { payment }: Order): Promise<void> {
  await waitFor(`the payment of ${payment.from} to be put off`, async () => {
    const [row] = await lab.sql<{ isPutOff: boolean }[]>`
      select unavailable_since is not null or state <> 'QUEUED' as is_put_off
      from payments
      where payer = ${payment.from} and nonce = ${payment.nonce}`;
    return row?.isPutOff;
  });
}

export async function readCursor({ sql }: Lab): Promise<bigint> {
  const [row] = await sql<{ number: bigint }[]>`select number from cursors`;
  return row?.number ?? -1n;
}

export async function readHead(lab: Lab): Promise<bigint> {
  return BigInt((await lab.rpc("eth_blockNumber")) as string);
}

/** Until the ledger holds every block, and the merchant's wallet with all of its past. */
export async function waitForLedger(lab: Lab): Promise<void> {
  await waitFor("the indexer to have read the head", async () => {
    const [row] = await lab.sql<{ isRead: boolean }[]>`
      select backfilled_at is not null as is_read from wallets where id = ${lab.merchant.walletId}`;
    return row?.isRead && (await readCursor(lab)) >= (await readHead(lab));
  });
}

export async function countRelays(lab: Lab): Promise<number> {
  return (await relaysOf(lab)).length;
}

/** Asks the facilitator to settle a payment. */
export async function settle(
  lab: Lab,
  key: string,
  payment: SignedPayment,
  idempotencyKey: string = payment.nonce,
): Promise<{ success: boolean; errorReason?: string }> {
  const { caip2, usdc } = NETWORKS["base-sepolia"];
  const { signature, ...fields } = payment;
  const requirements = {
    ...{ scheme: "exact", network: caip2, amount: payment.value, asset: usdc.address, payTo: payment.to },
    ...{ maxTimeoutSeconds: 300, extra: { name: usdc.name, version: usdc.version } },
  };
  const authorization = {
    ...fields,
    validAfter: String(fields.validAfter),
    validBefore: String(fields.validBefore),
  };
  const response = await fetch(`${lab.service.baseUrl}/facilitator/settle`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${key}`,
      // a success is reported again to the same key
      "idempotency-key": idempotencyKey,
    },
    body: JSON.stringify({
      x402Version: 2,
      paymentPayload: { x402Version: 2, accepted: requirements, payload: { signature, authorization } },
      paymentRequirements: requirements,
    }),
  });
  return (await response.json()) as { success: boolean; errorReason?: string };
}

/** Whether a transaction of this database waits to lock links. */
export async function isLinkLockAwaited({ sql }: Lab): Promise<boolean> {
  const waiting = await sql`
    select 1 from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query like '%from payment_links%for update%'`;
  return waiting.length > 0;
}
