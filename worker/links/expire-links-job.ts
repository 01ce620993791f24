/**
 * The job step that moves links past their expiry to EXPIRED and records their events. Readers do not depend on it: they compute the same
 * (core/domain/link-expiry.ts).
 */
import { recordEvents } from "../../db/events/events.ts";
import { expireLinks } from "../../db/links/expire-links.ts";
import type { Sql } from "../../db/postgres/client.ts";

const BATCH_LINKS = 1_000;
/** Batches per run; the rest waits for the next minute. */
const BATCHES_MAX = 100;

/** Returns the number of expired links. */
export async function expireDueLinks(sql: Sql): Promise<number> {
  let moved = 0;
  for (let batch = 0; batch < BATCHES_MAX; batch++) {
    const count = await sql.begin(async (tx) => {
      const links = await expireLinks(tx, BATCH_LINKS);
      await recordEvents(
        tx,
        links.map(({ id, userId }) => ({ userId, type: "payment_link.expired", subjectId: id })),
      );
      return links.length;
    });
    moved += count;
    if (count < BATCH_LINKS) break;
  }
  return moved;
}
