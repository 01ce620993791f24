/**
 * The states of a payment link.
 *
 *   ACTIVE --claim | accepted authorization | paying transfer seen--> PENDING --paying transfer N blocks deep--> PAID
 *   PENDING --nothing holds it: disproved | permanently refused | lease over--> ACTIVE, or EXPIRED when it has expired
 *   PENDING --no holder left, and a fitting transfer is attributed to it--> PAID by that transfer
 *   ACTIVE --clock passes expiresAt--> EXPIRED --late transfer that pays it (late-transfer.ts)--> PENDING --N deep--> PAID (exception PAID_LATE)
 *   ACTIVE | PENDING on claims alone --merchant, before it expires--> CANCELLED, which stays
 *   ACTIVE | PENDING | EXPIRED --merchant assigns a CONFIRMED transfer that pays it--> PAID
 *   PAID --paying block reorganised away | merchant unassigns the transfer--> PENDING | ACTIVE, or EXPIRED when it has expired
 *
 * The api claims, the worker relays or releases, the indexer settles. Only the merchant cancels or assigns. A claim, an accepted
 * authorization, a release, the clock and a cancellation each move a link by one conditional UPDATE; when it returns no row, a concurrent
 * transition won. Whatever transfers change is computed from the ledger as a whole, under the link's lock: status and exception by
 * `db/links/recompute-link-status.ts`. `attribute-transfers.ts` says which link a transfer pays, also a late one.
 */
import { UNITS_PER_USDC } from "./money.ts";
import { unreachable } from "./unreachable.ts";

export const LINK_STATUSES = ["ACTIVE", "PENDING", "PAID", "EXPIRED", "CANCELLED"] as const;
export type LinkStatus = (typeof LINK_STATUSES)[number];

/**
 * Only the exact amount pays a link, or the unique amount reserved for it. A larger or smaller amount does not pay it: it is booked on the link
 * as OVERPAID or UNDERPAID.
 */
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
 * What happened to a link besides its payment; the first that applies (`db/links/recompute-link-status.ts`). The first three are about
 * transfers booked on the link that do not pay it; of these, transfers of any other amount below RELAY_MIN_AMOUNT are ignored.
 *
 *   DUPLICATE   the link also has a paying transfer, or one of them has exactly its amount or its unique amount
 *   OVERPAID    the link has no paying transfer, and one of them is more than its amount
 *   UNDERPAID   the link has no paying transfer, and each of them is less than its amount
 *   PAID_LATE   none of these, and the block of the paying transfer is later than the link's expiry
 */
export const LINK_EXCEPTIONS = ["NONE", "PAID_LATE", "UNDERPAID", "OVERPAID", "DUPLICATE"] as const;
export type LinkException = (typeof LINK_EXCEPTIONS)[number];

/** An amount is greater than 0 and at most 1,000,000 USDC. */
export const LINK_AMOUNT_MAX_UNITS = 1_000_000n * UNITS_PER_USDC;
export const LINK_DESCRIPTION_MAX = 500;
