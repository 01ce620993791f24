/**
 * Whatever outlives a session (API keys, webhook endpoints and their secrets, assignments of transfers) requires that the session used or registered
 * its passkey within the last 15 minutes. A stolen cookie or mailbox must not gain anything permanent.
 */
import { ServiceError } from "../../core/domain/errors.ts";
import type { Caller } from "./caller.ts";

const FRESH_PASSKEY_MS = 15 * 60 * 1_000;

/**
 * Throws FORBIDDEN with issue `passkey_required` unless this session registered or asserted a passkey within the last 15 minutes.
 * Test bearers pass. API keys also pass, because creating one required a recent passkey; routes only for people do not admit
 * keys at all.
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
