/**
 * What the sender asks of those whose transactions it carries. A call, its nonce and its fees are the sender's; what the call is for is the
 * kind's. Without an answer of its own a kind is served as the sender serves its own no-ops: the same call until a block holds it.
 */
import { buildNoopCall } from "../../core/chain/relay.ts";
import type { Hex, Network } from "../../core/domain/networks.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { type InFlightRelay, readCallData } from "../../db/relays/relays.ts";
import type { Relay } from "../../db/schema.ts";

export type Call = { to: Hex; data: Hex; gas: bigint };
export type Revised = { call: Call; isNoop: boolean; leftOut?: readonly string[] };

export type RelayKind = {
  /**
   * What a replacement carries, asked in the transaction that stores it; locks last until it ends. `headNumber`: the head its fees were
   * read at. Undefined: nothing new may be signed now. Absent: what the first attempt carried.
   */
  revise?(
    tx: Tx,
    network: Network,
    relay: InFlightRelay,
    at: { headNumber: bigint },
  ): Promise<Revised | undefined>;
};

export type RelayKinds = Readonly<Record<Relay["kind"], RelayKind>>;

/** The call of the first attempt once more. */
export async function repeatCall(tx: Tx, _network: Network, relay: InFlightRelay): Promise<Revised> {
  const data = await readCallData(tx, relay.id);
  return { call: { to: relay.callTo, data, gas: relay.gasLimit }, isNoop: false };
}

/** Uses the nonce up for nothing. */
export function noopOf({ relayer }: Pick<InFlightRelay, "relayer">): Revised {
  return { call: buildNoopCall(relayer), isNoop: true };
}
