/** The pace of batches: alone a payment is relayed at once, under load those of a moment are gathered. */
import { beforeEach, expect, test } from "bun:test";
import { type BatchPace, GATHER_MAX_MS, openBatchPace } from "../../worker/payments/batch-pace.ts";

let nowMs = 0;
let pace: BatchPace;
beforeEach(() => {
  nowMs = 1_000_000;
  pace = openBatchPace(() => nowMs);
});

test("the first payment of a process is relayed at once", () => {
  expect(pace.gatherMs()).toBe(0);
  expect(pace.isBusy()).toBe(false);
});

test("after a payment that was relayed alone the next one is relayed at once", () => {
  pace.noteBatch(1);
  expect(pace.gatherMs()).toBe(0);
  expect(pace.isBusy()).toBe(false);
});

test("the next batch is gathered for 3 ms a payment of the last one, up to 60 ms", () => {
  const waits = [2, 7, 19, 20, 21, 100].map((payments) => {
    pace.noteBatch(payments);
    return pace.gatherMs();
  });
  expect(waits).toEqual([6, 21, 57, 60, 60, 60]);
  expect(GATHER_MAX_MS).toBe(60);
});

test("a network is busy from eight payments in a batch on", () => {
  pace.noteBatch(7);
  expect(pace.isBusy()).toBe(false);
  pace.noteBatch(8);
  expect(pace.isBusy()).toBe(true);
});

test("400 ms after the last batch a payment is relayed at once again", () => {
  pace.noteBatch(50);
  nowMs += 399;
  expect([pace.gatherMs(), pace.isBusy()]).toEqual([60, true]);
  nowMs += 1;
  expect([pace.gatherMs(), pace.isBusy()]).toEqual([0, false]);
});
