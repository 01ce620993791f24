/** Whether the secrets that the database stores encrypted can be read with the keys of the environment: after a restore they may be others. */
import { type SealPlace, tryUnseal } from "../../core/domain/seal-secrets.ts";
import { listReturnSecrets } from "../../db/links/page-settings.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { listSealedSecrets } from "../../db/webhooks/webhooks.ts";
import type { WorkerConfig } from "../../worker/config.ts";
import { advice, type Finding, fault, good } from "./finding.ts";

/** Of each kind: wrong keys show in the first already. */
const CHECKED_MAX = 200;

export async function checkSecrets(
  sql: Sql,
  { webhookSealKeys }: Pick<WorkerConfig, "webhookSealKeys">,
): Promise<Finding[]> {
  const [webhooks, returns] = await Promise.all([
    listSealedSecrets(sql, { afterId: "", limit: CHECKED_MAX }),
    listReturnSecrets(sql, { afterUserId: "", limit: CHECKED_MAX }),
  ]);
  const isReadable = (purpose: SealPlace["purpose"], id: string, sealed: Uint8Array) =>
    tryUnseal(webhookSealKeys, { purpose, id }, sealed) !== undefined;
  const readable = [
    ...webhooks.map(({ id, sealedSecret }) => isReadable("webhook secret", id, sealedSecret)),
    ...returns.map(({ userId, sealedReturnSecret }) =>
      isReadable("return secret", userId, sealedReturnSecret),
    ),
  ];
  const lost = readable.filter((one) => !one).length;
  if (readable.length === 0) return [];
  if (lost === 0) return [good("database", "webhook and return secrets can be read with the given keys")];
  const found = `${lost} of ${readable.length} webhook and return secrets cannot be decrypted with WEBHOOK_SEAL_KEYS or OTP_PEPPER`;
  return lost === readable.length
    ? [
        fault(
          "database",
          `${found}: set the keys that this database was used with; otherwise every message to these endpoints fails, and after 72 hours they are disabled`,
        ),
      ]
    : [
        advice(
          "database",
          `${found}: add the missing key to the list, or let the owners rotate them (docs/KEYS.md)`,
        ),
      ];
}
