/**
 * The states of a payment link. Each arrow is one conditional UPDATE; when it returns no row, a concurrent transition won.
 *
 *   ACTIVE --claim | accepted authorization | matching transfer seen--> PENDING --transfer N blocks deep--> PAID
 *   PENDING --disproved | permanently refused | lease over--> ACTIVE (or EXPIRED when the time has passed)
 *   PENDING --no holder left, and a fitting transfer is attributed to it--> PAID by that transfer
 *   ACTIVE --clock passes expiresAt--> EXPIRED --late transfer, only candidate--> PAID (exception PAID_LATE)
 *   ACTIVE --merchant--> CANCELLED
 *   PAID --paying block reorganised away--> PENDING | ACTIVE
 *
 * The api claims, the worker relays or releases, the indexer settles. Only the merchant cancels or assigns. `attribute-transfers.ts`
 * says which link a transfer pays, also a late one; `db/links/compute-link-status.ts` computes status and exception from the ledger, also
 * after a reorganisation.
 */
import { UNITS_PER_USDC } from "./money.ts";
import { unreachable } from "./unreachable.ts";

export const LINK_STATUSES = ["ACTIVE", "PENDING", "PAID", "EXPIRED", "CANCELLED"] as const;
export type LinkStatus = (typeof LINK_STATUSES)[number];

/** Only the exact amount pays a link, or the unique amount that is asked for it alone. More or less pays nothing: it is booked on the link as OVERPAID or UNDERPAID. */
export function isExactAmount(
  link: { readonly amountUnits: bigint; readonly payAmountUnits?: bigint | undefined },
  amountUnits: bigint,
): boolean {
  return amountUnits === link.amountUnits || amountUnits === link.payAmountUnits;
}

/** Whether a payment can still make a link of this status PAID by itself; late transfers and the merchant's own assignments can do so later. */
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

/**
 * What besides its payment happened to a link; the first that applies (`db/links/compute-link-status.ts`). The first three are about
 * transfers booked on the link that do not pay it; of these, smaller ones than RELAY_MIN_AMOUNT of another amount are ignored.
 *
 *   DUPLICATE   the link has a paying transfer besides, or one of them has exactly its amount or its unique amount
 *   OVERPAID    the link has no paying transfer, and one of them is more than its amount
 *   UNDERPAID   the link has no paying transfer, and each of them is less than its amount
 *   PAID_LATE   none of these, and the block of the paying transfer is later than the link's expiry
 */
export const LINK_EXCEPTIONS = ["NONE", "PAID_LATE", "UNDERPAID", "OVERPAID", "DUPLICATE"] as const;
export type LinkException = (typeof LINK_EXCEPTIONS)[number];

/** An amount is greater than 0 and at most 1,000,000 USDC. */
export const LINK_AMOUNT_MAX_UNITS = 1_000_000n * UNITS_PER_USDC;
export const LINK_DESCRIPTION_MAX = 500;
