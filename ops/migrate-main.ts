/** `bun run migrate`: applies missing migrations and lists them. */
import { postgresUrl, readEnv, readEnvOrExit } from "../core/runtime/env.ts";
import { migrate } from "../db/postgres/migrate.ts";

const { DATABASE_URL: url } = readEnvOrExit(() => readEnv({ DATABASE_URL: postgresUrl }));
const applied = await migrate(url);
console.log(applied.length > 0 ? `applied ${applied.join(", ")}` : "schema is up to date");
