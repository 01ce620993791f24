/**
 * The columns of a table by name, for `select` and `returning`. A star would change a statement's result as soon as a migration adds a
 * column, and Postgres refuses what an older process has prepared ("cached plan must not change result type").
 */
import { getTableColumns, getTableName } from "drizzle-orm";
import type { PgTable } from "drizzle-orm/pg-core";
import type { Tx } from "./client.ts";

const lists = new Map<string, string>();

/** SQL: all typed columns of this table, or of its alias in the statement. */
export function columnsOf(tx: Tx, table: PgTable, alias?: string) {
  const key = `${getTableName(table)} ${alias ?? ""}`;
  const known = lists.get(key);
  if (known !== undefined) return tx.unsafe(known);
  const names = Object.values(getTableColumns(table)).map(({ name }) => name);
  const list = names.map((name) => (alias === undefined ? name : `${alias}.${name}`)).join(", ");
  lists.set(key, list);
  return tx.unsafe(list);
}
