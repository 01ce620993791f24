/**
 * What screens read, kept by key: shown at once when it is known, and read again behind it. A change that the event stream reports reads
 * again what is on the screen, at most once in a while.
 */
import { useEffect, useState } from "preact/hooks";
import type { Wire } from "../wire.ts";
import { type Answer, call, type Given, messageOf, Refusal } from "./service.ts";

type Entry = {
  value?: unknown;
  error?: Refusal | undefined;
  isStale: boolean;
  running?: Promise<void> | undefined;
  readers: Set<() => void>;
  read: () => Promise<unknown>;
  readAtMs: number;
};

export type Loaded<Value> = {
  value: Value | undefined;
  error: Refusal | undefined;
  /** The value belongs to an earlier question. */
  isOld: boolean;
  retry: () => void;
};

const KEPT_MAX = 200;
const REREAD_EVERY_MS = 1_500;
const entries = new Map<string, Entry>();

/** `undefined` for the name: nothing is asked. */
export function useLoad<Of extends keyof Wire>(
  name: Of | undefined,
  given: Given<Of> = {},
): Loaded<Answer<Of>> {
  const key = name ? `${name} ${JSON.stringify([given.id, given.query])}` : "";
  const [, setTurn] = useState(0);
  const [last, setLast] = useState<{ name: string; value: unknown }>();
  const entry = name ? entryOf(key, () => call(name, given)) : undefined;
  useEffect(() => {
    if (!entry) return;
    const update = () => {
      setTurn((turn) => turn + 1);
      if (entry.value !== undefined) setLast({ name: String(name), value: entry.value });
    };
    entry.readers.add(update);
    if (entry.value !== undefined) setLast({ name: String(name), value: entry.value });
    if (entry.isStale) void refresh(entry);
    return () => void entry.readers.delete(update);
  }, [key]);
  const isOld = entry?.value === undefined && last?.name === name && entry?.error === undefined;
  return {
    value: (isOld ? last?.value : entry?.value) as Answer<Of> | undefined,
    error: entry?.error,
    isOld,
    retry: () => entry && void refresh(entry),
  };
}

function entryOf(key: string, read: () => Promise<unknown>): Entry {
  const known = entries.get(key);
  if (known) return known;
  const entry: Entry = { isStale: true, readers: new Set(), read, readAtMs: 0 };
  entries.set(key, entry);
  for (const [name, { readers }] of entries) {
    if (entries.size <= KEPT_MAX) break;
    if (readers.size === 0 && name !== key) entries.delete(name);
  }
  return entry;
}

async function refresh(entry: Entry): Promise<void> {
  entry.running ??= run(entry);
  await entry.running;
}

async function run(entry: Entry): Promise<void> {
  entry.isStale = false;
  entry.readAtMs = Date.now();
  try {
    entry.value = await entry.read();
    entry.error = undefined;
  } catch (error) {
    entry.error = error instanceof Refusal ? error : new Refusal(0, "UNKNOWN", messageOf(error));
    entry.isStale = true;
  }
  entry.running = undefined;
  for (const update of entry.readers) update();
  if (entry.isStale && !entry.error && entry.readers.size > 0) void refresh(entry);
}

/** Marks what was read under these paths as old, and reads again what is shown. */
export function invalidate(...paths: readonly string[]): void {
  for (const [key, entry] of entries) {
    const [, path = ""] = key.split(" ");
    if (!paths.some((prefix) => path.startsWith(prefix))) continue;
    entry.isStale = true;
    if (entry.readers.size === 0 || entry.running) continue;
    const waitMs = entry.readAtMs + REREAD_EVERY_MS - Date.now();
    if (waitMs <= 0) void refresh(entry);
    else setTimeout(() => entry.isStale && entry.readers.size > 0 && void refresh(entry), waitMs);
  }
}

/** Another account's data must not be seen for a moment. */
export function forgetAll(): void {
  entries.clear();
}
