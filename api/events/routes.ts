/** The event log, read from a cursor: changes of the user's links, transactions, wallets and account. */
import { Elysia } from "elysia";
import { z } from "zod";
import { invalid } from "../../core/domain/errors.ts";
import { type EventPosition, type LoggedEvent, listEvents } from "../../db/events/event-log.ts";
import { EVENT_TYPES } from "../../db/events/events.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime, metaOf, metaSchema } from "../http/envelope.ts";
import { queryNumber } from "../http/query.ts";

const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 100;
/** Epoch, transaction, event, digest. Cursors of version 0.1 have neither epoch nor digest; later ones of that version no digest. */
const CURSOR = /^(?:([0-9a-f]{32})\.)?(\d{1,20})\.(\d{1,19})(?:\.([0-9a-f]{16}))?$/;
const CURSOR_LENGTH_MAX = 200;
const UNKNOWN_HISTORY =
  "This cursor points to events lost in a restore or failover: read without a cursor, and skip events whose id you have seen";

const eventSchema = z.object({
  id: z.string(),
  type: z.enum(EVENT_TYPES),
  subjectId: z.string(),
  data: z.record(z.string(), z.unknown()),
  createdAt: isoTime,
});

const listQuery = z.object({
  cursor: z
    .string()
    .max(CURSOR_LENGTH_MAX)
    .optional()
    .describe("nextCursor of an earlier response; without one, reads from the beginning"),
  limit: queryNumber({ min: 1, max: LIMIT_MAX, fallback: LIMIT_DEFAULT }),
});

const listSchema = z.object({
  data: z.array(eventSchema),
  pagination: z.object({
    hasNextPage: z.boolean(),
    nextCursor: z
      .string()
      .nullable()
      .describe("Store it: the next events follow this position, also at the end of the log"),
    limit: z.int(),
  }),
  meta: metaSchema,
});

export const eventRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "event-routes" }).use(access(deps)).get(
    "/v1/events",
    async ({ query, user, requestId }) => {
      const { limit, cursor } = query;
      const after = cursor === undefined ? undefined : readCursor(cursor);
      const page = await listEvents(deps.sql, user.id, { after, limit });
      if (!page) throw invalid("cursor", "unknown_history", UNKNOWN_HISTORY);
      return {
        data: page.events.map(presentEvent),
        pagination: {
          hasNextPage: page.hasMore,
          nextCursor: page.end ? writeCursor(page.end) : (cursor ?? null),
          limit,
        },
        meta: metaOf(requestId),
      };
    },
    {
      auth: { allow: ["session", "apiKey"], scope: "webhooks" },
      query: listQuery,
      response: { 200: listSchema, ...errorResponses(400, 401, 403, 429) },
      detail: { summary: "Your events, oldest first, from a cursor on", tags: ["Events"] },
    },
  );

export function presentEvent(event: LoggedEvent): z.infer<typeof eventSchema> {
  return {
    id: event.publicId,
    type: event.type,
    subjectId: event.subjectId,
    data: event.data,
    createdAt: event.createdAt.toISOString(),
  };
}

function writeCursor({ epoch, writtenBy, id, seal }: EventPosition): string {
  return Buffer.from(`${epoch}.${writtenBy}.${id}.${seal}`).toString("base64url");
}

function readCursor(cursor: string): EventPosition {
  const bytes = Buffer.from(cursor, "base64url");
  const match = bytes.toString("base64url") === cursor ? CURSOR.exec(bytes.toString()) : null;
  const [, epoch, writtenBy = "", id = "", seal] = match ?? [];
  const isInRange = match && BigInt(writtenBy) < 2n ** 64n && BigInt(id) < 2n ** 63n;
  if (!isInRange) throw invalid("cursor", "is not a cursor of this list");
  return { epoch, writtenBy: BigInt(writtenBy), id: BigInt(id), seal };
}
