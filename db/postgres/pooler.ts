/**
 * Recognises a transaction pooler between us and Postgres. It gives each transaction whichever server connection is free: LISTEN, session
 * locks (leadership, liveness, work locks) and prepared statements end up on connections of other clients, and the service would break
 * after it reported that it is ready.
 */
import postgres from "postgres";
import { readAddress } from "./address.ts";

const CONNECT_TIMEOUT_S = 5;
/** First key of the two-key advisory locks for this check; the second is a backend's id. */
const PROBE_CLASS = 7_045;
const ROUNDS = 2;
/** A pool that is used up makes the first client wait until the second ends its transaction. */
const WAIT_MS = 2_000;
/** What poolers answer to parameters, or to a transaction, that they do not pass on. */
const REFUSAL = /unsupported startup parameter|transaction blocks not allowed|pooling mode/i;

type Probe = { pid: number; isLocked: boolean };

/** True when statements of one client run on changing server connections. Throws when the server is unavailable. */
export async function isBehindPooler(databaseUrl: string): Promise<boolean> {
  const [first, second] = [openClient(databaseUrl), openClient(databaseUrl)];
  try {
    for (let round = 0; round < ROUNDS; round++) if (await isShared(first, second)) return true;
    return false;
  } catch (error) {
    if (error instanceof Error && REFUSAL.test(error.message)) return true;
    throw error;
  } finally {
    await Promise.all([first.end({ timeout: 1 }), second.end({ timeout: 1 })]);
  }
}

/** The second client holds a transaction open: a pooler lends it the first client's connection, or that one gets another. */
async function isShared(first: postgres.Sql, second: postgres.Sql): Promise<boolean> {
  const [own] = await first<{ pid: number }[]>`
    select pg_backend_pid() as pid, pg_advisory_lock(${PROBE_CLASS}, pg_backend_pid())::text`;
  if (!own || own.pid === (await readPid(second))) return true;
  let isSame = false;
  const asked = await second.begin(async (tx) => {
    isSame = own.pid === (await readPid(tx));
    const answer = probe(first, own.pid);
    await Promise.race([answer.catch(() => undefined), Bun.sleep(WAIT_MS)]);
    return { answer };
  });
  const after = await asked.answer;
  return isSame || after.pid !== own.pid || !after.isLocked;
}

async function readPid(sql: postgres.ISql): Promise<number | undefined> {
  const [row] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
  return row?.pid;
}

async function probe(sql: postgres.Sql, pid: number): Promise<Probe> {
  const [row] = await sql<Probe[]>`
    select pg_backend_pid() as pid, pg_advisory_unlock(${PROBE_CLASS}, ${pid}) as "isLocked"`;
  return row ?? { pid: 0, isLocked: false };
}

function openClient(databaseUrl: string): postgres.Sql {
  const { url, ...tls } = readAddress(databaseUrl);
  return postgres(url, {
    ...tls,
    max: 1,
    prepare: false,
    fetch_types: false,
    max_lifetime: null,
    connect_timeout: CONNECT_TIMEOUT_S,
    onnotice: () => {},
    connection: { application_name: "pooler check" },
  });
}
