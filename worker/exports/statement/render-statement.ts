/** The formats of a statement. */
import { type ExportFormat, rowIdOf } from "../../../core/domain/export.ts";
import { formatUnits } from "../../../core/domain/money.ts";
import {
  closingCells,
  describeCheck,
  describeUntracked,
  detailsOf,
  lineCells,
  openingCells,
  STATEMENT_COLUMNS,
  type StatementHead,
} from "../../../core/domain/statement.ts";
import { renderCamt053 } from "../importers/camt053.ts";
import { utf8 } from "../renderer.ts";
import { EXCEL_CSV, PLAIN_CSV, renderTableCsv, type TableBatches } from "../table-csv.ts";
import { renderTableXlsx } from "../table-xlsx.ts";
import type { StatementBatches } from "./build-statement.ts";

type StatementRenderer = (head: StatementHead, batches: StatementBatches) => AsyncGenerator<Uint8Array>;

export const STATEMENT_RENDERERS: Partial<Record<ExportFormat, StatementRenderer>> = {
  csv: (head, batches) => renderTableCsv(STATEMENT_COLUMNS, tableOf(head, batches), PLAIN_CSV),
  excel_csv: (head, batches) => renderTableCsv(STATEMENT_COLUMNS, tableOf(head, batches), EXCEL_CSV),
  xlsx: (head, batches) => renderTableXlsx("Statement", STATEMENT_COLUMNS, tableOf(head, batches)),
  json: renderJson,
  pdf: renderPdf,
  camt053: renderCamt053,
};

/** Opening balance, movements, closing balance, the chain's balance. */
async function* tableOf(head: StatementHead, batches: StatementBatches): TableBatches {
  yield [openingCells(head)];
  for await (const lines of batches) yield lines.map((line) => lineCells(line, head));
  yield closingCells(head);
}

async function* renderPdf(head: StatementHead, batches: StatementBatches): AsyncGenerator<Uint8Array> {
  const pdf = await import("./statement-pdf.ts");
  yield* pdf.renderStatementPdf(head, batches);
}

/** One object: the header, then one movement per line. */
async function* renderJson(head: StatementHead, batches: StatementBatches): AsyncGenerator<Uint8Array> {
  const { check, issuer, network, walletAddress, timeZone, isFinal } = head;
  const block = check.outcome === "not_checked" ? null : check.block;
  const about = {
    ...{ issuer, network, walletAddress, timeZone, isFinal },
    from: head.from.toISOString(),
    before: head.before.toISOString(),
    generatedAt: head.generatedAt.toISOString(),
    openingBalance: formatUnits(head.openingUnits),
    openingNote: describeUntracked(head) ?? null,
    closingBalance: formatUnits(head.closingUnits),
    chain: {
      outcome: check.outcome,
      balance: check.outcome === "not_checked" ? null : formatUnits(check.balanceUnits),
      block: block && { number: block.number, hash: block.hash, time: block.time.toISOString() },
      text: describeCheck(check, network),
    },
    totals: head.totals.map(({ kind, count, units }) => ({ kind, count, amount: formatUnits(units) })),
  };
  yield utf8(`${JSON.stringify(about).slice(0, -1)},"movements":[\n`);
  let separator = "";
  for await (const lines of batches) {
    if (lines.length === 0) continue;
    const texts = lines.map(({ row, changeUnits, balanceUnits }) =>
      JSON.stringify({
        ...{
          id: rowIdOf(row),
          time: row.detectedAt.toISOString(),
          kind: row.kind,
          description: detailsOf(row),
        },
        ...{ reference: row.reference, counterparty: row.counterparty },
        ...{ amount: formatUnits(changeUnits), balance: formatUnits(balanceUnits) },
        ...{ transactionHash: row.txHash, logIndex: row.logIndex },
        blockNumber: row.blockNumber === null ? null : Number(row.blockNumber),
        ...{ linkId: row.linkId, refundOf: row.refundOf, transactionId: row.id },
      }),
    );
    yield utf8(separator + texts.join(",\n"));
    separator = ",\n";
  }
  yield utf8("\n]}\n");
}
