/** What a user received on each of the last days. */
import postgres from "postgres";
import { NETWORK_IDS, type NetworkId } from "../../core/domain/networks.ts";
import { TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import { directionOf } from "../../core/domain/transaction.ts";
import type { Tx } from "../postgres/client.ts";
import { counterCell } from "./counter-cell.ts";

export type ReceivedDay = {
  /** YYYY-MM-DD in the requested zone. */
  date: string;
  network: NetworkId;
  units: bigint;
  count: number;
};

const INCOME = TRANSACTION_TYPES.filter((type) => directionOf(type) === "in").flatMap((type) =>
  NETWORK_IDS.map((network) => ({ network, cell: counterCell({ type, status: "CONFIRMED", network }) })),
);

/**
 * For each network, the oldest day first and today last, including days without any. Confirmed transfers into the user's wallets, through
 * links or not: one range of transactions_by_cell for each kind and network.
 */
export async function sumReceivedByDay(
  tx: Tx,
  userId: string,
  { days, timeZone }: { days: number; timeZone: string },
): Promise<ReceivedDay[]> {
  return tx<ReceivedDay[]>`
    with today as (select (now() at time zone ${timeZone}::text)::date as date),
    received as (
      select income.network, one.date, sum(one.units) as units, sum(one.count)::int as count
      from today
      cross join unnest(
        ${INCOME.map(({ network }) => network)}::text[],
        ${INCOME.map(({ cell }) => cell)}::smallint[]
      ) as income (network, cell)
      cross join lateral (
        select (detected_at at time zone ${timeZone}::text)::date as date, sum(amount_units) as units, count(*) as count
        from transactions
        where owner = owner_key(${userId})
          and cell = income.cell
          and is_settled
          and detected_at >= (today.date - (${days}::int - 1))::timestamp at time zone ${timeZone}::text
        group by 1
      ) one
      group by 1, 2
    )
    select
      networks.network, to_char(today.date - back, 'YYYY-MM-DD') as date,
      coalesce(received.units, 0) as units,
      coalesce(received.count, 0) as count
    from today
    cross join unnest(${[...NETWORK_IDS]}::text[]) as networks (network)
    cross join generate_series(${days}::int - 1, 0, -1) as back
    left join received on received.network = networks.network and received.date = today.date - back
    order by networks.network, back desc`;
}

const INVALID_PARAMETER_VALUE = "22023";

export function isUnknownZone(error: unknown): boolean {
  return (
    error instanceof postgres.PostgresError &&
    error.code === INVALID_PARAMETER_VALUE &&
    error.message.startsWith("time zone")
  );
}
