/**
 * What a process checks about its database before it starts: whether the connection is usable, whether the schema is current, and what
 * an operator should know. `doctor` checks the same.
 */
import type { Sql } from "./client.ts";
import { compareSchema } from "./migrate.ts";
import { isBehindPooler } from "./pooler.ts";
import { hasOnlyAsynchronousStandbys } from "./standby.ts";

export type DatabaseInspection = {
  /** Why the process must not start. */
  refusal: string | undefined;
  risks: string[];
};

const VERSION_MIN = 140_000;
/** Expiry of links and validity of authorizations use both this machine's clock and the server's. */
const CLOCK_SKEW_MAX_MS = 2_000;

const POOLER =
  "DATABASE_URL goes through a transaction pooler, which breaks LISTEN, session locks and prepared statements: use the database's direct address.";
const ASYNCHRONOUS =
  "there are standbys but none is synchronous: a failover may lose payments that were reported as settled (synchronous_standby_names)";

/** Throws when the database is unavailable. */
export async function inspectDatabase(sql: Sql, databaseUrl: string): Promise<DatabaseInspection> {
  if (await isBehindPooler(databaseUrl)) return { refusal: POOLER, risks: [] };
  const facts = await readFacts(sql);
  if (facts.version < VERSION_MIN)
    return { refusal: `Postgres ${facts.versionText} is too old: use 14 or newer.`, risks: [] };
  const { pending } = await compareSchema(sql);
  if (pending.length > 0)
    return {
      refusal: `the database lacks ${pending.length} migration(s) of this version (${pending[0]}): run \`bun run migrate\` first.`,
      risks: [],
    };
  const risks = [...describeRisks(facts)];
  if (await hasOnlyAsynchronousStandbys(sql)) risks.push(ASYNCHRONOUS);
  return { refusal: undefined, risks };
}

type Facts = { version: number; versionText: string; encoding: string; foldsCase: boolean; skewMs: number };

async function readFacts(sql: Sql): Promise<Facts> {
  const beganMs = Date.now();
  const [row] = await sql<(Omit<Facts, "skewMs"> & { nowMs: number })[]>`
    select
      current_setting('server_version_num')::int as version,
      current_setting('server_version') as version_text,
      current_setting('server_encoding') as encoding,
      lower('É') = 'é' as folds_case,
      (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms`;
  if (!row) throw new Error("the server did not answer");
  return { ...row, skewMs: skewOf(row.nowMs, beganMs, Date.now()) };
}

/** Milliseconds by which a clock that said `nowMs` differs from ours at least; it was read at some moment between the other two. */
export function skewOf(nowMs: number, beganMs: number, endedMs: number): number {
  if (nowMs < beganMs) return Math.round(nowMs - beganMs);
  return nowMs > endedMs ? Math.round(nowMs - endedMs) : 0;
}

function* describeRisks({ encoding, foldsCase, skewMs }: Facts): Generator<string> {
  if (encoding !== "UTF8")
    yield `the database's encoding is ${encoding}: names and descriptions need UTF8; create it with \`encoding 'UTF8'\` and restore into it`;
  else if (!foldsCase)
    yield "the database's locale is C: a search treats É and é as different letters; create it with a UTF-8 locale such as C.UTF-8";
  if (Math.abs(skewMs) > CLOCK_SKEW_MAX_MS)
    yield `the database server's clock is ${Math.abs(skewMs)} ms ${skewMs > 0 ? "ahead of" : "behind"} this machine's: synchronise both with NTP (chrony, systemd-timesyncd)`;
}
