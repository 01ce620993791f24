/**
 * Delivers webhook messages that are due, at least once, with a stable message id. The job only starts deliveries: each runs independently, within
 * bounds, and starts the next when it ends, so that slow receivers do not occupy job slots. A crashed worker's leases expire, and its
 * messages are sent again.
 */

import { presentEventData } from "../../core/domain/event-data.ts";
import { type KeyList, tryUnseal } from "../../core/domain/seal-secrets.ts";
import { messageBody, messageHeaders } from "../../core/domain/webhook.ts";
import { retryAfterS, whyDisable } from "../../core/domain/webhook-failures.ts";
import type { Log } from "../../core/runtime/log.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import type { Sql } from "../../db/postgres/client.ts";
import {
  type AttemptResult,
  findNextDue,
  markDelivered,
  markFailedTry,
  type TakenDelivery,
  takeDeliveries,
} from "../../db/webhooks/deliveries.ts";
import { findSubjects, subjectOf } from "../../db/webhooks/event-subjects.ts";
import { disableEndpoint } from "../../db/webhooks/webhooks.ts";
import { postWebhook, WebhookError } from "./public-request.ts";

export type WebhookDeps = {
  sql: Sql;
  log: Log;
  config: { baseUrl: string; webhookSealKeys: KeyList; webhookPrivateTargets: boolean };
  /** Once aborted no delivery begins. */
  stop: AbortSignal;
};

/** Maximum deliveries in flight: per process, and over all processes per endpoint and per user. */
const IN_FLIGHT_MAX = 64;
const PER_ENDPOINT = 2;
const PER_USER = 6;
/** Longer than any request: when it expires, the worker has crashed. */
const LEASE_S = 60;
const RESPONSE_KEPT_CHARS = 1_000;
/** Shown to the owner of the endpoint. */
const UNREADABLE_SECRET = "the endpoint's secret can no longer be decrypted: rotate the secret";
const NOT_SENT = "service error: the message was not sent";

let inFlight = 0;
const idle = new Set<() => void>();
let taking: Promise<void> | undefined;
let takingNext: Promise<void> | undefined;

/**
 * Returns as soon as everything that was due at the call is in flight. Deliveries are leased by one call at a time: concurrent calls share the
 * next run.
 */
export function deliverWebhooks(deps: WebhookDeps): Promise<void> {
  if (taking === undefined) {
    taking = takeDue(deps).finally(() => {
      taking = undefined;
    });
    return taking;
  }
  takingNext ??= taking
    .catch(() => undefined)
    .then(() => {
      takingNext = undefined;
      return deliverWebhooks(deps);
    });
  return takingNext;
}

/**
 * Waits, once `deps.stop` is aborted, until nothing is in flight, leaves what is due to the other processes, and waits for `queueEnded`. A process that ended
 * earlier would leave sent messages without a result, which are sent again when their leases expire.
 */
export async function endDeliveries({ sql }: WebhookDeps, queueEnded: Promise<void>): Promise<void> {
  await taking?.catch(() => undefined);
  if (inFlight > 0) await new Promise<void>((resolve) => idle.add(resolve));
  // now, in case the queue does not end in time; and again, in case it still took that job
  await enqueue(sql, "deliver_webhooks", {});
  await queueEnded;
  await enqueue(sql, "deliver_webhooks", {});
}

async function takeDue(deps: WebhookDeps): Promise<void> {
  if (deps.stop.aborted) return;
  const free = IN_FLIGHT_MAX - inFlight;
  if (free <= 0) return;
  const taken = await deps.sql.begin((tx) =>
    takeDeliveries(tx, { limit: free, leaseS: LEASE_S, perEndpoint: PER_ENDPOINT, perUser: PER_USER }),
  );
  inFlight += taken.length;
  for (const delivery of taken) void deliverOne(deps, delivery);
  if (taken.length < free) await scheduleNext(deps);
}

/** Schedules a run for when the next attempt is due. Jobs for the same moment are deduplicated. */
async function scheduleNext({ sql }: WebhookDeps): Promise<void> {
  const due = await findNextDue(sql);
  if (due) await enqueue(sql, "deliver_webhooks", { at: due.toISOString() }, { runAt: due });
}

async function deliverOne(deps: WebhookDeps, delivery: TakenDelivery): Promise<void> {
  const { log } = deps;
  const label = { deliveryId: delivery.id, endpointId: delivery.endpointId, eventId: delivery.eventPublicId };
  try {
    const result = await send(deps, delivery).catch((error: unknown) => {
      log.error({ ...label, err: error }, "webhook not sent");
      return failed(NOT_SENT);
    });
    await recordResult(deps, delivery, result);
    log.info(
      { ...label, status: result.status, error: result.error, attempt: delivery.attempts },
      "webhook sent",
    );
  } catch (error) {
    // the lease expires, and it is sent again
    log.warn({ ...label, err: error }, "webhook result could not be recorded");
  } finally {
    inFlight -= 1;
    if (inFlight === 0) for (const resolve of idle) resolve();
  }
  await deliverWebhooks(deps).catch((error: unknown) =>
    log.warn({ err: error }, "webhooks could not be leased"),
  );
}

function failed(error: string, durationMs = 0): AttemptResult {
  return { status: undefined, error, response: undefined, durationMs };
}

/** The secrets that sign, the current one first; an old one that no key decrypts is left out. Undefined when no key decrypts the current one. */
function unsealSecrets(
  { webhookSealKeys }: WebhookDeps["config"],
  delivery: TakenDelivery,
): string[] | undefined {
  const open = (sealed: Uint8Array | null) =>
    sealed === null
      ? undefined
      : tryUnseal(webhookSealKeys, { purpose: "webhook secret", id: delivery.endpointId }, sealed)?.text;
  const secret = open(delivery.sealedSecret);
  if (secret === undefined) return undefined;
  const oldSecret = open(delivery.sealedOldSecret);
  return oldSecret === undefined ? [secret] : [secret, oldSecret];
}

async function send({ sql, config }: WebhookDeps, delivery: TakenDelivery): Promise<AttemptResult> {
  const secrets = unsealSecrets(config, delivery);
  if (!secrets) return failed(UNREADABLE_SECRET);
  const subject = subjectOf(await findSubjects(sql, [delivery]), delivery);
  const startedMs = performance.now();
  const body = messageBody({ ...delivery, data: presentEventData(delivery.data, subject, config) });
  const message = { id: delivery.eventPublicId, timestampS: Math.floor(Date.now() / 1000), body };
  const sent = {
    headers: messageHeaders(message, secrets),
    body,
    allowPrivate: config.webhookPrivateTargets,
  };
  try {
    const answer = await postWebhook(new URL(delivery.url), sent);
    const isGood = answer.status >= 200 && answer.status < 300;
    return {
      status: answer.status,
      error: isGood ? undefined : `answered ${answer.status}`,
      response: answer.body.slice(0, RESPONSE_KEPT_CHARS).replaceAll("\0", "") || undefined,
      durationMs: performance.now() - startedMs,
    };
  } catch (error) {
    if (!(error instanceof WebhookError)) throw error;
    return failed(error.message, performance.now() - startedMs);
  }
}

async function recordResult(
  { sql, log }: WebhookDeps,
  delivery: TakenDelivery,
  result: AttemptResult,
): Promise<void> {
  await sql.begin(async (tx) => {
    if (result.error === undefined) return markDelivered(tx, delivery, result);
    const retryS = retryAfterS(delivery.tries);
    const failingSince = await markFailedTry(tx, delivery, result, retryS);
    const failingMs = failingSince ? Date.now() - failingSince.getTime() : 0;
    const reason = whyDisable(result.status, failingMs);
    if (!reason) return;
    const { endpointId: id, url } = delivery;
    if (await disableEndpoint(tx, { id, url }, reason))
      log.warn({ endpointId: id, reason }, "webhook endpoint disabled");
  });
}
