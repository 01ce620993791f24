/** Fields about currencies and rates that requests share. */
import { z } from "zod";
import { invalid } from "../../core/domain/errors.ts";
import { DEFAULT_RATE_SOURCE, OWN_RATES } from "../../core/domain/exchange-rate.ts";
import { isCurrency } from "../../core/domain/fiat.ts";
import { listRateSources } from "../../db/exports/exchange-rates.ts";
import type { Tx } from "../../db/postgres/client.ts";

export const currencySchema = z
  .string()
  .refine(isCurrency, "must be an ISO 4217 currency code in capitals, for example EUR");

/** Fields of a request that values movements. */
export const fiatFields = {
  fiatCurrency: currencySchema
    .optional()
    .describe("Adds the value of each movement in this currency; default: that of your books settings"),
  correctedRates: z
    .boolean()
    .optional()
    .describe("Use rates as corrected later; default: as first published"),
};

/** Throws VALIDATION_ERROR. */
export async function refuseUnknownSource(tx: Tx, source: string | undefined): Promise<void> {
  if (source === undefined || source === OWN_RATES || source === DEFAULT_RATE_SOURCE) return;
  const known = await listRateSources(tx);
  if (!known.some((one) => one.source === source))
    throw invalid("rateSource", "must be a name of GET /v1/exchange-rates/sources, or own");
}
