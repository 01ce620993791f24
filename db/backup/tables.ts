/** The tables in a backup: all of ours and the job queue's, referenced tables first. */
import type { Tx } from "../postgres/client.ts";

export type BackedUpTable = {
  /** Quoted, with its schema. */
  readonly name: string;
  /** Quoted; generated columns are recomputed. */
  readonly columns: readonly string[];
};

/** Created by `migrate`, never copied. */
const MADE_BY_MIGRATE = ["public.migrations", "graphile_worker.migrations"];

/** Unlogged tables hold leases, which end with every crash of the server anyway. */
export async function listTables(tx: Tx): Promise<BackedUpTable[]> {
  const tables = await tx<BackedUpTable[]>`
    select
      format('%I.%I', space.nspname, class.relname) as name,
      array(
        select format('%I', attname)
        from pg_attribute
        where attrelid = class.oid and attnum > 0 and not attisdropped and attgenerated = ''
        order by attnum
      ) as columns
    from pg_class class
    join pg_namespace space on space.oid = class.relnamespace
    where space.nspname in ('public', 'graphile_worker')
      and class.relkind = 'r'
      and class.relpersistence = 'p'
      and space.nspname || '.' || class.relname <> all (${MADE_BY_MIGRATE}::text[])
    order by 1`;
  const references = await tx<{ child: string; parent: string }[]>`
    select format('%I.%I', s1.nspname, c1.relname) as child, format('%I.%I', s2.nspname, c2.relname) as parent
    from pg_constraint fk
    join pg_class c1 on c1.oid = fk.conrelid
    join pg_namespace s1 on s1.oid = c1.relnamespace
    join pg_class c2 on c2.oid = fk.confrelid
    join pg_namespace s2 on s2.oid = c2.relnamespace
    where fk.contype = 'f' and fk.conrelid <> fk.confrelid`;
  return sortByReferences([...tables], references);
}

/** Throws on a cycle, because such tables could not be filled one after another. */
export function sortByReferences(
  tables: readonly BackedUpTable[],
  references: readonly { child: string; parent: string }[],
): BackedUpTable[] {
  const sorted: BackedUpTable[] = [];
  let rest = [...tables];
  while (rest.length > 0) {
    const waiting = new Set(rest.map(({ name }) => name));
    const ready = rest.filter(
      ({ name }) => !references.some(({ child, parent }) => child === name && waiting.has(parent)),
    );
    if (ready.length === 0)
      throw new Error(`tables reference each other in a cycle: ${[...waiting].join(", ")}`);
    sorted.push(...ready);
    rest = rest.filter((table) => !ready.includes(table));
  }
  return sorted;
}

export type SequenceValue = { readonly name: string; readonly value: string; readonly isCalled: boolean };

export async function listSequences(tx: Tx): Promise<SequenceValue[]> {
  const names = await tx<{ name: string }[]>`
    select format('%I.%I', schemaname, sequencename) as name
    from pg_sequences
    where schemaname in ('public', 'graphile_worker')
    order by 1`;
  const values: SequenceValue[] = [];
  for (const { name } of names) {
    const [row] = await tx.unsafe<{ value: string; isCalled: boolean }[]>(
      `select last_value::text as value, is_called from ${name}`,
    );
    if (row) values.push({ name, ...row });
  }
  return values;
}

export async function listAppliedMigrations(tx: Tx): Promise<string[]> {
  const rows = await tx<{ name: string }[]>`select name from migrations order by applied_at, name`;
  return rows.map(({ name }) => name);
}
