/** A user's security trail: sign-ins, refusals, keys. */
import { Elysia } from "elysia";
import { z } from "zod";
import { invalid } from "../../core/domain/errors.ts";
import { SECURITY_EVENT_TYPES } from "../../core/domain/security-event.ts";
import { type ListedSecurityEvent, listSecurityEvents } from "../../db/accounts/security-events.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime, metaOf, pageSchema } from "../http/envelope.ts";
import { pageLimit, pageOf } from "../http/list-pages.ts";

const eventSchema = z
  .object({
    id: z.string(),
    type: z.enum(SECURITY_EVENT_TYPES),
    clientAddress: z.string().nullable(),
    requestId: z.string().nullable(),
    actor: z
      .object({ id: z.string(), email: z.string().nullable() })
      .nullable()
      .describe("The user or API key that did it; null for events on the chain or before sign-in"),
    details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
    createdAt: isoTime,
  })
  .meta({ id: "SecurityEvent" });

export const securityRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "security-routes" }).use(access(deps)).get(
    "/v1/security-events",
    async ({ query, user, requestId }) => {
      const { limit } = query;
      const beforeId = query.cursor === undefined ? undefined : readCursor(query.cursor);
      const found = await listSecurityEvents(deps.sql, user.id, { beforeId, limit: limit + 1 });
      const { rows, ...page } = pageOf(found, limit, ({ id }) => toCursor(id));
      return {
        data: rows.map(presentEvent),
        pagination: { ...page, limit },
        meta: metaOf(requestId),
      };
    },
    {
      auth: { allow: ["session"], needs: "trail:read" },
      query: z.object({
        limit: pageLimit(20),
        cursor: z.string().max(64).optional(),
      }),
      response: {
        200: pageSchema(eventSchema),
        ...errorResponses(400, 401, 403, 429),
      },
      detail: {
        operationId: "listSecurityEvents",
        summary: "The user's security events, newest first",
        tags: ["Sessions"],
      },
    },
  );

function toCursor(id: bigint): string {
  return Buffer.from(`s${id}`).toString("base64url");
}

function readCursor(cursor: string): bigint {
  const digits = /^s(\d{1,18})$/.exec(Buffer.from(cursor, "base64url").toString("latin1"))?.[1];
  if (digits === undefined || toCursor(BigInt(digits)) !== cursor)
    throw invalid("cursor", "is not a cursor of this list");
  return BigInt(digits);
}

function presentEvent(event: ListedSecurityEvent): z.infer<typeof eventSchema> {
  return {
    id: String(event.id),
    type: event.type,
    clientAddress: event.clientAddress,
    requestId: event.requestId,
    actor: event.actorId === null ? null : { id: event.actorId, email: event.actorEmail },
    details: event.details,
    createdAt: event.createdAt.toISOString(),
  };
}
