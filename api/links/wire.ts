/** Payment links as they travel: schemas of what comes in and goes out, and how rows become them. */
import { z } from "zod";
import {
  isOpenStatus,
  LINK_DESCRIPTION_MAX,
  LINK_EXCEPTIONS,
  LINK_EXPIRY_DEFAULT_HOURS,
  LINK_EXPIRY_MAX_HOURS,
  LINK_STATUSES,
} from "../../core/domain/link.ts";
import { toAmountNumber } from "../../core/domain/money.ts";
import { DEFAULT_NETWORK, NETWORK_IDS, NETWORKS } from "../../core/domain/networks.ts";
import { defaultMerchantName } from "../../core/domain/user.ts";
import type { PublicLink } from "../../db/links/links.ts";
import type { PaymentLink } from "../../db/schema.ts";
import { isoTime } from "../http/envelope.ts";
import { queryNumber } from "../http/query.ts";
import { settledBy } from "../http/settled-by.ts";

export const LIST_LIMIT_DEFAULT = 20;
export const LIST_LIMIT_MAX = 100;

const userId = z.string().min(1).max(100);

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

export const createBody = z.object({
  userId: userId.optional().describe("Your own id, if any"),
  amount: z.number().describe("USDC, greater than 0 and at most 1,000,000, at most 6 decimals"),
  description,
  currency: z.literal("USDC").optional(),
  expiresInHours: z.int().min(1).max(LINK_EXPIRY_MAX_HOURS).default(LINK_EXPIRY_DEFAULT_HOURS),
  network: z.enum(NETWORK_IDS).default(DEFAULT_NETWORK),
});

export const ownQuery = z.object({ userId: userId.optional() });

export const listQuery = ownQuery.extend({
  limit: queryNumber({ min: 1, max: LIST_LIMIT_MAX, fallback: LIST_LIMIT_DEFAULT }),
  cursor: z.string().min(1).max(200).optional(),
  status: z.enum(LINK_STATUSES).optional(),
});

const linkFields = {
  id: z.string(),
  amount: z.number(),
  currency: z.literal("USDC"),
  description: z.string(),
  url: z.string().describe("Where a person pays"),
  aiUrl: z.string().describe("Where an agent pays, by x402"),
  network: z.enum(NETWORK_IDS),
  status: z.enum(LINK_STATUSES),
  exception: z.enum(LINK_EXCEPTIONS),
  settledBy,
  refundedAmount: z.number(),
  paidAt: isoTime.nullable(),
  expiresAt: isoTime,
  createdAt: isoTime,
};
export const linkSchema = z.object(linkFields);
export const singleLinkSchema = z.object({ ...linkFields, updatedAt: isoTime });
export const listSchema = z.object({
  links: z.array(linkSchema),
  nextCursor: z.string().nullable(),
  totalCount: z.int(),
  activeCount: z.int(),
  pagination: z.object({ hasNextPage: z.boolean(), limit: z.int() }),
});
export const statsSchema = z.object({
  totalLinks: z.int(),
  activeLinks: z.int(),
  paidLinks: z.int(),
  expiredLinks: z.int(),
  pendingLinks: z.int(),
  cancelledLinks: z.int(),
  totalEarnings: z.number(),
  totalRefunded: z.number(),
  currency: z.literal("USDC"),
});
export const publicLinkSchema = z.object({
  linkId: z.string(),
  merchantName: z.string(),
  amount: z.number(),
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
  payable: z.boolean().describe("Whether a payment would be accepted now, whatever claims say"),
  payAmount: z
    .number()
    .nullable()
    .describe("An amount that no other open link of the wallet asks for: pays exactly like `amount`"),
  tag: z
    .string()
    .nullable()
    .describe(
      "16 bytes that name the link: first half of an authorization's nonce, or behind a plain transfer's calldata",
    ),
  settledBy,
  paymentUncertain: z
    .boolean()
    .describe("An earlier payment may turn out executed; stops nobody from paying"),
});

type Addresses = { baseUrl: string };

export function presentLink(link: PaymentLink, { baseUrl }: Addresses): z.infer<typeof linkSchema> {
  return {
    id: link.id,
    amount: toAmountNumber(link.amountUnits),
    currency: "USDC",
    description: link.description,
    url: `${baseUrl}/pay/${link.id}`,
    aiUrl: `${baseUrl}/v1/x402/${link.id}`,
    network: link.network,
    status: link.status,
    exception: link.exception,
    settledBy: link.settledBy,
    refundedAmount: toAmountNumber(link.refundedUnits),
    paidAt: link.paidAt?.toISOString() ?? null,
    expiresAt: link.expiresAt.toISOString(),
    createdAt: link.createdAt.toISOString(),
  };
}

export function presentSingleLink(link: PaymentLink, addresses: Addresses): z.infer<typeof singleLinkSchema> {
  return { ...presentLink(link, addresses), updatedAt: link.updatedAt.toISOString() };
}

export function presentPublicLink(
  link: PublicLink,
  { baseUrl }: Addresses,
): z.infer<typeof publicLinkSchema> {
  const { chainId, usdc } = NETWORKS[link.network];
  return {
    linkId: link.id,
    merchantName: link.displayName ?? defaultMerchantName(link.email),
    amount: toAmountNumber(link.amountUnits),
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
  };
}

/** PENDING that rests on claims alone keeps nobody from paying. */
function isPayable({ status, isFree }: PublicLink): boolean {
  return isFree && isOpenStatus(status);
}
