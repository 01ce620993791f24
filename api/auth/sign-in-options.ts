/** First step of a sign-in: a challenge for the user's passkeys, or the missing setup step. */
import { AUTOFILL_CHALLENGE_LIFE_MS, CHALLENGE_LIFE_MS } from "../../core/domain/challenge-lifetime.ts";
import { notFound } from "../../core/domain/errors.ts";
import { lockUserByEmail } from "../../db/accounts/users.ts";
import { listSignInPasskeys } from "../../db/auth/sign-in-passkeys.ts";
import type { Passkey, User } from "../../db/schema.ts";
import { sendCode } from "../accounts/send-code.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { newChallenge } from "./challenge.ts";

export type SignInOptions =
  | { step: "email"; user: User; emailVerificationSent: boolean }
  | { step: "wallet"; user: User }
  | PasskeyStep;
type PasskeyStep = {
  step: "passkey";
  challengeId: string;
  challenge: string;
  passkeys: Passkey[];
  lifeMs: number;
};

/** Throws NOT_FOUND for an unknown address. */
export async function signInOptions(
  deps: ApiDeps,
  { email, trace }: { email: string; trace: Trace },
): Promise<SignInOptions> {
  return deps.sql.begin(async (tx): Promise<SignInOptions> => {
    const user = await lockUserByEmail(tx, email);
    if (!user) throw notFound("Account with this e-mail address");
    if (user.status === "REGISTERED") {
      const code = await sendCode(tx, deps, { userId: user.id, trace });
      return { step: "email", user, emailVerificationSent: code.sent };
    }
    const passkeys = await listSignInPasskeys(tx, user.id, deps.config.passkey.rpId);
    if (user.status === "WALLET_SETUP_PENDING" && passkeys.length === 0) return { step: "wallet", user };
    const challenge = await newChallenge(tx, { userId: user.id, purpose: "login", network: null });
    return { step: "passkey", ...challenge, passkeys, lifeMs: CHALLENGE_LIFE_MS };
  });
}

/** For any passkey of this site: the response identifies the user. The browser's autofill keeps its request open longer than a prompt. */
export async function discoverableOptions(
  { sql }: Pick<ApiDeps, "sql">,
  { isForAutofill }: { isForAutofill: boolean },
): Promise<PasskeyStep> {
  const lifeMs = isForAutofill ? AUTOFILL_CHALLENGE_LIFE_MS : CHALLENGE_LIFE_MS;
  const challenge = await newChallenge(sql, { userId: null, purpose: "login", network: null, lifeMs });
  return { step: "passkey", ...challenge, passkeys: [], lifeMs };
}

/** Request options for `PublicKeyCredential.parseRequestOptionsFromJSON`, beside the documented fields. */
export function presentSignInChallenge(deps: Pick<ApiDeps, "config">, options: PasskeyStep) {
  const { rpId, rpName } = deps.config.passkey;
  return {
    success: true as const,
    requiresCompletion: false as const,
    challengeId: options.challengeId,
    challenge: options.challenge,
    timeout: options.lifeMs,
    rp: { id: rpId, name: rpName },
    rpId,
    allowCredentials: options.passkeys.map(presentCredential),
    userVerification: "preferred" as const,
  };
}

export function presentCredential(passkey: Passkey) {
  return { id: passkey.id, type: "public-key" as const, transports: passkey.transports };
}
