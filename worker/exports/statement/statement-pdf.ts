/** A statement for accountants: A4 portrait, issuer and balances first, every movement with its balance, the comparison with the chain at the end. */
import { localTime } from "../../../core/domain/local-time.ts";
import { formatGrouped } from "../../../core/domain/money.ts";
import { NETWORKS } from "../../../core/domain/networks.ts";
import {
  describeCheck,
  describeUntracked,
  detailsOf,
  isMoneyIn,
  KIND_NAMES,
  periodText,
  type StatementHead,
  type StatementLine,
} from "../../../core/domain/statement.ts";
import { type Column, openPage, type PdfPage } from "../pdf/page.ts";
import { readableTime } from "../report-totals.ts";
import type { StatementBatches } from "./build-statement.ts";

const SUM_COLUMNS: readonly Column[] = [
  { title: "Summary", width: 223.28 },
  { title: "Movements", width: 100, align: "right" },
  { title: "Amount (USDC)", width: 200, align: "right" },
];

const LINE_COLUMNS: readonly Column[] = [
  { title: "Date", width: 52 },
  { title: "Kind", width: 50 },
  { title: "Details", width: 169.28 },
  { title: "In (USDC)", width: 84, align: "right" },
  { title: "Out (USDC)", width: 84, align: "right" },
  { title: "Balance (USDC)", width: 84, align: "right" },
];

export async function* renderStatementPdf(
  head: StatementHead,
  batches: StatementBatches,
): AsyncGenerator<Uint8Array> {
  const { issuer, timeZone } = head;
  const page = await openPage({
    title: "Account statement",
    author: issuer.name,
    createdAt: head.generatedAt,
    layout: "portrait",
    rows: head.movements,
  });
  await page.prepare([issuer.name, issuer.postalAddress ?? "", issuer.taxId ?? ""]);
  writeHead(page, head);
  writeSums(page, head);
  page.heading("Movements");
  page.beginTable(LINE_COLUMNS);
  page.sumRows([
    [dayOf(head.from, timeZone), "", "Opening balance", "", "", formatGrouped(head.openingUnits)],
  ]);
  for await (const lines of batches) {
    await page.prepare(lines.flatMap(({ row }) => [row.description, row.reference ?? ""]));
    for (const line of lines) page.row(toCells(line, timeZone), noteOf(line, timeZone));
    yield* page.take();
  }
  const end = dayOf(new Date(head.before.getTime() - 1), timeZone);
  const closing = head.isFinal ? "Closing balance" : "Balance so far";
  page.sumRows([[end, "", closing, "", "", formatGrouped(head.closingUnits)]]);
  page.endTable();
  page.note(`Chain check: ${describeCheck(head.check, head.network, formatGrouped)}.`);
  page.note(
    "Amounts are USDC with six places. Each movement is a transfer of the USDC contract; the hash and log index name it on the chain.",
  );
  yield* page.end();
}

function writeHead(page: PdfPage, head: StatementHead): void {
  const { issuer, network, timeZone } = head;
  const { displayName, chainId, isTestnet } = NETWORKS[network];
  const address = (issuer.postalAddress ?? "").split("\n").filter((line) => line.trim() !== "");
  const tax = issuer.taxId === null ? [] : [`Tax ID ${issuer.taxId}`];
  page.aside([issuer.name, ...address, ...tax, issuer.email]);
  page.title("Account statement");
  page.fact("Period", `${periodText(head)} (${timeZone})`);
  page.fact("Network", `${displayName} (chain ${chainId})`);
  page.fact("Generated", readableTime(head.generatedAt, timeZone));
  page.belowAside();
  page.fact("Wallet", head.walletAddress);
  if (isTestnet) page.fact("Test network", "No real money.");
  if (!head.isFinal)
    page.fact(
      "Not final",
      `Not all of the period is confirmed yet. This statement ends before ${readableTime(head.before, timeZone)}.`,
    );
}

function writeSums(page: PdfPage, head: StatementHead): void {
  page.heading("Balances");
  page.beginTable(SUM_COLUMNS);
  page.row(["Opening balance", "", formatGrouped(head.openingUnits)]);
  for (const { kind, count, units } of head.totals)
    page.row([KIND_NAMES[kind], String(count), formatGrouped(isMoneyIn(kind) ? units : -units)]);
  page.sumRows([
    [
      head.isFinal ? "Closing balance" : "Balance so far",
      String(head.movements),
      formatGrouped(head.closingUnits),
    ],
  ]);
  page.endTable();
  const untracked = describeUntracked(head, formatGrouped);
  if (untracked) page.fact("Opening balance", untracked);
  page.fact("Chain check", describeCheck(head.check, head.network, formatGrouped));
}

function toCells({ row, changeUnits, balanceUnits }: StatementLine, timeZone: string): string[] {
  const amounts = changeUnits < 0n ? ["", formatGrouped(-changeUnits)] : [formatGrouped(changeUnits), ""];
  return [
    dayOf(row.detectedAt, timeZone),
    KIND_NAMES[row.kind],
    row.reference === null ? detailsOf(row) : `${detailsOf(row)} (${row.reference})`,
    ...amounts,
    formatGrouped(balanceUnits),
  ];
}

/** Small print below a movement: time, counterparty, and its place on the chain. */
function noteOf({ row, changeUnits }: StatementLine, timeZone: string): string {
  const party = `${changeUnits < 0n ? "to" : "from"} ${row.counterparty}`;
  const place = row.txHash === null ? "" : `${row.txHash}, log ${row.logIndex}`;
  return [localTime(row.detectedAt, timeZone).slice(11, 19), party, place].filter(Boolean).join(" · ");
}

function dayOf(instant: Date, timeZone: string): string {
  return localTime(instant, timeZone).slice(0, 10);
}
