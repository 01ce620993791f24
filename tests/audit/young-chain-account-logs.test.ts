/** The search for owner changes on a chain that has fewer blocks than a confirmation takes. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { searchAccountLogs } from "../../indexer/audit/search-account-logs.ts";
import { makeMerchant, openLab, openTerm, settled, startIndexer } from "../support/indexer-lab.ts";

setDefaultTimeout(120_000);

test("the search for account changes begins at the first block once that is deep enough", async () => {
  const lab = await openLab();
  await makeMerchant(lab);
  const indexer = startIndexer(lab);
  await settled(lab);
  await indexer.stop();
  await lab.sql`update cursors set account_logs_number = null`;
  const term = await openTerm(lab);
  const searchedTo = async (confirmations: number) => {
    await searchAccountLogs({ ...term, confirmations });
    const [row] = await lab.sql<{ number: bigint }[]>`select account_logs_number as number from cursors`;
    return Number(row?.number);
  };
  const { number: head } = term.cursor;
  try {
    expect(await searchedTo(head + 5)).toBeLessThan(0);
    expect(await searchedTo(head + 2)).toBeLessThan(0);
    expect(await searchedTo(head + 1)).toBe(0);
    expect(await searchedTo(1)).toBe(head);
  } finally {
    term.close();
    await lab.stop();
  }
});
