/**
 * A payment link's life. Each arrow is one conditional UPDATE; no row back means someone was faster.
 *
 *   ACTIVE --claim | accepted authorization | matching transfer seen--> PENDING --transfer N blocks deep--> PAID
 *   PENDING --disproved | refused for good | lease over--> ACTIVE (or EXPIRED when the clock passed)
 *   PENDING --all that held it gone, a transfer that fits booked on it--> PAID by that one
 *   ACTIVE --clock passes expiresAt--> EXPIRED --late transfer, only candidate--> PAID (exception PAID_LATE)
 *   ACTIVE --merchant--> CANCELLED
 *   PAID --paying block reorganised away--> PENDING | ACTIVE
 *
 * api claims, worker relays or releases, indexer settles. Nobody else moves a link.
 */
import { unreachable } from "./unreachable.ts";

export const LINK_STATUSES = ["ACTIVE", "PENDING", "PAID", "EXPIRED", "CANCELLED"] as const;
export type LinkStatus = (typeof LINK_STATUSES)[number];

/** Whether a payment can still make a link of this status PAID in the ordinary way; late transfers and the merchant's hand apart. */
export function isOpenStatus(status: LinkStatus): boolean {
  switch (status) {
    case "ACTIVE":
    case "PENDING":
      return true;
    case "PAID":
    case "EXPIRED":
    case "CANCELLED":
      return false;
    default:
      return unreachable(status);
  }
}

export const LINK_EXCEPTIONS = ["NONE", "PAID_LATE", "UNDERPAID", "OVERPAID", "DUPLICATE"] as const;
export type LinkException = (typeof LINK_EXCEPTIONS)[number];

export const LINK_DESCRIPTION_MAX = 500;
export const LINK_EXPIRY_DEFAULT_HOURS = 24;
export const LINK_EXPIRY_MAX_HOURS = 2160;

/** The status a reader is told: the clock expires a link even when no job ran. */
export function effectiveStatus(link: { status: LinkStatus; expiresAt: Date }, now: Date): LinkStatus {
  return link.status === "ACTIVE" && link.expiresAt <= now ? "EXPIRED" : link.status;
}
