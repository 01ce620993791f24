/** Creation options for a passkey of this service: a discoverable ES256 key with user verification. */
import { CHALLENGE_LIFE_MS } from "../../core/domain/challenge-lifetime.ts";
import type { Passkey, User } from "../../db/schema.ts";
import type { ApiConfig } from "../config.ts";
import { presentCredential } from "./sign-in-options.ts";
import { ES256_ONLY } from "./verify-passkey.ts";

type Asked = {
  challengeId: string;
  challenge: string;
  /** The user's passkeys that own a wallet: a second one on the same authenticator would overwrite the first. */
  passkeys: readonly Passkey[];
  /** "any": this device, another by QR code, a security key. */
  attachment: "platform" | "any";
};

export function presentCreationOptions(
  { passkey: { rpId, rpName } }: Pick<ApiConfig, "passkey">,
  user: User,
  { challengeId, challenge, passkeys, attachment }: Asked,
) {
  return {
    challengeId,
    challenge,
    timeout: CHALLENGE_LIFE_MS,
    rp: { name: rpName, id: rpId },
    user: {
      id: Buffer.from(user.id).toString("base64url"),
      name: user.email,
      displayName: user.displayName ?? user.email,
    },
    pubKeyCredParams: ES256_ONLY.map((alg) => ({ alg: Number(alg), type: "public-key" as const })),
    authenticatorSelection: {
      ...(attachment === "platform" ? { authenticatorAttachment: "platform" as const } : {}),
      userVerification: "required" as const,
      requireResidentKey: true,
      residentKey: "required" as const,
    },
    attestation: "direct" as const,
    excludeCredentials: passkeys.map(presentCredential),
  };
}
