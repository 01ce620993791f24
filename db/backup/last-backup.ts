/** When the newest backup was taken, so that missing backups are noticed. */
import type { Tx } from "../postgres/client.ts";

/** Call for a complete backup. The last one to finish counts, so that a machine whose clock was ahead cannot hide that backups have stopped. */
export async function recordBackup(tx: Tx, takenAt: Date): Promise<void> {
  await tx`
    insert into last_backup (taken_at)
    values (${takenAt})
    on conflict (is_only) do update
    set taken_at = excluded.taken_at`;
}

/** Undefined before the first one. */
export async function findLastBackup(tx: Tx): Promise<{ takenAt: Date; ageS: number } | undefined> {
  const [row] = await tx<{ takenAt: Date; ageS: number }[]>`
    select taken_at, extract(epoch from now() - taken_at)::float8 as age_s from last_backup`;
  return row;
}
