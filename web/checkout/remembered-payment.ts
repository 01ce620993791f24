/**
 * Stores this browser's own payment of a link, so that a reload or a second tab never pays twice. When it is resumed or discarded:
 * `resume` in payment-flow.ts.
 */
import type { Hex } from "./page-data.ts";

export type Attempt =
  /** Signed and possibly accepted: the same bytes may be sent again. */
  | { kind: "signature"; payer: Hex; body: string; key: string; validBefore: number; txHash?: Hex | null }
  /** Handed to a wallet; without a hash its outcome is unknown. */
  | { kind: "transfer"; payer: Hex; txHash?: Hex | null };

const nameOf = (linkId: string) => `payment:${linkId}`;

export function readAttempt(linkId: string): Attempt | undefined {
  try {
    return JSON.parse(localStorage.getItem(nameOf(linkId)) ?? "null") ?? undefined;
  } catch {
    return undefined;
  }
}

/** Undefined deletes it. A browser without storage can still pay; it only cannot warn after a reload. */
export function storeAttempt(linkId: string, attempt: Attempt | undefined): void {
  try {
    if (attempt) localStorage.setItem(nameOf(linkId), JSON.stringify(attempt));
    else localStorage.removeItem(nameOf(linkId));
  } catch {}
}

/** Runs `work` unless another tab of this browser is paying the same link: then false. A browser that refuses storage has no locks either. */
export async function withBrowserLock(linkId: string, work: () => Promise<void>): Promise<boolean> {
  let running: Promise<void> | undefined;
  let isFree = true;
  const run = () => {
    running ??= work();
    return running;
  };
  try {
    await navigator.locks.request(nameOf(linkId), { ifAvailable: true }, (lock) => {
      isFree = !!lock;
      return isFree && run();
    });
  } catch {}
  if (isFree) await run();
  return isFree;
}

/** When the tab that held the lock has finished, or was closed. */
export async function whenUnlocked(linkId: string): Promise<void> {
  await navigator.locks.request(nameOf(linkId), () => {});
}
