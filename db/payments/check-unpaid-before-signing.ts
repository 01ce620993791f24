/**
 * Checks that the link of a payment is unpaid before the payment is signed: the ledger has read every block that the payment was simulated on, of
 * the same branch, and nothing in it pays the payment's link, nor can a claim that the indexer has yet to check, or a transfer that was
 * reorganised away and may come back. Checked under the locks of payments and links, so the result holds until the signing transaction ends.
 */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { RETURN_BLOCKS } from "../../core/domain/reorg-depth.ts";
import type { Tx } from "../postgres/client.ts";
import type { Payment } from "../schema.ts";
import { countEqualBefore } from "../wallet-ops/reorganised-refunds.ts";

/** The chain state a payment was simulated on. */
export type SimulationHead = {
  network: NetworkId;
  /** The head of the node that simulated. */
  headNumber: bigint;
  headHash: Hex;
  /** The transfers to these payees that the node reports in the blocks after `afterNumber`, and that block's hash on the node's branch. */
  unread:
    | {
        afterNumber: bigint;
        afterHash: Hex;
        payees: readonly Hex[];
        transfers: readonly { txHash: Hex; from: Hex; to: Hex; amountUnits: bigint }[];
      }
    | undefined;
};

/**
 * `free`: sign it. `paid`: another transfer pays its link, or is going to. `early`: the ledger has not read that far, or has not decided.
 * `gone`: its state has changed since.
 */
export type SigningVerdict = "free" | "paid" | "early" | "gone";

/** Locks these payments and then their links, each in a fixed order. */
export async function lockForSigning(tx: Tx, paymentIds: readonly string[]): Promise<void> {
  await tx`
    select id
    from payment_links
    where id = any(array(
        select link_id
        from payments
        where id = any(${[...paymentIds]}::text[]) and link_id is not null
        order by id
        for update
      ))
    order by id
    for update`;
}

/**
 * One verdict per payment; call after `lockForSigning`. A transfer of the payment's own authorization does not count against it. The
 * cursor may lag behind the head when the node's own logs show only relays of ours for other payments. Facilitated payments are free.
 */
export async function checkUnpaidBeforeSigning(
  tx: Tx,
  { headNumber, headHash, unread }: SimulationHead,
  {
    paymentIds,
    state,
  }: { paymentIds: readonly string[]; state: Extract<Payment["state"], "QUEUED" | "SIGNED"> },
): Promise<Map<string, SigningVerdict>> {
  const reach = unread
    ? tx`
        select
          case when is_told then ${unread.afterNumber}::bigint else ${headNumber}::bigint end as number,
          case when is_told then ${unread.afterHash}::text else ${headHash}::text end as hash
        from (
          select
            payment.recipient = any(${[...unread.payees]}::bytea[])
            and not exists (select from strange where strange.to_address = payment.recipient) as is_told
        ) node`
    : tx`select ${headNumber}::bigint as number, ${headHash}::text as hash`;
  const rows = await tx<{ id: string; verdict: SigningVerdict }[]>`
    ${unread ? strangeTransfers(tx, unread.transfers) : tx``}
    select
      payment.id,
      case
        when payment.state <> ${state} then 'gone'
        when payment.link_id is null then 'free'
        when exists (
          select from transfers
          where transfers.link_id = payment.link_id and transfers.pays and transfers.status <> 'ORPHANED'
            and (transfers.from_address, transfers.authorization_nonce) is distinct from (payment.payer, payment.nonce)
        ) then 'paid'
        when exists (
          select from transfers
          where transfers.link_id = payment.link_id and not transfers.pays and transfers.status <> 'ORPHANED'
            and transfers.amount_units in (payment.amount_units, link.pay_amount_units)
            and (transfers.from_address, transfers.authorization_nonce) is distinct from (payment.payer, payment.nonce)
        ) then 'paid'
        when exists (
          select from transfers
          where transfers.link_id = payment.link_id and not transfers.pays and transfers.status = 'DETECTED'
            and (transfers.from_address, transfers.authorization_nonce) is distinct from (payment.payer, payment.nonce)
        ) then 'early'
        when ${hasClaimedTransfer(tx)} then 'early'
        when ${mayBePaidAgain(tx)} then 'early'
        when not exists (
          select from (${reach}) reach
          join cursors on cursors.network = payment.network and cursors.number >= reach.number
          -- of a quiet range only the end is stored: a head within it cannot be compared, and the next one is above it
          where reach.hash = case
              when cursors.number = reach.number then cursors.hash
              else (select hash from blocks where blocks.network = cursors.network and blocks.number = reach.number)
            end
        ) then 'early'
        when not exists (
          select from wallets
          where wallets.network = payment.network
            and wallets.address = payment.recipient
            and wallets.backfilled_at is not null
        ) then 'early'
        else 'free'
      end as verdict
    from payments payment
    left join payment_links link on link.id = payment.link_id
    where payment.id = any(${[...paymentIds]}::text[])`;
  return new Map(rows.map(({ id, verdict }) => [id, verdict]));
}

/**
 * SQL: whether an open claim that may decide names a transfer in the ledger that is not its link's yet. A proof can come after its block,
 * and an early claim while the block is being read; the indexer attributes their transfers later (`findNamedTransfers`). Looked up by its
 * hash alone, like there.
 */
function hasClaimedTransfer(tx: Tx) {
  return tx`
    exists (
      select from claims claim
      cross join lateral (
        select network, status, link_id, settled_by, from_address, to_address, amount_units
        from transfers
        where tx_hash = bytes_of(claim.tx_hash)
        offset 0
      ) named
      where claim.link_id = payment.link_id
        and claim.state = 'OPEN'
        and (
          claim.proof is not null
          or claim.is_early
            and exists (select from users where users.id = link.user_id and users.claim_policy = 'early')
            and not exists (
              select from claims rival
              where rival.network = claim.network
                and rival.tx_hash = claim.tx_hash
                and rival.state <> 'REJECTED'
                and rival.link_id <> claim.link_id
            )
        )
        and named.network = payment.network
        and named.status <> 'ORPHANED'
        and (
          named.link_id is null
          or claim.proof is not null
            and named.settled_by in ('early_claim', 'pay_amount', 'amount')
        )
        and named.to_address = payment.recipient
        and hex_of(named.from_address) = claim.client_address
        and named.amount_units in (payment.amount_units, link.pay_amount_units)
    )`;
}

/**
 * SQL: whether what paid the link before a reorganisation may still come back. It has come back when the ledger holds its authorization again, or
 * of its transaction as many equal transfers as there were up to it, because a node may show them one by one; whatever it pays there.
 */
function mayBePaidAgain(tx: Tx) {
  return tx`
    exists (
      select from transfers gone
      join cursors on cursors.network = gone.network
      where gone.link_id = payment.link_id
        and gone.pays
        and gone.status = 'ORPHANED'
        and cursors.number < gone.block_number + ${RETURN_BLOCKS}::int
        and (gone.from_address, gone.authorization_nonce) is distinct from (payment.payer, payment.nonce)
        and (
          select count(*)
          from transfers back
          where (back.tx_hash = gone.tx_hash or back.authorization_nonce = gone.authorization_nonce)
            and back.network = gone.network
            and back.from_address = gone.from_address
            and back.to_address = gone.to_address
            and back.amount_units = gone.amount_units
            and back.authorization_nonce is not distinct from gone.authorization_nonce
            and back.status <> 'ORPHANED'
        ) <= ${countEqualBefore(tx)}
    )`;
}

/** SQL: payees of transfers that are not from a transaction of ours for a known live payment. */
function strangeTransfers(tx: Tx, transfers: NonNullable<SimulationHead["unread"]>["transfers"]) {
  return tx`
    with seen as materialized (
      select tx_hash, from_address, to_address, amount_units
      from unnest(
        ${transfers.map(({ txHash }) => txHash)}::text[],
        ${transfers.map(({ from }) => from)}::bytea[],
        ${transfers.map(({ to }) => to)}::bytea[],
        ${transfers.map(({ amountUnits }) => amountUnits.toString())}::numeric[]
      ) as given (tx_hash, from_address, to_address, amount_units)
    ),
    strange as materialized (
      select distinct to_address
      from (
        select tx_hash, from_address, to_address, amount_units
        from seen
        except
        select mined.tx_hash, own.payer, own.recipient, own.amount_units::numeric
        from (select distinct tx_hash from seen) mined
        -- each transaction by its hash, and its payments once: joined at once, every payment of the network would be read
        cross join lateral (
          select payments.payer, payments.recipient, payments.amount_units
          from relay_attempts attempt
          join relay_payments carried on carried.relay_id = attempt.relay_id
          join payments on payments.id = any(carried.payment_ids) and payments.relay_id = carried.relay_id
          where attempt.tx_hash = mined.tx_hash and payments.state in ('SIGNED', 'BROADCAST', 'MINED', 'CONFIRMED')
          offset 0
        ) own
      ) unknown
    )`;
}
