/**
 * Resolves earlier payments of a link that ended while no node answered. An authorization counts as unused once a deep block shows that; if
 * it was used, the ledger decides, and until then nothing else is signed for its link.
 */

import type { UnknownOutcome } from "../../db/payments/queue.ts";
import { resolveOutcomes, resolveUnusedOutcomes } from "../../db/payments/resolve-outcomes.ts";
import type { PaymentNetwork } from "./payment-network.ts";
import { judgeUsed } from "./retry-or-fail-payments.ts";

type Answers = { used: readonly UnknownOutcome[]; unused: readonly UnknownOutcome[]; headNumber: bigint };

/** Returns those that are still unknown. */
export async function resolveUnknownOutcomes(
  network: PaymentNetwork,
  answers: Answers,
): Promise<Set<string>> {
  const { deps, chain, confirmations } = network;
  const { used, unused, headNumber } = answers;
  await resolveUnusedOutcomes(deps.sql, chain.network.id, {
    paymentIds: unused.map(({ id }) => id),
    headNumber,
    depthBlocks: confirmations,
  });
  const open = new Set<string>();
  const over: string[] = [];
  for (const payment of used) {
    const verdict = await judgeUsed(network, payment, headNumber);
    if (verdict === "not-ours") over.push(payment.id);
    else open.add(payment.id);
  }
  await resolveOutcomes(deps.sql, over);
  return open;
}
