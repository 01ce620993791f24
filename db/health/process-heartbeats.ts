/** Each process reports itself every few seconds; the operator's page of any of them shows all. */
import { hostname } from "node:os";
import type { Sql, Tx } from "../postgres/client.ts";

const REPORT_EVERY_MS = 10_000;
/** How long a process that ended without deregistering is shown as silent. */
const FORGOTTEN_AFTER_S = 600;

/** Reported by every process of this version: abilities that earlier versions lack. */
const ABILITIES = { shortFacts: true };

export type ReportedKind = "api" | "worker" | "indexer";

/** `readDetails`: JSON that the kind adds. Returns a function that withdraws the report. A failed report is repeated with the next one. */
export function reportProcess(
  sql: Sql,
  {
    kind,
    version,
    readDetails = () => ({}),
  }: { kind: ReportedKind; version: string; readDetails?: () => object },
): () => Promise<void> {
  const id = crypto.randomUUID();
  let isEnded = false;
  let reporting: Promise<unknown> = Promise.resolve();
  const report = () => {
    reporting = writeReport(sql, { id, kind, version, details: { ...ABILITIES, ...readDetails() } }).catch(
      () => undefined,
    );
  };
  const timer = setInterval(() => isEnded || report(), REPORT_EVERY_MS);
  report();
  return async () => {
    isEnded = true;
    clearInterval(timer);
    await reporting;
    await sql`delete from processes where id = ${id} or seen_at < now() - make_interval(secs => ${FORGOTTEN_AFTER_S})`;
  };
}

async function writeReport(
  tx: Tx,
  { id, kind, version, details }: { id: string; kind: ReportedKind; version: string; details: object },
): Promise<void> {
  await tx`
    insert into processes (id, kind, version, host, pid, details)
    values (${id}, ${kind}, ${version}, ${hostname()}, ${process.pid}, ${JSON.stringify(details)}::text::jsonb)
    on conflict (id) do update
    set seen_at = now(), details = excluded.details`;
}

/** Whether no process that may still run lacks this ability. */
export async function canAllProcesses(tx: Tx, ability: keyof typeof ABILITIES): Promise<boolean> {
  const [row] = await tx<{ lacking: boolean }[]>`
    select exists (
      select from processes
      where seen_at > now() - make_interval(secs => ${FORGOTTEN_AFTER_S}) and details -> ${ability}::text is null
    ) as lacking`;
  return !row?.lacking;
}

/** Whether more than one worker has reported recently. */
export async function hasOtherWorkers(tx: Tx): Promise<boolean> {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count
    from processes
    where kind = 'worker' and seen_at > now() - make_interval(secs => ${(3 * REPORT_EVERY_MS) / 1_000}::float8)`;
  return (row?.count ?? 0) > 1;
}

/**
 * The relayer keys of all workers that may still run, each "network address". Undefined when one may have any: it is of a version that does
 * not report them (`relayers`).
 */
export async function findWorkerKeys(tx: Tx): Promise<string[] | undefined> {
  const rows = await tx<{ keys: string[] | null }[]>`
    select details -> 'relayers' as keys
    from processes
    where kind = 'worker' and seen_at > now() - make_interval(secs => ${FORGOTTEN_AFTER_S})`;
  const known = rows.flatMap(({ keys }) => (keys ? [keys] : []));
  return known.length === rows.length ? known.flat() : undefined;
}

export type ProcessReport = {
  kind: ReportedKind;
  version: string;
  host: string;
  pid: number;
  upS: number;
  silentS: number;
  details: unknown;
};

export async function listProcesses(tx: Tx): Promise<ProcessReport[]> {
  return tx<ProcessReport[]>`
    select
      kind, version, host, pid, details, extract(epoch from now() - started_at)::float8 as up_s,
      extract(epoch from now() - seen_at)::float8 as silent_s
    from processes
    where seen_at > now() - make_interval(secs => ${FORGOTTEN_AFTER_S})
    order by kind, started_at`;
}
