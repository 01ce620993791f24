/** `bun run migrate`: applies missing migrations and lists them. */
import { migrate } from "./postgres/migrate.ts";

const url = process.env.DATABASE_URL;
if (!url) {
  console.error(
    "DATABASE_URL is not set: give the Postgres to migrate, for example postgres://user@127.0.0.1:5432/payments",
  );
  process.exit(1);
}
const applied = await migrate(url);
console.log(applied.length > 0 ? `applied ${applied.join(", ")}` : "schema is up to date");
