/** The timing of batches: alone a payment is relayed at once, under load those of a moment are gathered. */
import { beforeEach, expect, test } from "bun:test";
import { type BatchTiming, openBatchTiming } from "../../worker/payments/batch-timing.ts";

let nowMs = 0;
let timing: BatchTiming;
beforeEach(() => {
  nowMs = 1_000_000;
  timing = openBatchTiming(() => nowMs);
});

const gathers = () => [timing.gatherMs(true), timing.gatherMs(false)];

test("the first payment of a process is relayed immediately", () => {
  expect(gathers()).toEqual([0, 0]);
  expect(timing.isBusy()).toBe(false);
});

test("after a payment that was relayed alone the next one is relayed immediately", () => {
  timing.noteBatch(1);
  expect(gathers()).toEqual([0, 0]);
  expect(timing.isBusy()).toBe(false);
});

test("while others are in flight the next batch is gathered for 4 ms per payment of the last one, up to 150 ms", () => {
  const waits = [2, 7, 24, 25, 26, 100].map((payments) => {
    timing.noteBatch(payments);
    return timing.gatherMs(true);
  });
  expect(waits).toEqual([8, 28, 96, 100, 104, 150]);
});

test("a network is busy from sixteen payments in a batch: its next one is gathered for 20 ms while none is in flight", () => {
  timing.noteBatch(15);
  expect([timing.isBusy(), timing.gatherMs(false)]).toEqual([false, 0]);
  timing.noteBatch(16);
  expect([timing.isBusy(), timing.gatherMs(false)]).toEqual([true, 20]);
});

test("400 ms after the last batch a payment is relayed immediately again", () => {
  timing.noteBatch(50);
  nowMs += 399;
  expect([...gathers(), timing.isBusy()]).toEqual([150, 20, true]);
  nowMs += 1;
  expect([...gathers(), timing.isBusy()]).toEqual([0, 0, false]);
});

test("for a second after a payment was left to another worker the network counts as drained there", () => {
  expect(timing.isDrainedElsewhere()).toBe(false);
  timing.noteDrainedElsewhere();
  nowMs += 999;
  expect(timing.isDrainedElsewhere()).toBe(true);
  nowMs += 1;
  expect(timing.isDrainedElsewhere()).toBe(false);
});
