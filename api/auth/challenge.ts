/** A new passkey challenge: 48 random bytes; never 32, which could be the hash of a transfer that the same passkey signs. */
import { randomBytes } from "node:crypto";
import { newChallengeId } from "../../core/domain/ids.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { type ChallengePurpose, insertChallenge } from "../../db/auth/challenges.ts";
import type { Tx } from "../../db/postgres/client.ts";

const CHALLENGE_BYTES = 48;

export async function newChallenge(
  tx: Tx,
  meant: {
    userId: string | null;
    purpose: Exclude<ChallengePurpose, "send">;
    network: NetworkId | null;
    lifeMs?: number;
  },
): Promise<{ challengeId: string; challenge: string }> {
  const bytes = randomBytes(CHALLENGE_BYTES);
  const { id } = await insertChallenge(tx, { id: newChallengeId(), challenge: bytes, ...meant });
  return { challengeId: id, challenge: bytes.toString("base64url") };
}
