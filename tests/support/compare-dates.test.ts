/** What `toMatchObject` takes for equal: without compare-dates.ts any two dates. */
import { expect, test } from "bun:test";

const matches = (received: object, expected: object) => {
  try {
    expect(received).toMatchObject(expected);
    return true;
  } catch {
    return false;
  }
};

test("toMatchObject compares dates, also inside lists and objects", () => {
  const [first, second] = [new Date(1), new Date(2)];
  expect(matches({ at: first, more: 1 }, { at: new Date(1) })).toBe(true);
  expect(matches({ at: first }, { at: second })).toBe(false);
  expect(matches([{ of: { at: first } }], [{ of: { at: second } }])).toBe(false);
  expect(matches({ at: first.toISOString() }, { at: first })).toBe(false);
  expect(matches({ at: first }, { at: expect.any(Date) })).toBe(true);
  expect({ at: first }).not.toMatchObject({ at: second });
});

test("error: toMatchObject with a map or a set, which it does not compare", () => {
  for (const of of [new Map([[1, 2]]), new Set([1])])
    expect(() => expect({ of }).toMatchObject({ of })).toThrow("does not compare maps and sets");
});
