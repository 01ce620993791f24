/** How many days a finished export can be downloaded before its file is deleted (`db/exports/exports.ts` sets the end of each), and how often a failed one is retried. */

export const EXPORT_KEPT_DAYS = 7;
export const SCHEDULED_EXPORT_KEPT_DAYS = 30;
/** The retention period for books. */
export const MONTHLY_STATEMENT_KEPT_DAYS = 3_653;

/** Consecutive attempts to create a file, a few seconds apart; then it is FAILED. */
export const EXPORT_ATTEMPTS_MAX = 3;
/** How long a file that must be complete waits for the ledger of its period. Waiting uses up no attempt; afterwards each failure does. */
export const LEDGER_WAIT_DAYS = 3;
/** How long a monthly statement that failed for a transient reason is retried. The failure notice is kept longer than this, so only one is sent. */
export const MONTHLY_STATEMENT_RETRY_DAYS = 60;
