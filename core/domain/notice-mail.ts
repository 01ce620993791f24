/**
 * Notice mails: to a merchant about a wallet, a sign-in, a statement or an export. Each says what happened and what to do if the reader
 * did not cause it. One mail for each event, to the e-mail address of the account, written with `addNotice` of db/notices/notices.ts.
 * Pure.
 */
import { MONTHLY_STATEMENT_RETRY_DAYS, SCHEDULED_EXPORT_KEPT_DAYS } from "./export-lifetime.ts";
import { type MailText, mailDocument, mailParagraph } from "./mail-html.ts";
import { type Hex, isNetworkId, NETWORKS } from "./networks.ts";

export const NOTICE_KINDS = [
  "owner_added",
  "owner_removed",
  "wallet_upgraded",
  "money_sent",
  "recovery",
  "statement_ready",
  "statement_failed",
  "export_ready",
  "export_failed",
] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];

export type NoticeDetails = Readonly<Record<string, string | number | boolean | null>>;

/** An owner as people recognise it. */
export function nameOfOwner(address: Hex | undefined): string {
  return address ? `the address ${address}` : "a passkey";
}

/** `details`: network, txHash, isOurs, and owner, amount, recipients or their only address by kind. */
export function renderNotice(
  { kind, details }: { kind: NoticeKind; details: NoticeDetails },
  baseUrl: string,
): MailText {
  const site = new URL(baseUrl).host;
  const { network, txHash } = details;
  const known = typeof network === "string" && isNetworkId(network) ? NETWORKS[network] : undefined;
  const place = known ? ` on ${known.displayName}` : "";
  if (kind === "export_ready" || kind === "export_failed")
    return renderExportNotice(details, { isReady: kind === "export_ready", site, baseUrl });
  if (kind === "statement_ready") return renderStatementNotice(details, { place, site, baseUrl });
  if (kind === "statement_failed") return renderFailedStatement(details, { place, site, baseUrl });
  const lines = [
    whatHappened(kind, details, place),
    details.isOurs === false ? `It did not come through ${site}.` : "",
    known && txHash ? `Transaction: ${known.explorerUrl}${txHash}` : "",
    "If this was you, there is nothing to do.",
    `If it was not: open ${site} yourself, look at the owners of your wallet, remove any that you don't know, and move your money to a new wallet.`,
  ].filter((line) => line !== "");
  return toMail(`${SUBJECTS[kind]}${place} (${site})`, lines);
}

type SecurityNotice = Exclude<
  NoticeKind,
  "statement_ready" | "statement_failed" | "export_ready" | "export_failed"
>;

/** `details`: profileName, firstDay, lastDay, and the reason of a failure. */
function renderExportNotice(
  { profileName, firstDay, lastDay, reason }: NoticeDetails,
  { isReady, site, baseUrl }: { isReady: boolean; site: string; baseUrl: string },
): MailText {
  const period = `${firstDay} to ${lastDay}`;
  const url = `${baseUrl}/saved-exports`;
  const subject = isReady
    ? `${profileName}: your scheduled export for ${period} (${site})`
    : `${profileName}: your scheduled export for ${period} could not be created (${site})`;
  const lines = isReady
    ? [
        `Your scheduled export ${profileName} for ${period} is ready.`,
        `You will find it under Saved exports for ${SCHEDULED_EXPORT_KEPT_DAYS} days: ${url}`,
      ]
    : [
        `Your scheduled export ${profileName} for ${period} could not be created${reason ? `: ${reason}` : ""}.`,
        `Create it again under Saved exports: ${url}`,
      ];
  return toMail(subject, lines, url);
}

/** `details`: month. */
function renderStatementNotice(
  { month }: NoticeDetails,
  { place, site, baseUrl }: { place: string; site: string; baseUrl: string },
): MailText {
  const subject = `Your statement for ${month}${place} (${site})`;
  const url = `${baseUrl}/statements`;
  const lines = [
    `The statement of your wallet${place} for ${month} is ready, as PDF and as CSV.`,
    `You will find both under Statements: ${url}`,
  ];
  return toMail(subject, lines, url);
}

/** `details`: month, the reason of a refusal, and whether it will be retried. */
function renderFailedStatement(
  { month, reason, willRetry }: NoticeDetails,
  { place, site, baseUrl }: { place: string; site: string; baseUrl: string },
): MailText {
  const subject = `Your statement for ${month}${place} could not be created (${site})`;
  const url = `${baseUrl}/statements`;
  const why = reason ? `: ${reason}` : ", because of a service error";
  const lines = [
    `The statement of your wallet${place} for ${month} could not be created${why}.`,
    willRetry
      ? `It will be retried at least once a day for ${MONTHLY_STATEMENT_RETRY_DAYS} days. You will get an e-mail when it is ready.`
      : "It will not be retried.",
    `You can create statements yourself, also for shorter periods, under Statements: ${url}`,
  ];
  return toMail(subject, lines, url);
}

function toMail(subject: string, lines: readonly string[], url?: string): MailText {
  const html = mailDocument(subject, lines.map((line) => mailParagraph(line, url)).join("\n"));
  return { subject, text: `${lines.join("\n\n")}\n`, html };
}

const SUBJECTS: Record<SecurityNotice, string> = {
  owner_added: "An owner was added to your wallet",
  owner_removed: "An owner was removed from your wallet",
  wallet_upgraded: "The code of your wallet was changed",
  money_sent: "Money left your wallet",
  recovery: "Recovery of your account was started",
};

function whatHappened(kind: SecurityNotice, details: NoticeDetails, place: string): string {
  switch (kind) {
    case "owner_added":
      return `${capital(String(details.owner))} became an owner of your wallet${place}: it can spend everything in it.`;
    case "owner_removed":
      return `${capital(String(details.owner))} is no longer an owner of your wallet${place}.`;
    case "wallet_upgraded":
      return `Your wallet${place} now runs different code (${details.owner}). This service never does that, and no longer sends its operations.`;
    case "money_sent":
      return `${details.amount} USDC left your wallet${place}, to ${recipientsOf(details)}.`;
    case "recovery":
      return `Somebody proved to control an owner of your wallet (${details.owner}) and your mailbox, and may register a new passkey. All other sessions were ended.`;
  }
}

function recipientsOf({ recipient, recipients }: NoticeDetails): string {
  if (recipient) return String(recipient);
  return recipients === 1 ? "1 recipient" : `${recipients} recipients`;
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
