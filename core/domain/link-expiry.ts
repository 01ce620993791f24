/**
 * When a link expires. The worker updates the row (`db/links/expire-links.ts`); readers see EXPIRED before that. What a transfer after the
 * expiry does: late-transfer.ts.
 */
import type { LinkStatus } from "./link.ts";

export const LINK_EXPIRY_DEFAULT_HOURS = 24;
export const LINK_EXPIRY_MAX_HOURS = 2160;

/** The status shown to readers: a link past its expiry is EXPIRED even before the job has updated the row. */
export function effectiveStatus(link: { status: LinkStatus; expiresAt: Date }, now: Date): LinkStatus {
  return link.status === "ACTIVE" && link.expiresAt <= now ? "EXPIRED" : link.status;
}
