/** The movements of one merchant's year, the same at every run. */
import { seededRandom } from "../support/seeded-random.ts";
import type { GivenRow } from "../transactions/history.ts";

const ROWS = 400;

/** Payments, receipts and sends on two networks, from the first to the last moment of a year in UTC. */
export function yearOfMovements(): GivenRow[] {
  const random = seededRandom("values of a year");
  const made = Array.from({ length: ROWS }, (_, n): GivenRow => {
    const at = Date.UTC(2025, 0, 2) + Math.floor(random() * 364 * 86_400) * 1_000;
    return {
      type: n % 4 === 0 ? "SEND" : "RECEIVE",
      network: n % 3 === 0 ? "base" : "base-sepolia",
      status: n % 50 === 7 ? "ORPHANED" : "CONFIRMED",
      amountUnits: BigInt(Math.floor(random() * 900_000_000)) + 1n,
      description: ['Größe "L"; 北京', "Tom & Ann <3"][n % 9] ?? `Order ${n}`,
      detectedAt: new Date(at),
    };
  });
  return [
    { amountUnits: 5_000_000n, detectedAt: "2025-01-01T12:00:00.000Z", description: "Before the first rate" },
    ...made,
    { amountUnits: 1n, detectedAt: "2025-12-31T23:59:59.000Z", description: "A millionth" },
  ];
}
