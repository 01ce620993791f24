/** Follows an operation until the chain shows its result. The node may fail meanwhile: only a result from the chain ends it. */

import { CONTRACTS, type Hex } from "../chain/networks.ts";
import { type Account, readNonce } from "./account.ts";
import { explain } from "./user-error.ts";
import { operationRevertReason } from "./user-operation.ts";

export type Outcome =
  | { readonly kind: "moved"; readonly txHash: Hex; readonly block: bigint }
  /** In a block, but nothing was moved. */
  | { readonly kind: "failed"; readonly txHash: Hex; readonly reason: string | undefined }
  /** Another operation spent the nonce: the signed one can never be executed. */
  | { readonly kind: "replaced" };

export type Sought = {
  readonly account: Account;
  /** Of an operation, whoever sends it; else of the transaction. */
  readonly userOpHash: Hex | undefined;
  readonly txHash: Hex | undefined;
  /** The head before it was signed. */
  readonly fromBlock: Hex;
};

const POLL_MS = 1_000;
/** Polls that show the nonce spent, but no event: a node behind a balancer may lag behind another one. */
const SPENT_POLLS = 8;
/** `UserOperationEvent` and `UserOperationRevertReason` of the EntryPoint. */
const EVENT = "0x49628fd1471006c1482da88028e9ce4dbb080b815c9b0344d39e5a8e6ec1419f";
const REVERT_REASON = "0x1c4fada7374c0a9ee8841fc38afe82932dc0f8e69012e927f061a8bae611a201";

type Log = { topics: Hex[]; data: Hex; transactionHash: Hex; blockNumber: Hex };
type Receipt = { status: Hex; transactionHash: Hex; blockNumber: Hex };

/** `onProblem` gets the reason why the last poll failed, and undefined once one succeeds. */
export async function follow(
  sought: Sought,
  { onProblem, signal }: { onProblem: (problem: string | undefined) => void; signal: AbortSignal },
): Promise<Outcome | undefined> {
  let spentPolls = 0;
  while (!signal.aborted) {
    try {
      const outcome = sought.userOpHash ? await findOperation(sought) : await findTransaction(sought);
      if (outcome) return outcome;
      onProblem(undefined);
      const isSpent = sought.userOpHash && (await readNonce(sought.account)) > sought.account.nonce;
      spentPolls = isSpent ? spentPolls + 1 : 0;
      if (spentPolls >= SPENT_POLLS) return { kind: "replaced" };
    } catch (error) {
      onProblem(explain(error));
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return undefined;
}

async function findOperation({ account, userOpHash, fromBlock }: Sought): Promise<Outcome | undefined> {
  const topics = [[EVENT, REVERT_REASON], userOpHash];
  const filter = { address: CONTRACTS.entryPoint, topics, fromBlock, toBlock: "latest" };
  const logs = (await account.rpc.call("eth_getLogs", [filter])) as Log[];
  const event = logs.find((log) => log.topics[0] === EVENT);
  if (!event) return undefined;
  const txHash = event.transactionHash;
  // nonce, success, actualGasCost, actualGasUsed
  const hasSucceeded = BigInt(`0x${event.data.slice(66, 130)}`) === 1n;
  if (hasSucceeded) return { kind: "moved", txHash, block: BigInt(event.blockNumber) };
  const reason = logs.find((log) => log.topics[0] === REVERT_REASON)?.data;
  return { kind: "failed", txHash, reason: reason && operationRevertReason(reason) };
}

async function findTransaction({ account, txHash }: Sought): Promise<Outcome | undefined> {
  if (!txHash) return undefined;
  const receipt = (await account.rpc.call("eth_getTransactionReceipt", [txHash])) as Receipt | null;
  if (!receipt) return undefined;
  if (receipt.status === "0x1") return { kind: "moved", txHash, block: BigInt(receipt.blockNumber) };
  return { kind: "failed", txHash, reason: undefined };
}

export async function readHead({ rpc }: Account): Promise<Hex> {
  return (await rpc.call("eth_blockNumber", [])) as Hex;
}
