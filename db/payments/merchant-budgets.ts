/** The gas budgets of those for whom payments are relayed: the link's merchant, or the owner of the API key. */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { RelayBudget } from "../../core/domain/relay-budget.ts";
import type { Tx } from "../postgres/client.ts";
import { findBudget } from "../relays/budgets.ts";

export type MerchantBudget = { paymentId: string; userId: string } & RelayBudget;

/** Today's gas budgets of those for whom these payments are relayed, a row a payment. */
export async function findMerchantBudgets(
  tx: Tx,
  {
    network,
    paymentIds,
    maximum,
  }: { network: NetworkId; paymentIds: readonly string[]; maximum: bigint | null },
): Promise<MerchantBudget[]> {
  if (paymentIds.length === 0) return [];
  return tx<MerchantBudget[]>`
    select
      payments.id as payment_id, users.id as user_id, coalesce(budget.used, 0)::numeric(78, 0) as used,
      coalesce(budget.reserved, 0)::numeric(78, 0) as reserved,
      coalesce(users.relay_gas_per_day, ${maximum?.toString() ?? null}::numeric)::numeric(78, 0) as maximum
    from payments
    left join payment_links link on link.id = payments.link_id
    join users on users.id = coalesce(link.user_id, payments.facilitator_user_id)
    left join relay_budgets budget
      on budget.network = ${network}
      and budget.scope = 'MERCHANT'
      and budget.subject = users.id
      and budget.day = (now() at time zone 'utc')::date
    where payments.id = any(${[...paymentIds]}::text[])`;
}

/** Today's gas budget of one user; `maximum` is for those without a limit of their own. */
export async function findMerchantBudget(
  tx: Tx,
  { network, userId, maximum }: { network: NetworkId; userId: string; maximum: bigint | null },
): Promise<RelayBudget> {
  const [row] = await tx<{ ownMaximum: bigint | null }[]>`
    select relay_gas_per_day as own_maximum
    from users
    where id = ${userId}`;
  const budget = await findBudget(tx, { network, scope: "MERCHANT", subject: userId });
  return { ...budget, maximum: row?.ownMaximum ?? maximum };
}
