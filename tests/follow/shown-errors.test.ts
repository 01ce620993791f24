/** What an operator sees of a failure of the database: its kind, and nothing of its rows. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type Lab, mine, NETWORK, openLab, settled, startIndexer, until } from "../support/indexer-lab.ts";

setDefaultTimeout(60_000);
let lab: Lab;

beforeAll(async () => {
  lab = await openLab();
});
afterAll(() => lab?.stop());

test("an error of the database is shown by its SQLSTATE, without its message", async () => {
  const indexer = startIndexer(lab);
  await settled(lab);
  await lab.sql`alter table blocks add constraint refused check (number < 0) not valid`;
  await mine(lab);
  let shown: string | null = null;
  await until("the failure is recorded", async () => {
    const [row] = await lab.sql<{ lastError: string | null }[]>`
      select last_error from cursors where network = ${NETWORK}`;
    shown = row?.lastError ?? null;
    return shown !== null;
  });
  expect(shown as string | null).toBe("the indexer failed (PostgresError 23514); its log says why");
  await lab.sql`alter table blocks drop constraint refused`;
  await settled(lab);
  await indexer.stop();
});
