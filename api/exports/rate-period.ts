/** The range of days allowed in a request about exchange rates. */
import { invalid } from "../../core/domain/errors.ts";
import { addDays } from "../../core/domain/exchange-rate.ts";

/** Maximum days per request. */
const DAYS_MAX = 366;

type Period = { dateFrom: string; dateTo: string };

/** Throws VALIDATION_ERROR. */
export function refusePeriod({ dateFrom, dateTo }: Period): void {
  refuseOrder({ dateFrom, dateTo });
  if (addDays(dateFrom, DAYS_MAX - 1) < dateTo)
    throw invalid("dateTo", `must be less than ${DAYS_MAX} days after dateFrom`);
}

/** Without a limit on the number of days, for requests whose cost does not depend on it. Throws VALIDATION_ERROR. */
export function refuseOrder({ dateFrom, dateTo }: Period): void {
  if (dateFrom > dateTo) throw invalid("dateFrom", "must not be after dateTo");
}
