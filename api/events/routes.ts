/** The event log, read from a cursor: changes of the user's links, transactions, wallets and account. */

import { Elysia } from "elysia";
import { z } from "zod";
import { invalid, ServiceError } from "../../core/domain/errors.ts";
import { listEvents } from "../../db/events/event-log.ts";
import { openEventReaders } from "../../db/events/event-readers.ts";
import { access, isStillAdmitted } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { documentedResponses } from "../http/documented-responses.ts";
import { errorResponses, metaOf, metaSchema } from "../http/envelope.ts";
import { EVENT_STREAM } from "../http/event-stream.ts";
import { pageLimit } from "../http/list-pages.ts";
import { takesHeaders } from "../http/openapi-headers.ts";
import { knownQuery } from "../http/query.ts";
import { CURSOR_LENGTH_MAX, readCursor, writeCursor } from "./encode-cursor.ts";
import { streamEvents } from "./stream-events.ts";
import { eventSchema, presentEvents } from "./wire.ts";

const UNKNOWN_HISTORY =
  "This cursor points to events lost in a restore or failover: read without a cursor, and skip events whose id you have seen";

const mayRead = { allow: ["session", "apiKey"], scope: "webhooks", needs: "events:read" } as const;
const tags = ["Events"];

const listQuery = knownQuery({
  cursor: z
    .string()
    .max(CURSOR_LENGTH_MAX)
    .optional()
    .describe("nextCursor of an earlier response; if omitted, reads from the beginning"),
  limit: pageLimit(50),
});

/** Ignored, it would lose every event since, as a misspelt filter would give every row. */
function refuseCursor(query: Readonly<Record<string, unknown>>): void {
  const name = ["cursor", "after"].find((one) => query[one] !== undefined);
  if (name)
    throw invalid(name, "is not a parameter of the stream: send the cursor as the header Last-Event-ID");
}

const listSchema = z
  .object({
    data: z.array(eventSchema),
    pagination: z.object({
      hasNextPage: z.boolean(),
      nextCursor: z
        .string()
        .nullable()
        .describe("Store it: later events follow this position, even at the end of the log"),
      limit: z.int(),
    }),
    meta: metaSchema,
  })
  .meta({ id: "EventList" });

export const eventRoutes = (deps: ApiDeps) => {
  const eventReaders = openEventReaders(deps.sql, (error) =>
    deps.log.warn({ err: error }, "event stream subscribers could not be recorded; polling every second"),
  );
  return new Elysia({ name: "event-routes" })
    .use(access(deps))
    .get(
      "/v1/events/stream",
      ({ user, caller, request, headers, query, set }) => {
        refuseCursor(query);
        // some implementations of EventSource cannot send headers
        const known = headers["last-event-id"] ?? query.lastEventId;
        const after = known ? readCursor(known) : undefined;
        const isAllowed = () => isStillAdmitted(deps, request, { rule: mayRead, userId: user.id });
        const stream = streamEvents(
          { ...deps, eventReaders },
          { userId: user.id, slot: caller.actorId, after, isAllowed },
          request.signal,
        );
        if (!stream)
          throw new ServiceError("RATE_LIMITED", "Too many open event streams; poll /v1/events instead", {
            headers: { "retry-after": "10" },
          });
        const common = set.headers as Record<string, string>;
        return new Response(stream, { headers: { ...common, ...EVENT_STREAM } });
      },
      {
        auth: mayRead,
        detail: {
          operationId: "streamEvents",
          parameters: takesHeaders("Last-Event-ID"),
          summary: "Your events as they happen (server-sent events)",
          description:
            "Each message is an event as returned by `GET /v1/events`; its id is a cursor. `Last-Event-ID` resumes after it; without it the stream starts with new events.",
          tags,
          responses: documentedResponses({
            200: { mediaTypes: ["text/event-stream"], description: "The stream; it ends after ten minutes" },
            ...errorResponses(400, 401, 403, 429),
          }),
        },
      },
    )
    .get(
      "/v1/events",
      async ({ query, user, requestId }) => {
        const { limit, cursor } = query;
        const after = cursor === undefined ? undefined : readCursor(cursor);
        const page = await listEvents(deps.sql, user.id, { after, limit });
        if (!page) throw invalid("cursor", "unknown_history", UNKNOWN_HISTORY);
        return {
          data: await presentEvents(deps, user.id, page.events),
          pagination: {
            hasNextPage: page.hasMore,
            nextCursor: page.end ? writeCursor(page.end) : (cursor ?? null),
            limit,
          },
          meta: metaOf(requestId),
        };
      },
      {
        auth: mayRead,
        query: listQuery,
        response: { 200: listSchema, ...errorResponses(400, 401, 403, 429) },
        detail: { operationId: "listEvents", summary: "Your events, oldest first, after a cursor", tags },
      },
    );
};
