/** The wire format of events, in lists and streams. */
import { z } from "zod";
import { presentEventData } from "../../core/domain/event-data.ts";
import { EVENT_TYPES } from "../../core/domain/event-types.ts";
import type { LoggedEvent } from "../../db/events/event-log.ts";
import { findSubjects, subjectOf } from "../../db/webhooks/event-subjects.ts";
import type { ApiDeps } from "../http/deps.ts";
import { isoTime } from "../http/envelope.ts";
import { singleLinkSchema } from "../links/wire.ts";
import { transactionSchema } from "../transactions/wire.ts";

export const eventSchema = z
  .object({
    id: z.string(),
    type: z.enum(EVENT_TYPES),
    subjectId: z.string(),
    data: z
      .looseObject({
        link: singleLinkSchema
          .optional()
          .describe("For events about a link or its refunds: the current state of the link"),
        transaction: transactionSchema
          .optional()
          .describe("For events about a transaction: its current state"),
      })
      .describe("Details; the fields depend on the event's type"),
    createdAt: isoTime,
  })
  .meta({ id: "Event" });

/** Each with the whole link or transaction it is about. */
export async function presentEvents(
  { sql, config }: Pick<ApiDeps, "sql" | "config">,
  userId: string,
  events: readonly LoggedEvent[],
): Promise<z.infer<typeof eventSchema>[]> {
  const subjects = await findSubjects(
    sql,
    events.map((event) => ({ ...event, userId })),
  );
  return events.map((event) => ({
    id: event.publicId,
    type: event.type,
    subjectId: event.subjectId,
    data: presentEventData(event.data, subjectOf(subjects, event), config),
    createdAt: event.createdAt.toISOString(),
  }));
}
