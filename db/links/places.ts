/**
 * Places are reservations of a reusable link with a maximum of payments. A use takes one when it is opened. While all are taken, an unpaid use
 * gives its place to a payer whose address has begun fewer payments of the link (keepsPlace in max-uses.ts), so that nobody can block the link
 * by opening uses. That use expires; a transfer that arrives for it later is booked on it, as for any expired link.
 */
import { SAFE_PLACE_MINUTES } from "../../core/domain/reusable-link.ts";
import { recordEvents } from "../events/events.ts";
import { countRequest } from "../http/rate-limit-counters.ts";
import type { Tx } from "../postgres/client.ts";
import { notify } from "../postgres/notifications.ts";
import { endClaimsOf } from "./end-claims.ts";
import { keepsPlace } from "./max-uses.ts";
import { countUnknownOutcomes, hasEndedUnknown } from "./unknown-outcomes.ts";

/** How long an address is remembered for a link. */
const REMEMBERED_S = 3_600;
/** Ranks beyond are equal. */
const RANK_MAX = 1_000;
/** When a payment in progress fails, or an unknown outcome is resolved, cannot be predicted: payers are told to retry after this long. */
const IN_PROGRESS_S = 60;

/**
 * `opener`: the payer's address, as rate limits count it. `replaces`: a use that the same browser opened, whose place is the first to be reused
 * while none is free.
 */
export type Opener = { opener: string; replaces?: string | undefined };

export type TakenPlace =
  | { ok: true }
  /** `nextPlaceAt`: when a place may become free; null when all are paid. `isContended`: as soon as another transaction has ended. */
  | { ok: false; nextPlaceAt: Date | null; isContended: boolean };

/** Takes a place for a use that the caller opens in the same transaction. Call with the link locked. */
export async function takePlace(
  tx: Tx,
  { id, maxPayments }: { id: string; maxPayments: number },
  { rank, replaces }: { rank: number; replaces: string | undefined },
): Promise<TakenPlace> {
  const missing = (await countTaken(tx, id)) - maxPayments + 1;
  const wanted = { parentId: id, rank, replaces, missing };
  if (missing <= 0 || (await endUses(tx, wanted)) === missing) return { ok: true };
  const soon = await findContended(tx, wanted);
  if (soon) return { ok: false, nextPlaceAt: soon, isContended: true };
  return { ok: false, nextPlaceAt: await findNextPlace(tx, { id, maxPayments, rank }), isContended: false };
}

/** How many payments of a link this address has begun within the hour, the next one included. */
export async function findRank(tx: Tx, linkId: string, opener: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    select count
    from rate_counters
    where key = ${keyOf(linkId, opener)} and ends_at > now()`;
  return Math.min(row?.count ?? 0, RANK_MAX) + 1;
}

export async function countOpening(tx: Tx, linkId: string, opener: string): Promise<void> {
  await countRequest(tx, keyOf(linkId, opener), { limit: RANK_MAX, windowS: REMEMBERED_S });
}

function keyOf(linkId: string, opener: string): string {
  return `usesOfLink:${linkId}:${opener}`;
}

/**
 * One past its expiry counts until it is EXPIRED: a payment that was accepted in time may not be committed yet. Afterwards it counts while
 * the outcome of one of its payments is unknown.
 */
async function countTaken(tx: Tx, parentId: string): Promise<number> {
  const [row] = await tx<{ taken: number }[]>`
    select count(*)::int as taken
    from payment_links use
    where parent_id = ${parentId}
      and (status in ('ACTIVE', 'PENDING', 'PAID') or status = 'EXPIRED' and ${hasEndedUnknown(tx, "use")})`;
  return row?.taken ?? 0;
}

type Wanted = { parentId: string; rank: number; replaces: string | undefined; missing: number };

/** SQL: `use` gives its place to this payer. */
function givesPlace(tx: Tx, { rank, replaces }: Wanted) {
  return tx`
    (use.id = ${replaces ?? ""} and use.status = 'ACTIVE' and ${countUnknownOutcomes(tx, "use.id")} = 0 or not ${keepsPlace(tx, rank)})`;
}

/** When to try again because enough uses would give their places and another transaction has some of them: about to be paid, or to expire. */
async function findContended(tx: Tx, wanted: Wanted): Promise<Date | undefined> {
  const [row] = await tx<{ at: Date }[]>`
    select now() + interval '1 second' as at
    from payment_links use
    where parent_id = ${wanted.parentId} and status in ('ACTIVE', 'PENDING') and ${givesPlace(tx, wanted)}
    having count(*) >= ${wanted.missing}`;
  return row?.at;
}

/**
 * Ends `missing` uses that keep their places no longer, or none when there are fewer: those past their expiry first, then those of the
 * addresses that have begun most. One that is locked is about to be paid, or to expire.
 */
async function endUses(tx: Tx, given: Wanted): Promise<number> {
  const gives = givesPlace(tx, given);
  const locked = await tx<{ id: string }[]>`
    select id
    from payment_links use
    where parent_id = ${given.parentId} and status in ('ACTIVE', 'PENDING') and ${gives}
    order by id = ${given.replaces ?? ""} desc, expires_at <= now() desc, coalesce(place_rank, 1) desc, created_at, id
    limit ${given.missing}
    for no key update skip locked`;
  if (locked.length < given.missing) return 0;
  // by a statement that starts after they are locked: what others committed before is seen, and all of them end or none
  const ended = await tx<{ id: string; userId: string }[]>`
    with giving as materialized (
      select id
      from payment_links use
      where id = any(${locked.map(({ id }) => id)}::text[]) and status in ('ACTIVE', 'PENDING') and ${gives}
    )
    update payment_links
    set status = 'EXPIRED', expires_at = least(expires_at, now()), updated_at = now()
    where id in (select id from giving) and (select count(*) from giving) = ${given.missing}
    returning id, user_id`;
  const endedIds = ended.map(({ id }) => id);
  await endClaimsOf(tx, endedIds, "place_given");
  await recordEvents(
    tx,
    ended.map(({ id, userId }) => ({ userId, type: "payment_link.expired" as const, subjectId: id })),
  );
  await notify(tx, endedIds);
  return ended.length;
}

/** When a payer may get a place of a link that has none left; null when all are paid, and for other links. */
export async function findNextPlaceOf(tx: Tx, linkId: string): Promise<Date | null> {
  const [link] = await tx<{ id: string; maxPayments: number }[]>`
    select id, max_payments
    from payment_links
    where id = ${linkId} and is_reusable and max_payments is not null and status = 'ACTIVE' and expires_at > now()`;
  return link ? findNextPlace(tx, { ...link, rank: 1 }) : null;
}

async function findNextPlace(
  tx: Tx,
  { id, maxPayments, rank }: { id: string; maxPayments: number; rank: number },
): Promise<Date | null> {
  const safeUntil = tx`least(expires_at, created_at + make_interval(mins => ${SAFE_PLACE_MINUTES}::int))`;
  const [row] = await tx<{ paid: number; at: Date | null }[]>`
    select
      count(*) filter (where status = 'PAID')::int as paid,
      greatest(
        now() + interval '1 second',
        min(case
          when status = 'PAID' then null
          when status = 'ACTIVE' and ${safeUntil} > now() then ${safeUntil}
          else now() + make_interval(secs => ${IN_PROGRESS_S}::int)
        end)
      ) as at
    from payment_links use
    where parent_id = ${id} and ${keepsPlace(tx, rank)}`;
  return row && row.paid < maxPayments ? row.at : null;
}
