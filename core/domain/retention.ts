/**
 * How long rows are kept before housekeeping deletes them (db/jobs/delete-old-rows.ts): events 90 days, webhook deliveries 30, the
 * security trail two years, and so on. Files of finished exports: export-lifetime.ts.
 */

/** Unless EVENTS_KEPT_DAYS says otherwise. */
export const EVENTS_KEPT_DAYS_DEFAULT = 90;
/** Once delivered, or failed permanently. */
export const WEBHOOK_DELIVERIES_KEPT_DAYS = 30;
/** What auditors ask for. */
export const SECURITY_TRAIL_KEPT_DAYS = 730;
/** Claims without effect. */
export const ENDED_CLAIMS_KEPT_DAYS = 90;
export const NOTICES_KEPT_DAYS = 90;
/** After an answer, or the expiry. */
export const INVITATIONS_KEPT_DAYS = 30;
/** Accounts whose e-mail address was never verified: nothing could be attached to them. */
export const UNVERIFIED_USERS_KEPT_DAYS = 30;
export const IDEMPOTENCY_KEYS_KEPT_DAYS = 7;
/** Longer than a code lives, because the codes of an hour are counted. */
export const OTPS_KEPT_DAYS = 2;
/** Daily costs of relays. */
export const RELAY_COSTS_KEPT_DAYS = 30;
/** Reconciliations that found differences; of the others only the newest is kept. */
export const RECONCILIATIONS_KEPT_DAYS = 30;
export const TRACES_KEPT_DAYS = 1;
/** Of the job queue, failed permanently. */
export const DEAD_JOBS_KEPT_DAYS = 7;
/** After the relay's end. Until its block is final a reorganisation may call for its bytes again; from then on the chain has them. */
export const SIGNED_BYTES_KEPT_HOURS = 1;
/** Leases of workers that relay payments, after they expired. */
export const PAYMENT_LEASES_KEPT_HOURS = 1;
/** Which request a payment came with, for log lines while it is in flight. */
export const PAYMENT_REQUESTS_KEPT_HOURS = 1;
