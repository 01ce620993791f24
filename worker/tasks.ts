/** Maps the job types to the functions that run them. Payloads are parsed here. */
import type { TaskList } from "graphile-worker";
import type { NetworkId } from "../core/domain/networks.ts";
import { traced } from "../core/tracing/spans.ts";
import { type JobName, type JobPayload, parsePayload, traceparentOf } from "../db/jobs/queue.ts";
import type { WorkerDeps } from "./deps.ts";
import { issueDocuments } from "./documents/issue-documents-job.ts";
import { buildExport } from "./exports/build-export.ts";
import { fetchRates } from "./exports/rates/fetch-rates.ts";
import { runSchedules } from "./exports/run-due-schedules.ts";
import { closeMonths } from "./exports/statement/close-months.ts";
import { housekeeping } from "./jobs/housekeeping.ts";
import { checkClaim } from "./links/check-claims.ts";
import type { Mailer } from "./mail/mailer.ts";
import { sendInvitation } from "./mail/send-invitation.ts";
import { sendNotice } from "./mail/send-notice.ts";
import { sendOtpEmail } from "./mail/send-otp-email.ts";
import { sendReceiptEmail } from "./mail/send-receipt-email.ts";
import { sendWalletFile } from "./mail/send-wallet-file.ts";
import type { RelayNetwork } from "./sender/relay-network.ts";
import { deployWallet } from "./wallet-ops/deploy-wallet.ts";
import { deliverWebhooks } from "./webhooks/deliver-webhooks.ts";

type Handlers = { [Name in JobName]: (payload: JobPayload<Name>) => Promise<void> };

export function openTasks(
  deps: WorkerDeps & { mailer: Mailer },
  networks: ReadonlyMap<NetworkId, RelayNetwork>,
  drains: ReadonlyMap<NetworkId, () => Promise<void>>,
  operationDrains: ReadonlyMap<NetworkId, () => Promise<void>>,
): TaskList {
  const handlers: Handlers = {
    relay_payments: async ({ network }) => drains.get(network)?.(),
    relay_operations: async ({ network }) => operationDrains.get(network)?.(),
    check_claim: (payload) => checkClaim(deps, payload),
    send_otp_email: (payload) => sendOtpEmail(deps, payload),
    send_wallet_file: (payload) => sendWalletFile(deps, payload),
    send_receipt_email: (payload) => sendReceiptEmail(deps, payload),
    issue_documents: (payload) => issueDocuments(deps, payload),
    send_invitation: (payload) => sendInvitation(deps, payload),
    send_notice: (payload) => sendNotice(deps, payload),
    deploy_wallet: (payload) => deployWallet(networks, payload),
    build_export: (payload) => buildExport(deps, payload),
    deliver_webhooks: () => deliverWebhooks(deps),
    close_months: () => closeMonths(deps),
    fetch_rates: () => fetchRates(deps),
    run_schedules: () => runSchedules(deps),
    housekeeping: (payload) => housekeeping(deps, payload),
  };
  const names = Object.keys(handlers) as JobName[];
  return Object.fromEntries(names.map((name) => [name, (payload: unknown) => run(handlers, name, payload)]));
}

function run<Name extends JobName>(handlers: Handlers, name: Name, payload: unknown): Promise<void> {
  const parent = traceparentOf(payload);
  return traced(`job ${name}`, { kind: "consumer", parent }, () =>
    handlers[name](parsePayload(name, payload)),
  );
}
