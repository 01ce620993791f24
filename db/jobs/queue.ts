/** The job catalogue: payload, retries and key of each job. Jobs are added in the caller's transaction, so a job exists exactly when its row does. */
import { z } from "zod";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { currentTraceparent } from "../../core/tracing/spans.ts";
import type { Tx } from "../postgres/client.ts";

const requestId = z.string().optional();
const network = z.enum(NETWORK_IDS);

type JobDefinition = {
  payload: z.ZodType;
  /** Attempts before the queue gives up; delays grow as e^n seconds, 25 attempts take about three days. */
  maxAttempts: number;
  /** Waiting jobs with the same key replace each other, so there is at most one. */
  key?: (payload: never) => string;
  /** Lower values run first. */
  priority: number;
};

export const JOBS = {
  relay_payments: {
    payload: z.object({ network, requestId }),
    maxAttempts: 25,
    key: (payload: { network: string }) => `relay_payments:${payload.network}`,
    priority: 0,
  },
  relay_operations: {
    payload: z.object({ network, requestId }),
    maxAttempts: 25,
    key: (payload: { network: string }) => `relay_operations:${payload.network}`,
    priority: 0,
  },
  check_claim: {
    payload: z.object({ claimId: z.string(), requestId }),
    maxAttempts: 25,
    key: (payload: { claimId: string }) => `check_claim:${payload.claimId}`,
    priority: 1,
  },
  send_otp_email: {
    payload: z.object({ otpId: z.string(), userId: z.string(), requestId }),
    maxAttempts: 25,
    key: (payload: { userId: string }) => `send_otp_email:${payload.userId}`,
    priority: 2,
  },
  send_wallet_file: {
    payload: z.object({ userId: z.string(), requestId }),
    maxAttempts: 25,
    key: (payload: { userId: string }) => `send_wallet_file:${payload.userId}`,
    priority: 6,
  },
  send_receipt_email: {
    payload: z.object({ receiptId: z.string() }),
    maxAttempts: 25,
    key: (payload: { receiptId: string }) => `send_receipt_email:${payload.receiptId}`,
    priority: 4,
  },
  issue_documents: {
    payload: z.object({ linkIds: z.array(z.string()) }),
    maxAttempts: 25,
    priority: 4,
  },
  send_notice: {
    payload: z.object({ noticeId: z.string() }),
    maxAttempts: 25,
    key: (payload: { noticeId: string }) => `send_notice:${payload.noticeId}`,
    priority: 3,
  },
  send_invitation: {
    payload: z.object({ invitationId: z.string(), requestId }),
    maxAttempts: 25,
    key: (payload: { invitationId: string }) => `send_invitation:${payload.invitationId}`,
    priority: 3,
  },
  deploy_wallet: {
    // isForRecovery: also where gas costs money
    payload: z.object({ walletId: z.string(), requestId, isForRecovery: z.literal(true).optional() }),
    maxAttempts: 12,
    key: (payload: { walletId: string }) => `deploy_wallet:${payload.walletId}`,
    priority: 5,
  },
  build_export: {
    payload: z.object({ exportId: z.string(), requestId }),
    maxAttempts: 5,
    key: (payload: { exportId: string }) => `build_export:${payload.exportId}`,
    priority: 3,
  },
  deliver_webhooks: {
    /** Due time, for delayed jobs. */
    payload: z.object({ at: z.string().optional() }).loose(),
    maxAttempts: 3,
    key: (payload: { at?: string | undefined }) => `deliver_webhooks:${payload.at ?? "now"}`,
    priority: 4,
  },
  close_months: {
    payload: z.object({}).loose(),
    maxAttempts: 3,
    key: () => "close_months",
    priority: 8,
  },
  fetch_rates: {
    payload: z.object({}).loose(),
    maxAttempts: 3,
    key: () => "fetch_rates",
    priority: 8,
  },
  run_schedules: {
    payload: z.object({}).loose(),
    maxAttempts: 3,
    key: () => "run_schedules",
    priority: 8,
  },
  housekeeping: {
    payload: z.object({}).loose(),
    maxAttempts: 3,
    key: () => "housekeeping",
    priority: 9,
  },
} as const satisfies Record<string, JobDefinition>;

export type JobName = keyof typeof JOBS;
export const KEYED_JOBS: readonly string[] = Object.entries(JOBS).flatMap(([name, job]) =>
  "key" in job ? [name] : [],
);
export type JobPayload<Name extends JobName> = z.infer<(typeof JOBS)[Name]["payload"]>;

/**
 * Adds a job, visible to the worker when `tx` commits. `runAt` delays it; if the condition `unless` holds, no job is added. It
 * carries the requesting trace, by default the current one.
 */
export async function enqueue<Name extends JobName>(
  tx: Tx,
  name: Name,
  payload: JobPayload<Name>,
  options: { runAt?: Date; unless?: ReturnType<Tx>; traceparent?: string | undefined } = {},
): Promise<void> {
  const { traceparent = currentTraceparent(), unless } = options;
  const job: JobDefinition = JOBS[name];
  const key = (job.key as ((payload: unknown) => string) | undefined)?.(payload) ?? null;
  await tx`
    select 1
    from graphile_worker.add_job(
      ${name}::text,
      payload => ${JSON.stringify({ ...payload, ...(traceparent ? { traceparent } : {}) })}::text::json,
      run_at => ${options.runAt ?? null}::timestamptz,
      max_attempts => ${job.maxAttempts}::int,
      job_key => ${key}::text,
      priority => ${job.priority}::int
    )
    ${unless ? tx`where not ${unless}` : tx``}`;
}

/** The trace that a job belongs to, if any. */
export function traceparentOf(payload: unknown): string | undefined {
  const parsed = tracedPayload.safeParse(payload);
  return parsed.success ? parsed.data.traceparent : undefined;
}

const tracedPayload = z.object({ traceparent: z.string() });

/** Parses a job's payload. Throws when it does not match the job's schema. */
export function parsePayload<Name extends JobName>(name: Name, payload: unknown): JobPayload<Name> {
  return JOBS[name].payload.parse(payload) as JobPayload<Name>;
}
