/** `bun run migrate`: applies missing migrations and lists them. `--plan` says what it would do and what waits for it, and changes nothing. */
import { readArgumentsOrExit } from "../core/runtime/command-line.ts";
import { postgresUrl, readEnv, readEnvOrExit } from "../core/runtime/env.ts";
import { openDatabase } from "../db/postgres/client.ts";
import { migrate } from "../db/postgres/migrate.ts";
import { describePlanned, planMigration } from "../db/postgres/plan-migration.ts";
import { describeDatabaseFailure } from "../db/postgres/retry-while-unavailable.ts";

const { plan: isPlan } = readArgumentsOrExit("bun run migrate [--plan]", {
  plan: { type: "boolean" },
}).values;
const { DATABASE_URL: url } = readEnvOrExit(() => readEnv({ DATABASE_URL: postgresUrl }));
try {
  if (isPlan) await printPlan();
  else {
    const applied = await migrate(url, { onWait: (line) => console.log(line) });
    console.log(applied.length > 0 ? `applied ${applied.join(", ")}` : "schema is up to date");
  }
} catch (error) {
  console.error(`not migrated: ${describeDatabaseFailure(url, error)}`);
  process.exit(1);
}

async function printPlan(): Promise<void> {
  const sql = openDatabase(url, { name: "migrate plan", maxConnections: 1 });
  try {
    const plan = await planMigration(sql);
    for (const line of plan.flatMap(describePlanned)) console.log(line);
    console.log(
      plan.length === 0
        ? "schema is up to date"
        : "Each runs as one transaction, or builds its indexes concurrently; nothing was changed.",
    );
  } finally {
    await sql.end({ timeout: 5 });
  }
}
