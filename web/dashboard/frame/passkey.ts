/** Passkeys of this browser: made and asked with the options that the API gives. */
import { type Answer, call } from "./service.ts";
import { say } from "./words.ts";

type Made = Extract<
  Parameters<typeof call<"POST /v1/wallets/setup/complete">>[1],
  object
>["body"] extends infer Body
  ? Body extends { passkeyResponse: infer Response }
    ? Response
    : never
  : never;
export type Attestation = Extract<Made, { response: { attestationObject: string } }>;
export type Assertion = Exclude<Made, Attestation>;

/** What a person is told when the browser gives no passkey. */
export class PasskeyFault extends Error {}

export async function makePasskey(options: unknown): Promise<Attestation> {
  return ask(async () => {
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(
      options as PublicKeyCredentialCreationOptionsJSON,
    );
    return navigator.credentials.create({ publicKey });
  });
}

/** `signal` takes the browser's prompt away. */
export async function usePasskeyOf(options: unknown, signal?: AbortSignal): Promise<Assertion> {
  return ask(async () => {
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(
      options as PublicKeyCredentialRequestOptionsJSON,
    );
    return navigator.credentials.get(signal ? { publicKey, signal } : { publicKey });
  });
}

async function ask<Shape>(prompt: () => Promise<Credential | null>): Promise<Shape> {
  if (!globalThis.PublicKeyCredential)
    throw new PasskeyFault(
      say("This browser has no passkeys here: open the page over https, in a current browser."),
    );
  try {
    const credential = (await prompt()) as PublicKeyCredential | null;
    if (!credential) throw new PasskeyFault(say("The browser gave no passkey. Try again."));
    return credential.toJSON() as Shape;
  } catch (cause) {
    if (cause instanceof PasskeyFault) throw cause;
    throw new PasskeyFault(explain(cause), { cause });
  }
}

function explain(cause: unknown): string {
  const name = cause instanceof Error ? cause.name : "";
  if (name === "NotAllowedError")
    return say("The passkey was not used: cancelled, or no time left. Try again.");
  if (name === "InvalidStateError") return say("This device already holds a passkey of this account.");
  if (name === "SecurityError") return say("This address may not use the service's passkeys.");
  return say("The passkey could not be used: {reason}", {
    reason: cause instanceof Error ? cause.message : String(cause),
  });
}

/** Signs the account with this address in. Throws PasskeyFault or Refusal. */
export async function signInWithPasskey(
  email: string,
  options: Extract<Answer<"POST /v1/auth/options">, { success: true }>,
): Promise<void> {
  const authenticationResponse = await usePasskeyOf(options);
  await call("POST /v1/auth/verify", {
    body: { email, challengeId: options.challengeId, authenticationResponse },
    isQuiet: true,
  });
}
