/** How long a health report is kept. */
import { expect, test } from "bun:test";
import { openHealth } from "../../api/health/report.ts";
import { setBackClock } from "../support/set-back-clock.ts";

test("a report is replaced after a second, also by a clock that was set back meanwhile", async () => {
  const sql = Object.assign(async () => [], { begin: async () => [] });
  const health = openHealth({ sql, chains: new Map(), config: { chains: [] }, log: console } as never);
  const first = await health();
  expect(await health()).toBe(first);
  const undo = setBackClock();
  try {
    await Bun.sleep(1_010);
    expect(await health()).not.toBe(first);
  } finally {
    undo();
  }
});
