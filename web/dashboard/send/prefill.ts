/** `/send?to=…&amount=…&note=…&network=…`: prefilled values. Whoever made the link chose them, so the screen says so, and opening it sends nothing. */

export type Prefill<Network> = { to: string; amount: string; note: string; network: Network | undefined };

/** Changes to the query that take the prefilled values away. */
export const NOTHING_PREFILLED = { to: undefined, amount: undefined, note: undefined, network: undefined };

const TO_MAX = 42;
const AMOUNT_MAX = 20;
const NOTE_MAX = 500;

/** Undefined when the URL prefills nothing. */
export function readPrefill<Network extends string>(
  query: URLSearchParams,
  networks: readonly Network[],
): Prefill<Network> | undefined {
  const read = (name: string, max: number) => (query.get(name) ?? "").replace(/\p{Cc}/gu, " ").slice(0, max);
  const prefill = {
    to: read("to", TO_MAX),
    amount: read("amount", AMOUNT_MAX),
    note: read("note", NOTE_MAX),
  };
  if (!prefill.to && !prefill.amount && !prefill.note) return undefined;
  return { ...prefill, network: networks.find((network) => network === query.get("network")) };
}
