/** Every guarded route that takes an id in its path, and every list with a cursor. */
import type { Everything, Kind } from "../support/one-of-everything.ts";
import type { Merchant } from "../support/sign-up.ts";

export type Person = Merchant & Everything;
/** `body`: valid, of the caller's own things; `signed` is what the owner prepared, signed by another passkey. `own`: the owner's status, if it is an error. */
export type Probe = {
  name: string;
  kind: Kind;
  body?: (by: Person, signed: unknown) => unknown;
  own?: number;
};

/** Every guarded route with an id in its path, in the order in which the owner can call them all; those that end the thing come last. */
export const PROBES: readonly Probe[] = [
  { name: "GET /v1/wallets/sends/:id", kind: "send" },
  { name: "POST /v1/wallets/sends/:id/void", kind: "send", own: 409 },
  { name: "POST /v1/wallets/sends/:id/cancel", kind: "send" },
  { name: "GET /v1/payment-links/:id/refunds", kind: "paidLink" },
  { name: "POST /v1/payment-links/:id/refunds", kind: "paidLink", body: () => ({ amount: "0.05" }) },
  { name: "POST /v1/payment-links/:id/refund-requests", kind: "paidLink", body: () => ({ amount: "0.05" }) },
  { name: "GET /v1/refunds/:id", kind: "refund" },
  { name: "POST /v1/refunds/:id/void", kind: "refund", own: 409 },
  { name: "POST /v1/refunds/:id/cancel", kind: "refund" },
  { name: "POST /v1/refunds/:id/confirm", kind: "refund", body: (_by, signed) => signed, own: 409 },
  { name: "POST /v1/refunds/:id/prepare", kind: "refundRequest" },
  { name: "GET /v1/wallets/owners/changes/:id", kind: "ownerChange" },
  { name: "POST /v1/wallets/owners/changes/:id/cancel", kind: "ownerChange" },
  { name: "PATCH /v1/auth/passkeys/:id", kind: "passkey", body: () => ({ name: "stolen" }) },
  { name: "DELETE /v1/auth/sessions/:id", kind: "session" },
  { name: "DELETE /v1/auth/google/accounts/:id", kind: "google" },
  { name: "DELETE /v1/api-keys/:id", kind: "key" },
  { name: "POST /v1/auth/invitations/:id/accept", kind: "invitationToAccept" },
  { name: "POST /v1/auth/invitations/:id/decline", kind: "invitationToDecline" },
  { name: "DELETE /v1/members/invitations/:id", kind: "invitation" },
  { name: "PATCH /v1/members/:userId", kind: "member", body: () => ({ role: "accountant" }) },
  { name: "DELETE /v1/members/:userId", kind: "member" },
  { name: "GET /v1/payment-links/:id/receipt", kind: "paidLink" },
  { name: "GET /v1/payment-links/:id/payments", kind: "paidLink" },
  { name: "GET /v1/payment-links/:id", kind: "link" },
  { name: "PATCH /v1/payment-links/:id", kind: "link", body: () => ({ discoverable: true }) },
  { name: "GET /v1/documents/:id", kind: "document" },
  { name: "POST /v1/payment-links/:id/cancel", kind: "link" },
  {
    name: "POST /v1/transactions/:id/assign",
    kind: "transaction",
    body: ({ ids }) => ({ linkId: ids.link }),
  },
  { name: "POST /v1/transactions/:id/unassign", kind: "paidTransaction", own: 409 },
  { name: "GET /v1/transactions/exports/:id", kind: "export" },
  { name: "GET /v1/transactions/exports/:id/download", kind: "export", own: 409 },
  { name: "GET /v1/export-profiles/:id", kind: "profile" },
  { name: "PATCH /v1/export-profiles/:id", kind: "profile", body: () => ({ name: "stolen" }) },
  {
    name: "POST /v1/export-profiles/:id/export",
    kind: "profile",
    body: () => ({ dateFrom: "2026-01-01", dateTo: "2026-01-31" }),
  },
  { name: "PATCH /v1/export-schedules/:id", kind: "schedule", body: () => ({ paused: true }) },
  { name: "DELETE /v1/export-schedules/:id", kind: "schedule" },
  { name: "DELETE /v1/export-profiles/:id", kind: "profile" },
  { name: "GET /v1/webhook-deliveries/:id", kind: "delivery" },
  { name: "POST /v1/webhook-deliveries/:id/redeliver", kind: "delivery" },
  { name: "GET /v1/webhook-endpoints/:id", kind: "endpoint" },
  { name: "GET /v1/webhook-endpoints/:id/deliveries", kind: "endpoint" },
  { name: "PATCH /v1/webhook-endpoints/:id", kind: "endpoint", body: () => ({ enabled: false }) },
  { name: "PATCH /v1/webhook-endpoints/:id", kind: "endpoint", body: () => ({ enabled: true }) },
  { name: "POST /v1/webhook-endpoints/:id/rotate-secret", kind: "endpoint" },
  { name: "POST /v1/webhook-endpoints/:id/test", kind: "endpoint", body: () => ({}) },
  { name: "DELETE /v1/webhook-endpoints/:id", kind: "endpoint" },
];

/** `:endpoint` stands for the id of a webhook endpoint. */
export const LISTS = [
  ...["/v1/payment-links", "/v1/transactions", "/v1/wallets/sends", "/v1/refunds"],
  ...["/v1/events", "/v1/security-events", "/v1/webhook-endpoints/:endpoint/deliveries"],
];
