/** A name in a sentence of a page keeps its direction to itself. */
import { expect, test } from "bun:test";
import { textsOf } from "../../api/pages/page-texts.ts";
import { fillMessage } from "../../web/messages/isolate.ts";

const [FSI, PDI] = ["\u2068", "\u2069"];

test.each([
  ["a name in Latin letters stays as it is", "ltr", "Shop & Co.", "Shop & Co."],
  ["a name in Hebrew letters is isolated", "ltr", "חנות 7", `${FSI}חנות 7${PDI}`],
  ["a right-to-left mark is removed", "ltr", "Shop\u200f", "Shop"],
  ["a Latin name in a sentence from right to left is isolated", "rtl", "Shop Inc.", `${FSI}Shop Inc.${PDI}`],
  ["an override is removed", "ltr", "Shop\u202e!", "Shop!"],
  ["an isolate that would end ours is removed", "rtl", "Shop\u2069!", `${FSI}Shop!${PDI}`],
])("%s", (_title, direction, name, shown) => {
  expect(fillMessage("Pay {merchant} now", { merchant: name }, direction)).toBe(`Pay ${shown} now`);
});

test("pages isolate names, in the direction of their language", () => {
  const merchant = "Shop Inc.";
  expect(textsOf("ar").say("returnTo", { merchant })).toContain(`${FSI}${merchant}${PDI}`);
  expect(textsOf("en").say("returnTo", { merchant })).toBe(`Return to ${merchant}`);
});

test("a placeholder without a value stays", () => {
  expect(fillMessage("{a} {b}", { a: "1" }, "ltr")).toBe("1 {b}");
});
