/** Draws the events of one link of the hostile campaign in advance, so that a seed gives the same plan whatever the timing. */
import { drawOne, drawWeighted } from "../support/seeded-random.ts";
import type { Plan, Way } from "./hostile-stories.ts";

const WAYS: readonly (readonly [weight: number, way: Way])[] = [
  [3, "plain"],
  [4, "claim"],
  [3, "tagged"],
  [3, "payAmount"],
  [4, "proof"],
  [5, "x402"],
  [3, "x402Header"],
  [3, "strangerTagged"],
  [5, "strangerFirst"],
  [2, "cancelled"],
];
const SECOND_WAYS: readonly (readonly [weight: number, way: Way])[] = [
  [3, "plain"],
  [2, "tagged"],
  [4, "x402"],
];
const SECOND_SHARE = 0.2;
const CANCEL_SHARE = 0.05;
const SECOND_WITHIN_MS = 10_000;
const STRANGER_WITHIN_MS = 1_500;
/** Some payers come only after a third party has executed what they signed, and an attacker has presented it. */
const PAYER_WITHIN_MS = 5_000;
const ORDERS = ["thiefFirst", "payerFirst", "documented", "late"] as const;
const THIEVES = ["twin", "twin", "twin", "misfit", undefined] as const;

export function drawPlan(random: () => number): Plan {
  const isCancelled = random() < CANCEL_SHARE;
  const second = { way: drawWeighted(random, SECOND_WAYS), afterMs: random() * SECOND_WITHIN_MS };
  const hasSecond = random() < SECOND_SHARE;
  const way = drawWeighted(random, WAYS);
  return {
    isCancelled,
    way: isCancelled ? "tagged" : way,
    second: hasSecond && !isCancelled ? second : undefined,
    thief: drawOne(random, THIEVES),
    order: drawOne(random, ORDERS),
    asSender: random() < 0.8,
    forges: random() < 0.2,
    showsToTwin: random() < 0.6,
    showsGarbage: random() < 0.4,
    provesIfAsked: random() < 0.6,
    copies: random() < 0.3 ? 3 : 1,
    strangerAfterMs: random() * STRANGER_WITHIN_MS,
    payerAfterMs: random() * PAYER_WITHIN_MS,
  };
}
