/** Monthly statements of the newest wallet in every state that the dashboard shows. */
import { newExportId } from "../../core/domain/ids.ts";
import type { Sql } from "../../db/postgres/client.ts";

const REFUSAL = "a statement holds at most 100000 movements, but this period has 100001";
/** Of the PDF and the CSV, oldest month first. */
const MONTHS = [
  ["2026-05", "READY", "READY", null],
  ["2026-06", "FAILED", "FAILED", REFUSAL],
  ["2026-07", "FAILED", "READY", null],
  ["2026-08", "READY", "RUNNING", null],
] as const;

export async function seedMonthlyStatements(sql: Sql): Promise<void> {
  const [wallet] = await sql<{ id: string; userId: string }[]>`
    select id, user_id from wallets order by created_at desc limit 1`;
  if (!wallet) throw new Error("there is no wallet");
  for (const [month, pdf, csv, refusal] of MONTHS) {
    const [pdfId, csvId] = [newExportId(), newExportId()];
    for (const [id, format, status] of [
      [pdfId, "pdf", pdf],
      [csvId, "csv", csv],
    ] as const)
      await sql`
        insert into exports (id, user_id, format, request, status, refusal, attempts, started_at, expires_at)
        values (
          ${id}, ${wallet.userId}, ${format}, '{}', ${status}, ${status === "FAILED" ? refusal : null}, 3, now(),
          now() + interval '1 day'
        )`;
    await sql`
      insert into monthly_statements (wallet_id, user_id, month, pdf_export_id, csv_export_id, announced_at)
      values (${wallet.id}, ${wallet.userId}, ${month}, ${pdfId}, ${csvId}, ${refusal ? new Date() : null})`;
  }
}
