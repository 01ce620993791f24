/** WebAuthn responses as browsers send them (`PublicKeyCredential.toJSON()`), in base64url or base64. */
import { z } from "zod";

const BINARY_MAX_CHARS = 65_536;
const ID_MAX_CHARS = 1_400;
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;

const binary = (maxChars: number) =>
  z.string().min(1).max(maxChars).regex(BASE64, "must be base64url").transform(toBase64Url);

const transports = z.array(z.string().max(32)).max(10).optional();

const common = {
  id: binary(ID_MAX_CHARS),
  rawId: binary(ID_MAX_CHARS),
  type: z.literal("public-key"),
};

/** An allowed passkey in WebAuthn options. */
export const credentialSchema = z
  .object({ id: z.string(), type: z.literal("public-key"), transports: z.array(z.string()) })
  .meta({ id: "Credential" });

/** `PublicKeyCredentialCreationOptionsJSON`. */
export const creationOptionsSchema = z
  .object({
    challengeId: z.string(),
    challenge: z.string(),
    timeout: z.int(),
    rp: z.object({ name: z.string(), id: z.string() }),
    user: z.object({ id: z.string(), name: z.string(), displayName: z.string() }),
    pubKeyCredParams: z.array(z.object({ alg: z.int(), type: z.literal("public-key") })),
    authenticatorSelection: z.object({
      authenticatorAttachment: z.literal("platform").optional(),
      userVerification: z.literal("required"),
      requireResidentKey: z.boolean(),
      residentKey: z.literal("required"),
    }),
    attestation: z.literal("direct"),
    excludeCredentials: z.array(credentialSchema),
  })
  .meta({ id: "PasskeyCreationOptions" });

export const assertionSchema = z
  .object({
    ...common,
    response: z.object({
      clientDataJSON: binary(BINARY_MAX_CHARS),
      authenticatorData: binary(BINARY_MAX_CHARS),
      signature: binary(ID_MAX_CHARS),
      userHandle: z.string().max(200).nullish(),
    }),
  })
  .meta({ id: "PasskeyAssertion" });
export type Assertion = z.infer<typeof assertionSchema>;

export const attestationSchema = z
  .object({
    ...common,
    response: z.object({
      clientDataJSON: binary(BINARY_MAX_CHARS),
      attestationObject: binary(BINARY_MAX_CHARS),
      transports,
    }),
  })
  .meta({ id: "PasskeyAttestation" });
export type Attestation = z.infer<typeof attestationSchema>;

export function toBase64Url(text: string): string {
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

export const challengeIdSchema = z
  .string()
  .regex(/^ch_[0-9a-f-]{36}$/, "must be a challenge id")
  .describe("Returned with the challenge");
