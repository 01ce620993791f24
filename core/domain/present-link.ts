/** A payment link as its merchant sees it, in answers, events and webhooks. Pure. */
import type { LinkException, LinkStatus } from "./link.ts";
import { toAmountNumber } from "./money.ts";
import type { NetworkId } from "./networks.ts";
import type { OrderData } from "./order-data.ts";
import type { ReuseTerms } from "./reusable-link.ts";
import type { SettledBy } from "./settled-by.ts";

type ReusableRow = ReuseTerms & { amountUnits: bigint; parentId: string | null };
type OrderRow = Omit<OrderData, "uniqueReference">;

/** The columns of a link that are shown; `status` is the effective one. */
export type LinkRow = ReusableRow &
  OrderRow & {
    id: string;
    network: NetworkId;
    description: string;
    status: LinkStatus;
    exception: LinkException;
    settledBy: SettledBy | null;
    isDiscoverable: boolean;
    refundedUnits: bigint;
    paidAt: Date | null;
    expiresAt: Date;
    createdAt: Date;
    updatedAt: Date;
  };

export function presentLink(link: LinkRow, { baseUrl }: { baseUrl: string }) {
  return {
    id: link.id,
    ...presentReuse(link),
    currency: "USDC" as const,
    description: link.description,
    url: `${baseUrl}/pay/${link.id}`,
    aiUrl: `${baseUrl}/v1/x402/${link.id}`,
    network: link.network,
    status: link.status,
    discoverable: link.isDiscoverable,
    exception: link.exception,
    settledBy: link.settledBy,
    refundedAmount: toAmountNumber(link.refundedUnits),
    paidAt: link.paidAt?.toISOString() ?? null,
    expiresAt: link.expiresAt.toISOString(),
    createdAt: link.createdAt.toISOString(),
    ...presentOrder(link),
  };
}

/** As GET of one link shows it. */
export function presentSingleLink(link: LinkRow, addresses: { baseUrl: string }) {
  return { ...presentLink(link, addresses), updatedAt: link.updatedAt.toISOString() };
}

export function presentReuse({ amountUnits, minUnits, maxUnits, maxPayments, parentId }: ReusableRow) {
  return {
    amount: minUnits === null ? toAmountNumber(amountUnits) : null,
    maxPayments,
    minAmount: minUnits === null ? null : toAmountNumber(minUnits),
    maxAmount: maxUnits === null ? null : toAmountNumber(maxUnits),
    parentId,
  };
}

function presentOrder({ reference, metadata, customerEmail, successUrl, cancelUrl }: OrderRow) {
  return { reference, metadata, customerEmail, successUrl, cancelUrl };
}
