/** Passkeys of this browser: created and used with the options from the API. */
import { useEffect, useRef } from "preact/hooks";
import { type Answer, call } from "./service.ts";
import { say } from "./texts.ts";

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

/** The message when the browser returns no passkey. */
export class PasskeyFault extends Error {}

export async function makePasskey(options: unknown): Promise<Attestation> {
  return ask(async () => {
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(
      options as PublicKeyCredentialCreationOptionsJSON,
    );
    return navigator.credentials.create({ publicKey });
  });
}

/** The browser's prompt for a signing passkey. It closes with its sheet: a passkey used afterwards signs nothing. */
export function useSigningPrompt() {
  const asking = useRef<AbortController | undefined>(undefined);
  const withdraw = () => asking.current?.abort();
  useEffect(() => withdraw, []);
  return {
    isOpen: () => asking.current !== undefined,
    withdraw,
    ask: async (options: unknown): Promise<Assertion> => {
      const controller = new AbortController();
      asking.current = controller;
      const { signal } = controller;
      try {
        const assertion = await usePasskeyOf(options, signal);
        // cancelled between the passkey's use and this line: it is never sent
        signal.throwIfAborted();
        return assertion;
      } finally {
        asking.current = undefined;
      }
    },
  };
}

/** `signal` closes the browser's prompt. */
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
    if (!credential) throw new PasskeyFault(say("The browser returned no passkey. Try again."));
    return credential.toJSON() as Shape;
  } catch (cause) {
    if (cause instanceof PasskeyFault) throw cause;
    throw new PasskeyFault(explain(cause), { cause });
  }
}

function explain(cause: unknown): string {
  const name = cause instanceof Error ? cause.name : "";
  if (name === "NotAllowedError")
    return say("The passkey was not used: you cancelled, or it timed out. Try again.");
  if (name === "InvalidStateError") return say("This device already has a passkey of this account.");
  if (name === "SecurityError") return say("The service's passkeys do not work at this address.");
  return say("The browser reports: “{reason}”", {
    reason: cause instanceof Error ? cause.message : String(cause),
  });
}

/** How long before it expires a challenge is replaced. */
const RENEW_BEFORE_MS = 60_000;

/**
 * Offers this device's passkeys in the browser's autofill at the address field. True: the person chose one and is signed in; false: autofill
 * is unavailable in the browser or the service, or `signal` ended it. Throws PasskeyFault or Refusal for failures after the choice.
 */
export async function signInFromList(signal: AbortSignal): Promise<boolean> {
  if (!(await globalThis.PublicKeyCredential?.isConditionalMediationAvailable?.())) return false;
  while (!signal.aborted) {
    const body = { discoverable: true } as const;
    const options = await call("POST /v1/auth/options", { body, isQuiet: true }).catch(() => undefined);
    if (!options?.success) return false;
    const old = AbortSignal.timeout(options.timeout - RENEW_BEFORE_MS);
    const authenticationResponse = await chooseFromList(options, AbortSignal.any([signal, old]));
    if (authenticationResponse === "no list") return false;
    if (!authenticationResponse) continue;
    const { challengeId } = options;
    await call("POST /v1/auth/verify", {
      body: { discoverable: true, challengeId, authenticationResponse },
      isQuiet: true,
    });
    return true;
  }
  return false;
}

/** Undefined: ended by the signal. "no list": the browser has no autofill for passkeys after all. */
async function chooseFromList(
  options: unknown,
  signal: AbortSignal,
): Promise<Assertion | "no list" | undefined> {
  if (signal.aborted) return undefined;
  try {
    return await ask(() => {
      const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(
        options as PublicKeyCredentialRequestOptionsJSON,
      );
      return navigator.credentials.get({ publicKey, mediation: "conditional", signal });
    });
  } catch (error) {
    if (signal.aborted) return undefined;
    const { cause } = error as Error;
    const isOfPerson = cause instanceof Error && cause.name === "NotAllowedError";
    if (error instanceof PasskeyFault && !isOfPerson) return "no list";
    throw error;
  }
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
