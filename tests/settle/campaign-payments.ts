/** Payments of the ledger campaign, for links and for resources of third parties: accepted, failed, tried again, executed and cancelled. */
import { encodeAggregate3 } from "../../core/chain/multicall.ts";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { requeuePayment } from "../../db/payments/accept-payments.ts";
import { lockPayments } from "../../db/payments/payments.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { Payment } from "../../db/schema.ts";
import { randomAddress, USDC } from "../support/indexer-lab.ts";
import { acceptFacilitatedPayment, acceptPayment, authorize } from "../support/indexer-lab-payments.ts";
import { signCancel } from "../support/payer.ts";
import { failOne } from "./campaign-links.ts";
import { anyAmount, anyMerchant, anyOf, NEWEST_LINKS_MET, type Stage, sendCall } from "./campaign-stage.ts";

export async function acceptAny(stage: Stage): Promise<void> {
  const { lab } = stage;
  const rows = await lab.sql<{ id: string; amountUnits: bigint; recipient: Hex }[]>`
    select id, amount_units, recipient
    from payment_links
    where status in ('ACTIVE', 'PENDING') and not is_reusable
    order by created_at, id`;
  const link = anyOf(stage, rows.slice(-NEWEST_LINKS_MET));
  const signer = anyOf(stage, stage.signers);
  if (!link || !signer) return;
  const { authorization, data } = await authorize(signer, { to: link.recipient, value: link.amountUnits });
  const paymentId = await acceptPayment(lab, link.id, authorization);
  if (paymentId) stage.signed.push({ paymentId, signer, nonce: authorization.nonce, data });
}

/** For the resource of a third party; half of them are sold by a wallet of ours. */
export async function facilitateAny(stage: Stage): Promise<void> {
  const signer = anyOf(stage, stage.signers);
  if (!signer) return;
  const to = stage.random() < 0.5 ? anyMerchant(stage).address : randomAddress();
  const { authorization, data } = await authorize(signer, { to, value: anyAmount(stage) });
  const paymentId = await acceptFacilitatedPayment(stage.lab, stage.client, authorization);
  if (paymentId) stage.signed.push({ paymentId, signer, nonce: authorization.nonce, data });
}

async function anyPayment(stage: Stage, state: "QUEUED" | "FAILED"): Promise<Payment | undefined> {
  const rows = await stage.lab.sql<Payment[]>`
    select * from payments where state = ${state} order by created_at desc, id limit 20`;
  return anyOf(stage, rows);
}

export async function failAny(stage: Stage): Promise<void> {
  const payment = await anyPayment(stage, "QUEUED");
  if (payment) await failOne(stage.lab, payment);
}

export async function retryAny(stage: Stage): Promise<void> {
  const payment = await anyPayment(stage, "FAILED");
  // a client of the facilitator tries again with a request of its own
  if (!payment?.linkId) return;
  const { id, linkId } = payment;
  await stage.lab.sql.begin(async (tx) => {
    await lockPayments(tx, [id]);
    await lockLinks(tx, [linkId]);
    await requeuePayment(tx, id, { ...payment, requestId: null });
  });
}

/** Whatever became of its payment, and perhaps a second time. */
export async function executeAny(stage: Stage): Promise<void> {
  const signed = anyOf(stage, stage.signed.slice(-3 * NEWEST_LINKS_MET));
  if (signed) await sendCall(stage, signed.data, signed.signer.lower);
}

/** A transaction with several transfers, whose places in the next block depend on what comes before them. */
export async function batchAny(stage: Stage): Promise<void> {
  const signed = stage.signed.slice(-3 * NEWEST_LINKS_MET).filter(() => stage.random() < 0.5);
  const calls = signed.map(({ data }) => ({ to: USDC, data }));
  const [first] = signed;
  if (first) await sendCall(stage, encodeAggregate3(calls), first.signer.lower, CONTRACTS.multicall3);
}

export async function spendAny(stage: Stage): Promise<void> {
  const signed = anyOf(stage, stage.signed.slice(-3 * NEWEST_LINKS_MET));
  if (!signed) return;
  stage.spent.add(signed.nonce);
  await sendCall(stage, await signCancel(signed.signer, signed.nonce));
}

/** What pays a third party's resource pays no link, also of the same amount to the same wallet. */
export async function assertFacilitated(sql: Sql): Promise<void> {
  const counted = await sql`
    select payments.id, payments.state, transfers.link_id
    from payments
    join transfers on transfers.network = payments.network and transfers.from_address = payments.payer
      and transfers.authorization_nonce = payments.nonce
    where payments.link_id is null and payments.state in ('MINED', 'CONFIRMED')
      and transfers.status <> 'ORPHANED' and transfers.link_id is not null`;
  if (counted.length > 0)
    throw new Error(`facilitated payments that count for links: ${JSON.stringify(counted)}`);
}
