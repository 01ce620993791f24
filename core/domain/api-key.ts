/** What an API key may be allowed to do. */
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
