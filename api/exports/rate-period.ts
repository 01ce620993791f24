/** The days that a request about exchange rates may name. */
import { invalid } from "../../core/domain/errors.ts";
import { addDays } from "../../core/domain/exchange-rate.ts";

/** Days of one request. */
const DAYS_MAX = 366;

type Period = { dateFrom: string; dateTo: string };

/** Throws VALIDATION_ERROR. */
export function refusePeriod({ dateFrom, dateTo }: Period): void {
  refuseOrder({ dateFrom, dateTo });
  if (addDays(dateFrom, DAYS_MAX - 1) < dateTo)
    throw invalid("dateTo", `must be less than ${DAYS_MAX} days after dateFrom`);
}

/** For what costs the same whatever number of days it names. Throws VALIDATION_ERROR. */
export function refuseOrder({ dateFrom, dateTo }: Period): void {
  if (dateFrom > dateTo) throw invalid("dateFrom", "must not be after dateTo");
}
