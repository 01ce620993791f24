/**
 * Applies the blocks that the ledger has read to relays: deep ones are final, those in a removed block are pending again, and contents they
 * did not settle are queued again.
 */
import { settleCharges } from "../../db/relays/budgets.ts";
import { confirmRelays } from "../../db/relays/relays.ts";
import {
  findContradictedRelays,
  findPrunedRelays,
  reopenOrphanedRelays,
  reopenRelays,
} from "../../db/relays/reorganised-relays.ts";
import { findUnproven } from "./record-receipts.ts";
import { kindsOf } from "./relay-kind.ts";
import type { RelayNetwork } from "./relay-network.ts";
import { toUsedNonces } from "./relayer-lanes.ts";

/** Relays per pass; the next pass reads the others. */
const PAGE_RELAYS = 200;

export async function followLedger(network: RelayNetwork): Promise<void> {
  await requeueAndConfirm(network, await verifyPruned(network));
  await reopenRemoved(network);
}

/** Where the indexer has pruned a receipt's block, a node confirms that it is canonical, or the relay is reopened. Returns the confirmed ones. */
async function verifyPruned({ deps, chain }: RelayNetwork): Promise<bigint[]> {
  const pruned = await findPrunedRelays(deps.sql, chain.network.id, PAGE_RELAYS);
  const unproven = new Set(await findUnproven(chain, pruned));
  if (unproven.size > 0) {
    const reopened = await reopenRelays(deps.sql, [...unproven]);
    const label = { network: chain.network.id };
    deps.log.warn({ ...label, reopened }, "blocks of relayed transactions are not canonical");
  }
  return pruned.filter((relay) => !unproven.has(relay)).map(({ id }) => id);
}

async function requeueAndConfirm(network: RelayNetwork, provenIds: readonly bigint[]): Promise<void> {
  const { deps, chain, confirmations } = network;
  const id = chain.network.id;
  await deps.sql.begin(async (tx) => {
    const reopened = await reopenOrphanedRelays(tx, id);
    const unsettledIds: bigint[] = [];
    for (const kind of kindsOf(network.kinds)) {
      unsettledIds.push(...((await kind.requeueUnsettled?.(tx, id, { depthBlocks: confirmations })) ?? []));
    }
    await confirmRelays(tx, id, { depthBlocks: confirmations, provenIds });
    await settleCharges(tx, unsettledIds, { areUnsettled: true });
    if (reopened > 0)
      deps.log.warn({ network: id, reopened }, "blocks of relayed transactions were reorganised away");
  });
}

/**
 * CONFIRMED is only as final as the chain: after a deeper reorganisation, or one concurrent with the confirmation, the relay's nonce is
 * unused and blocks every later transaction of its key.
 */
async function reopenRemoved({ deps, chain, lanes }: RelayNetwork): Promise<void> {
  const id = chain.network.id;
  const contradicted = await findContradictedRelays(deps.sql, id, {
    lanes: toUsedNonces(await lanes.readMarket()),
    limit: PAGE_RELAYS,
  });
  const unproven = await findUnproven(
    chain,
    contradicted.filter(({ isDisproved }) => !isDisproved),
  );
  const reopened = await reopenRelays(deps.sql, [
    ...contradicted.filter(({ isDisproved }) => isDisproved),
    ...unproven,
  ]);
  if (reopened > 0)
    deps.log.warn({ network: id, reopened }, "confirmed transactions were reorganised away; pending again");
}
