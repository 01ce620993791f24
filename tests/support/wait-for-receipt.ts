import type { Hex } from "viem";
import { callRpc } from "../../local/chain/rpc.ts";

export type Receipt = {
  readonly status: Hex;
  readonly gasUsed: Hex;
  readonly blockHash: Hex;
  readonly blockNumber: Hex;
  readonly logs: { readonly address: Hex; readonly topics: Hex[]; readonly data: Hex }[];
};

const DEADLINE_MS = 90_000;
const LOOK_EVERY_MS = 2;

/** The receipt of a sent transaction; throws when no block takes it in time. */
export async function waitForReceipt(rpcUrl: string, hash: unknown): Promise<Receipt> {
  const deadlineMs = Date.now() + DEADLINE_MS;
  while (Date.now() < deadlineMs) {
    const receipt = await callRpc(rpcUrl, "eth_getTransactionReceipt", [hash]);
    if (receipt) return receipt as Receipt;
    await Bun.sleep(LOOK_EVERY_MS);
  }
  throw new Error(`no block took ${hash} within ${DEADLINE_MS} ms`);
}
