/** How many days a finished export can be downloaded before its file is deleted; `db/exports/exports.ts` sets the end of each. */

export const EXPORT_KEPT_DAYS = 7;
export const SCHEDULED_EXPORT_KEPT_DAYS = 30;
/** As long as books are kept. */
export const MONTHLY_STATEMENT_KEPT_DAYS = 3_653;
