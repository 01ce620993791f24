/** How long a finished file can be downloaded, in days. */

export const EXPORT_KEPT_DAYS = 7;
export const SCHEDULED_EXPORT_KEPT_DAYS = 30;
/** As long as books are kept. */
export const MONTHLY_STATEMENT_KEPT_DAYS = 3_653;
