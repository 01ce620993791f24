/** The wire format of refunds: request and response schemas, and how rows map to them. */
import { z } from "zod";
import { formatUnits } from "../../core/domain/money.ts";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import {
  defaultAmount,
  REFUND_REASON_MAX_CHARS,
  REFUND_SOURCES,
  REFUND_STATES,
  type RefundableTransfer,
} from "../../core/domain/refund.ts";
import { isStillPossible } from "../../core/domain/wallet-operation.ts";
import type { OperationView } from "../../db/wallet-ops/operations.ts";
import type { RefundView } from "../../db/wallet-ops/refunds.ts";
import { isoTime } from "../http/envelope.ts";
import { pageLimit } from "../http/list-pages.ts";
import { knownQuery } from "../http/query.ts";
import { transactionSchema } from "../transactions/wire.ts";
import { amount, failureReason, signingFields, statusOf, text } from "./wire.ts";

/** Strict, because with a misspelt field everything would be refunded, or someone else. */
export const refundBody = z
  .strictObject({
    amount: amount
      .optional()
      .describe("Default: the rest of the transfer; for an overpaid link, the surplus"),
    toAddress: z.string().max(100).optional().describe("Default: who paid"),
    reason: text(REFUND_REASON_MAX_CHARS)
      .refine((given) => given !== "", "must not be empty")
      .optional(),
    transactionId: z.string().max(100).optional().describe("Which payment, if several"),
  })
  .optional();

export const refundListQuery = knownQuery({
  limit: pageLimit(20),
  cursor: z.string().min(1).max(200).optional(),
  status: z.enum(REFUND_STATES).optional(),
});

const status = z.enum(REFUND_STATES).describe("REQUESTED: by an operator or API key, not signed yet");
const shownRefund = {
  refundId: z.string(),
  linkId: z.string(),
  status,
  to: z.string(),
  toSource: z.enum(REFUND_SOURCES),
  amount: z.string(),
};
const requester = z
  .object({ type: z.enum(["api_key", "user"]), id: z.string(), name: z.string().nullable() })
  .nullable()
  .describe("Who requested it; null: an owner prepared it");

export const preparedRefundSchema = z
  .object({
    ...shownRefund,
    refundable: z.string().describe("What may be refunded in addition to this"),
    ...signingFields,
  })
  .meta({ id: "PreparedRefund" });

export const confirmedRefundSchema = z
  .object({
    success: z.literal(true),
    refundId: z.string(),
    status,
    userOpHash: z.string(),
    statusUrl: z.string(),
    transaction: transactionSchema.optional(),
  })
  .meta({ id: "ConfirmedRefund" });

export const refundSchema = z
  .object({
    ...shownRefund,
    network: z.enum(NETWORK_IDS),
    note: z.string().nullable().describe("The reason given"),
    requestedBy: requester,
    userOpHash: z.string().nullable(),
    transactionHash: z.string().nullable(),
    blockNumber: z.int().nullable(),
    transactionId: z.string().nullable(),
    reason: failureReason,
    stillPossible: z.boolean(),
    createdAt: isoTime,
    confirmedAt: isoTime.nullable(),
  })
  .meta({ id: "Refund" });

export const requestedRefundSchema = refundSchema
  .extend({
    refundable: z.string().describe("What may be refunded now; a request reserves nothing"),
  })
  .meta({ id: "RequestedRefund" });
const refundablePayment = z
  .object({
    transactionId: z.string().nullable().describe("Names this payment in a refund's body"),
    payer: z.string().describe("Who receives a refund of it without `toAddress`"),
    amount: z.string(),
    refundable: z.string().describe("The amount not yet refunded or reserved"),
    suggested: z.string().describe("The amount of a refund that does not name one"),
    pays: z.boolean().describe("Whether it is the payment that pays the link"),
  })
  .meta({ id: "RefundablePayment" });
export const linkRefundsSchema = z
  .object({
    refunds: z.array(refundSchema),
    refundable: z.string(),
    payments: z.array(refundablePayment).describe("Confirmed payments of the link, oldest first"),
  })
  .meta({ id: "LinkRefundList" });
export const refundListSchema = z
  .object({
    refunds: z.array(refundSchema),
    nextCursor: z.string().nullable(),
    pagination: z.object({ hasNextPage: z.boolean(), limit: z.int() }),
  })
  .meta({ id: "RefundList" });

export function presentRefundable(
  link: Parameters<typeof defaultAmount>[0],
  transfer: RefundableTransfer,
): z.infer<typeof refundablePayment> {
  return {
    transactionId: transfer.transactionId,
    payer: transfer.sender,
    amount: formatUnits(transfer.amountUnits),
    refundable: formatUnits(transfer.leftUnits > 0n ? transfer.leftUnits : 0n),
    suggested: formatUnits(transfer.leftUnits > 0n ? defaultAmount(link, transfer) : 0n),
    pays: transfer.pays,
  };
}

export function presentShown(refund: RefundView) {
  return {
    refundId: refund.id,
    linkId: refund.linkId,
    status: refund.status,
    to: refund.toAddress,
    toSource: refund.toSource,
    amount: formatUnits(refund.amountUnits),
  };
}

/** `operation`: undefined for a request that is not prepared yet. */
export function presentRefund(
  refund: RefundView,
  operation: OperationView | undefined,
): z.infer<typeof refundSchema> {
  return {
    ...presentShown(refund),
    network: refund.network,
    note: refund.reason,
    requestedBy: presentRequester(refund),
    userOpHash: operation?.userOpHash ?? null,
    transactionHash: operation?.txHash ?? null,
    blockNumber: toNumber(operation?.blockNumber),
    transactionId: operation?.items[0]?.transactionId ?? null,
    reason: operation?.reason ?? null,
    stillPossible:
      operation !== undefined &&
      isStillPossible({ state: statusOf(operation), isNonceSpent: operation.isNonceSpent }),
    createdAt: refund.createdAt.toISOString(),
    confirmedAt: operation?.confirmedAt?.toISOString() ?? null,
  };
}

function presentRequester({ requestedBy, requesterName }: RefundView): z.infer<typeof requester> {
  if (requestedBy === null) return null;
  const type = requestedBy.startsWith("key_") ? "api_key" : "user";
  return { type, id: requestedBy, name: requesterName };
}

function toNumber(value: bigint | null | undefined): number | null {
  return value === null || value === undefined ? null : Number(value);
}
