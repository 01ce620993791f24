import { expect, test } from "bun:test";
import { executes, readCoverage } from "./coverage-map.ts";

test("a line of a statement that starts above it counts as executed with the statement, and not without", () => {
  const lines = readCoverage(
    "TN:\nSF:db/x.ts\nDA:3,1\nDA:9,0\nDA:14,2\nend_of_record\nTN:\nSF:node_modules/y.js\nDA:1,1\nend_of_record\n",
  );
  expect(Object.keys(lines)).toEqual(["db/x.ts"]);
  const isExecuted = (line: number) =>
    executes({ lines }, { file: "db/x.ts", line, rule: "drop and", start: 0, end: 0, replacement: "" });
  expect([2, 3, 8, 9, 13, 14, 20].map(isExecuted)).toEqual([false, true, true, false, false, true, true]);
});
