/** JSON with a proof for each confirmed movement, one movement per line, and their totals. */
import type { ExportRow } from "../../../core/domain/export.ts";
import { NETWORKS } from "../../../core/domain/networks.ts";
import {
  PROVEN_FORMAT,
  type ProvenWallet,
  provenObject,
  totalsByNetworkOf,
  totalsOf,
} from "../../../core/domain/proven-export.ts";
import type { Chain } from "../../../core/rpc/chain-client.ts";
import { utf8 } from "../renderer.ts";
import { proveRows } from "./prove-rows.ts";

type Given = {
  rows: readonly ExportRow[];
  wallets: readonly ProvenWallet[];
  timeZone: string;
  signal: AbortSignal;
};

/** `onRow` is called with each row. */
export async function* renderProofs(
  chains: ReadonlyMap<string, Chain>,
  { rows, wallets, timeZone, signal }: Given,
  onRow: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  const head = {
    format: PROVEN_FORMAT,
    generatedAt: new Date().toISOString(),
    wallets: wallets.map(({ network, address }) => ({
      ...{ network, chainId: NETWORKS[network].chainId, address, token: NETWORKS[network].usdc.address },
    })),
    totals: totalsOf(rows),
    totalsByNetwork: totalsByNetworkOf(rows),
  };
  yield utf8(`${JSON.stringify(head).slice(0, -1)},\n"transactions":[`);
  let separator = "\n";
  for await (const { row, proof } of proveRows(chains, rows, signal)) {
    yield utf8(`${separator}${JSON.stringify({ ...provenObject(row, timeZone), proof })}`);
    separator = ",\n";
    await onRow();
  }
  yield utf8("\n]}\n");
}
