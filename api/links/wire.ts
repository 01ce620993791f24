/** The wire format of payment links: request and response schemas, and how rows map to them. */
import { getAddress } from "viem";
import { z } from "zod";
import {
  isOpenStatus,
  LINK_DESCRIPTION_MAX,
  LINK_EXCEPTIONS,
  LINK_STATUSES,
} from "../../core/domain/link.ts";
import { LINK_EXPIRY_DEFAULT_HOURS, LINK_EXPIRY_MAX_HOURS } from "../../core/domain/link-expiry.ts";
import { isTimeZone } from "../../core/domain/local-time.ts";
import { toAmountNumber } from "../../core/domain/money.ts";
import { DEFAULT_NETWORK, NETWORK_IDS, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { REFERENCE_MAX } from "../../core/domain/order-data.ts";
import { presentReuse } from "../../core/domain/present-link.ts";
import { signReturnUrl } from "../../core/domain/return-url.ts";
import type { KeyList } from "../../core/domain/seal-secrets.ts";
import { defaultMerchantName } from "../../core/domain/user.ts";
import type { PublicLink } from "../../db/links/links.ts";
import type { LinkPayment } from "../../db/links/uses.ts";
import { emailSchema } from "../accounts/email-address.ts";
import { isoTime } from "../http/envelope.ts";
import { pageLimit } from "../http/list-pages.ts";
import { userId } from "../http/own-user-id.ts";
import { knownQuery, queryNumber } from "../http/query.ts";
import { settledBy } from "../http/settled-by-schema.ts";
import { orderFields, orderSchema } from "./order-fields.ts";
import { openReturnSecret } from "./return-secret.ts";
import { reuseFields, reuseSchema } from "./reusable-fields.ts";

/** Characters as Postgres counts them. */
const description = z
  .string()
  .refine((text) => text.trim() !== "", "must not be blank")
  .refine(
    (text) => Array.from(text).length <= LINK_DESCRIPTION_MAX,
    `must have at most ${LINK_DESCRIPTION_MAX} characters`,
  )
  .refine((text) => text.isWellFormed() && !text.includes("\0"), "must be text")
  .meta({ minLength: 1, maxLength: LINK_DESCRIPTION_MAX });

const discoverable = z
  .boolean()
  .describe("Listed for agents at /.well-known/x402, with description, price and display name");

export const updateBody = z.strictObject({ discoverable }).meta({ id: "UpdatePaymentLink" });

export const createBody = z
  .strictObject({
    userId: userId.optional().describe("Your own user id, if given"),
    ...reuseFields,
    description,
    currency: z.literal("USDC").optional(),
    expiresInHours: z.int().min(1).max(LINK_EXPIRY_MAX_HOURS).default(LINK_EXPIRY_DEFAULT_HOURS),
    network: z.enum(NETWORK_IDS).default(DEFAULT_NETWORK),
    discoverable: discoverable.default(false),
    ...orderFields,
  })
  .meta({ id: "CreatePaymentLink" });

const own = { userId: userId.optional() };
export const ownQuery = z.object(own);

const page = { limit: pageLimit(20), cursor: z.string().min(1).max(200).optional() };
export const listQuery = knownQuery({
  ...own,
  ...page,
  status: z.enum(LINK_STATUSES).optional(),
  reference: z.string().min(1).max(REFERENCE_MAX).optional().describe("With exactly this reference"),
  customerEmail: emailSchema.optional().describe("For this customer; case-insensitive"),
  exception: z
    .literal("any")
    .optional()
    .describe("Links paid late, twice, too much or too little; not with reference"),
});

export const STATS_DAYS_MAX = 90;
const STATS_DAYS_DEFAULT = 30;

export const statsQuery = knownQuery({
  ...own,
  by: z.literal("day").optional().describe("Adds `days` and `daysByNetwork`"),
  days: queryNumber({ min: 1, max: STATS_DAYS_MAX, fallback: STATS_DAYS_DEFAULT }),
  timeZone: z
    .string()
    .max(64)
    // an offset such as +02:00 has no daylight saving time
    .refine(
      (zone) => /^[a-z]/i.test(zone) && isTimeZone(zone),
      "must be an IANA time zone, for example Europe/Berlin",
    )
    .default("UTC"),
});

export const paymentsQuery = knownQuery({ ...own, ...page });

const linkFields = {
  id: z.string(),
  ...reuseSchema,
  currency: z.literal("USDC"),
  description: z.string(),
  url: z.string().describe("Where a person pays"),
  aiUrl: z.string().describe("Where an agent pays, by x402"),
  network: z.enum(NETWORK_IDS),
  status: z.enum(LINK_STATUSES),
  discoverable,
  exception: z.enum(LINK_EXCEPTIONS),
  settledBy,
  refundedAmount: z.number(),
  paidAt: isoTime.nullable(),
  expiresAt: isoTime,
  createdAt: isoTime,
  ...orderSchema,
  usedUp: z.boolean().optional().describe("In lists: no place is left"),
};
export const linkSchema = z.object(linkFields).meta({ id: "PaymentLink" });
export const singleLinkSchema = z
  .object({ ...linkFields, updatedAt: isoTime })
  .meta({ id: "PaymentLinkDetail" });
export const listSchema = z
  .object({
    links: z.array(linkSchema),
    nextCursor: z.string().nullable(),
    totalCount: z.int(),
    activeCount: z.int(),
    pagination: z.object({ hasNextPage: z.boolean(), limit: z.int() }),
  })
  .meta({ id: "PaymentLinkList" });
const receivedDay = z.object({ date: z.string(), received: z.string().describe("USDC"), count: z.int() });
export const statsSchema = z
  .object({
    totalLinks: z.int(),
    activeLinks: z.int(),
    paidLinks: z.int(),
    expiredLinks: z.int(),
    pendingLinks: z.int(),
    cancelledLinks: z.int(),
    totalEarnings: z.number().describe("Gross of PAID links on every network, test networks included"),
    totalRefunded: z.number(),
    currency: z.literal("USDC"),
    days: z
      .array(receivedDay)
      .optional()
      .describe("Oldest first, today last; all confirmed USDC, on every network"),
    daysByNetwork: z
      .array(z.object({ network: z.enum(NETWORK_IDS), days: z.array(receivedDay) }))
      .optional()
      .describe("The same for each network"),
  })
  .meta({ id: "PaymentLinkStats" });
export const publicLinkSchema = z
  .object({
    linkId: z.string(),
    merchantName: z.string(),
    ...reuseSchema,
    reusable: z
      .boolean()
      .describe(
        "Paid through uses: POST …/uses opens one, which is a separate link; x402 pays this link directly",
      ),
    currency: z.literal("USDC"),
    network: z.enum(NETWORK_IDS),
    recipientAddress: z.string(),
    description: z.string(),
    status: z.enum(LINK_STATUSES),
    expiresAt: isoTime,
    chainId: z.int(),
    tokenAddress: z.string(),
    aiUrl: z.string(),
    exception: z.enum(LINK_EXCEPTIONS),
    payable: z.boolean().describe("Whether a payment would be accepted now; claims are not considered"),
    payAmount: z
      .number()
      .nullable()
      .describe("An amount unique among the wallet's open links; paying it is the same as paying `amount`"),
    tag: z
      .string()
      .nullable()
      .describe(
        "16 bytes that identify the link: the first half of an authorization's nonce, or appended to a plain transfer's calldata",
      ),
    settledBy,
    paymentUncertain: z
      .boolean()
      .describe("An earlier payment may still have been executed; does not prevent a payment"),
    recipientChecksumAddress: z.string().describe("`recipientAddress` with its checksum (EIP-55)"),
    token: z
      .object({ address: z.string(), name: z.string(), version: z.string() })
      .describe("USDC on this network, with the name and version of its EIP-712 domain"),
    explorerUrl: z.string().describe("Append a transaction hash to get its page"),
    refundedAmount: z.number(),
    paidAt: isoTime.nullable(),
    transactionHash: z.string().nullable().describe("The transaction that paid it; null before it is PAID"),
    payer: z.string().nullable().describe("Sender of its transfer; null before it is PAID"),
    confirmations: z
      .int()
      .nullable()
      .describe("Confirmations of the paying transfer, its own block included; null while in no block"),
    confirmationsNeeded: z.int().describe("Confirmations needed until it is PAID"),
    now: isoTime.describe("The server's time, to compare `expiresAt` with"),
    reference: z.string().nullable().describe("The merchant's own order number"),
    successUrl: z.string().nullable(),
    cancelUrl: z.string().nullable(),
    returnUrl: z
      .string()
      .nullable()
      .describe(
        "Where the payer returns to: successUrl once PAID, cancelUrl while unpaid, with `linkId, reference, status, at, sig` in the query",
      ),
  })
  .meta({ id: "PublicPaymentLink" });
export const linkPaymentsSchema = z
  .object({
    payments: z.array(
      z.object({
        linkId: z.string().describe("The id of the use that was paid; pass it to refunds and receipts"),
        paymentId: z.string().nullable(),
        transactionId: z.string().nullable(),
        status: z.enum(LINK_STATUSES),
        amount: z.number(),
        refundedAmount: z.number(),
        payer: z.string().nullable(),
        transactionHash: z.string().nullable(),
        paidAt: isoTime.nullable(),
        receiptUrl: z.string().nullable(),
        createdAt: isoTime,
      }),
    ),
    nextCursor: z.string().nullable(),
    pagination: z.object({ hasNextPage: z.boolean(), limit: z.int() }),
  })
  .meta({ id: "LinkPaymentList" });

export function presentLinkPayment(row: LinkPayment, { baseUrl }: Addresses) {
  return {
    linkId: row.linkId,
    paymentId: row.paymentId,
    transactionId: row.transactionId,
    status: row.status,
    amount: toAmountNumber(row.amountUnits),
    refundedAmount: toAmountNumber(row.refundedUnits),
    payer: row.payer,
    transactionHash: row.txHash,
    paidAt: row.paidAt?.toISOString() ?? null,
    receiptUrl: row.status === "PAID" ? `${baseUrl}/pay/${row.linkId}/receipt` : null,
    createdAt: row.createdAt.toISOString(),
  };
}

export type PublicLinkData = z.infer<typeof publicLinkSchema>;

/** For a link that is paid once, whose amount is known. */
export type FixedLinkData = Omit<PublicLinkData, "amount"> & { amount: number };

type Addresses = { baseUrl: string };
type PublicSettings = Addresses & {
  chains: readonly { id: NetworkId; confirmations: number }[];
  webhookSealKeys: KeyList;
};

export function presentPublicLink(link: PublicLink, settings: PublicSettings): PublicLinkData {
  const { baseUrl, chains } = settings;
  const { chainId, usdc, explorerUrl } = NETWORKS[link.network];
  const isPaid = link.status === "PAID";
  const confirmationsNeeded = chains.find(({ id }) => id === link.network)?.confirmations ?? 1;
  return {
    linkId: link.id,
    merchantName: link.displayName ?? defaultMerchantName(link.email),
    ...presentReuse(link),
    reusable: link.isReusable,
    currency: "USDC",
    network: link.network,
    recipientAddress: link.recipient,
    description: link.description,
    status: link.status,
    expiresAt: link.expiresAt.toISOString(),
    chainId,
    tokenAddress: usdc.address,
    aiUrl: `${baseUrl}/v1/x402/${link.id}`,
    exception: link.exception,
    payable: isPayable(link),
    payAmount: link.payAmountUnits === null ? null : toAmountNumber(link.payAmountUnits),
    tag: link.tag,
    settledBy: link.settledBy,
    paymentUncertain: link.isUncertain,
    recipientChecksumAddress: getAddress(link.recipient),
    token: usdc,
    explorerUrl,
    refundedAmount: toAmountNumber(link.refundedUnits),
    paidAt: link.paidAt?.toISOString() ?? null,
    transactionHash: isPaid ? link.payingTxHash : null,
    payer: isPaid ? link.payingFrom : null,
    confirmations: link.payingDepth === null ? null : Math.min(link.payingDepth, confirmationsNeeded),
    confirmationsNeeded,
    now: link.now.toISOString(),
    reference: link.reference,
    successUrl: link.successUrl,
    cancelUrl: link.cancelUrl,
    returnUrl: returnUrlOf(link, settings),
  };
}

/** No return URL while a payment is in progress: a payer who returns as "cancelled" might pay again elsewhere. */
function returnUrlOf(link: PublicLink, { webhookSealKeys }: PublicSettings): string | null {
  const { id: linkId, userId, status, reference, sealedReturnSecret } = link;
  const target =
    status === "PAID" ? link.successUrl : status === "PENDING" && !isPayable(link) ? null : link.cancelUrl;
  if (target === null || sealedReturnSecret === null) return null;
  const secret = openReturnSecret(webhookSealKeys, userId, sealedReturnSecret);
  return secret === undefined
    ? null
    : signReturnUrl(target, { linkId, reference, status, at: statusSince(link) }, secret);
}

/** The same on every read, so that readers see a change only when there is one. */
function statusSince({ status, paidAt, expiresAt, updatedAt }: PublicLink): Date {
  if (status === "PAID") return paidAt ?? updatedAt;
  return status === "EXPIRED" ? expiresAt : updatedAt;
}

/** PENDING only because of claims does not prevent a payment. */
function isPayable({ status, isFree, isUsedUp }: PublicLink): boolean {
  return isFree && !isUsedUp && isOpenStatus(status);
}
