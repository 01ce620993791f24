/** A DATABASE_READ_URL that leads to another database than a standby's: what is stored there must not be answered as the service's own. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { openReader, type ReadSource } from "../../db/postgres/replica.ts";
import { createEmptyDatabase, createTestDatabase } from "../support/postgres.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { type ReplicatedPostgres, startReplicatedPostgres } from "../support/standby.ts";

let folder: string;
let pair: ReplicatedPostgres;

beforeAll(async () => {
  folder = makeDatabaseFolder("test-foreign-replica-");
  pair = await startReplicatedPostgres({ folder, database: "replica" });
}, 180_000);
afterAll(async () => {
  await pair?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Two reads, one after another: from where, and what was logged. */
async function readTwice(primaryUrl: string, replicaUrl: string) {
  const [primary, replica] = [primaryUrl, replicaUrl].map((url) =>
    openDatabase(url, { name: "test", maxConnections: 1 }),
  ) as [Sql, Sql];
  const [sources, messages]: [ReadSource[], string[]] = [[], []];
  const reader = openReader(primary, {
    ...{ replica, waitMs: 5_000 },
    onRead: (source) => void sources.push(source),
    onForeign: (message) => void messages.push(message),
  });
  const read = () =>
    reader.read(
      (tx) => tx<{ name: string }[]>`select pg_is_in_recovery() as standby, current_database() as name`,
    );
  try {
    const rows = [...(await read()), ...(await read())];
    return { rows, sources, messages };
  } finally {
    await Promise.all([primary.end({ timeout: 1 }), replica.end({ timeout: 1 })]);
  }
}

const refusal = expect.stringMatching(
  /^DATABASE_READ_URL leads to a database that is no standby of DATABASE_URL's/,
);
const refused = (name: string) => ({
  rows: [
    { standby: false, name },
    { standby: false, name },
  ],
  sources: ["foreign", "foreign"],
  messages: [refusal],
});

test("another database of the same server, of this service or without its tables, is not read", async () => {
  const [own, other, empty] = await Promise.all([
    createTestDatabase(),
    createTestDatabase(),
    createEmptyDatabase(),
  ]);
  try {
    expect(await readTwice(own.url, other.url)).toMatchObject(refused(own.name));
    expect(await readTwice(own.url, empty.url)).toMatchObject(refused(own.name));
    // as `DATABASE_READ_URL` of a service that has no standby yet
    expect((await readTwice(own.url, own.url)).sources).toEqual(["replica", "replica"]);
  } finally {
    await Promise.all([own.drop(), other.drop(), empty.drop()]);
  }
}, 60_000);

test("a standby is read until it was promoted and written to while its primary goes on", async () => {
  await pair.waitForStandby();
  expect(await readTwice(pair.url, pair.standbyUrl)).toMatchObject({
    rows: [{ standby: true }, { standby: true }],
    sources: ["replica", "replica"],
    messages: [],
  });
  pair.cutReplication();
  const promoted = openDatabase(pair.standbyUrl, { name: "test", maxConnections: 1 });
  try {
    await promoted`select pg_promote(true, 30)`;
    await promoted`select write_event_epoch()`;
    expect(await readTwice(pair.url, pair.standbyUrl)).toMatchObject(refused("replica"));
  } finally {
    await promoted.end({ timeout: 1 });
  }
}, 60_000);
