/** What an operator sees of a failure: of the database its kind, and nothing of its rows; of nodes why nothing is read. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { fieldOf } from "../../core/rpc/parse-answers.ts";
import { startFaultProxy } from "../rpc/fault-proxy.ts";
import {
  headOf,
  type Lab,
  mine,
  NETWORK,
  openLab,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";

setDefaultTimeout(120_000);
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

test("a node whose next block does not follow its previous one is shown, and read again once it does", async () => {
  const cursor = await headOf(lab);
  const proxy = startFaultProxy(lab.chain.rpcUrl);
  const isAbove = (block: unknown) => Number(fieldOf(block, "number")) > cursor.number;
  const detach = (answer: unknown) => {
    const result = fieldOf(answer, "result");
    if (!isAbove(result)) return answer;
    return { ...(answer as object), result: { ...(result as object), parentHash: `0x${"5a".repeat(32)}` } };
  };
  proxy.fault = () => ({
    kind: "edit",
    edit: (answer) => (Array.isArray(answer) ? answer.map(detach) : detach(answer)),
  });
  await mine(lab);
  const indexer = startIndexer(lab, { urls: [proxy.url] });
  let shown: string | null = null;
  await until("it is shown", async () => {
    const [row] = await lab.sql<{ lastError: string | null }[]>`
      select last_error from cursors where network = ${NETWORK}`;
    shown = row?.lastError ?? null;
    return shown !== null;
  });
  expect(shown as string | null).toBe(
    `block ${cursor.number + 1} does not follow block ${cursor.number} ${cursor.hash}, and too few nodes report that this one was replaced`,
  );
  proxy.fault = () => undefined;
  await settled(lab);
  await indexer.stop();
  await proxy.stop();
});
