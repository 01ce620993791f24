/** What a user received on each of the last days. */

import { addDays } from "../../core/domain/exchange-rate.ts";
import { startOfDay } from "../../core/domain/local-days.ts";
import { localTime } from "../../core/domain/local-time.ts";
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
 * links or not: one range of transactions_by_cell for each kind and network. Days begin where those of statements and files do: Postgres
 * has a time zone list of its own, in which CET is an offset without daylight saving time.
 */
export async function sumReceivedByDay(
  tx: Tx,
  userId: string,
  { days, timeZone }: { days: number; timeZone: string },
  now = new Date(),
): Promise<ReceivedDay[]> {
  const today = localTime(now, timeZone).slice(0, 10);
  const dates = Array.from({ length: days }, (_, index) => addDays(today, index + 1 - days));
  const starts = dates.map((date) => startOfDay(date, timeZone).toISOString());
  const [from] = starts;
  if (from === undefined) return [];
  const before = startOfDay(addDays(today, 1), timeZone);
  return tx<ReceivedDay[]>`
    with received as (
      select income.network, one.place, sum(one.units) as units, sum(one.count)::int as count
      from unnest(
        ${INCOME.map(({ network }) => network)}::text[],
        ${INCOME.map(({ cell }) => cell)}::smallint[]
      ) as income (network, cell)
      cross join lateral (
        select
          width_bucket(detected_at, ${starts}::text[]::timestamptz[]) as place, sum(amount_units) as units, count(*) as count
        from transactions
        where owner = owner_key(${userId})
          and cell = income.cell
          and is_settled
          and detected_at >= ${from}::text::timestamptz
          and detected_at < ${before}
        group by 1
      ) one
      group by 1, 2
    )
    select
      networks.network, day.date,
      coalesce(received.units, 0) as units,
      coalesce(received.count, 0) as count
    from unnest(${[...NETWORK_IDS]}::text[]) as networks (network)
    cross join unnest(${dates}::text[]) with ordinality as day (date, place)
    left join received on received.network = networks.network and received.place = day.place
    order by networks.network, day.place`;
}
