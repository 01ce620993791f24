/** The write-ahead log by table, read with pg_walinspect where the server has it and permits it; otherwise only the total. */
import postgres from "postgres";

type WalReader = {
  /** Bytes by table, indexes and TOAST included; "(commits and the rest)" for records of no table. */
  byTable: ReadonlyMap<string, number>;
  /** Bytes by index of a table of ours, and by table without its indexes. */
  byRelation: ReadonlyMap<string, number>;
  /** Records and their bytes by kind, as "Heap/HOT_UPDATE"; full pages as a kind of their own. */
  byKind: ReadonlyMap<string, WalKind>;
  /** Reads what was written since the last call. */
  read: () => Promise<void>;
  total: () => { bytes: number; fullPageBytes: number };
  close: () => Promise<void>;
};

export type WalKind = { records: number; bytes: number };

const FULL_PAGES = "(full pages)";
const REST = "(commits and the rest)";

export async function openWalReader(databaseUrl: string): Promise<WalReader> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} });
  const canInspect = await prepare(sql);
  const byTable = new Map<string, number>();
  const byRelation = new Map<string, number>();
  const byKind = new Map<string, WalKind>();
  const total = { bytes: 0, fullPageBytes: 0 };
  let from = await currentLsn(sql);

  const read = async () => {
    const to = await currentLsn(sql);
    const [size] = await sql<{ bytes: number }[]>`
      select pg_wal_lsn_diff(${to}::pg_lsn, ${from}::pg_lsn)::float8 as bytes`;
    total.bytes += size?.bytes ?? 0;
    if (canInspect) {
      await readRecords(sql, { from, to, byTable, byRelation, total });
      await readKinds(sql, { from, to, byKind });
    }
    from = to;
  };
  return { byTable, byRelation, byKind, read, total: () => total, close: () => sql.end() };
}

/** Keeps the log until it has been read; checkpoints stay as they are. */
async function prepare(sql: postgres.Sql): Promise<boolean> {
  try {
    await sql`create extension if not exists pg_walinspect`;
    await sql`alter system set wal_keep_size = '4GB'`;
    await sql`select pg_reload_conf()`;
    return true;
  } catch (error) {
    console.log(`· no log by table: ${error instanceof Error ? error.message : String(error)}`);
    return false;
  }
}

async function currentLsn(sql: postgres.Sql): Promise<string> {
  const [row] = await sql<{ lsn: string }[]>`select pg_current_wal_flush_lsn()::text as lsn`;
  if (!row) throw new Error("the server gave no log position");
  return row.lsn;
}

async function readRecords(
  sql: postgres.Sql,
  given: {
    from: string;
    to: string;
    byTable: Map<string, number>;
    byRelation: Map<string, number>;
    total: { bytes: number; fullPageBytes: number };
  },
): Promise<void> {
  const { from, to, byTable, byRelation, total } = given;
  // the bytes of a record of several blocks are divided among them
  const rows = await sql<
    { name: string | null; relation: string | null; bytes: number; fullPageBytes: number }[]
  >`
    with blocks as (
      select
        relfilenode,
        block_fpi_length,
        record_length::float8 / count(*) over (partition by start_lsn) as bytes
      from pg_get_wal_block_info(${from}::pg_lsn, ${to}::pg_lsn, false)
    ),
    files as (
      select
        file.relfilenode,
        file.relname as relation,
        coalesce(indexed.indrelid, toasted.oid, file.oid) as table_id
      from pg_class file
      left join pg_index own on own.indexrelid = file.oid
      left join pg_class toasted on toasted.reltoastrelid = coalesce(own.indrelid, file.oid) and toasted.reltoastrelid <> 0
      left join pg_index indexed on indexed.indexrelid = file.oid and toasted.oid is null
      where file.relfilenode <> 0
    ),
    named as (
      select
        case
          when nspname is null then null
          when nspname = 'public' then relname::text
          when nspname in ('pg_catalog', 'pg_toast') then '(catalog)'
          else nspname || '.' || relname
        end as name,
        case when nspname = 'public' then relation end as relation,
        bytes,
        block_fpi_length
      from blocks
      left join files using (relfilenode)
      left join pg_class on pg_class.oid = files.table_id
      left join pg_namespace on pg_namespace.oid = relnamespace
    )
    select name, relation, sum(bytes)::float8 as bytes, sum(block_fpi_length)::float8 as "fullPageBytes"
    from named
    group by name, relation`;
  const [all] = await sql<{ bytes: number }[]>`
    select pg_wal_lsn_diff(${to}::pg_lsn, ${from}::pg_lsn)::float8 as bytes`;
  let counted = 0;
  for (const row of rows) {
    const name = row.name ?? "(catalog)";
    byTable.set(name, (byTable.get(name) ?? 0) + row.bytes);
    if (row.relation) byRelation.set(row.relation, (byRelation.get(row.relation) ?? 0) + row.bytes);
    counted += row.bytes;
    total.fullPageBytes += row.fullPageBytes;
  }
  byTable.set(REST, (byTable.get(REST) ?? 0) + (all?.bytes ?? 0) - counted);
}

async function readKinds(
  sql: postgres.Sql,
  { from, to, byKind }: { from: string; to: string; byKind: Map<string, WalKind> },
): Promise<void> {
  const rows = await sql<(WalKind & { kind: string; fullPageBytes: number })[]>`
    select
      "resource_manager/record_type" as kind, count::float8 as records, record_size::float8 as bytes,
      fpi_size::float8 as "fullPageBytes"
    from pg_get_wal_stats(${from}::pg_lsn, ${to}::pg_lsn, true)
    where count > 0`;
  const add = (kind: string, { records, bytes }: WalKind) => {
    const sum = byKind.get(kind) ?? { records: 0, bytes: 0 };
    byKind.set(kind, { records: sum.records + records, bytes: sum.bytes + bytes });
  };
  for (const { kind, fullPageBytes, ...counted } of rows) {
    add(kind, counted);
    if (fullPageBytes > 0) add(FULL_PAGES, { records: 0, bytes: fullPageBytes });
  }
}
