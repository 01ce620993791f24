/** Saved exports of a merchant, and the export request of each. */
import { fiatChoiceOf } from "../../core/domain/exchange-rate.ts";
import { metadataKeysOf, type ProfileDefinition } from "../../core/domain/export-profile.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import type { ExportRequest } from "./exports.ts";
import { type ExportProfileRow, exportProfiles, type MerchantBooks } from "./schema.ts";

type Key = { id: string; userId: string };

/** Under a lock on the merchant, so that names stay unique and their number bounded. */
export async function insertExportProfile(
  tx: Tx,
  { id, userId, name, definition }: Key & { name: string; definition: ProfileDefinition },
  most: number,
): Promise<ExportProfileRow | "name_taken" | "too_many"> {
  if (await isNameTaken(tx, { id, userId, name })) return "name_taken";
  const [row] = await tx<ExportProfileRow[]>`
    insert into export_profiles (id, user_id, name, definition)
    select ${id}, ${userId}, ${name}, ${JSON.stringify(definition)}::text::jsonb
    where (select count(*) from export_profiles where user_id = ${userId}) < ${most}
    returning ${columnsOf(tx, exportProfiles)}`;
  return row ?? "too_many";
}

async function isNameTaken(tx: Tx, { id, userId, name }: Key & { name: string }): Promise<boolean> {
  await tx`select pg_advisory_xact_lock(hashtext('export profiles of user'), hashtext(${userId}))`;
  const others = await tx`
    select
    from export_profiles
    where user_id = ${userId} and name = ${name} and id <> ${id}`;
  return others.length > 0;
}

/** The merchant's own profile. */
export async function findExportProfile(tx: Tx, { id, userId }: Key): Promise<ExportProfileRow | undefined> {
  const [row] = await tx<ExportProfileRow[]>`
    select ${columnsOf(tx, exportProfiles)}
    from export_profiles
    where id = ${id} and user_id = ${userId}`;
  return row;
}

/** The same, locked until the transaction ends: whoever changes a part of it has read what others have changed. */
export async function lockExportProfile(tx: Tx, { id, userId }: Key): Promise<ExportProfileRow | undefined> {
  const [row] = await tx<ExportProfileRow[]>`
    select ${columnsOf(tx, exportProfiles)}
    from export_profiles
    where id = ${id} and user_id = ${userId}
    for update`;
  return row;
}

export async function listExportProfiles(tx: Tx, userId: string): Promise<ExportProfileRow[]> {
  return tx<ExportProfileRow[]>`
    select ${columnsOf(tx, exportProfiles)}
    from export_profiles
    where user_id = ${userId}
    order by name`;
}

export async function updateExportProfile(
  tx: Tx,
  { id, userId }: Key,
  { name, definition }: { name: string; definition: ProfileDefinition },
): Promise<ExportProfileRow | "name_taken" | undefined> {
  if (await isNameTaken(tx, { id, userId, name })) return "name_taken";
  const [row] = await tx<ExportProfileRow[]>`
    update export_profiles
    set name = ${name}, definition = ${JSON.stringify(definition)}::text::jsonb, updated_at = now()
    where id = ${id} and user_id = ${userId}
    returning ${columnsOf(tx, exportProfiles)}`;
  return row;
}

export async function deleteExportProfile(tx: Tx, { id, userId }: Key): Promise<boolean> {
  const result = await tx`delete from export_profiles where id = ${id} and user_id = ${userId}`;
  return result.count > 0;
}

/** The export request of a profile for a period, with the settings of the merchant's books. */
export function profileRequest(
  { columns, fiatCurrency, timeZone, types, networks }: ProfileDefinition,
  books: MerchantBooks | undefined,
  period: { from?: Date | undefined; before?: Date | undefined },
): ExportRequest {
  return {
    filter: { ...NO_FILTER, types: [...types], networks: [...networks], statuses: ["CONFIRMED"], ...period },
    profile: "books",
    timeZone: timeZone ?? books?.timeZone ?? "UTC",
    metadataColumns: metadataKeysOf(columns),
    columns: columns ?? undefined,
    fiat: fiatChoiceOf(books, { fiatCurrency }),
  };
}
