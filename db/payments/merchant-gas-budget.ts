/** The gas budget of a user for whom payments are relayed. */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { RelayBudget } from "../../core/domain/relay-budget.ts";
import type { Tx } from "../postgres/client.ts";
import { findBudget } from "../relays/budgets.ts";

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
