/** The number of differences that health and metrics report: wallets that differ now, and what was found in the last 24 hours and not repaired. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { NetworkId } from "../../core/domain/networks.ts";
import { countDifferences } from "../../db/ledger/reconciliation.ts";
import { type BooksLab, NETWORK, openBooks } from "../support/ledger-lab.ts";

let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  await lab.sql`delete from reconciliations`;
  await lab.sql`update wallets set difference_units = 0`;
});

type Found = {
  kind?: string;
  differences?: number;
  repaired?: number;
  hoursAgo?: number;
  network?: NetworkId;
};

const record = ({ kind = "LOGS", differences = 0, repaired = 0, hoursAgo = 0, network = NETWORK }: Found) =>
  lab.sql`
    insert into reconciliations (network, kind, from_block, to_block, checked, differences, repaired, created_at)
    values (${network}, ${kind}, 1, 2, 10, ${differences}, ${repaired}, now() - make_interval(hours => ${hoursAgo}::int))`;
const count = () => countDifferences(lab.sql, NETWORK);

test("nothing is known before the network's first comparison", async () => {
  await record({ network: "base" });
  expect(await count()).toBeUndefined();
  await record({});
  expect(await count()).toBe(0);
});

test.each(["LOGS", "NONCES"])(
  "differences found by a comparison of %s count for a day, except those it repaired",
  async (kind) => {
    await record({ kind, differences: 5, repaired: 2 });
    await record({ kind, differences: 70, hoursAgo: 25 });
    await record({ kind, differences: 900, network: "base" });
    expect(await count()).toBe(3);
  },
);

test("for balances, only the wallets that differ now count, not earlier findings", async () => {
  await record({ kind: "BALANCES", differences: 5 });
  expect(await count()).toBe(0);
  await lab.sql`update wallets set difference_units = -1 where id = ${lab.merchant.walletId}`;
  expect(await count()).toBe(1);
});
