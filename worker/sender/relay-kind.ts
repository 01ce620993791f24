/**
 * The interface between the sender and the handlers of its transactions. Nonce, fees and bytes belong to the sender; the purpose of a
 * transaction belongs to its kind. A kind without a handler is treated like the sender's own no-ops: the same call until it is in a block.
 */
import { buildNoopCall } from "../../core/chain/relay.ts";
import type { Hex, Network, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { type InFlightRelay, readCallData } from "../../db/relays/relays.ts";
import type { Relay } from "../../db/schema.ts";

export type Call = { to: Hex; data: Hex; gas: bigint };
export type Revised = { call: Call; isNoop: boolean; leftOut?: readonly string[] };

/** The newest known head, when it was requested, and whether it is too old to represent the chain. */
export type KnownHead = { headNumber: bigint; headHash: Hex; askedAtMs: number; isStalled: boolean };

export type RelayKind = {
  /** Those of these relays that should no longer be mined: a no-op replaces them, and without their key they are not sent again. */
  findObsolete?(tx: Tx, relayIds: readonly bigint[]): Promise<ReadonlySet<bigint>>;
  /**
   * The contents of a replacement, determined in the transaction that stores it; locks last until it ends. Undefined: nothing new may be
   * signed now. Absent: the contents of the first attempt.
   */
  revise?(tx: Tx, network: Network, relay: InFlightRelay, at: KnownHead): Promise<Revised | undefined>;
  /**
   * Queues again what, according to the ledger, none of our transactions settles any more. Called once per pass, in the transaction that confirms
   * relays. Returns mined relays that settled nothing, whose gas counts as reverted.
   */
  requeueUnsettled?(tx: Tx, network: NetworkId, at: { depthBlocks: number }): Promise<readonly bigint[]>;
  /** Queues a relay's contents again, in the transaction that marks it LOST. */
  requeueLost?(tx: Tx, network: NetworkId, relayId: bigint): Promise<void>;
};

export type RelayKinds = Readonly<Record<Relay["kind"], RelayKind>>;

export function kindsOf(kinds: RelayKinds): RelayKind[] {
  return Object.values(kinds);
}

/** The call of the first attempt again. */
export async function repeatCall(tx: Tx, _network: Network, relay: InFlightRelay): Promise<Revised> {
  const data = await readCallData(tx, relay.id);
  return { call: { to: relay.callTo, data, gas: relay.gasLimit }, isNoop: false };
}

/** Uses up the nonce without effect. */
export function noopOf({ relayer }: Pick<InFlightRelay, "relayer">): Revised {
  return { call: buildNoopCall(relayer), isNoop: true };
}
