/** Mails about a wallet, a sign-in or an export: each says what happened, where, and what to do. */
import { describe, expect, test } from "bun:test";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import {
  NOTICE_KINDS,
  type NoticeDetails,
  type NoticeKind,
  nameOfOwner,
  renderNotice,
} from "../../core/domain/notice-mail.ts";

const BASE_URL = "https://pay.example.com";
const txHash: Hex = `0x${"5a".repeat(32)}`;
const owner = nameOfOwner(`0x${"11".repeat(20)}`);
const OF_EXPORTS: readonly NoticeKind[] = [
  "statement_ready",
  "statement_failed",
  "export_ready",
  "export_failed",
];
const OF_WALLETS = NOTICE_KINDS.filter((kind) => !OF_EXPORTS.includes(kind));

const render = (kind: NoticeKind, details: NoticeDetails) => renderNotice({ kind, details }, BASE_URL);

describe("a mail about a wallet", () => {
  test.each([
    ["owner_added", "An owner was added to your wallet", "The address 0x1111"],
    ["owner_removed", "An owner was removed from your wallet", "is no longer an owner of your wallet"],
    ["wallet_upgraded", "The code of your wallet was changed", "now runs different code (the address 0x1111"],
    ["money_sent", "Money left your wallet", "2.5 USDC left your wallet"],
  ] as const)("of the kind %s names the network and the transaction", (kind, subject, what) => {
    const details = { network: "base-sepolia", txHash, owner, amount: "2.5", recipients: 3, isOurs: true };
    const mail = render(kind, details);
    expect(mail.subject).toBe(`${subject} on Base Sepolia (pay.example.com)`);
    expect(mail.text).toContain(what);
    expect(mail.text).toContain("on Base Sepolia");
    // a reader opens the service by themselves: a mail that asks for it could be anybody's
    expect(mail.html).not.toContain("<a ");
    expect(mail.text).toContain(`Transaction: ${NETWORKS["base-sepolia"].explorerUrl}${txHash}\n`);
    expect(mail.text).not.toMatch(/\n{3}|undefined|did not come through/);
  });

  test.each([
    [1, "0x2222222222222222222222222222222222222222", "to 0x2222222222222222222222222222222222222222."],
    // of an indexer of an earlier version
    [1, null, "to 1 recipient."],
    [3, null, "to 3 recipients."],
  ])("about money sent to %d (%s) names the recipient, or counts them", (recipients, recipient, end) => {
    const { text } = render("money_sent", { amount: "2.5", recipients, recipient });
    expect(text).toContain(`2.5 USDC left your wallet, ${end}\n`);
  });

  test("states that it did not come through this service, and only then", () => {
    const about = (isOurs: boolean | null) => render("money_sent", { network: "base", txHash, isOurs }).text;
    expect(about(false)).toContain("It did not come through pay.example.com.\n\n");
    for (const isOurs of [true, null]) expect(about(isOurs)).not.toContain("did not come through");
  });

  test.each(OF_WALLETS)("of the kind %s without a network or a transaction omits them", (kind) => {
    for (const details of [
      { owner },
      { owner, txHash },
      { owner, network: "base" },
      { owner, network: "mars", txHash },
    ])
      expect(render(kind, details).text).not.toMatch(/Transaction:|undefined:|0x5a/);
    const { subject, text } = render("recovery", { owner });
    expect(subject).toBe("Recovery of your account was started (pay.example.com)");
    expect(text).toStartWith(`Somebody proved to control an owner of your wallet (${owner})`);
    expect(text).toContain("If this was you, there is nothing to do.\n\nIf it was not: open pay.example.com");
  });
});

describe("a mail about a file", () => {
  const details = { profileName: "Month", firstDay: "2026-10-01", lastDay: "2026-10-31" };
  const period = "2026-10-01 to 2026-10-31";

  test("that is ready says where it is", () => {
    const { subject, text, html } = render("export_ready", details);
    expect(subject).toBe(`Month: your scheduled export for ${period} (pay.example.com)`);
    expect(text).toBe(
      `Your scheduled export Month for ${period} is ready.\n\nYou will find it under Saved exports for 30 days: ${BASE_URL}/saved-exports\n`,
    );
    expect(html).toContain(`30 days: <a href="${BASE_URL}/saved-exports">${BASE_URL}/saved-exports</a></p>`);
  });

  test("that could not be created says why", () => {
    const { subject, text } = render("export_failed", { ...details, reason: "there is no EUR rate" });
    expect(subject).toBe(`Month: your scheduled export for ${period} could not be created (pay.example.com)`);
    expect(text).toStartWith(
      `Your scheduled export Month for ${period} could not be created: there is no EUR rate.`,
    );
    expect(render("export_failed", details).text).toContain("could not be created.");
  });

  test("of a statement names its month and its wallet's network", () => {
    const { subject, text, html } = render("statement_ready", { month: "2026-10", network: "base" });
    expect(subject).toBe("Your statement for 2026-10 on Base (pay.example.com)");
    expect(text).toStartWith("The statement of your wallet on Base for 2026-10 is ready");
    expect(text).toEndWith(`You will find both under Statements: ${BASE_URL}/statements\n`);
    expect(html).toContain(`<a href="${BASE_URL}/statements">`);
  });

  test("of a statement that could not be created says why, and whether it will be retried", () => {
    const failed = { month: "2026-10", network: "base" };
    const refused = render("statement_failed", { ...failed, reason: "too many", willRetry: false });
    expect(refused.subject).toBe("Your statement for 2026-10 on Base could not be created (pay.example.com)");
    expect(refused.text).toBe(
      `The statement of your wallet on Base for 2026-10 could not be created: too many.\n\nIt will not be retried.\n\nYou can create statements yourself, also for shorter periods, under Statements: ${BASE_URL}/statements\n`,
    );
    const { text } = render("statement_failed", { ...failed, reason: null, willRetry: true });
    expect(text).toStartWith(
      "The statement of your wallet on Base for 2026-10 could not be created, because of a service error.\n\nIt will be retried at least once a day for 60 days",
    );
  });

  test.each(OF_EXPORTS)("of the kind %s says nothing about owners of a wallet", (kind) => {
    expect(render(kind, { ...details, month: "2026-10" }).text).not.toContain("If it was not");
  });
});
