/** Failures that repeat are logged when they begin, then once a minute with their number. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { openFailureLog } from "../../core/runtime/failure-log.ts";

const { now } = performance;
let nowMs = 0;
let lines: unknown[] = [];

beforeEach(() => {
  lines = [];
  performance.now = () => nowMs;
});
afterEach(() => {
  performance.now = now;
});

function open() {
  const push = (level: string) => (fields: object, message: string) =>
    void lines.push([level, message, "repeated" in fields ? fields.repeated : 0]);
  return openFailureLog({ warn: push("warn"), error: push("error") } as never);
}

test("a failure is logged once a minute, with how often it was repeated", () => {
  const log = open();
  const fail = (err = new Error("no answer during the next 12 ms")) =>
    log("warn", { err, network: "base" }, "reading failed");
  fail();
  for (nowMs = 500; nowMs < 60_000; nowMs += 500) fail(new Error(`no answer during the next ${nowMs} ms`));
  expect(lines).toEqual([["warn", "reading failed", 0]]);
  fail();
  expect(lines.at(-1)).toEqual(["warn", "reading failed", 119]);
  nowMs += 60_000;
  fail();
  expect(lines.at(-1)).toEqual(["warn", "reading failed", 0]);
});

test("another error, message, network or component is another failure", () => {
  const log = open();
  for (let round = 0; round < 2; round++) {
    log("warn", { err: new Error("no answer"), network: "base" }, "reading failed");
    log("error", { err: new Error("no balance"), network: "base" }, "reading failed");
    log("warn", { err: new Error("no answer"), network: "base-sepolia" }, "reading failed");
    log("warn", { err: new Error("no answer"), network: "base" }, "writing failed");
  }
  expect(lines).toHaveLength(4);
});

test("failures of ever new kinds are all logged, without being kept forever", () => {
  const log = open();
  for (const letter of "abcdefghijklmnopqrstuvwxyz")
    for (const other of "abcdefgh") log("warn", { err: new Error(letter + other) }, "reading failed");
  expect(lines).toHaveLength(208);
  // the first ones were forgotten
  log("warn", { err: new Error("aa") }, "reading failed");
  expect(lines).toHaveLength(209);
});
