/**
 * What an API key may do, and what it never may. A key can call a route that lets keys in (`allow: ["session", "apiKey"]`) and names one
 * of the key's scopes; what a scope opens is described beside it. Whatever its scopes, a key never moves money out of the wallet, changes
 * owners, keys, members or settings, or reads them: that takes the session of a signed-in person (`SESSION_ONLY`), and a send or refund
 * the signature of a passkey besides. api/http/access.ts applies both.
 */
import type { Need } from "./member.ts";

export const API_KEY_SCOPES = [
  /** Reads payment links, their payments and receipts. */
  "links:read",
  /** Creates, changes and cancels payment links. */
  "links:write",
  /** Reads the payments of links and their receipts, without the links. */
  "payments:read",
  /** Reads the history, its sums, receipts and credit notes. */
  "transactions:read",
  /** Reads the wallet's balance; its owners and sends take a session. */
  "wallet:read",
  /** Makes and downloads exports, statements and archives of documents; saved exports and exchange rates. */
  "exports",
  /** Manages webhook endpoints, reads their deliveries and the event log. */
  "webhooks",
  /** Asks for a refund, which moves nothing until an owner of the wallet signs it, and reads refunds. */
  "refunds:request",
  /** Settles payments for other resource servers. */
  "facilitator",
] as const;
export type ApiKeyScope = (typeof API_KEY_SCOPES)[number];

/**
 * What a route may need (member.ts) that no API key is ever let in for. A route that says otherwise stops the API at its start. A person's own
 * passkeys, sessions and sign-in are "self", which MCP and the facilitator let keys in for: those routes say `allow: ["session"]` each.
 */
export const SESSION_ONLY: readonly Need[] = [
  "money:send",
  "owners:manage",
  "keys:manage",
  "members:read",
  "members:manage",
  "settings:read",
  "settings:write",
  "transfers:assign",
  "trail:read",
  "account",
];

export const LIVE_KEYS_MAX = 50;
