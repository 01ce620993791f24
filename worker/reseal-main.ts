/**
 * `bun run reseal`: re-encrypts webhook and return secrets with the newest key and reports when older keys may be removed. Exit code 1: some
 * secrets cannot be decrypted with any key; 2: it could not finish, and may be run again.
 */
import { readArgumentsOrExit } from "../core/runtime/command-line.ts";
import { exitMisconfigured, readEnvOrExit } from "../core/runtime/env.ts";
import { openDatabase } from "../db/postgres/client.ts";
import { inspectDatabase } from "../db/postgres/inspect-database.ts";
import { describeDatabaseFailure } from "../db/postgres/retry-while-unavailable.ts";
import { readSealConfig } from "./config.ts";
import { resealReturnSecrets, resealWebhookSecrets } from "./webhooks/reseal-secrets.ts";

readArgumentsOrExit("bun run reseal", {});
const config = readEnvOrExit(() => readSealConfig());
const sql = openDatabase(config.databaseUrl, { name: "reseal" });
const { webhooks, returns } = await reseal().catch((error: unknown) => {
  console.error(`not resealed: ${describeDatabaseFailure(config.databaseUrl, error)}`);
  process.exit(2);
});
await sql.end({ timeout: 5 });
const resealed = webhooks.resealed + returns.resealed;
const kept = webhooks.kept + returns.kept;
const unreadable = [...webhooks.unreadable, ...returns.unreadable];
console.log(`${resealed} secret(s) re-encrypted with the newest key, ${kept} already were`);
if (unreadable.length > 0) {
  const examples = unreadable.slice(0, 5).join(", ");
  console.log(
    `${unreadable.length} cannot be decrypted with any of the given keys, for example those of ${examples}`,
  );
  process.exit(1);
}
console.log("the older keys are no longer needed for webhook and return secrets");

async function reseal() {
  const { refusal } = await inspectDatabase(sql, config.databaseUrl);
  if (refusal) exitMisconfigured(`not resealed: ${refusal}`);
  const webhooks = await resealWebhookSecrets(sql, config.webhookSealKeys);
  const returns = await resealReturnSecrets(sql, config.webhookSealKeys);
  return { webhooks, returns };
}
