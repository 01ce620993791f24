/** The order fields of a link: limits and wire format. */
import { z } from "zod";
import { invalid } from "../../core/domain/errors.ts";
import {
  METADATA_KEY_MAX,
  METADATA_PAIRS_MAX,
  METADATA_VALUE_MAX,
  type OrderData,
  REFERENCE_MAX,
} from "../../core/domain/order-data.ts";
import { RETURN_URL_MAX, whyNotAReturnUrl } from "../../core/domain/return-url.ts";
import { emailSchema } from "../accounts/email-address.ts";

/** Text with a maximum length in characters as Postgres counts them. */
const text = (max: number) =>
  z
    .string()
    .refine((given) => Array.from(given).length <= max, `must have at most ${max} characters`)
    .refine((given) => given.isWellFormed() && !given.includes("\0"), "must be text")
    .meta({ maxLength: max });

/** One line, because it is signed line by line, printed in tables and compared with what people type. */
export const referenceSchema = text(REFERENCE_MAX)
  .refine(
    (given) => given.trim() !== "" && given.trim() === given,
    "must not be blank, or begin or end with spaces",
  )
  .refine((given) => !/[\p{Cc}\u2028\u2029]/u.test(given), "must be one line without control characters");

const metadata = z
  .record(
    text(METADATA_KEY_MAX).refine((key) => key !== "", "must not be empty"),
    text(METADATA_VALUE_MAX),
  )
  .refine(
    (pairs) => Object.keys(pairs).length <= METADATA_PAIRS_MAX,
    `must have at most ${METADATA_PAIRS_MAX} pairs`,
  );

const returnUrl = z
  .string()
  .max(RETURN_URL_MAX)
  .check((context) => {
    const fault = whyNotAReturnUrl(context.value);
    if (fault) context.issues.push({ code: "custom", message: fault, input: context.value });
  })
  // as normalised by the URL parser: without line breaks and surrounding spaces
  .transform((given) => new URL(given).href)
  .pipe(z.string().max(RETURN_URL_MAX));

export const orderFields = {
  reference: referenceSchema.optional().describe("Your own order number; payers see it"),
  uniqueReference: z
    .boolean()
    .optional()
    .describe("Refuse with 409 if another link of yours has this reference; also applies to later links"),
  metadata: metadata
    .optional()
    .describe(
      `At most ${METADATA_PAIRS_MAX} pairs of text, ${METADATA_KEY_MAX} and ${METADATA_VALUE_MAX} characters; never public`,
    ),
  customerEmail: emailSchema.optional().describe("Receives the receipt by e-mail; never public"),
  successUrl: returnUrl
    .optional()
    .describe(
      "Where the payer returns to once the link is PAID: https, or http on localhost; a signed query is added",
    ),
  cancelUrl: returnUrl.optional().describe("Where a payer returns to without paying"),
};

export const orderSchema = {
  reference: z.string().nullable(),
  metadata: z.record(z.string(), z.string()),
  customerEmail: z.string().nullable(),
  successUrl: z.string().nullable(),
  cancelUrl: z.string().nullable(),
};

type OrderBody = { [Field in keyof typeof orderFields]?: z.infer<(typeof orderFields)[Field]> };

/** Throws VALIDATION_ERROR when uniqueReference is set without a reference, and for metadata that would be lost. */
export function readOrder(body: OrderBody, bodyText: string): OrderData {
  if (body.uniqueReference && body.reference === undefined)
    throw invalid("uniqueReference", "needs a reference");
  if (body.metadata && hasProtoKey(bodyText)) throw invalid("metadata", "must not have the key __proto__");
  return {
    reference: body.reference ?? null,
    uniqueReference: body.uniqueReference ?? false,
    metadata: body.metadata ?? {},
    customerEmail: body.customerEmail ?? null,
    successUrl: body.successUrl ?? null,
    cancelUrl: body.cancelUrl ?? null,
  };
}

/** Parsing drops only this key from metadata, since it would become the object's prototype. */
function hasProtoKey(bodyText: string): boolean {
  const { metadata: sent } = JSON.parse(bodyText) as { metadata: object };
  return Object.hasOwn(sent, "__proto__");
}
