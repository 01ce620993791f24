/** A new passkey challenge: 48 random bytes, not 32, so that it can never be the hash of a transfer to be signed by the same passkey. */
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
