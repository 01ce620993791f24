/**
 * The interface between the sender and the handlers of its transactions. Nonce, fees and bytes belong to the sender; the purpose of a
 * transaction belongs to its kind. A kind without a handler is treated like the sender's own no-ops: the same call until a block holds it.
 */
import { buildNoopCall } from "../../core/chain/relay.ts";
import type { Hex, Network, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { type InFlightRelay, readCallData } from "../../db/relays/relays.ts";
import type { Relay } from "../../db/schema.ts";

export type Call = { to: Hex; data: Hex; gas: bigint };
export type Revised = { call: Call; isNoop: boolean; leftOut?: readonly string[] };

/** The newest head that is known, when a node was asked for it, and whether it is too old to stand for the chain. */
export type KnownHead = { headNumber: bigint; headHash: Hex; askedAtMs: number; isStalled: boolean };

export type RelayKind = {
  /** Those of these relays that no block should hold any more: a no-op replaces them, and without their key they are not sent again. */
  findObsolete?(tx: Tx, relayIds: readonly bigint[]): Promise<ReadonlySet<bigint>>;
  /**
   * What a replacement carries, asked in the transaction that stores it; locks last until it ends. Undefined: nothing new may be
   * signed now. Absent: what the first attempt carried.
   */
  revise?(tx: Tx, network: Network, relay: InFlightRelay, at: KnownHead): Promise<Revised | undefined>;
  /**
   * Queues again what the ledger says that no transaction of ours settles any more. Once a pass, in the transaction that confirms relays.
   * Returns mined relays that settled nothing: their gas counts as reverted.
   */
  requeueUnsettled?(tx: Tx, network: NetworkId, at: { depthBlocks: number }): Promise<readonly bigint[]>;
  /** Queues again what a relay carried, in the transaction that marks it LOST. */
  requeueLost?(tx: Tx, network: NetworkId, relayId: bigint): Promise<void>;
};

export type RelayKinds = Readonly<Record<Relay["kind"], RelayKind>>;

export function kindsOf(kinds: RelayKinds): RelayKind[] {
  return Object.values(kinds);
}

/** The call of the first attempt once more. */
export async function repeatCall(tx: Tx, _network: Network, relay: InFlightRelay): Promise<Revised> {
  const data = await readCallData(tx, relay.id);
  return { call: { to: relay.callTo, data, gas: relay.gasLimit }, isNoop: false };
}

/** Uses the nonce up for nothing. */
export function noopOf({ relayer }: Pick<InFlightRelay, "relayer">): Revised {
  return { call: buildNoopCall(relayer), isNoop: true };
}
