/** The wire format of reusable links: how often a link can be paid, and whether the payer chooses the amount. */
import { z } from "zod";
import { invalid } from "../../core/domain/errors.ts";
import { LINK_AMOUNT_MAX_UNITS } from "../../core/domain/link.ts";
import {
  isTooFine,
  MAX_PAYMENTS_LIMIT,
  PAID_ONCE,
  type ReuseTerms,
} from "../../core/domain/reusable-link.ts";
import { readAmountUnits } from "./parse-amount.ts";

const amount = z.number();

export const reuseFields = {
  amount: amount
    .nullable()
    .describe(
      "USDC, greater than 0 and at most 1,000,000, at most 6 decimals; null with minAmount or maxAmount: the payer chooses",
    ),
  maxPayments: z
    .int()
    .min(1)
    .max(MAX_PAYMENTS_LIMIT)
    .nullable()
    .default(1)
    .describe("How many payments it accepts until it expires; null: unlimited"),
  minAmount: amount
    .optional()
    .describe("With `amount: null`: the smallest amount a payer may choose; default 0.00001"),
  maxAmount: amount
    .optional()
    .describe("With `amount: null`: the largest amount a payer may choose; default 1,000,000"),
};

export const reuseSchema = {
  amount: z.number().nullable().describe("null when the payer chooses"),
  maxPayments: z.int().nullable().describe("Null: no end"),
  minAmount: z.number().nullable(),
  maxAmount: z.number().nullable(),
  parentId: z.string().nullable().describe("For one payment of a reusable link: the reusable link"),
};

type ReuseBody = {
  amount: number | null;
  maxPayments: number | null;
  minAmount?: number | undefined;
  maxAmount?: number | undefined;
};

const LEAST_CHOICE_UNITS = 10n;

/** The amount (the minimum when the payer chooses) and the terms of reuse. Throws VALIDATION_ERROR. */
export function readReuse(
  bodyText: string,
  body: ReuseBody & { customerEmail?: string | undefined },
): { amountUnits: bigint; reuse: ReuseTerms } {
  const { amount, maxPayments, minAmount, maxAmount } = body;
  if (maxPayments !== 1 && body.customerEmail !== undefined)
    throw invalid("customerEmail", "is only for links that are paid once");
  if (amount !== null) {
    if (minAmount !== undefined || maxAmount !== undefined)
      throw invalid(minAmount === undefined ? "maxAmount" : "minAmount", "requires amount to be null");
    const amountUnits = readAmountUnits(bodyText, "amount", amount);
    if (maxPayments === 1) return { amountUnits, reuse: PAID_ONCE };
    return { amountUnits, reuse: { isReusable: true, maxPayments, minUnits: null, maxUnits: null } };
  }
  // a shop that failed to send its amount must not get a link that accepts any amount
  if (minAmount === undefined && maxAmount === undefined)
    throw invalid("amount", "may be null only with minAmount or maxAmount");
  if (body.customerEmail !== undefined)
    throw invalid("customerEmail", "is only for links with a fixed amount");
  const minUnits = readBound(bodyText, "minAmount", minAmount) ?? LEAST_CHOICE_UNITS;
  const maxUnits = readBound(bodyText, "maxAmount", maxAmount) ?? LINK_AMOUNT_MAX_UNITS;
  if (minUnits > maxUnits) throw invalid("maxAmount", "must be at least minAmount");
  return { amountUnits: minUnits, reuse: { isReusable: true, maxPayments, minUnits, maxUnits } };
}

function readBound(bodyText: string, field: string, given: number | undefined): bigint | undefined {
  if (given === undefined) return undefined;
  const units = readAmountUnits(bodyText, field, given);
  if (isTooFine(units)) throw invalid(field, "must have at most 5 decimals");
  return units;
}
