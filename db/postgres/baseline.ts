/**
 * The schema that an empty database gets (`db/schema`), named by the last of the migrations it replaces. A database that has exactly these
 * is adopted: it has this schema, and gets the baseline's name beside theirs. The newest of them are still in `db/migrations`, for databases
 * that lack them.
 */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { SchemaFile } from "./apply-migration.ts";

const SCHEMA_DIR = new URL("../schema/", import.meta.url);
/** In the order their references need. */
const FILES = [
  ...["postgres", "accounts", "auth", "sessions", "api-keys", "members", "wallets", "links"],
  ...["relays", "payments", "ledger", "wallet-ops", "transactions", "exports", "documents"],
  ...["events", "webhooks", "notices", "http", "health", "traces"],
];
export const BASELINE = "0159_baseline";
/** SHA-256 of the names of all migrations that it replaces, sorted, one per line. How to recreate it: db/migrations/README.md. */
const REPLACED_SHA256 = ["823791d9decdc72ccca487e2a048ef5436ccb3998f736623451c77dbf91b9881"];
/** The first baseline had no number; later ones are named like this one. */
const FIRST_BASELINE = "baseline";
const ANY_BASELINE = /^(\d{4}_)?baseline$/;

export async function readBaseline(): Promise<SchemaFile> {
  const texts = await Promise.all(FILES.map((name) => readFile(new URL(`${name}.sql`, SCHEMA_DIR), "utf8")));
  const text = texts.join("\n");
  return { name: BASELINE, text, sha256: hashOf(withoutComments(text)) };
}

/** A comment may be corrected after the baseline was applied. */
export function withoutComments(text: string): string {
  return text.replace(/^\s*(--.*)?\n/gm, "");
}

export function isReplaced(name: string): boolean {
  return name === FIRST_BASELINE || numberOf(name) <= numberOf(BASELINE);
}

/** With the schema of the baseline: `names` are those of a database's or a backup's migrations. */
export function isAdoptable(names: readonly string[]): boolean {
  const replaced = names.filter(isReplaced).sort();
  return REPLACED_SHA256.includes(hashOf(replaced.join("\n")));
}

/** The error for a schema of an earlier version that cannot be upgraded. */
export class EarlierSchemaError extends Error {}

/** Throws EarlierSchemaError for what lacks migrations that this version no longer has. `coming`: those that it still has, and would apply. */
export function refuseEarlier(
  kind: "database" | "backup",
  names: readonly string[],
  coming: readonly string[] = [],
): void {
  if (names.length === 0 || names.includes(BASELINE) || isAdoptable([...names, ...coming])) return;
  const last = names
    .filter((name) => name !== FIRST_BASELINE)
    .sort()
    .at(-1);
  const earlier =
    `the ${kind} is of an earlier version ` +
    (last ? `(its last migration is ${last})` : "(it has no migrations after its baseline)");
  const another = "set DATABASE_URL to an empty database and keep this one";
  if (!names.some((name) => ANY_BASELINE.test(name)))
    throw new EarlierSchemaError(`${earlier} and can't be upgraded: ${another}`);
  const [next] = coming;
  const needed = next ? `below ${numberOf(next)}` : `up to ${numberOf(BASELINE)}`;
  const first =
    kind === "database"
      ? `first run \`bun run migrate\` of a version that has them, or ${another}`
      : "restore it with the version that wrote it";
  throw new EarlierSchemaError(`${earlier}, and this version needs every migration ${needed}: ${first}`);
}

function numberOf(name: string): string {
  return name.slice(0, 4);
}

export function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
