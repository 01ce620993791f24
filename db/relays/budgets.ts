/**
 * Costs of relays, charged to budgets in the signing transaction. A relay reserves its maximum cost; its receipt replaces the
 * reservation with the actual cost. Rows of a budget are locked in one order, last in every transaction, so transactions do not deadlock.
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { RelayBudget, RelayBudgetScope } from "../../core/domain/relay-budget.ts";
import type { Tx } from "../postgres/client.ts";

export type Charge = {
  scope: RelayBudgetScope;
  subject: string;
  items: number;
  amount: bigint;
  maximum: bigint | null;
  /** Only counted: what was accepted is relayed although it is above the maximum, which is asked before anything is accepted. */
  isAdvisory?: boolean;
};

/** A relay would exceed a budget: roll back, so that nothing is stored. */
export class BudgetExceededError extends Error {
  readonly scope: RelayBudgetScope;
  readonly amount: bigint;
  readonly budget: RelayBudget;

  constructor(scope: RelayBudgetScope, subject: string, amount: bigint, budget: RelayBudget) {
    super(`the budget ${scope} of ${subject} has no room for ${amount}`);
    this.name = "BudgetExceededError";
    this.scope = scope;
    this.amount = amount;
    this.budget = budget;
  }
}

/** Reserves a relay's charges, all or none. Throws BudgetExceededError: the caller must roll back. */
export async function reserveCharges(
  tx: Tx,
  { relayId, network, charges }: { relayId: bigint; network: NetworkId; charges: readonly Charge[] },
): Promise<void> {
  if (charges.length === 0) return;
  const rows = charges.map(({ amount, maximum, isAdvisory = false, ...charge }) => ({
    ...charge,
    is_advisory: isAdvisory,
    amount: amount.toString(),
    maximum: maximum?.toString() ?? null,
  }));
  const reserved = await tx<{ scope: RelayBudgetScope; subject: string }[]>`
    with given as (
      select *, (now() at time zone 'utc')::date as day
      from json_to_recordset(${JSON.stringify(rows)}::text::json) as row (
        scope text, subject text, items int, amount numeric, maximum numeric, is_advisory boolean
      )
    ),
    counted as (
      insert into relay_budgets as budget (network, scope, subject, day, reserved, maximum)
      select ${network}, scope, subject, day, amount, maximum
      from given
      where maximum is null or is_advisory or amount <= maximum
      order by scope, subject
      on conflict (network, scope, subject, day) do update
      set reserved = budget.reserved + excluded.reserved, maximum = excluded.maximum
      where excluded.maximum is null
        or exists (
          select from given
          where given.is_advisory and (given.scope, given.subject) = (excluded.scope, excluded.subject)
        )
        or budget.used + budget.reserved + excluded.reserved <= excluded.maximum
      returning budget.scope, budget.subject
    ),
    charged as (
      insert into relay_charges (relay_id, network, scope, subject, day, items, amount)
      select ${relayId}, ${network}, given.scope, given.subject, given.day, given.items, given.amount
      from given
      join counted using (scope, subject)
    )
    select scope, subject
    from counted`;
  const refused = charges.find(
    ({ scope, subject }) => !reserved.some((row) => row.scope === scope && row.subject === subject),
  );
  if (!refused) return;
  const { scope, subject, amount, maximum } = refused;
  const budget = await findBudget(tx, { network, scope, subject });
  throw new BudgetExceededError(scope, subject, amount, { ...budget, maximum });
}

/** Reserves the higher cost of a replacement. Throws BudgetExceededError: the caller must roll back. */
export async function raiseFeeCharge(
  tx: Tx,
  relayId: bigint,
  { feeWei, maximum }: { feeWei: bigint; maximum: bigint | null },
): Promise<void> {
  const [row] = await tx<({ subject: string; extra: bigint; isRaised: boolean } & RelayBudget)[]>`
    with charge as (
      select network, scope, subject, day, greatest(${feeWei.toString()}::numeric - amount, 0)::numeric(78, 0) as extra
      from relay_charges
      where relay_id = ${relayId} and scope = 'FEES' and not settled
      for update
    ),
    counted as (
      update relay_budgets budget
      set reserved = budget.reserved + charge.extra
      from charge
      where (budget.network, budget.scope, budget.subject, budget.day)
          = (charge.network, charge.scope, charge.subject, charge.day)
        and (
          ${maximum?.toString() ?? null}::numeric is null
          or charge.extra = 0
          or budget.used + budget.reserved + charge.extra <= ${maximum?.toString() ?? null}::numeric
        )
      returning budget.subject
    ),
    charged as (
      update relay_charges
      set amount = relay_charges.amount + charge.extra
      from charge, counted
      where relay_charges.relay_id = ${relayId} and relay_charges.scope = 'FEES'
    )
    select
      charge.subject, charge.extra, budget.used, budget.reserved, exists (select from counted) as is_raised
    from charge
    join relay_budgets budget using (network, scope, subject, day)`;
  if (!row || row.isRaised) return;
  const { subject, extra, used, reserved } = row;
  throw new BudgetExceededError("FEES", subject, extra, { used, reserved, maximum });
}

/**
 * Replaces the reservations of these relays by their actual costs; a LOST relay cost nothing. Only a reverted transaction counts for the
 * budget of reverted ones, and with `areUnsettled` also one that was mined without settling its payment. Idempotent.
 */
export async function settleCharges(
  tx: Tx,
  relayIds: readonly bigint[],
  { areUnsettled = false }: { areUnsettled?: boolean } = {},
): Promise<void> {
  if (relayIds.length === 0) return;
  const ids = relayIds.map(String);
  await tx`
    select
    from relay_budgets
    where (network, scope, subject, day) in (
        select network, scope, subject, day
        from relay_charges
        where relay_id = any(${ids}::text[]::bigint[])
      )
    order by network, scope, subject, day
    for update`;
  await tx`
    with cost as (
      select
        charge.relay_id, charge.scope, charge.subject, charge.network, charge.day, charge.amount as before,
        charge.settled as was_settled,
        case
          when relay.state = 'LOST' then 0
          when charge.scope = 'FEES' then relay.fee_wei
          when charge.scope in ('MERCHANT', 'SENDER') then ceil(relay.gas_used::numeric * charge.items / carried.items)
          when charge.scope = 'SENDS' then relay.gas_used
          when relay.succeeded and not ${areUnsettled}::boolean then 0
          else relay.gas_used
        end as amount
      from relay_charges charge
      join relays relay on relay.id = charge.relay_id
      cross join lateral (
        select greatest(sum(items), 1) as items
        from relay_charges mate
        where mate.relay_id = charge.relay_id and mate.scope = charge.scope
      ) carried
      where charge.relay_id = any(${ids}::text[]::bigint[])
        and relay.state in ('MINED', 'CONFIRMED', 'LOST')
    ),
    settled as (
      update relay_charges charge
      set amount = cost.amount, settled = true
      from cost
      where (charge.relay_id, charge.scope, charge.subject) = (cost.relay_id, cost.scope, cost.subject)
    )
    update relay_budgets budget
    set reserved = budget.reserved - total.released, used = budget.used - total.replaced + total.amount
    from (
      select
        network, scope, subject, day, sum(amount) as amount,
        coalesce(sum(before) filter (where was_settled), 0) as replaced,
        coalesce(sum(before) filter (where not was_settled), 0) as released
      from cost
      group by network, scope, subject, day
    ) total
    where (budget.network, budget.scope, budget.subject, budget.day)
      = (total.network, total.scope, total.subject, total.day)`;
}

/** Today's figures of one budget; zero when nothing is counted yet. */
export async function findBudget(
  tx: Tx,
  { network, scope, subject }: { network: NetworkId; scope: RelayBudgetScope; subject: string },
): Promise<RelayBudget> {
  const [row] = await tx<RelayBudget[]>`
    select used, reserved, maximum
    from relay_budgets
    where network = ${network}
      and scope = ${scope}
      and subject = ${subject}
      and day = (now() at time zone 'utc')::date`;
  return row ?? { used: 0n, reserved: 0n, maximum: null };
}

export type BudgetSummary = {
  network: NetworkId;
  scope: RelayBudgetScope;
  used: bigint;
  reserved: bigint;
  spent: number;
};

/** Today's highest figures of each scope, and how many of its budgets have less than the `nextCost` of that scope left. */
export async function summarizeBudgets(
  tx: Tx,
  budgets: Record<RelayBudgetScope, { nextCost: bigint }>,
): Promise<BudgetSummary[]> {
  const costs = Object.entries(budgets).map(([scope, { nextCost }]) => ({
    scope,
    cost: nextCost.toString(),
  }));
  return tx<BudgetSummary[]>`
    select
      budget.network, budget.scope, max(budget.used)::numeric(78, 0) as used,
      max(budget.reserved)::numeric(78, 0) as reserved,
      (count(*) filter (where budget.used + given.cost > budget.maximum))::int as spent
    from relay_budgets budget
    join json_to_recordset(${JSON.stringify(costs)}::text::json) as given (scope text, cost numeric) using (scope)
    where budget.day = (now() at time zone 'utc')::date
    group by budget.network, budget.scope`;
}
