/** What a migration locks, read from its text: which tables wait for it, and whether reads wait too. */
import type { Tx } from "./client.ts";
import { NEEDS_STOP, readPending } from "./migrate.ts";

/** `all`: reads and writes of the table wait (ACCESS EXCLUSIVE). `writes`: writes wait (SHARE). `rows`: writes of the same rows wait. */
export type Lock = { table: string; blocks: "all" | "writes" | "rows" };
export type PlannedMigration = {
  name: string;
  locks: (Lock & { rows: number })[];
  /** Tables that it creates, which block nothing. */
  creates: string[];
  /** Whether processes of the previous version cannot run at the same time. */
  needsStop: boolean;
};

const NAME = String.raw`(?:if (?:not )?exists )?(?:only )?(?:public\.)?"?([a-z_][a-z0-9_]*)"?`;
const RULES: readonly { pattern: RegExp; blocks: Lock["blocks"] }[] = [
  // changes of storage parameters block no other statement
  { pattern: new RegExp(`\\balter table ${NAME}\\b(?! set \\()`, "g"), blocks: "all" },
  { pattern: new RegExp(`\\bdrop table ${NAME}`, "g"), blocks: "all" },
  { pattern: new RegExp(`\\btruncate (?:table )?${NAME}`, "g"), blocks: "all" },
  {
    pattern:
      /\bcreate (?:or replace )?(?:constraint )?trigger \w+[^;]*? on (?:public\.)?"?([a-z_][a-z0-9_]*)"?/g,
    blocks: "writes",
  },
  {
    pattern:
      /\bcreate (?:unique )?index (?!concurrently)[^;]*? on (?:only )?(?:public\.)?"?([a-z_][a-z0-9_]*)"?/g,
    blocks: "writes",
  },
  { pattern: new RegExp(`\\bupdate ${NAME}\\s+(?:as )?(?:\\w+ )?set\\b`, "g"), blocks: "rows" },
  { pattern: new RegExp(`\\bdelete from ${NAME}`, "g"), blocks: "rows" },
];
const CREATE_TABLE = new RegExp(`\\bcreate (?:unlogged )?table ${NAME}`, "g");
const STRENGTH = { all: 3, writes: 2, rows: 1 } as const;

/** The strongest lock on each existing table. */
export function readLocks(text: string): { locks: Lock[]; creates: string[] } {
  const sql = withoutQuoted(text).toLowerCase().replace(/\s+/g, " ");
  const creates = [...sql.matchAll(CREATE_TABLE)].map((match) => match[1] ?? "");
  const found = new Map<string, Lock>();
  for (const { pattern, blocks } of RULES)
    for (const [, table = ""] of sql.matchAll(pattern)) {
      const known = found.get(table);
      if (creates.includes(table) || (known && STRENGTH[known.blocks] >= STRENGTH[blocks])) continue;
      found.set(table, { table, blocks });
    }
  return { locks: [...found.values()], creates };
}

/** Comments, string literals and function bodies lock nothing. */
function withoutQuoted(text: string): string {
  return text
    .replace(/--.*$/gm, "")
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/\bdo\s+(\$\w*\$)([\s\S]*?)\1/g, "do $2")
    .replace(/(\$\w*\$)[\s\S]*?\1/g, "''")
    .replace(/'(?:[^']|'')*'/g, "''");
}

/** What `migrate` would do now, without doing it. Throws when it would refuse. */
export async function planMigration(tx: Tx, folder?: string): Promise<PlannedMigration[]> {
  const sizes = await tx<{ name: string; rows: number }[]>`
    select relname as name, greatest(reltuples, 0)::float8 as rows
    from pg_class
    where relnamespace = 'public'::regnamespace and relkind = 'r'`;
  const rowsOf = (table: string) => sizes.find(({ name }) => name === table)?.rows ?? 0;
  return (await readPending(tx, folder)).map(({ name, text }) => {
    const { locks, creates } = readLocks(text);
    return {
      name,
      creates,
      needsStop: text.startsWith(NEEDS_STOP),
      locks: locks.map((lock) => ({ ...lock, rows: rowsOf(lock.table) })),
    };
  });
}

const EFFECTS = {
  all: "reads and writes wait",
  writes: "writes wait, reads do not",
  rows: "writes of the same rows wait",
} as const;

/** Lines for an operator. */
export function describePlanned({ name, locks, creates, needsStop }: PlannedMigration): string[] {
  const stop = needsStop ? ["  needs all processes of the service stopped"] : [];
  const made = creates.length > 0 ? [`  creates ${creates.join(", ")}`] : [];
  const held = locks.map(
    ({ table, blocks, rows }) =>
      `  ${table} (about ${Math.round(rows)} rows): ${EFFECTS[blocks]} until it is applied`,
  );
  return [name, ...stop, ...made, ...held, ...(made.length + held.length === 0 ? ["  blocks nothing"] : [])];
}
