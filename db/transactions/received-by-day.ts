/** What a user received on each of the last days. */
import postgres from "postgres";
import type { Tx } from "../postgres/client.ts";

export type ReceivedDay = {
  /** YYYY-MM-DD in the requested zone. */
  date: string;
  units: bigint;
  count: number;
};

/** Oldest first, today last, including days without any. Confirmed transfers into the user's wallets, through links or not. */
export async function sumReceivedByDay(
  tx: Tx,
  userId: string,
  { days, timeZone }: { days: number; timeZone: string },
): Promise<ReceivedDay[]> {
  return tx<ReceivedDay[]>`
    with today as (select (now() at time zone ${timeZone}::text)::date as date),
    received as (
      select (detected_at at time zone ${timeZone}::text)::date as date, sum(amount_units) as units, count(*)::int as count
      from transactions, today
      where owner = owner_key(${userId})
        and is_settled
        and type <> 'SEND'
        and status = 'CONFIRMED'
        and detected_at >= (today.date - (${days}::int - 1))::timestamp at time zone ${timeZone}::text
      group by 1
    )
    select
      to_char(today.date - back, 'YYYY-MM-DD') as date,
      coalesce(received.units, 0) as units,
      coalesce(received.count, 0) as count
    from today
    cross join generate_series(${days}::int - 1, 0, -1) as back
    left join received on received.date = today.date - back
    order by back desc`;
}

const INVALID_PARAMETER_VALUE = "22023";

export function isUnknownZone(error: unknown): boolean {
  return (
    error instanceof postgres.PostgresError &&
    error.code === INVALID_PARAMETER_VALUE &&
    error.message.startsWith("time zone")
  );
}
