/** The shapes shared by all answers: the error envelope, and the general `data` + `meta` form. */
import { z } from "zod";
import { ERROR_STATUS, type ErrorCode, type ErrorDetails } from "../../core/domain/errors.ts";

export type Meta = { requestId: string; timestamp: string };
export type ErrorBody = {
  error: { code: ErrorCode; message: string; details?: ErrorDetails };
  meta: Meta;
};

export function metaOf(requestId: string): Meta {
  return { requestId, timestamp: new Date().toISOString() };
}

export function errorBody(
  requestId: string,
  code: ErrorCode,
  message: string,
  details?: ErrorDetails,
): ErrorBody {
  return { error: { code, message, ...(details ? { details } : {}) }, meta: metaOf(requestId) };
}

/** ISO 8601 with milliseconds, as `Date.toISOString` writes it. */
export const isoTime = z.iso.datetime();
export const metaSchema = z.object({ requestId: z.string(), timestamp: isoTime });

export const errorSchema = z
  .object({
    error: z.object({
      code: z.enum(Object.keys(ERROR_STATUS) as [ErrorCode, ...ErrorCode[]]),
      message: z.string(),
      details: z.looseObject({ field: z.string().optional(), issue: z.string().optional() }).optional(),
    }),
    meta: metaSchema,
  })
  .meta({ description: "The error envelope" });

type ErrorStatus = 400 | 401 | 403 | 404 | 405 | 409 | 413 | 422 | 429 | 500;

/** `response: { 200: …, ...errorResponses(400, 401) }`: documents the envelope for these statuses; 500 is always among them. */
export function errorResponses<const Statuses extends readonly ErrorStatus[]>(
  ...statuses: Statuses
): Record<Statuses[number] | 500, typeof errorSchema> {
  const entries = [...statuses, 500].map((status) => [status, errorSchema]);
  return Object.fromEntries(entries) as Record<Statuses[number] | 500, typeof errorSchema>;
}
