/**
 * The cache of the screens' data: cached data is shown immediately and read again in the background. An event's data is written into the
 * cache without a call; data it does not contain is read again, immediately and then at most four times a second while the page is visible.
 */
import { useEffect, useState } from "preact/hooks";
import type { Wire } from "../../wire.ts";
import { type LiveRecord, withRecord } from "./live-record.ts";
import { takeReread } from "./reread-budget.ts";
import { type Answer, call, type Given, messageOf, Refusal } from "./service.ts";

type Entry = {
  path: string;
  value?: unknown;
  error?: Refusal | undefined;
  isStale: boolean;
  running?: Promise<void> | undefined;
  readers: Set<() => void>;
  read: () => Promise<unknown>;
  readAtMs: number;
  /** Rows of the newest unfiltered page; 0 for any other response. */
  newestMax: number;
  due?: { atMs: number; timer: ReturnType<typeof setTimeout> } | undefined;
};

export type Loaded<Value> = {
  value: Value | undefined;
  error: Refusal | undefined;
  /** The value belongs to an earlier request. */
  isOld: boolean;
  retry: () => void;
};

const KEPT_MAX = 200;
const REREAD_EVERY_MS = 250;
/** Data that an event changed in place is read again for everything else: sums, order, filter results. */
const REREAD_PATCHED_AFTER_MS = 5_000;
/** What could not be read because the service did not answer. */
const REREAD_FAILED_AFTER_MS = 10_000;
const entries = new Map<string, Entry>();

/** With `undefined` as the name nothing is requested. */
export function useLoad<Of extends keyof Wire>(
  name: Of | undefined,
  given: Given<Of> = {},
): Loaded<Answer<Of>> {
  const key = name ? `${name} ${JSON.stringify([given.id, given.query])}` : "";
  const [, setTurn] = useState(0);
  const [last, setLast] = useState<{ name: string; value: unknown }>();
  const entry = name ? entryOf(key, () => call(name, given), newestMaxOf(given.query)) : undefined;
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

/** A page with a filter, or not the first one, has other parameters. */
function newestMaxOf(query: object | undefined): number {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== 0);
  const [[name, value] = ["", 0]] = given;
  return given.length === 1 && name === "limit" ? Number(value) : 0;
}

function entryOf(key: string, read: () => Promise<unknown>, newestMax: number): Entry {
  const known = entries.get(key);
  if (known) return known;
  const [, path = ""] = key.split(" ");
  const entry: Entry = { path, isStale: true, readers: new Set(), read, readAtMs: 0, newestMax };
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
  if (!entry.isStale || entry.readers.size === 0) return;
  if (!entry.error) rereadAt(entry, entry.readAtMs + REREAD_EVERY_MS);
  else if (isUnanswered(entry.error)) rereadAt(entry, Date.now() + REREAD_FAILED_AFTER_MS);
}

const isUnanswered = ({ status, code }: Refusal) => status >= 500 || code === "OFFLINE";

/** Invalidates what was read under these paths, and reads again what is shown. */
export function invalidate(...paths: readonly string[]): void {
  for (const entry of entries.values())
    if (isUnder(entry, paths)) makeStale(entry, entry.readAtMs + REREAD_EVERY_MS);
}

/** The same for a change whose new state is known: `records` replace those with their ids, and are prepended to the unfiltered list if new. */
export function takeChange(paths: readonly string[], records: readonly LiveRecord[]): void {
  for (const entry of entries.values()) {
    if (!isUnder(entry, paths)) continue;
    const value = records.reduce((kept, record) => withRecord(kept, record, entry.newestMax), entry.value);
    const isPatched = value !== entry.value;
    entry.value = value;
    if (isPatched) for (const update of entry.readers) update();
    makeStale(entry, isPatched ? Date.now() + REREAD_PATCHED_AFTER_MS : entry.readAtMs + REREAD_EVERY_MS);
  }
}

const isUnder = ({ path }: Entry, paths: readonly string[]) =>
  paths.some((prefix) => path.startsWith(prefix));

function makeStale(entry: Entry, rereadAtMs: number): void {
  entry.isStale = true;
  // a read in progress is followed by another one
  if (entry.readers.size > 0 && !entry.running) rereadAt(entry, rereadAtMs);
}

/** One timer per entry, the earliest requested. */
function rereadAt(entry: Entry, atMs: number): void {
  if (entry.due && entry.due.atMs <= atMs) return;
  clearTimeout(entry.due?.timer);
  const reread = () => {
    entry.due = undefined;
    // a hidden page reads once it is shown again
    if (!entry.isStale || entry.readers.size === 0 || document.hidden) return;
    const waitMs = takeReread(entry.path);
    if (waitMs > 0) rereadAt(entry, Date.now() + waitMs);
    else void refresh(entry);
  };
  const waitMs = atMs - Date.now();
  if (waitMs <= 0) reread();
  else entry.due = { atMs, timer: setTimeout(reread, waitMs) };
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden)
    for (const entry of entries.values())
      if (entry.isStale && entry.readers.size > 0 && !entry.running) rereadAt(entry, Date.now());
});

/** Another account's data must not be visible even briefly. */
export function forgetAll(): void {
  for (const entry of entries.values()) clearTimeout(entry.due?.timer);
  entries.clear();
}
