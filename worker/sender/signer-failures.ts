/** Remembers which remote keys failed to sign recently: they are not used for a while, and other keys are preferred. */
import type { RelayerKey, RemoteKey } from "../relayer-keys-env.ts";

/** Not every waiting payment must run into the signer's timeout. */
const PAUSE_MS = 1_000;
/** How long other keys are preferred: otherwise a failing key, having no transactions in flight, would be chosen again and again. */
const AVOIDED_MS = 30_000;

const failedAtMs = new Map<string, number>();

export function noteSigned(key: RemoteKey): void {
  failedAtMs.delete(nameOf(key));
}

export function noteSignerFailure(key: RemoteKey): void {
  failedAtMs.set(nameOf(key), performance.now());
}

export function isPaused(key: RemoteKey): boolean {
  return hasFailedWithin(key, PAUSE_MS);
}

export function isAvoided(key: RelayerKey): boolean {
  return "signerUrl" in key && hasFailedWithin(key, AVOIDED_MS);
}

function hasFailedWithin(key: RemoteKey, ms: number): boolean {
  const at = failedAtMs.get(nameOf(key));
  return at !== undefined && performance.now() - at < ms;
}

/** If the signer lacks one key, that says nothing about its other keys. */
function nameOf({ signerUrl, address }: RemoteKey): string {
  return `${signerUrl} ${address}`;
}
