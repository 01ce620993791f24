/** How much a statement reads, which does not depend on the machine as its time does. */
import type { Sql, Tx } from "../../db/postgres/client.ts";

/** Rows of the table and entries of its indexes that `work` looked at, whether it needed them or not. */
export function countRowsRead(sql: Sql, table: string, work: (tx: Tx) => Promise<unknown>): Promise<number> {
  return sql.begin(async (tx) => {
    const before = await readCounter(tx, table);
    await work(tx);
    return (await readCounter(tx, table)) - before;
  });
}

async function readCounter(tx: Tx, table: string): Promise<number> {
  const [row] = await tx<{ read: number }[]>`
    select (
      pg_stat_get_xact_tuples_returned(${table}::text::regclass)
      + (
        select coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0)
        from pg_index
        where indrelid = ${table}::text::regclass
      )
    )::int as read`;
  return row?.read ?? 0;
}
