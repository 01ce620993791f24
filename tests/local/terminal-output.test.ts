/** Lines of `npm start` in a terminal and in a file. */
import { expect, test } from "bun:test";
import { withHangingIndent } from "../../local/terminal-output.ts";

const HASH = `0x${"7a".repeat(32)}`;

test("in a terminal a long line continues below the first word, and a hash stays whole", () => {
  expect(withHangingIndent("  payer  ", `answers 200: relayed as ${HASH} at last`, 40).split("\n")).toEqual([
    "  payer  answers 200: relayed as",
    `         ${HASH}`,
    "         at last",
  ]);
});

test("lines that fit, and every line into a file or a pipe, are unchanged", () => {
  expect(withHangingIndent("  payer  ", "signs an authorization", 80)).toBe(
    "  payer  signs an authorization",
  );
  expect(withHangingIndent("  payer  ", `answers 200: relayed as ${HASH}`, undefined)).toBe(
    `  payer  answers 200: relayed as ${HASH}`,
  );
});

test("a terminal that is narrower than the label still has room for words", () => {
  expect(withHangingIndent(" ".repeat(23), "proves the address with the code", 20).split("\n")).toEqual([
    `${" ".repeat(23)}proves the address with the`,
    `${" ".repeat(23)}code`,
  ]);
});
