/** A chain of the mixed campaign: the node itself, for payers and the judge. The service reaches it through two proxies only, which fail. */
import { keccak256 } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { callRpc, callRpcBatch } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.ts";
import type { SignedTransaction } from "../support/indexer-lab-reorgs.ts";
import { makePayer, type Payer } from "../support/payer.ts";

/** A payer with ETH and USDC that has paid nothing yet. */
export type Account = Payer & { nextNonce: number };

export type CampaignChain = {
  network: NetworkId;
  node: TestChain;
  rpc: (method: string, params?: readonly unknown[]) => Promise<unknown>;
  proxies: readonly FaultProxy[];
  accounts: Account[];
  /** Transactions of accounts, the oldest first: a reorganisation may drop them. */
  sent: SignedTransaction[];
  /** The highest block there ever was: no reorganisation goes deeper than REORG_DEPTH_MAX below it. */
  highestHead: number;
  /** Settles when the call before has ended: see `takeTurn`. */
  turn: Promise<unknown>;
};

/** Below the highest head there ever was: the service confirms one block deeper. */
export const REORG_DEPTH_MAX = 8;
const PROXIES = 2;
const ACCOUNT_UNITS = 100_000_000n;
const ACCOUNT_WEI = "0x3635c9adc5dea00000";
const TRANSFER_GAS = 250_000n;
const MAX_FEE_WEI = 100_000_000_000n;
const BLOCKS_A_BATCH = 100;
/** Of a transaction that the node has received. */
const BLOCK_IN_PROGRESS_MS = 100;

/** Accounts get their money now: a reorganisation takes back what is set later. */
export async function openCampaignChain(
  network: NetworkId,
  { random, accounts: count }: { random: () => number; accounts: number },
): Promise<CampaignChain> {
  const node = await startTestChain({ chainId: NETWORKS[network].chainId });
  const { rpcUrl } = node;
  const proxies: FaultProxy[] = [];
  while (proxies.length < PROXIES) proxies.push(await startFaultProxy(rpcUrl, { random }));
  const accounts = Array.from({ length: count }, () => ({ ...makePayer(), nextNonce: 0 }));
  const addresses = accounts.map(({ address }) => address);
  await fundUsdc(rpcUrl, addresses, ACCOUNT_UNITS);
  await callRpcBatch(
    rpcUrl,
    addresses.map((address) => ({ method: "anvil_setBalance", params: [address, ACCOUNT_WEI] })),
  );
  return {
    ...{ network, node, proxies, accounts, sent: [], highestHead: 0, turn: Promise.resolve() },
    rpc: (method, params = []) => callRpc(rpcUrl, method, params),
  };
}

export async function closeCampaignChain({ node, proxies }: CampaignChain): Promise<void> {
  await Promise.all(proxies.map((proxy) => proxy.stop()));
  await node.stop();
}

/** What changes the chain happens one after the other: a reorganisation first reads the blocks that it replaces. */
export function takeTurn<Result>(chain: CampaignChain, work: () => Promise<Result>): Promise<Result> {
  const done = chain.turn.then(work);
  chain.turn = done.catch(() => undefined);
  return done;
}

/**
 * Work during which no transaction of the service gets into a block: anvil mines it while it replaces blocks, and then often loses one of
 * them (see findLostBlock).
 */
export async function withoutMining<Result>(
  { rpc }: CampaignChain,
  work: () => Promise<Result>,
): Promise<Result> {
  await rpc("evm_setAutomine", [false]);
  try {
    // a block that has been begun is mined all the same
    await Bun.sleep(BLOCK_IN_PROGRESS_MS);
    return await work();
  } finally {
    await rpc("evm_setAutomine", [true]);
  }
}

/** A call of the token in a transaction that is kept, so that it can be sent again. Returns its hash. */
export async function sendToToken(chain: CampaignChain, account: Account, data: Hex): Promise<Hex> {
  const { chainId, usdc } = NETWORKS[chain.network];
  const raw = await privateKeyToAccount(account.privateKey).signTransaction({
    ...{ chainId, type: "eip1559", nonce: account.nextNonce++, to: usdc.address, data },
    ...{ gas: TRANSFER_GAS, maxFeePerGas: MAX_FEE_WEI, maxPriorityFeePerGas: 1n },
  });
  const txHash = keccak256(raw);
  chain.sent.push({ raw, txHash });
  await takeTurn(chain, () => chain.rpc("eth_sendRawTransaction", [raw]));
  return txHash;
}

/** A block of the present time, whatever reorganisations have done to the node's clock. */
export function mineBlock(chain: CampaignChain): Promise<void> {
  return takeTurn(chain, async () => {
    await setClock(chain).catch(() => undefined);
    await chain.rpc("evm_mine");
    chain.highestHead = Math.max(chain.highestHead, await readHead(chain));
  });
}

export async function setClock({ rpc }: CampaignChain): Promise<void> {
  await rpc("evm_setTime", [Math.floor(Date.now() / 1000)]);
}

export async function readHead({ rpc }: CampaignChain): Promise<number> {
  return Number(await rpc("eth_blockNumber"));
}

/**
 * A block below the head that the node no longer has. anvil forgets one now and then that it mines while it replaces others, and one that is
 * the same as a replaced one: it keeps blocks by their hash. Such a chain is none that could exist, and what the service makes of it says
 * nothing.
 */
export async function findLostBlock(chain: CampaignChain): Promise<number | undefined> {
  const head = await readHead(chain);
  for (let start = 0; start < head; start += BLOCKS_A_BATCH) {
    const numbers = Array.from(
      { length: Math.min(BLOCKS_A_BATCH, head - start) },
      (_, index) => start + index,
    );
    const blocks = await callRpcBatch(
      chain.node.rpcUrl,
      numbers.map((number) => ({
        method: "eth_getBlockByNumber",
        params: [`0x${number.toString(16)}`, false],
      })),
    );
    const lost = numbers.find((_, index) => blocks[index] === null);
    if (lost !== undefined) return lost;
  }
  return undefined;
}
