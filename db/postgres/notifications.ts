/**
 * Waiting for a row's outcome by LISTEN/NOTIFY. A waiter subscribes, commits, reads the row, then waits; whoever changes the row
 * calls `notify` in the same transaction. A lost notification delays the waiter by one re-read interval.
 */
import type { Sql, Tx } from "./client.ts";
import { SilentDatabaseError, withTimeout } from "./retry-while-unavailable.ts";

const CHANNEL = "outcome";
/** Postgres refuses notifications of 8,000 bytes or more. */
const PAYLOAD_MAX_BYTES = 7_800;
/** Re-read interval, for notifications lost with their connection. */
const REREAD_MS = 1_000;
/** Minimum time for a read that began before the deadline. */
const READ_MIN_MS = 2_000;

export type Outcomes = {
  /**
   * Subscribes to `id`; call before committing the work that leads to the outcome.
   * `settle` reads until `read` returns a value or `timeoutMs` is over (then undefined), and unsubscribes.
   */
  watch(id: string): {
    settle<T>(
      read: () => Promise<T | undefined>,
      timeoutMs: number,
      options?: SettleOptions,
    ): Promise<T | undefined>;
    cancel(): void;
  };
  close(): Promise<void>;
};

export type SettleOptions = {
  /** Pauses before the reads that follow a wake-up that found nothing yet. */
  retriesMs?: readonly number[];
  /** The caller has just committed the row, without an outcome: it is read once it was notified of, or after a re-read interval. */
  isJustStored?: boolean;
  /** The re-read interval of a waiter whose outcome takes longer than most. Default 1 s. */
  rereadMs?: number;
};

/** Wakes all watchers of these ids when `tx` commits. */
export async function notify(tx: Tx, ids: readonly string[]): Promise<void> {
  for (const payload of packIds(ids)) await tx`select pg_notify(${CHANNEL}, ${payload})`;
}

/** Opens the single listening connection of this process. */
export async function openOutcomes(sql: Sql): Promise<Outcomes> {
  const watchers = new Map<string, Set<() => void>>();
  const wake = (id: string) => {
    for (const resume of watchers.get(id) ?? []) resume();
  };
  const wakeAll = () => {
    for (const id of watchers.keys()) wake(id);
  };
  const listening = await sql.listen(CHANNEL, (payload) => payload.split(",").forEach(wake), wakeAll);
  return { watch: (id) => watch(watchers, id), close: () => listening.unlisten() };
}

function watch(watchers: Map<string, Set<() => void>>, id: string) {
  let isNotified = false;
  let resume: (() => void) | undefined;
  const wake = () => {
    isNotified = true;
    resume?.();
  };
  const group = watchers.get(id) ?? new Set();
  watchers.set(id, group.add(wake));
  const cancel = () => {
    group.delete(wake);
    if (group.size === 0 && watchers.get(id) === group) watchers.delete(id);
  };
  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      resume = () => {
        clearTimeout(timer);
        resolve();
      };
      if (isNotified) resume();
    });
  async function settle<T>(
    read: () => Promise<T | undefined>,
    timeoutMs: number,
    { retriesMs = [], isJustStored = false, rereadMs = REREAD_MS }: SettleOptions = {},
  ): Promise<T | undefined> {
    const deadline = performance.now() + timeoutMs;
    let retries: number[] = [];
    try {
      if (isJustStored) await pause(Math.min(timeoutMs, rereadMs));
      for (;;) {
        if (isNotified) retries = [...retriesMs];
        isNotified = false;
        const value = await readInTime(read, deadline);
        if (value !== undefined) return value;
        const leftMs = deadline - performance.now();
        if (leftMs <= 0) return undefined;
        await pause(Math.min(leftMs, retries.shift() ?? rereadMs));
      }
    } finally {
      cancel();
    }
  }
  return { settle, cancel };
}

/** Also undefined when the database does not respond by then. */
async function readInTime<T>(read: () => Promise<T | undefined>, deadlineMs: number): Promise<T | undefined> {
  try {
    return await withTimeout(Math.max(deadlineMs - performance.now(), READ_MIN_MS), read());
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
