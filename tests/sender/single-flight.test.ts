/** A queue that is drained once at a time, and once more for what arrived meanwhile. */
import { expect, test } from "bun:test";
import { singleFlight } from "../../worker/sender/single-flight.ts";

/** `finish` ends the oldest run. */
function openWork() {
  const running: PromiseWithResolvers<void>[] = [];
  let runs = 0;
  const work = () => {
    const run = Promise.withResolvers<void>();
    running.push(run);
    runs += 1;
    return run.promise;
  };
  return {
    work,
    runs: () => runs,
    running: () => running.length,
    finish: () => running.shift()?.resolve(),
    fail: () => running.shift()?.reject(new Error("the database is gone")),
  };
}

/** Whatever can happen without another event has happened. */
const settled = () => Bun.sleep(5);

test("calls during a run cause one more run after it, and the first of them waits for that", async () => {
  const { work, runs, running, finish } = openWork();
  const drain = singleFlight(work);
  const first = drain();
  let isCovered = false;
  const second = drain().then(() => {
    isCovered = true;
  });
  await drain();
  expect([runs(), running()]).toEqual([1, 1]);
  finish();
  await first;
  await settled();
  expect([runs(), running(), isCovered]).toEqual([2, 1, false]);
  finish();
  await second;
  await settled();
  expect(runs()).toBe(2);
});

test("what arrives during the second run causes a third, and a call when nothing runs starts one", async () => {
  const { work, runs, finish } = openWork();
  const drain = singleFlight(work);
  drain();
  drain();
  finish();
  await settled();
  const third = drain();
  expect(runs()).toBe(2);
  finish();
  await settled();
  expect(runs()).toBe(3);
  finish();
  await third;
  const fourth = drain();
  expect(runs()).toBe(4);
  finish();
  await fourth;
});

test("a run that fails does not keep the next from running", async () => {
  const { work, runs, fail, finish } = openWork();
  const drain = singleFlight(work);
  const first = drain();
  const second = drain();
  fail();
  await expect(first).rejects.toThrow("the database is gone");
  await settled();
  expect(runs()).toBe(2);
  finish();
  await second;
});
