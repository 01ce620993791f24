/** Simulates leased payments before anything is signed; by signing time the ledger must have read the block the simulation ran on. */

import type { Questions } from "../../core/chain/simulate-at-head.ts";
import { simulateAtHead } from "../../core/chain/simulate-at-head.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { SimulationHead } from "../../db/payments/check-unpaid-before-signing.ts";
import type { RelayerKey } from "../relayer-keys-env.ts";
import type { PaymentNetwork } from "./payment-network.ts";
import type { Relayable } from "./relay-items.ts";
import { resolveUnknownOutcomes } from "./resolve-unknown-outcomes.ts";
import type { Refused } from "./retry-or-fail-payments.ts";

/** If the ledger is further behind than this, signing waits for it: a node's own logs are no substitute. */
const UNREAD_BLOCKS_MAX = 100n;
/** A node further behind another one is not following the chain: newer blocks may already pay what it would allow. */
const BEHIND_BLOCKS_MAX = 5n;

export type Simulated = {
  passed: Relayable[];
  refused: Refused[];
  /** They pass, but an earlier payment of their link was executed and is not settled in the ledger yet. */
  undecided: Relayable[];
  /** Their payers have code although they were batched as key payments; the others then have no verdict. */
  coded: Relayable[];
  simulationHead: SimulationHead;
  /** When the node that returned the head was queried, by `performance.now()`. */
  askedAtMs: number;
};

/** One batch to one node, for payments that would share a transaction. Throws RpcTransportError when there is no verdict. */
export async function simulateLeasedPayments(
  network: PaymentNetwork,
  key: RelayerKey,
  relayables: readonly Relayable[],
): Promise<Simulated> {
  const { chain, ledger, lanes } = network;
  const outcomes = relayables.flatMap(({ payment }) => payment.unknownOutcomes ?? []);
  const unread = await unreadOf(network, relayables);
  const knownHead = lanes.lastMarket()?.headNumber ?? 0n;
  const answers = await simulateAtHead(
    chain,
    key.address,
    relayables.map(({ item }) => item),
    { authorizations: outcomes.map(({ payer, nonce }) => ({ authorizer: payer, nonce })), unread },
  );
  const { headNumber, headHash, askedAtMs } = answers;
  if (headNumber + BEHIND_BLOCKS_MAX < knownHead) {
    const message = `a node simulated payments at block ${headNumber}, but block ${knownHead} was already known`;
    throw new RpcTransportError("not-ready", message);
  }
  ledger.noteHead(headNumber);
  const simulationHead = {
    ...{ network: chain.network.id, headNumber, headHash },
    unread: unread && answers.unread && { ...unread, ...answers.unread },
  };
  const coded = relayables.filter((_, index) => answers.haveCode[index]);
  const simulated: Simulated = { passed: [], refused: [], undecided: [], coded, simulationHead, askedAtMs };
  if (coded.length > 0) return simulated;
  const used = outcomes.filter((_, index) => answers.areUsed[index]);
  const unused = outcomes.filter((_, index) => !answers.areUsed[index]);
  const open = await resolveUnknownOutcomes(network, { used, unused, headNumber });
  for (const [index, relayable] of relayables.entries()) {
    const result = answers.results[index];
    if (!result) throw new RpcTransportError("malformed", "a simulation left a payment out");
    const { payment } = relayable;
    if (!result.ok) simulated.refused.push({ payment, refusal: result });
    else if (payment.unknownOutcomes?.some(({ id }) => open.has(id))) simulated.undecided.push(relayable);
    else simulated.passed.push(relayable);
  }
  return simulated;
}

/** What to request from a node about the blocks that the ledger has not read, when the ledger is known to lag. */
async function unreadOf(
  { lanes, ledger }: PaymentNetwork,
  relayables: readonly Relayable[],
): Promise<Questions["unread"]> {
  const payees = relayables.flatMap(({ payment }) => (payment.linkId === null ? [] : [payment.recipient]));
  const afterNumber = relayables[0]?.payment.readNumber ?? null;
  if (payees.length === 0 || afterNumber === null) return undefined;
  const market = await lanes.readMarket();
  ledger.noteHead(market.headNumber);
  const behind = ledger.headNumber - afterNumber;
  if (behind <= 0n || behind > UNREAD_BLOCKS_MAX) return undefined;
  return { afterNumber, payees: [...new Set(payees)] };
}
