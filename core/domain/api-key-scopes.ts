/** What an API key may be allowed to do, and how many a merchant may have. */
export const API_KEY_SCOPES = [
  "links:read",
  "links:write",
  "transactions:read",
  "exports",
  "webhooks",
  "refunds:request",
  "facilitator",
] as const;
export type ApiKeyScope = (typeof API_KEY_SCOPES)[number];

export const LIVE_KEYS_MAX = 50;
