/** A real EVM chain of its own for a test file, with USDC, EntryPoint, Multicall3 and the account contracts in place. */
import { type LocalChain, startChain } from "../../local/chain/chain.ts";

export type TestChain = LocalChain;

/** Takes about 80 ms. `blockTimeS` 0 (default) mines a block for every transaction; `chainId` is 84532 or 8453; `skipsStateRoots`: see LocalChainOptions. */
export function startTestChain(
  options: { blockTimeS?: number; chainId?: number; port?: number; skipsStateRoots?: boolean } = {},
): Promise<TestChain> {
  return startChain({ blockTimeS: 0, ...options });
}
