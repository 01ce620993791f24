/**
 * After a change of WEBHOOK_SEAL_KEYS or OTP_PEPPER: re-encrypts every webhook and return secret with the newest key, so that the other keys may
 * be removed.
 */
import { type KeyList, seal, tryUnseal } from "../../core/domain/seal-secrets.ts";
import { listReturnSecrets, resealReturnSecret } from "../../db/links/page-settings.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { listSealedSecrets, replaceSealedSecret, type SealedSecret } from "../../db/webhooks/webhooks.ts";

const PAGE = 200;

/** `unreadable`: ids of endpoints and merchants whose secret no key in the list decrypts; they are unchanged. */
export type ResealReport = { resealed: number; kept: number; unreadable: string[] };

/** May run concurrently with everything else and repeatedly: a secret that changes concurrently is encrypted with the newest key anyway. */
export async function resealWebhookSecrets(sql: Sql, keys: KeyList): Promise<ResealReport> {
  const report: ResealReport = { resealed: 0, kept: 0, unreadable: [] };
  for (let afterId = ""; ; ) {
    const page = await listSealedSecrets(sql, { afterId, limit: PAGE });
    for (const secret of page) await resealOne(sql, keys, secret, report);
    const last = page.at(-1);
    if (!last) return report;
    afterId = last.id;
  }
}

/** The same for the secrets that sign merchants' return URLs. */
export async function resealReturnSecrets(sql: Sql, keys: KeyList): Promise<ResealReport> {
  const report: ResealReport = { resealed: 0, kept: 0, unreadable: [] };
  for (let afterUserId = ""; ; ) {
    const page = await listReturnSecrets(sql, { afterUserId, limit: PAGE });
    for (const { userId, sealedReturnSecret: sealed } of page) {
      const place = { purpose: "return secret", id: userId } as const;
      const opened = tryUnseal(keys, place, sealed);
      if (!opened) report.unreadable.push(userId);
      else if (opened.isNewest) report.kept += 1;
      else if (await resealReturnSecret(sql, { userId, sealed, renewed: seal(keys, place, opened.text) }))
        report.resealed += 1;
    }
    const last = page.at(-1);
    if (!last) return report;
    afterUserId = last.userId;
  }
}

async function resealOne(sql: Sql, keys: KeyList, row: SealedSecret, report: ResealReport): Promise<void> {
  const place = { purpose: "webhook secret", id: row.id } as const;
  for (const column of ["sealedSecret", "sealedOldSecret"] as const) {
    const sealed = row[column];
    if (sealed === null) continue;
    const opened = tryUnseal(keys, place, sealed);
    if (!opened) report.unreadable.push(row.id);
    else if (opened.isNewest) report.kept += 1;
    else {
      const renewed = seal(keys, place, opened.text);
      if (await replaceSealedSecret(sql, { id: row.id, column, sealed, renewed })) report.resealed += 1;
    }
  }
}
