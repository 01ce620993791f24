/** A month's documents as a ZIP file: each as a PDF, including void ones, with a table of all. */
import { setImmediate } from "node:timers/promises";
import { DEFAULT_LANGUAGE } from "../../../core/domain/language.ts";
import { localTime } from "../../../core/domain/local-time.ts";
import { formatUnits } from "../../../core/domain/money.ts";
import {
  ARCHIVE_DOCUMENTS_MAX,
  type DocumentArchive,
  documentNumber,
} from "../../../core/domain/numbered-document.ts";
import { receiptNumberOf, type ShownDocument, toPrinted } from "../../../db/documents/documents.ts";
import { refreshDocuments } from "../../../db/documents/issue-documents.ts";
import {
  countDocuments,
  findUndocumentedLinks,
  readDocuments,
} from "../../../db/documents/month-documents.ts";
import { findLogo, findMerchantPage } from "../../../db/links/page-settings.ts";
import type { Sql } from "../../../db/postgres/client.ts";
import { encodeCsv } from "../encode-csv.ts";
import { neutralizeCell } from "../neutralize-formulas.ts";
import { type ZipFile, zip } from "./zip.ts";

/** Documents read per batch, and links whose documents are numbered per transaction. */
const BATCH = 100;
const COLUMNS = [
  ...["Number", "Kind", "Status", "Date", "Amount (USDC)", "Receipt", "Description", "Reference"],
  ...["Network", "Transaction hash", "Log index", "Link", "File"],
];

export type ArchiveRequest = { userId: string; archive: DocumentArchive; timeZone: string };

/** `onFile` is called with each document. */
export async function* buildArchive(
  sql: Sql,
  { userId, archive, timeZone }: ArchiveRequest,
  onFile: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  const rows: string[][] = [];
  const page = await findMerchantPage(sql, userId);
  const logo = page?.logoDigest ? await findLogo(sql, page.logoDigest) : undefined;
  const looks = { accent: page?.accent ?? null, logo };
  const { renderDocumentPdf } = await import("../../../core/pdf/document-pdf.ts");

  async function* files(): AsyncGenerator<ZipFile> {
    let after: ShownDocument | undefined;
    for (;;) {
      const batch = await readDocuments(sql, { userId, ...archive }, { after, limit: BATCH });
      for (const document of batch) {
        const name = `${documentNumber(document)}${document.voidedAt === null ? "" : "-void"}.pdf`;
        rows.push(toRow(document, name, timeZone));
        const language = archive.language ?? document.language ?? DEFAULT_LANGUAGE;
        const bytes = await renderDocumentPdf(toPrinted(document), { ...looks, language });
        yield { name, bytes, modifiedAt: document.issuedAt };
        await onFile();
        // rendering blocks the event loop; let the other jobs of this process run
        await setImmediate();
      }
      after = batch.at(-1);
      if (!after) break;
    }
    const table = encodeCsv([COLUMNS, ...rows.map((row) => row.map(neutralizeCell))]);
    yield { name: "documents.csv", bytes: Buffer.from(table), modifiedAt: new Date() };
  }
  yield* zip(files());
}

/**
 * Issues the month's missing documents, for payments from before documents were numbered. Returns the number of documents; if that exceeds the
 * maximum of an archive, it returns one more than the maximum and leaves the rest.
 */
export async function numberMonth(sql: Sql, { userId, archive }: ArchiveRequest): Promise<number> {
  for (;;) {
    const count = await countDocuments(sql, { userId, ...archive }, ARCHIVE_DOCUMENTS_MAX + 1);
    if (count > ARCHIVE_DOCUMENTS_MAX) return count;
    const linkIds = await findUndocumentedLinks(sql, { userId, ...archive }, BATCH);
    if (linkIds.length === 0) return count;
    const { issued } = await sql.begin((tx) => refreshDocuments(tx, linkIds));
    if (issued.length === 0) return count;
  }
}

function toRow(document: ShownDocument, file: string, timeZone: string): string[] {
  const { facts } = document;
  return [
    documentNumber(document),
    document.kind,
    document.voidedAt === null ? "VALID" : "VOID",
    localTime(document.happenedAt, timeZone),
    formatUnits(document.amountUnits),
    receiptNumberOf(document) ?? "",
    facts.description,
    facts.reference ?? "",
    document.network,
    document.txHash,
    String(document.logIndex),
    facts.linkId,
    file,
  ];
}
