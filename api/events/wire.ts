/** Events as they travel, in lists and streams. */
import { z } from "zod";
import type { LoggedEvent } from "../../db/events/event-log.ts";
import { EVENT_TYPES } from "../../db/events/events.ts";
import { isoTime } from "../http/envelope.ts";

export const eventSchema = z
  .object({
    id: z.string(),
    type: z.enum(EVENT_TYPES),
    subjectId: z.string(),
    data: z.record(z.string(), z.unknown()),
    createdAt: isoTime,
  })
  .meta({ id: "Event" });

export function presentEvent(event: LoggedEvent): z.infer<typeof eventSchema> {
  return {
    id: event.publicId,
    type: event.type,
    subjectId: event.subjectId,
    data: event.data,
    createdAt: event.createdAt.toISOString(),
  };
}
