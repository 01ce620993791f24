/** The types of the requests and answers that the dashboard uses, written from the OpenAPI document, so that the compiler compares both sides. */
import { readDocument } from "../support/openapi-document.ts";
import { renderOperations } from "../support/render-operations.ts";

export const WIRE_TYPES = "web/dashboard/wire.ts";

const OPERATIONS = [
  "POST /v1/identity/register",
  "POST /v1/email-verification/verify",
  "POST /v1/email-verification/resend",
  "POST /v1/auth/options",
  "POST /v1/auth/verify",
  "GET /v1/auth/me",
  "PATCH /v1/auth/me",
  "POST /v1/auth/logout",
  "GET /v1/auth/sessions",
  "DELETE /v1/auth/sessions/{id}",
  "POST /v1/auth/sessions/revoke-others",
  "GET /v1/auth/passkeys",
  "PATCH /v1/auth/passkeys/{id}",
  "POST /v1/wallets/setup/start",
  "POST /v1/wallets/setup/complete",
  "GET /v1/wallets/balance",
  "GET /v1/wallets/owners",
  "POST /v1/wallets/owners/passkey/start",
  "POST /v1/wallets/owners/prepare",
  "POST /v1/wallets/owners/confirm",
  "GET /v1/wallets/owners/changes/{id}",
  "POST /v1/wallets/owners/changes/{id}/cancel",
  "POST /v1/wallets/send/prepare",
  "POST /v1/wallets/send/confirm",
  "GET /v1/wallets/sends",
  "GET /v1/wallets/sends/{id}",
  "POST /v1/wallets/sends/{id}/cancel",
  "POST /v1/payment-links",
  "GET /v1/payment-links",
  "GET /v1/payment-links/stats",
  "GET /v1/payment-links/{id}",
  "GET /v1/payment-links/{id}/payments",
  "POST /v1/payment-links/{id}/cancel",
  "POST /v1/payment-links/{id}/refunds",
  "GET /v1/payment-links/{id}/refunds",
  "GET /v1/refunds/{id}",
  "POST /v1/refunds/{id}/confirm",
  "POST /v1/refunds/{id}/cancel",
  "POST /v1/refunds/{id}/prepare",
  "GET /api/v1/public/payment-links/{linkId}/data",
  "GET /v1/transactions",
  "POST /v1/transactions/{id}/assign",
  "GET /v1/transactions/exports",
  "POST /v1/transactions/export",
  "GET /v1/api-keys",
  "POST /v1/api-keys",
  "DELETE /v1/api-keys/{id}",
  "GET /v1/webhook-endpoints",
  "POST /v1/webhook-endpoints",
  "PATCH /v1/webhook-endpoints/{id}",
  "DELETE /v1/webhook-endpoints/{id}",
  "POST /v1/webhook-endpoints/{id}/rotate-secret",
  "GET /v1/webhook-endpoints/{id}/deliveries",
  "GET /v1/webhook-deliveries/{id}",
  "POST /v1/webhook-deliveries/{id}/redeliver",
  "GET /v1/members",
  "PATCH /v1/members/{userId}",
  "DELETE /v1/members/{userId}",
  "POST /v1/members/leave",
  "GET /v1/members/invitations",
  "POST /v1/members/invitations",
  "DELETE /v1/members/invitations/{id}",
  "GET /v1/auth/invitations",
  "POST /v1/auth/invitations/{id}/accept",
  "POST /v1/auth/invitations/{id}/decline",
  "GET /v1/security-events",
  "GET /v1/settings",
  "PATCH /v1/settings",
  "GET /v1/settings/pages",
  "PATCH /v1/settings/pages",
  "POST /v1/settings/pages/logo",
  "DELETE /v1/settings/pages/logo",
  "POST /v1/test/outbox",
] as const;

/** The file's text. */
export async function renderWireTypes(): Promise<string> {
  const document = await readDocument();
  const chosen = OPERATIONS.map((key) => {
    const [method = "", path = ""] = key.split(" ");
    const operation = document.paths[path]?.[method.toLowerCase()];
    if (!operation) throw new Error(`the document has no ${key}`);
    return { key, operation };
  });
  const note = "Written by `bun run wire-types` from the OpenAPI document; a test compares both.";
  return renderOperations(document, chosen, { name: "Wire", note });
}
