/** Values the movements of a period in a currency by the stored exchange rates. */
import {
  addDays,
  crossRates,
  type DayRate,
  type FiatChoice,
  OWN_RATES,
  RATE_AGE_MAX_DAYS,
} from "../../core/domain/exchange-rate.ts";
import { openValuation, type Valuation } from "../../core/domain/fiat.ts";
import type { Tx } from "../postgres/client.ts";
import { listOwnRates, listPublishedRates } from "./exchange-rates.ts";

/** For days from `firstDay` on. */
export async function readValuation(
  tx: Tx,
  choice: FiatChoice,
  { userId, firstDay }: { userId: string; firstDay: string },
): Promise<Valuation> {
  return openValuation(choice, await listDayRates(tx, choice, { userId, firstDay }));
}

/** Units of the currency for one USDC, with those before `firstDay` that may still count on it. */
export async function listDayRates(
  tx: Tx,
  choice: FiatChoice,
  { userId, firstDay }: { userId: string; firstDay: string },
): Promise<DayRate[]> {
  const from = addDays(firstDay, -RATE_AGE_MAX_DAYS);
  if (choice.source === OWN_RATES) return listOwnRates(tx, { userId, currency: choice.currency, from });
  return crossRates(await listPublishedRates(tx, choice, { from }), choice);
}
