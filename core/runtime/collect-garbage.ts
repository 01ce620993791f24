/**
 * Bun's heap grows before it collects: a process that reads much and retains little peaks at several times its live memory.
 * Such a reader reports how much it discarded, and a collection (a few milliseconds) runs after every `every` of it.
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
