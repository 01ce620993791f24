/** `bun run schema`: writes db/schema.sql, the schema that the baseline and the migrations after it make. */
import { writeFileSync } from "node:fs";
import { openDatabase } from "../../db/postgres/client.ts";
import { dumpSchema, SCHEMA_DUMP } from "../support/dump-schema.ts";
import { createTestDatabase } from "../support/postgres.ts";

const db = await createTestDatabase();
const sql = openDatabase(db.url, { name: "schema", maxConnections: 1 });
writeFileSync(SCHEMA_DUMP, await dumpSchema(sql));
await sql.end();
await db.drop();
process.exit(0);
