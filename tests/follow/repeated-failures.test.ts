/** The log of an indexer whose node serves another chain than its ledger is of: one line a minute, not one for each block. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import pino from "pino";
import {
  type Lab,
  makeMerchant,
  mine,
  openLab,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await openLab();
  await makeMerchant(lab);
}, 120_000);
afterAll(async () => {
  await lab?.stop();
});

test("a ledger without any block of the node's chain is reported once, however many blocks come", async () => {
  const first = startIndexer(lab);
  await settled(lab);
  await first.stop();
  await lab.sql`update blocks set hash = '0x' || reverse(substr(hash, 3)), parent_hash = '0x' || reverse(substr(parent_hash, 3))`;
  await lab.sql`update cursors set hash = '0x' || reverse(substr(hash, 3))`;
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const indexer = startIndexer(lab, { log });
  try {
    await until("several polls to fail", async () => {
      await mine(lab, 1);
      return ((await indexer.metric("indexer_poll_failures_total")) ?? 0) >= 4;
    });
    const reported = lines.filter((line) => line.includes("the indexer cannot continue"));
    expect(reported).toHaveLength(1);
    expect(reported[0]).toContain("The RPC URL serves another chain");
  } finally {
    await indexer.stop();
  }
}, 120_000);
