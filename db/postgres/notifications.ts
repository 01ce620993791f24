/**
 * The only waiting in the house. Who wants to know how a row ends listens first, commits, reads the row, then waits;
 * who ends it calls `tell` in the transaction that does. A notification that is lost costs one re-read interval, nothing else.
 */
import type { Sql, Tx } from "./client.ts";
import { SilentDatabaseError, within } from "./retry-while-unavailable.ts";

const CHANNEL = "outcome";
/** Postgres refuses notifications of 8,000 bytes or more. */
const PAYLOAD_MAX_BYTES = 7_800;
/** Re-read while waiting, for notifications lost with their connection. */
const REREAD_MS = 1_000;
/** A reading that began in time is given this much, whatever is left. */
const READ_MIN_MS = 2_000;

export type Outcomes = {
  /**
   * Starts to listen for `id`; call before committing what will lead to the outcome.
   * `settle` reads until `read` returns a value or `timeoutMs` is over (then undefined), and stops listening.
   */
  watch(id: string): {
    settle<T>(read: () => Promise<T | undefined>, timeoutMs: number): Promise<T | undefined>;
    cancel(): void;
  };
  close(): Promise<void>;
};

/** Wakes everybody who watches one of these ids, when `tx` commits. */
export async function tell(tx: Tx, ids: readonly string[]): Promise<void> {
  for (const payload of packIds(ids)) await tx`select pg_notify(${CHANNEL}, ${payload})`;
}

/** Opens this process's one listening connection. */
export async function openOutcomes(sql: Sql): Promise<Outcomes> {
  const watchers = new Map<string, Set<() => void>>();
  const wake = (id: string) => {
    for (const notify of watchers.get(id) ?? []) notify();
  };
  const wakeAll = () => {
    for (const id of watchers.keys()) wake(id);
  };
  const listening = await sql.listen(CHANNEL, (payload) => payload.split(",").forEach(wake), wakeAll);
  return { watch: (id) => watch(watchers, id), close: () => listening.unlisten() };
}

function watch(watchers: Map<string, Set<() => void>>, id: string) {
  let told = false;
  let resume: (() => void) | undefined;
  const notify = () => {
    told = true;
    resume?.();
  };
  const group = watchers.get(id) ?? new Set();
  watchers.set(id, group.add(notify));
  const cancel = () => {
    group.delete(notify);
    if (group.size === 0 && watchers.get(id) === group) watchers.delete(id);
  };
  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      resume = () => {
        clearTimeout(timer);
        resolve();
      };
      if (told) resume();
    });
  async function settle<T>(read: () => Promise<T | undefined>, timeoutMs: number): Promise<T | undefined> {
    const deadline = Date.now() + timeoutMs;
    try {
      for (;;) {
        told = false;
        const value = await readInTime(read, deadline);
        if (value !== undefined) return value;
        const leftMs = deadline - Date.now();
        if (leftMs <= 0) return undefined;
        await pause(Math.min(leftMs, REREAD_MS));
      }
    } finally {
      cancel();
    }
  }
  return { settle, cancel };
}

/** Undefined also when the database says nothing until then. */
async function readInTime<T>(read: () => Promise<T | undefined>, deadlineMs: number): Promise<T | undefined> {
  try {
    return await within(Math.max(deadlineMs - Date.now(), READ_MIN_MS), read());
  } catch (error) {
    if (error instanceof SilentDatabaseError) return undefined;
    throw error;
  }
}

function packIds(ids: readonly string[]): string[] {
  const payloads: string[] = [];
  let payload = "";
  for (const id of new Set(ids)) {
    if (payload && payload.length + id.length + 1 > PAYLOAD_MAX_BYTES) {
      payloads.push(payload);
      payload = "";
    }
    payload = payload ? `${payload},${id}` : id;
  }
  return payload ? [...payloads, payload] : payloads;
}
