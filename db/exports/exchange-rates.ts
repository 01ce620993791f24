/** Exchange rates: published ones with their corrections, a merchant's own, and when each source was read. */
import {
  type DayRate,
  type FiatChoice,
  type PublishedRate,
  pricedAs,
  RATE_AGE_MAX_DAYS,
  type RatePeriod,
} from "../../core/domain/exchange-rate.ts";
import type { Tx } from "../postgres/client.ts";

export type RateSource = {
  source: string;
  attemptedAt: Date;
  fetchedAt: Date | null;
  /** The newest day with a rate. */
  newestDay: string | null;
  error: string | null;
};

/** Claims the next read of a source: true for one process, when the latest attempt is older than `everyS`, or than `retryS` after a failure. */
export async function takeSourceTurn(
  tx: Tx,
  source: string,
  { everyS, retryS }: { everyS: number; retryS: number },
): Promise<boolean> {
  const rows = await tx`
    insert into exchange_rate_sources (source)
    values (${source})
    on conflict (source) do update
    set attempted_at = now()
    where exchange_rate_sources.attempted_at < now() - make_interval(secs => case
        when exchange_rate_sources.error is null and exchange_rate_sources.fetched_at is not null then ${everyS}::int
        else ${retryS}::int
      end)
    returning source`;
  return rows.length > 0;
}

export async function noteSourceError(tx: Tx, source: string, error: string): Promise<void> {
  await tx`update exchange_rate_sources set error = ${error.slice(0, 500)} where source = ${source}`;
}

/**
 * Stores new rates and returns their number. Revision 1 of a day values its movements; a rate for a day that is already valued,
 * by its own rate or an earlier day's, is a correction. Throws when the source's base currency has changed.
 */
export async function storeRates(
  tx: Tx,
  source: string,
  rates: readonly PublishedRate[],
): Promise<{ first: number; corrections: number }> {
  await tx`select pg_advisory_xact_lock(hashtext('exchange rates'), hashtext(${source}))`;
  const [known] = await tx<{ base: string }[]>`
    select base
    from exchange_rates
    where source = ${source}
    limit 1`;
  const other = rates.find(({ base }) => base !== (known?.base ?? rates[0]?.base));
  if (other)
    throw new RangeError(
      `the base of ${source} is ${known?.base ?? rates[0]?.base}, but the file has ${other.base}`,
    );
  const given = rates.map(({ base, currency, day, rateE10 }) => ({
    base,
    currency,
    day,
    rate: rateE10.toString(),
  }));
  const stored = await tx<{ revision: number; count: number }[]>`
    with stored as (
      insert into exchange_rates (source, base, currency, day, revision, rate_e10)
      select
        ${source}, given.base, given.currency, given.day,
        case
          when latest.revision is not null then latest.revision + 1
          when exists (
              select
              from exchange_rates earlier
              where earlier.source = ${source} and earlier.currency = given.currency
                and earlier.day between given.day - ${RATE_AGE_MAX_DAYS}::int and given.day - 1
            )
            and exists (
              select
              from exchange_rates later
              where later.source = ${source} and later.currency = given.currency and later.day > given.day
            ) then 2
          else 1
        end,
        given.rate
      from json_to_recordset(${JSON.stringify(given)}::text::json)
        as given (base text, currency text, day date, rate numeric)
      left join lateral (
        select published.revision, published.rate_e10
        from exchange_rates published
        where published.source = ${source} and published.currency = given.currency and published.day = given.day
        order by published.revision desc
        limit 1
      ) latest on true
      where latest.rate_e10 is distinct from given.rate
      returning revision
    )
    select least(revision, 2) as revision, count(*)::int as count
    from stored
    group by 1`;
  await tx`
    update exchange_rate_sources
    set
      fetched_at = now(), error = null,
      newest_day = (select max(day) from exchange_rates where exchange_rates.source = ${source})
    where source = ${source}`;
  const countOf = (revision: number) => stored.find((one) => one.revision === revision)?.count ?? 0;
  return { first: countOf(1), corrections: countOf(2) };
}

export async function listRateSources(tx: Tx): Promise<RateSource[]> {
  return tx<RateSource[]>`
    select source, attempted_at, fetched_at, to_char(newest_day, 'YYYY-MM-DD') as newest_day, error
    from exchange_rate_sources
    order by source`;
}

/** The rates of a source that a choice needs, from a day on. */
export async function listPublishedRates(
  tx: Tx,
  { source, currency, usdcRate, isCorrected }: FiatChoice,
  { from }: { from: string },
): Promise<PublishedRate[]> {
  return tx<PublishedRate[]>`
    select distinct on (currency, day) to_char(day, 'YYYY-MM-DD') as day, base, currency, rate_e10
    from exchange_rates
    where source = ${source}
      and currency in (${currency}, ${pricedAs(usdcRate)})
      and day >= ${from}::text::date
      and (${isCorrected}::boolean or revision = 1)
    order by currency, day, revision desc`;
}

/** A merchant's own rates from a day on, oldest first. */
export async function listOwnRates(
  tx: Tx,
  { userId, currency, from }: { userId: string; currency: string; from: string },
): Promise<DayRate[]> {
  return tx<DayRate[]>`
    select to_char(day, 'YYYY-MM-DD') as day, rate_e10
    from merchant_rates
    where user_id = ${userId} and currency = ${currency} and day >= ${from}::text::date
    order by merchant_rates.day`;
}

/** Days of a merchant's own rates, newest first, with consecutive days of one rate as one period; `before` is a day. */
export async function pageOwnRates(
  tx: Tx,
  { userId, currency, before, limit }: { userId: string; currency: string; before?: string; limit: number },
): Promise<RatePeriod[]> {
  return tx<RatePeriod[]>`
    select
      to_char(min(day), 'YYYY-MM-DD') as first_day, to_char(max(day), 'YYYY-MM-DD') as last_day,
      rate_e10, max(entered_at) as entered_at
    from (
      select
        day, rate_e10, entered_at,
        day - row_number() over (partition by rate_e10 order by day)::int as period
      from merchant_rates
      where user_id = ${userId} and currency = ${currency}
        and (${before ?? null}::text is null or day < ${before ?? null}::text::date)
    ) days
    group by rate_e10, period
    order by max(day) desc
    limit ${limit}`;
}

/** Currencies for which a merchant has entered rates, and for how many days. */
export async function countOwnRates(tx: Tx, userId: string): Promise<{ currency: string; days: number }[]> {
  return tx<{ currency: string; days: number }[]>`
    select currency, count(*)::int as days
    from merchant_rates
    where user_id = ${userId}
    group by currency
    order by currency`;
}

/** Prevents other transactions from storing rates of this merchant until this one, which counts what it has stored, ends. */
export async function lockOwnRates(tx: Tx, userId: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtext('own rates of user'), hashtext(${userId}))`;
}

export type OwnRates = { userId: string; currency: string; from: string; to: string };

/** Sets the rate of each day from `from` to `to`; undefined removes them. */
export async function setOwnRates(
  tx: Tx,
  { userId, currency, from, to }: OwnRates,
  rateE10: bigint | undefined,
): Promise<void> {
  if (rateE10 === undefined) {
    await tx`
      delete from merchant_rates
      where user_id = ${userId} and currency = ${currency} and day between ${from}::text::date and ${to}::text::date`;
    return;
  }
  await tx`
    insert into merchant_rates (user_id, currency, day, rate_e10)
    select ${userId}, ${currency}, day::date, ${rateE10.toString()}::text::numeric
    from generate_series(${from}::text::date, ${to}::text::date, interval '1 day') day
    on conflict (user_id, currency, day) do update
    set rate_e10 = excluded.rate_e10, entered_at = now()`;
}

/** Sets the rate of each of these days, which must be distinct. */
export async function setDailyRates(
  tx: Tx,
  { userId, currency }: Pick<OwnRates, "userId" | "currency">,
  rates: readonly DayRate[],
): Promise<void> {
  const given = rates.map(({ day, rateE10 }) => ({ day, rate: rateE10.toString() }));
  await tx`
    insert into merchant_rates (user_id, currency, day, rate_e10)
    select ${userId}, ${currency}, given.day, given.rate
    from json_to_recordset(${JSON.stringify(given)}::text::json) as given (day date, rate numeric)
    on conflict (user_id, currency, day) do update
    set rate_e10 = excluded.rate_e10, entered_at = now()`;
}
