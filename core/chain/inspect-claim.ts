/** Checks a claimed transaction on the chain: only its USDC Transfer logs count, never its `to` or calldata. */
import type { Hex } from "../domain/networks.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { RpcTransportError } from "../rpc/errors.ts";
import { fieldOf, parseData, parseQuantity } from "../rpc/parse-answers.ts";
import { decodeAuthorizationLog, decodeTransferLog } from "./usdc.ts";

export type ClaimedTransfer = {
  txHash: Hex;
  /** The payer named in the claim. */
  clientAddress: Hex;
  recipient: Hex;
  amountUnits: bigint;
  payAmountUnits: bigint | null;
  /** The indexer's cursor when the link was created; null: judge by block time, counting blocks within the second of creation. */
  createdBlock: bigint | null;
  createdAt: Date;
  expiresAt: Date;
  /** A proven claim counts after the link has ended too. */
  isProven: boolean;
};

/** A log that fits the claim, with the nonce when it executed an authorization (EIP-3009). */
export type FittingLog = { logIndex: number; authorizationNonce: Hex | undefined };

export type ClaimCheck =
  /** No node knows it. */
  | { kind: "unknown" }
  | { kind: "waiting" }
  | { kind: "reverted" }
  /** Mined, with another amount from this payer to this wallet. */
  | { kind: "other_amount" }
  | { kind: "unrelated" }
  | { kind: "pays"; logs: readonly [FittingLog, ...FittingLog[]] };

/** Throws RpcTransportError when no node could answer. */
export async function inspectClaim(chain: Chain, claim: ClaimedTransfer): Promise<ClaimCheck> {
  const [receiptAnswer, transactionAnswer] = await chain.batch([
    {
      method: "eth_getTransactionReceipt",
      params: [claim.txHash],
      read: (receipt) => withTokenLogs(receipt, chain.network.usdc.address),
    },
    { method: "eth_getTransactionByHash", params: [claim.txHash] },
  ]);
  const receipt = resultOf(receiptAnswer);
  if (!receipt) return { kind: resultOf(transactionAnswer) ? "waiting" : "unknown" };
  if (parseQuantity(fieldOf(receipt, "status"), "receipt status") !== 1n) return { kind: "reverted" };
  const logs = readTransfers(chain, receipt).filter(
    ({ from, to }) => from === claim.clientAddress && to === claim.recipient,
  );
  if (logs.length === 0) return { kind: "unrelated" };
  if (!(await isInTime(chain, parseData(fieldOf(receipt, "blockHash"), "receipt blockHash", 32), claim)))
    return { kind: "unrelated" };
  const [first, ...rest] = logs.filter(
    ({ amountUnits }) => amountUnits === claim.amountUnits || amountUnits === claim.payAmountUnits,
  );
  return first ? { kind: "pays", logs: [first, ...rest] } : { kind: "other_amount" };
}

/** Anyone may claim any transaction, which may have written 44,000 logs, so only the token's logs are kept. */
function withTokenLogs(receipt: unknown, usdc: Hex): unknown {
  const logs = fieldOf(receipt, "logs");
  if (!Array.isArray(logs)) return receipt;
  const own = logs.filter((log) => String(fieldOf(log, "address")).toLowerCase() === usdc);
  return { status: fieldOf(receipt, "status"), blockHash: fieldOf(receipt, "blockHash"), logs: own };
}

async function isInTime(chain: Chain, blockHash: Hex, claim: ClaimedTransfer): Promise<boolean> {
  const block = await chain.request("eth_getBlockByHash", [blockHash, false]);
  if (!block) throw new RpcTransportError("not-ready", `block ${blockHash} of a receipt is not known`);
  const timeMs = Number(parseQuantity(fieldOf(block, "timestamp"), "block timestamp")) * 1000;
  const hasBegun =
    claim.createdBlock === null
      ? timeMs >= Math.floor(claim.createdAt.getTime() / 1000) * 1000
      : parseQuantity(fieldOf(block, "number"), "block number") > claim.createdBlock;
  return hasBegun && (claim.isProven || timeMs <= claim.expiresAt.getTime());
}

type ReadTransfer = FittingLog & { from: Hex; to: Hex; amountUnits: bigint };

function readTransfers(chain: Chain, receipt: unknown): ReadTransfer[] {
  const logs = fieldOf(receipt, "logs");
  if (!Array.isArray(logs)) throw new RpcTransportError("malformed", "a receipt has no logs");
  const own = logs.map(readLog).filter(({ address }) => address === chain.network.usdc.address);
  return own.flatMap((log, index) => {
    const transfer = decodeTransferLog(log);
    if (!transfer) return [];
    const before = own[index - 1];
    const used = before?.logIndex === log.logIndex - 1 ? decodeAuthorizationLog(before) : undefined;
    const isExecuted = used?.authorizer === transfer.from && !used.isCanceled;
    return [{ ...transfer, logIndex: log.logIndex, authorizationNonce: isExecuted ? used.nonce : undefined }];
  });
}

function readLog(log: unknown) {
  const topics = fieldOf(log, "topics");
  if (!Array.isArray(topics)) throw new RpcTransportError("malformed", "a log has no topics");
  return {
    address: parseData(fieldOf(log, "address"), "log address", 20),
    topics: topics.map((topic) => parseData(topic, "log topic", 32)),
    data: parseData(fieldOf(log, "data"), "log data"),
    logIndex: Number(parseQuantity(fieldOf(log, "logIndex"), "log index")),
  };
}

function resultOf(outcome: Awaited<ReturnType<Chain["batch"]>>[number] | undefined): unknown {
  if (outcome?.ok) return outcome.result;
  throw outcome?.error ?? new RpcTransportError("malformed", "a node answered nothing");
}
