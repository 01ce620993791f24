/** Randomness that can be had again: the seed is printed, and taken from TEST_SEED when that is set. */

/** Numbers in [0, 1) (mulberry32). */
export function seededRandom(name: string): () => number {
  const seed = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
  // a run's output is that of several processes: the file is found again by its name
  const [, file] = /(tests\/[^\s:]+\.test\.ts):/.exec(new Error().stack ?? "") ?? [];
  console.log(`${name}: TEST_SEED=${seed}${file === undefined ? "" : ` in ${file}`}`);
  return randomFrom(seed);
}

/**
 * Another source that the first one's next number starts: how often it is asked, by requests that come in any order, changes nothing of what
 * the first one gives.
 */
export function splitRandom(random: () => number): () => number {
  return randomFrom(random() * 2 ** 32);
}

function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function drawOne<Item>(random: () => number, items: readonly Item[]): Item {
  return items[Math.floor(random() * items.length)] as Item;
}

/** Each item as often as its weight is of the sum of all weights. */
export function drawWeighted<Item>(
  random: () => number,
  items: readonly (readonly [weight: number, item: Item])[],
): Item {
  let left = random() * items.reduce((sum, [weight]) => sum + weight, 0);
  for (const [weight, item] of items) {
    left -= weight;
    if (left < 0) return item;
  }
  return (items.at(-1) as (typeof items)[number])[1];
}
