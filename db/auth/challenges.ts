/** WebAuthn challenges: bound to a user, a purpose and a network, and deleted on first use. */
import { CHALLENGE_LIFE_MS } from "../../core/domain/challenge-lifetime.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Challenge, challenges } from "../schema.ts";

export type ChallengePurpose = Challenge["purpose"];

export async function insertChallenge(
  tx: Tx,
  challenge: {
    id: string;
    /** Null for a discoverable sign-in, in which the passkey identifies the user. */
    userId: string | null;
    purpose: ChallengePurpose;
    network: NetworkId | null;
    challenge: Uint8Array;
    /** Default: CHALLENGE_LIFE_MS. */
    lifeMs?: number;
  },
): Promise<Challenge> {
  const [row] = await tx<Challenge[]>`
    insert into challenges (id, user_id, purpose, network, challenge, expires_at)
    values (
      ${challenge.id},
      ${challenge.userId},
      ${challenge.purpose},
      ${challenge.network},
      ${challenge.challenge},
      now() + make_interval(secs => ${(challenge.lifeMs ?? CHALLENGE_LIFE_MS) / 1_000})
    )
    returning ${columnsOf(tx, challenges)}`;
  if (!row) throw new Error("insert into challenges returned no row");
  return row;
}

/** Consumes a challenge before anything is verified. Undefined: unknown, expired, used, or made for another user, purpose or network. */
export async function takeChallenge(
  tx: Tx,
  id: string,
  meant: { userId: string | null; purpose: ChallengePurpose },
): Promise<Challenge | undefined> {
  const [row] = await tx<(Challenge & { isLive: boolean })[]>`
    delete from challenges
    where id = ${id} and user_id is not distinct from ${meant.userId} and purpose = ${meant.purpose}
    returning ${columnsOf(tx, challenges)}, expires_at > now() as is_live`;
  if (!row?.isLive) return undefined;
  const { isLive: _, ...challenge } = row;
  return challenge;
}

/** The same, looked up by the challenge's bytes. */
export async function takeChallengeOf(
  tx: Tx,
  challenge: Uint8Array,
  meant: { userId: string; purpose: ChallengePurpose },
): Promise<Challenge | undefined> {
  const [row] = await tx<Challenge[]>`
    delete from challenges
    where user_id = ${meant.userId}
      and purpose = ${meant.purpose}
      and challenge = ${challenge}
      and expires_at > now()
    returning ${columnsOf(tx, challenges)}`;
  return row;
}

/** Whether a challenge with these bytes is still valid, without consuming it. */
export async function hasChallengeOf(
  tx: Tx,
  challenge: Uint8Array,
  meant: { userId: string; purpose: ChallengePurpose },
): Promise<boolean> {
  const rows = await tx`
    select
    from challenges
    where user_id = ${meant.userId}
      and purpose = ${meant.purpose}
      and challenge = ${challenge}
      and expires_at > now()`;
  return rows.length > 0;
}

/** A challenge that is still valid, without consuming it. */
export async function findChallenge(
  tx: Tx,
  id: string,
  meant: { userId: string; purpose: ChallengePurpose },
): Promise<Challenge | undefined> {
  const [row] = await tx<Challenge[]>`
    select ${columnsOf(tx, challenges)}
    from challenges
    where id = ${id} and user_id = ${meant.userId} and purpose = ${meant.purpose} and expires_at > now()`;
  return row;
}

export async function deleteChallengesOf(tx: Tx, userId: string): Promise<void> {
  await tx`delete from challenges where user_id = ${userId}`;
}
