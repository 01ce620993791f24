/** The new passkey that is not an owner yet, and the transactions that make it one; kept for a reload of this tab. */
import type { Answer } from "../frame/service.ts";

export type Registered = { email: string } & Pick<
  Answer<"POST /v1/auth/recover/passkey/complete">,
  "passkeyId" | "transactions"
> & {
    /** Of the transactions that were sent, by network; empty where only its effect was found. */
    hashes?: Readonly<Record<string, string>>;
  };

const KEY = "recovery";

/** Storage may be switched off: then a reload begins with another passkey. */
export function storeRegistered(registered: Registered): void {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(registered));
  } catch {}
}

export function readRegistered(): Registered | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "null") ?? undefined;
  } catch {
    return undefined;
  }
}

export function forgetRegistered(): void {
  try {
    sessionStorage.removeItem(KEY);
  } catch {}
}
