/** What is known of one link. */
import type { Answer } from "../frame/service.ts";

export type LinkData = Answer<"GET /v1/payment-links/{id}">;
export type PublicData = Answer<"GET /api/v1/public/payment-links/{linkId}/data">;
export type Refunds = Answer<"GET /v1/payment-links/{id}/refunds">;
