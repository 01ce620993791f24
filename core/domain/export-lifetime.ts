/** How many days a finished export can be downloaded before its file is deleted (`db/exports/exports.ts` sets the end of each), and how often one is tried. */

export const EXPORT_KEPT_DAYS = 7;
export const SCHEDULED_EXPORT_KEPT_DAYS = 30;
/** As long as books are kept. */
export const MONTHLY_STATEMENT_KEPT_DAYS = 3_653;

/** Attempts in a row to make a file, a few seconds apart; then it is FAILED. */
export const EXPORT_ATTEMPTS_MAX = 3;
/** How long a monthly statement is made again that failed for a passing reason. The notice of its failure is kept longer, so there is one. */
export const MONTHLY_STATEMENT_TRIED_DAYS = 60;
