/** DATABASE_READ_URL: reached, a standby of DATABASE_URL's database, and not far behind it. */
import { openDatabase } from "../../db/postgres/client.ts";
import { FOREIGN_REPLICA, openReader, type ReadSource } from "../../db/postgres/replica.ts";
import { advice, type Finding, fault, good } from "./finding.ts";
import type { Configuration } from "./read-configuration.ts";

const WAIT_MS = 5_000;

/** Nothing where the database itself cannot be used: its own check says why. */
export async function checkReplica({ api, worker }: Configuration): Promise<Finding[]> {
  const { databaseUrl, databaseReadUrl } = api ?? worker ?? {};
  if (databaseUrl === undefined || databaseReadUrl === undefined) return [];
  const primary = openDatabase(databaseUrl, { name: "doctor", maxConnections: 1 });
  const replica = openDatabase(databaseReadUrl, { name: "doctor", maxConnections: 1 });
  let source: ReadSource | undefined;
  const reader = openReader(primary, {
    ...{ replica, waitMs: WAIT_MS },
    onRead: (by) => {
      source = by;
    },
  });
  try {
    await reader.read(async (tx) => tx`select 1`);
    return source === undefined ? [] : [describe(source)];
  } catch {
    return [];
  } finally {
    await Promise.all([primary.end({ timeout: 1 }), replica.end({ timeout: 1 })]);
  }
}

function describe(source: ReadSource): Finding {
  switch (source) {
    case "foreign":
      return fault("database", `${FOREIGN_REPLICA}: correct it, or remove it`);
    case "unavailable":
      return fault(
        "database",
        "DATABASE_READ_URL does not answer: start that server, or correct the address",
      );
    case "behind":
      return advice(
        "database",
        `DATABASE_READ_URL is more than ${WAIT_MS / 1_000} s behind DATABASE_URL, or no standby of it; the primary answers instead`,
      );
    default:
      return good("database", "DATABASE_READ_URL is a standby that keeps up");
  }
}
