/**
 * First step of a wallet setup: a challenge, and how the browser has to use it. A user with a passkey is asked to use that one:
 * another one with the same user handle would overwrite it on many authenticators, and with it the only key to the first wallet.
 * So the creation options exclude the existing passkey, and `passkeyRequest` lets it respond to the same challenge.
 */

import { CHALLENGE_LIFE_MS } from "../../core/domain/challenge-lifetime.ts";
import { conflict, ServiceError } from "../../core/domain/errors.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { listSignInPasskeys } from "../../db/auth/sign-in-passkeys.ts";
import type { Passkey, User } from "../../db/schema.ts";
import { findWallet } from "../../db/wallets/wallets.ts";
import { newChallenge } from "../auth/challenge.ts";
import { presentCreationOptions } from "../auth/creation-options.ts";
import { presentCredential } from "../auth/sign-in-options.ts";
import type { ApiConfig } from "../config.ts";
import type { ApiDeps } from "../http/deps.ts";
import { getEnabledChain } from "./enabled-network.ts";

type Started = { challengeId: string; challenge: string; passkeys: Passkey[] };

/** Throws FORBIDDEN before the address is verified, CONFLICT when the user has a wallet on this network. */
export async function startSetup(
  deps: ApiDeps,
  { user, network }: { user: User; network: NetworkId },
): Promise<Started> {
  refuseUnverified(user);
  getEnabledChain(deps, network);
  if (await findWallet(deps.sql, user.id, network))
    throw conflict(`You already have a wallet on ${network}`, { field: "network", issue: "wallet_exists" });
  const passkeys = await listSignInPasskeys(deps.sql, user.id, deps.config.passkey.rpId);
  const challenge = await newChallenge(deps.sql, { userId: user.id, purpose: "register", network });
  return { ...challenge, passkeys };
}

/** Nothing may be attached to an account whose address is not verified. */
export function refuseUnverified({ status }: Pick<User, "status">): void {
  if (status !== "REGISTERED") return;
  throw new ServiceError("FORBIDDEN", "Verify your e-mail address first", { details: { field: "status" } });
}

export function presentSetupStart(
  config: ApiConfig,
  user: User,
  { challengeId, challenge, passkeys }: Started,
) {
  const { rpId, attachment } = config.passkey;
  return {
    userId: user.id,
    challengeId,
    passkeyChallenge: presentCreationOptions(config, user, { challengeId, challenge, passkeys, attachment }),
    ...(passkeys.length > 0 ? { passkeyRequest: presentRequest(rpId, challenge, passkeys) } : {}),
    nextStep: "complete-wallet-setup" as const,
    instructions:
      passkeys.length > 0
        ? "Answer passkeyRequest with navigator.credentials.get and your existing passkey, then call /v1/wallets/setup/complete"
        : "Pass passkeyChallenge to navigator.credentials.create, then call /v1/wallets/setup/complete with its response",
  };
}

function presentRequest(rpId: string, challenge: string, passkeys: readonly Passkey[]) {
  return {
    challenge,
    rpId,
    timeout: CHALLENGE_LIFE_MS,
    userVerification: "required" as const,
    allowCredentials: passkeys.map(presentCredential),
  };
}
