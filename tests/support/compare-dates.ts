/**
 * Loaded before each test file (bunfig.toml): Bun's `toMatchObject` takes any two dates for equal, and any two maps or sets. Here dates are
 * compared, and a map or a set is an error.
 */
import { expect } from "bun:test";

type Matchers = { toMatchObject: (this: unknown, expected: object) => void };
type AtTime = { atTime: (timeMs: number) => unknown };

expect.extend({
  atTime(received: unknown, timeMs: number) {
    const pass = received instanceof Date && received.getTime() === timeMs;
    return { pass, message: () => `expected ${new Date(timeMs).toISOString()}, but received ${received}` };
  },
});
const { atTime } = expect as unknown as AtTime;

const matchers = Object.getPrototypeOf(expect(0)) as Matchers;
const original = matchers.toMatchObject;
matchers.toMatchObject = function toMatchObject(expected) {
  return original.call(this, comparable(expected) as object);
};

function comparable(expected: unknown): unknown {
  if (expected instanceof Date) return atTime(expected.getTime());
  if (expected instanceof Map || expected instanceof Set)
    throw new TypeError("toMatchObject does not compare maps and sets: compare their entries");
  if (Array.isArray(expected)) return expected.map(comparable);
  if (!isPlain(expected)) return expected;
  return Object.fromEntries(Object.entries(expected).map(([name, value]) => [name, comparable(value)]));
}

function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
