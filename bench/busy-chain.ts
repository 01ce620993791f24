/** A local chain with a few hundred USDC transfers per block, to receivers in rotation. */
import { encodeFunctionData, multicall3Abi, parseAbi, toHex } from "viem";
import { CONTRACTS, type Hex, NETWORKS } from "../core/domain/networks.ts";
import { callRpc, callRpcBatch, type RpcCall } from "../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../local/chain/usdc.ts";
import { startTestChain, type TestChain } from "../tests/support/chain.ts";

const USDC = NETWORKS["base-sepolia"].usdc.address;
const TRANSFERS_A_TX = 100;
/** Empty blocks on top, so that every indexer considers all transfers final. */
const QUIET_BLOCKS = 64;
const ABI = parseAbi([
  "function approve(address spender, uint256 value)",
  "function transferFrom(address from, address to, uint256 value)",
]);

export type BusyChain = TestChain & {
  /** Transfers made so far. */
  transfers: () => number;
  /** Mines more blocks of the same kind. */
  mine: (blocks: number) => Promise<void>;
};

/** The n-th receiver; transfers rotate. */
export function receiver(n: number): Hex {
  return `0x${(0x1000_0000 + n).toString(16).padStart(40, "a")}`;
}

export async function startBusyChain(options: {
  blocks: number;
  transfersABlock: number;
  receivers: number;
}): Promise<BusyChain> {
  const chain = await startTestChain();
  const payer: Hex = `0x${"c0".repeat(20)}`;
  await callRpc(chain.rpcUrl, "anvil_autoImpersonateAccount", [true]);
  await fundEth(chain.rpcUrl, payer, 10n ** 24n);
  await fundUsdc(chain.rpcUrl, payer, 10n ** 18n);
  const approve = encodeFunctionData({
    abi: ABI,
    functionName: "approve",
    args: [CONTRACTS.multicall3, 2n ** 255n],
  });
  await callRpc(chain.rpcUrl, "eth_sendTransaction", [{ from: payer, to: USDC, data: approve }]);
  await callRpc(chain.rpcUrl, "evm_setAutomine", [false]);
  let next = 0;
  let nonce = 1;
  const mine = async (blocks: number) => {
    for (let block = 0; block < blocks; block++) {
      const calls: RpcCall[] = [];
      for (let sent = 0; sent < options.transfersABlock; sent += TRANSFERS_A_TX) {
        const count = Math.min(TRANSFERS_A_TX, options.transfersABlock - sent);
        calls.push(batchTransfer(payer, nonce++, { first: next, count, receivers: options.receivers }));
        next += count;
      }
      await callRpcBatch(chain.rpcUrl, calls);
      await callRpc(chain.rpcUrl, "evm_mine");
    }
  };
  await mine(options.blocks);
  await callRpc(chain.rpcUrl, "anvil_mine", [toHex(QUIET_BLOCKS)]);
  return { ...chain, transfers: () => next, mine };
}

function batchTransfer(
  payer: Hex,
  nonce: number,
  { first, count, receivers }: { first: number; count: number; receivers: number },
): RpcCall {
  const calls = Array.from({ length: count }, (_, index) => ({
    target: USDC,
    allowFailure: false,
    callData: encodeFunctionData({
      abi: ABI,
      functionName: "transferFrom",
      args: [payer, receiver((first + index) % receivers), 1n],
    }),
  }));
  const data = encodeFunctionData({ abi: multicall3Abi, functionName: "aggregate3", args: [calls] });
  return {
    method: "eth_sendTransaction",
    params: [{ from: payer, to: CONTRACTS.multicall3, data, gas: "0xf42400", nonce: toHex(nonce) }],
  };
}
