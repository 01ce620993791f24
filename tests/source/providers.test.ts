/**
 * A row of the provider matrix for each rule, over a short chain, several at a time. Each catches up to the head without a gap or a
 * double. Every row, from 1,000 blocks behind: `bun tests/source/provider-matrix.ts`.
 */
import { afterAll, beforeAll, setDefaultTimeout, test } from "bun:test";
import { openProviderLab, type ProviderLab } from "./provider-lab.ts";
import { shortRows } from "./provider-rows.ts";

setDefaultTimeout(120_000);
/** More than 256 of them are final, so that the past is read sparsely. */
const BLOCKS = 340;
const ROWS_AT_ONCE = 4;

const rows = shortRows();
const outcomes = new Map(rows.map((row) => [row, Promise.withResolvers<void>()]));

let lab: ProviderLab;
beforeAll(async () => {
  lab = await openProviderLab(BLOCKS);
  const open = rows.values();
  for (let lane = 0; lane < ROWS_AT_ONCE; lane++) void runAll(open);
});
afterAll(() => lab.stop());

async function runAll(open: Iterable<(typeof rows)[number]>): Promise<void> {
  for (const row of open) {
    const outcome = outcomes.get(row);
    // a test that has not begun to wait must not turn a failure into an unhandled rejection
    outcome?.promise.catch(() => undefined);
    await lab.runRow(row).then(outcome?.resolve, outcome?.reject);
  }
}

test.each(rows.map((row) => [row.title, row] as const))("%s, catches up", async (_, row) => {
  await outcomes.get(row)?.promise;
});
