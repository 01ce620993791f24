/**
 * A session must have used or registered its passkey within the last 15 minutes for what outlives the session: API keys, webhook endpoints
 * and their secrets, assignments of transfers. A stolen cookie or mailbox must not gain anything permanent.
 */
import { ServiceError } from "../../core/domain/errors.ts";
import type { Caller } from "./caller.ts";

const FRESH_PASSKEY_MS = 15 * 60 * 1_000;

/**
 * Throws FORBIDDEN with issue `passkey_required` unless this session registered or asserted a passkey within the last 15 minutes.
 * Test bearers pass. API keys pass as well, because making one took a fresh passkey: a route that people alone may use does not
 * allow them at all.
 */
export function requireFreshPasskey(caller: Caller, now: Date): void {
  if (caller.kind !== "session") return;
  const { passkeyAt } = caller.session;
  if (passkeyAt && now.getTime() - passkeyAt.getTime() < FRESH_PASSKEY_MS) return;
  throw new ServiceError(
    "FORBIDDEN",
    "Sign in with your passkey again: the last time was more than 15 minutes ago",
    {
      details: { field: "passkey", issue: "passkey_required" },
    },
  );
}
