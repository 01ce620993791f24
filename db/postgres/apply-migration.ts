/**
 * Applies a migration in one transaction whose locks do not block payments for long, or, for one that builds indexes
 * concurrently, statement by statement.
 */
import postgres from "postgres";
import { assertStillLocked, withoutSchemaLock } from "./migration-lock.ts";

/** Maximum wait for a lock. Every other statement on the table waits as long, including payments. */
const LOCK_TIMEOUT_MS = 2_000;
/** Pause in which blocked statements proceed. */
const LOCK_PAUSE_MS = 3_000;
const LOCK_NOT_AVAILABLE = "55P03";
const DEADLOCK_DETECTED = "40P01";
const BLOCKERS_NAMED = 3;

export type SchemaFile = { name: string; text: string; sha256: string };

/** Retried while another session holds a lock that it needs: a deployment waits for a backup, payments do not wait for the deployment. */
export async function applyFile(
  sql: postgres.Sql,
  file: SchemaFile,
  onWait: (line: string) => void,
): Promise<void> {
  let told: string | undefined;
  while (!(await tryFile(sql, file))) {
    const line = `${file.name} is waiting for ${await nameBlockers(sql)}`;
    if (line !== told) onWait(line);
    told = line;
    await Bun.sleep(LOCK_PAUSE_MS);
  }
}

/** False when a lock could not be acquired: then nothing has changed, or an invalid index is left that the next attempt drops. */
async function tryFile(sql: postgres.Sql, file: SchemaFile): Promise<boolean> {
  const steps = readIndexSteps(file.text);
  try {
    if (steps) await changeIndexes(sql, file, steps);
    else
      await sql.begin(async (tx) => {
        await tx.unsafe(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
        // first, because it waits for a running backup, which must not find tables locked by us
        await tx`insert into migrations (name, sha256) values (${file.name}, ${file.sha256})`;
        await tx.unsafe(file.text);
      });
    return true;
  } catch (error) {
    const code = error instanceof postgres.PostgresError ? error.code : undefined;
    if (code === LOCK_NOT_AVAILABLE || code === DEADLOCK_DETECTED) return false;
    throw error;
  }
}

type IndexStep = { statement: string; verb: string; index: string };

const INDEX_STEP = /^(create|drop) (?:unique )?index concurrently (?:if exists )?([a-z_][a-z0-9_]*)\b/;

/** Of a file that says `concurrently`: its statements, each of which makes or drops one index so. Undefined: an ordinary file. */
export function readIndexSteps(text: string): IndexStep[] | undefined {
  const statements = text
    .replace(/--.*$/gm, "")
    .split(";")
    .map((statement) => statement.trim())
    .filter((statement) => statement !== "");
  if (!statements.some((statement) => /\bindex concurrently\b/.test(statement))) return undefined;
  return statements.map((statement) => {
    const [, verb, index] = INDEX_STEP.exec(statement) ?? [];
    if (!verb || !index)
      throw new Error(`a migration that builds indexes concurrently has another statement: ${statement}`);
    return { statement, verb, index };
  });
}

/** Can be restarted after an interruption: finished indexes are kept, unfinished ones are dropped first. */
async function changeIndexes(
  sql: postgres.Sql,
  file: SchemaFile,
  steps: readonly IndexStep[],
): Promise<void> {
  const inTransaction = (work: (tx: postgres.TransactionSql) => Promise<unknown>) =>
    sql.begin(async (tx) => {
      await tx.unsafe(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
      await work(tx);
    });
  // a build would silently wait for the end of a running backup
  await inTransaction((tx) => tx`lock table migrations in row exclusive mode`);
  await withoutSchemaLock(sql, async () => {
    for (const { statement, verb, index } of steps) {
      const found = await findIndex(sql, index);
      if (verb === "create" && found?.isWhole) continue;
      if (verb === "create" && found) await sql.unsafe(`drop index concurrently ${index}`);
      if (verb === "create" || found) await sql.unsafe(statement);
    }
  });
  await inTransaction(async (tx) => {
    await assertStillLocked(tx);
    for (const { verb, index } of steps) {
      const found = await findIndex(tx, index);
      if (verb === "create" ? !found?.isWhole : found)
        throw new Error(`the index ${index} was changed by another process: start the migration again`);
    }
    await tx`insert into migrations (name, sha256) values (${file.name}, ${file.sha256})`;
  });
}

async function findIndex(
  tx: postgres.Sql | postgres.TransactionSql,
  index: string,
): Promise<{ isWhole: boolean } | undefined> {
  const [found] = await tx<{ isWhole: boolean }[]>`
    select indisvalid and indisready as "isWhole"
    from pg_index
    where indexrelid = to_regclass(${`public.${index}`})`;
  return found;
}

/** The oldest transactions that hold a lock on one of our tables. */
async function nameBlockers(sql: postgres.Sql): Promise<string> {
  const rows = await sql<{ name: string; pid: number; since: string | null }[]>`
    select
      coalesce(nullif(activity.application_name, ''), 'a transaction') as name, activity.pid,
      to_char(activity.xact_start at time zone 'utc', 'HH24:MI:SS "UTC"') as since
    from pg_stat_activity activity
    where activity.datname = current_database()
      and activity.pid <> pg_backend_pid()
      and coalesce(activity.xact_start < now() - make_interval(secs => ${LOCK_TIMEOUT_MS / 1_000}), true)
      and exists (
        select from pg_locks held
        join pg_class on pg_class.oid = held.relation
        where held.pid = activity.pid
          and held.granted
          and pg_class.relkind = 'r'
          and pg_class.relnamespace = 'public'::regnamespace
      )
    order by activity.xact_start
    limit ${BLOCKERS_NAMED}`;
  if (rows.length === 0) return "a lock";
  return rows
    .map(({ name, pid, since }) => `${name} (pid ${pid}${since ? `, since ${since}` : ""})`)
    .join(", ");
}
