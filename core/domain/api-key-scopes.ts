/**
 * What an API key may do, and what it never may. A key can call a route that admits keys (`allow: ["session", "apiKey"]`) and names one
 * of the key's scopes; what each scope grants is described beside it. Whatever its scopes, a key never moves money out of the wallet,
 * and never reads or changes owners, keys, members or settings: those need the session of a signed-in user (`SESSION_ONLY`), and a send or
 * refund also needs a passkey's signature. api/http/access.ts applies both.
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
  /** Reads the wallet's balance; owners and sends need a session. */
  "wallet:read",
  /** Creates and downloads exports, statements and archives of documents; saved exports and exchange rates. */
  "exports",
  /** Manages webhook endpoints, reads their deliveries and the event log. */
  "webhooks",
  /** Requests refunds, which move nothing until an owner of the wallet signs them, and reads refunds. */
  "refunds:request",
  /** Settles payments for other resource servers. */
  "facilitator",
] as const;
export type ApiKeyScope = (typeof API_KEY_SCOPES)[number];

/**
 * Capabilities (member.ts) that never admit an API key. A route that contradicts this stops the API at startup. A person's own passkeys,
 * sessions and sign-in need "self", for which MCP and the facilitator admit keys, so each of those routes says `allow: ["session"]`.
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
