/**
 * Unique amounts for people who type the amount they pay: a link's amount plus at most 0.000999 USDC, not used by any other link of the wallet.
 * The caller holds the wallet's row lock, so that no other link is created concurrently.
 */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

/** Micro-USDC added at most: less than a tenth of a cent. */
const ADDED_MAX = 999;
/** A late payer may still type the amount of a link that ended less than this long ago. */
const REST_HOURS = 24;

/** `isReused`: a link had it before. */
export type PayAmount = { units: bigint; isReused: boolean };

/**
 * The least recently used free amount above `amountUnits` in the wallet; undefined when all are in use. Never ends in 0, which people
 * omit. Differs from the amounts of every open link of the wallet. Of unused amounts the highest comes first: prices a few micro-USDC
 * apart are more common than prices 0.000999 apart.
 */
export async function takePayAmount(
  tx: Tx,
  { network, recipient, amountUnits }: { network: NetworkId; recipient: Hex; amountUnits: bigint },
): Promise<PayAmount | undefined> {
  const [row] = await tx<PayAmount[]>`
    select candidate.units, used.units is not null as is_reused
    from generate_series(${amountUnits}::bigint + 1, ${amountUnits}::bigint + ${ADDED_MAX}) as candidate (units)
    left join pay_amounts used
      on used.network = ${network} and used.recipient = ${recipient} and used.units = candidate.units
    left join payment_links holder on holder.id = used.link_id
    where candidate.units % 10 <> 0
      and (
        holder.id is null
        or case
          when holder.status = 'PENDING' then false
          when holder.status = 'CANCELLED' then holder.cancelled_at <= now() - make_interval(hours => ${REST_HOURS})
          when holder.status = 'PAID' then holder.updated_at <= now() - make_interval(hours => ${REST_HOURS})
          else holder.expires_at <= now() - make_interval(hours => ${REST_HOURS})
        end
      )
      and candidate.units <> all(array(
        select amount_units
        from payment_links
        where network = ${network}
          and recipient = ${recipient}
          and address_key(recipient) = address_key(${recipient})
          and amount_units between ${amountUnits}::bigint + 1 and ${amountUnits}::bigint + ${ADDED_MAX}
          and is_unpaid
          -- payers choose the amounts of uses; those end in 0, which unique amounts never do
          and not (is_addressed and amount_units % 10 = 0)
          and (status = 'PENDING' or status = 'ACTIVE' and expires_at > now())
      ))
    order by used.used_at nulls first, candidate.units desc
    limit 1`;
  return row;
}

/** Under the lock it was taken under: a row is added or replaced without being looked for first. */
export async function reservePayAmount(
  tx: Tx,
  {
    linkId,
    network,
    recipient,
    units,
    isReused,
  }: PayAmount & { linkId: string; network: NetworkId; recipient: Hex },
): Promise<void> {
  const { count } = await (isReused
    ? tx`
      update pay_amounts
      set link_id = ${linkId}, used_at = now()
      where network = ${network} and recipient = ${recipient} and units = ${units}::bigint`
    : tx`
      insert into pay_amounts (network, recipient, units, link_id)
      values (${network}, ${recipient}, ${units}::bigint, ${linkId})`);
  if (count !== 1) throw new Error(`the amount ${units} of ${recipient} was not reserved`);
}
