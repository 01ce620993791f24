/** How long a send, a refund or an owner change can be signed after its preparation, and how long a signed one may wait to be sent. */

/** From preparation: a signature that arrives later is refused. */
export const OPERATION_LIFE_MS = 10 * 60_000;
/** A queued operation that was not sent within this time is never sent: after an outage or a restored backup its user no longer expects it. */
export const SEND_WITHIN_S = 15 * 60;
