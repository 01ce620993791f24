/**
 * Bun lets garbage grow with the heap before it collects: a process that reads much and keeps little peaks at several times what it
 * needs. Such a reader says how much it let go of, and a collection runs after each `every` of it: a few milliseconds.
 */
export function collectEvery(every: number): (amount: number) => void {
  let since = 0;
  return (amount) => {
    since += amount;
    if (since < every) return;
    since = 0;
    Bun.gc(true);
  };
}
