/**
 * When a link expires, and which transfers are late. The worker moves its row by `db/links/expire-links.ts`; what readers see does not
 * wait for that. A late transfer pays an expired link when it has evidence (attribute-transfers.ts), or when no open link fits it and no
 * other expired one; the link is then PAID with the exception PAID_LATE (db/links/compute-link-status.ts).
 */
import type { LinkStatus } from "./link.ts";

export const LINK_EXPIRY_DEFAULT_HOURS = 24;
export const LINK_EXPIRY_MAX_HOURS = 2160;

/** The status shown to readers: a link past its expiry is EXPIRED even before the job has updated the row. */
export function effectiveStatus(link: { status: LinkStatus; expiresAt: Date }, now: Date): LinkStatus {
  return link.status === "ACTIVE" && link.expiresAt <= now ? "EXPIRED" : link.status;
}

type Lifetime = { readonly expiresAtMs: number; readonly cancelledAtMs?: number | undefined };

/** Whether a transfer in a block of this time is in time; the moment of the expiry is. */
export function isOpenAt({ expiresAtMs, cancelledAtMs }: Lifetime, blockTimeMs: number): boolean {
  const isCancelled = cancelledAtMs !== undefined && cancelledAtMs <= blockTimeMs;
  return !isCancelled && blockTimeMs <= expiresAtMs;
}

/** Whether the link had expired by then: the transfer may pay it late. Nothing pays a cancelled one by its amount. */
export function isLateFor({ expiresAtMs, cancelledAtMs }: Lifetime, blockTimeMs: number): boolean {
  return expiresAtMs < blockTimeMs && cancelledAtMs === undefined;
}
