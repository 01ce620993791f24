/** Visual order of words in lines with right-to-left text. */
import { expect, test } from "bun:test";
import { directionMark, inVisualOrder, mirror } from "../../core/pdf/reading-order.ts";

/** The line as drawn, from left to right, with right-to-left runs reversed letter by letter. */
const drawn = (line: string) =>
  inVisualOrder(line)
    .map(({ text, isRightToLeft }) => (isRightToLeft ? mirror(text) : text))
    .join("");

test.each([
  ["a line of Latin letters stays", "Order 12 (paid)", "Order 12 (paid)"],
  ["the first Hebrew word stands at the right", "אב גד", "דג בא"],
  ["numbers in between keep their digits' order", "אב 123 גד", "דג 123 בא"],
  ["only the Hebrew inside Latin text is reversed", "for אב גד only", "for דג בא only"],
  ["Latin inside Hebrew stays as it is", "אב USDC base גד", "דג USDC base בא"],
  ["brackets are mirrored", "אב (גד)", "(דג) בא"],
  ["Arabic like Hebrew", "\u0627\u0628 7", "7 \u0628\u0627"],
])("%s", (_, line, expected) => {
  expect(drawn(line)).toBe(expected);
});

test.each([
  // in right-to-left text the first Latin word is drawn at the right
  ["of a Hebrew text that begins with Latin letters", "אב גד", "USDC אב", "בא USDC"],
  // in left-to-right text the first Hebrew word is drawn at the left
  ["of a Latin text that begins with Hebrew letters", "for", "אב USDC", "בא USDC"],
])("a continuation line %s has the direction of the whole text", (_, firstLine, line, expected) => {
  const mark = directionMark(`${firstLine} ${line}`);
  const shown = inVisualOrder(mark + line).map(({ text, isRightToLeft }) =>
    isRightToLeft ? mirror(text) : text,
  );
  expect(shown.join("").replace(mark, "")).toBe(expected);
});

test("a line of Latin letters needs no mark", () => {
  expect(directionMark("Order 12 (paid)")).toBe("");
});
