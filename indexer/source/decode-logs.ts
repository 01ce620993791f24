/**
 * Decodes a node's logs into transfers, operations and owner changes of our wallets. Checked against the block's header; decoded by slicing,
 * because this is the hot path.
 */

import { ACCOUNT_TOPICS, type AccountChange, decodeAccountLog } from "../../core/chain/account-logs.ts";
import type { ExecutedOperation } from "../../core/chain/executed-operations.ts";
import {
  AUTHORIZATION_CANCELED_TOPIC,
  AUTHORIZATION_USED_TOPIC,
  decodeAuthorizationLog,
  decodeTransferLog,
  TRANSFER_TOPIC,
} from "../../core/chain/usdc.ts";
import {
  decodeRevertLog,
  decodeUserOperationLog,
  USER_OPERATION_EVENT_TOPIC,
  USER_OPERATION_REVERT_TOPIC,
} from "../../core/chain/user-operation.ts";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { BlockHeader } from "./block-header.ts";

export const USDC_TOPICS = [TRANSFER_TOPIC, AUTHORIZATION_USED_TOPIC, AUTHORIZATION_CANCELED_TOPIC] as const;

const OPERATION_TOPICS = [USER_OPERATION_EVENT_TOPIC, USER_OPERATION_REVERT_TOPIC] as const;

/** A log as returned by nodes, with its position parsed. */
export type PlacedLog = {
  address: string;
  blockHash: Hex;
  blockNumber: number;
  txHash: Hex;
  logIndex: number;
  topics: readonly string[];
  data: string;
};

export type SeenTransfer = {
  block: BlockHeader;
  txHash: Hex;
  logIndex: number;
  from: Hex;
  to: Hex;
  amountUnits: bigint;
  authorizationNonce: Hex | undefined;
  /** 16 bytes of its transaction that may be a link's tag; read when nothing else explains the transfer (read-tags.ts). */
  tag?: Hex | undefined;
  /** Whether the tag is in one of our relays. */
  isRelayed?: boolean | undefined;
};

/** An authorization that was used (with the Transfer it made) or cancelled. */
export type SpentAuthorization = {
  payer: Hex;
  nonce: Hex;
  blockNumber: number;
  transfer?: {
    txHash: Hex;
    logIndex: number;
    blockNumber: number;
    blockTimeS: number;
    to: Hex;
    amountUnits: bigint;
  };
};

/** A user operation of one of our wallets that the EntryPoint executed, whoever sent it. */
export type SeenOperation = {
  block: BlockHeader;
  txHash: Hex;
  logIndex: number;
  /** Log index of the previous event in its transaction; the operation's own transfers are between the two. -1 for none. */
  previousLogIndex: number;
  userOpHash: Hex;
  sender: Hex;
  nonce: bigint;
  succeeded: boolean;
  gasUsed: bigint;
  /** The revert data of its calls. */
  revertData: Hex | undefined;
  /** The operation's contents, if we have no row of it (read-lost-operations.ts). */
  executed?: ExecutedOperation | undefined;
};

/** An owner change or upgrade logged by one of our wallets, whoever sent it. */
export type SeenAccountLog = AccountChange & { txHash: Hex; logIndex: number; walletAddress: Hex };

/** What a block contains about us. `spent` are all authorizations used or cancelled in it, of any payer. */
export type BlockContent = {
  block: BlockHeader;
  transfers: SeenTransfer[];
  spent: SpentAuthorization[];
  operations: SeenOperation[];
  /** Only when all of a block's logs were read: no query includes them. */
  accountLogs: SeenAccountLog[];
  logCount: number;
};

/** Parses a list of logs; duplicates count once. Throws when it is not a list of logs, or one log has two contents. */
export function parseLogs(answer: unknown): PlacedLog[] {
  if (!Array.isArray(answer)) throw malformed("an eth_getLogs answer is not a list");
  const byPlace = new Map<string, PlacedLog>();
  for (const item of answer as (Record<string, unknown> | undefined)[]) {
    const log = parseLog(item);
    const place = `${log.blockHash}:${log.logIndex}`;
    const twin = byPlace.get(place);
    if (twin && contentOf(twin) !== contentOf(log))
      throw malformed(`log ${log.logIndex} of block ${log.blockHash} was answered in two ways`);
    byPlace.set(place, log);
  }
  return [...byPlace.values()];
}

function contentOf({ txHash, address, topics, data }: PlacedLog): string {
  return [txHash, address, ...topics, data].join().toLowerCase();
}

function parseLog(item: Record<string, unknown> | undefined): PlacedLog {
  const { address, blockHash, blockNumber, transactionHash, logIndex, topics, data, removed } = item ?? {};
  const isWhole =
    typeof address === "string" &&
    typeof blockHash === "string" &&
    typeof blockNumber === "string" &&
    typeof transactionHash === "string" &&
    typeof logIndex === "string" &&
    typeof data === "string" &&
    Array.isArray(topics) &&
    topics.every((topic) => typeof topic === "string");
  if (!isWhole) throw malformed("a log lacks a field");
  if (removed === true) throw malformed(`log ${logIndex} of block ${blockHash} is marked removed`);
  return {
    address,
    blockHash: blockHash as Hex,
    blockNumber: Number(blockNumber),
    txHash: transactionHash as Hex,
    logIndex: Number(logIndex),
    topics,
    data,
  };
}

/** Addresses and topics of a log query for everything that is followed. */
export function followedLogs(usdc: Hex) {
  return { address: [usdc, CONTRACTS.entryPointV06], topics: [[...USDC_TOPICS, ...OPERATION_TOPICS]] };
}

/** Only the logs that are followed, in the block's order: three kinds of the token's, two of the EntryPoint's, three of any account's. */
export function selectFollowedLogs(logs: readonly PlacedLog[], usdc: Hex): PlacedLog[] {
  return logs
    .filter((log) => isLogOf(log, usdc, USDC_TOPICS) || isOperationLog(log) || isAccountLog(log))
    .sort((a, b) => a.logIndex - b.logIndex);
}

/** Whether to keep it until its block is decoded; anyone can write any number of logs of other accounts. */
export function isFollowedBy(usdc: Hex, isWatched: (address: Hex) => boolean): (log: PlacedLog) => boolean {
  return (log) =>
    isLogOf(log, usdc, USDC_TOPICS) ||
    isOperationLog(log) ||
    (isAccountLog(log) && isWatched(log.address.toLowerCase() as Hex));
}

function isOperationLog(log: PlacedLog): boolean {
  return isLogOf(log, CONTRACTS.entryPointV06, OPERATION_TOPICS);
}

/** Any contract may write such a log: it counts only when its address is one of our wallets. */
function isAccountLog({ topics }: PlacedLog): boolean {
  return ACCOUNT_TOPICS.some((topic) => topic === topics[0]);
}

function isLogOf(log: PlacedLog, address: Hex, topics: readonly (string | undefined)[]): boolean {
  return topics.includes(log.topics[0]) && log.address.toLowerCase() === address;
}

/** Throws unless every log belongs to exactly this block. */
export function assertOfBlock(logs: readonly PlacedLog[], block: BlockHeader): void {
  for (const log of logs) {
    if (log.blockHash === block.hash && log.blockNumber === block.number) continue;
    throw new RpcTransportError(
      "not-ready",
      `a log of block ${log.blockNumber} ${log.blockHash} was returned for block ${block.number} ${block.hash}`,
    );
  }
}

/** Keeps what touches a watched wallet. `logs` are one block's, in order. Zero-value transfers can be made by any address for any other. */
export function decodeBlock(
  block: BlockHeader,
  logs: readonly PlacedLog[],
  isWatched: (address: Hex) => boolean,
): BlockContent {
  const operations = decodeOperations(block, logs.filter(isOperationLog), isWatched);
  const accountLogs = decodeAccountLogs(logs.filter(isAccountLog), isWatched);
  const content: BlockContent = {
    block,
    transfers: [],
    spent: [],
    operations,
    accountLogs,
    logCount: logs.length,
  };
  let before: { log: PlacedLog; spent: SpentAuthorization } | undefined;
  for (const log of logs) {
    if (isOperationLog(log) || isAccountLog(log)) continue;
    const authorization = decodeAuthorizationLog(log);
    if (authorization) {
      const { authorizer: payer, nonce } = authorization;
      const spent = { payer, nonce, blockNumber: block.number };
      content.spent.push(spent);
      before = authorization.isCanceled ? undefined : { log, spent };
      continue;
    }
    const transfer = decodeTransferLog(log);
    if (!transfer) throw malformed(`log ${log.logIndex} of block ${block.number} is not USDC's Transfer`);
    // EIP-3009: the Transfer an authorization makes is the very next log
    const spent =
      before && isNext(before.log, log) && before.spent.payer === transfer.from ? before.spent : undefined;
    before = undefined;
    if (spent) {
      const { txHash, logIndex, blockNumber } = log;
      const { to, amountUnits } = transfer;
      spent.transfer = { txHash, logIndex, blockNumber, blockTimeS: block.timeS, to, amountUnits };
    }
    if (transfer.amountUnits === 0n || !(isWatched(transfer.to) || isWatched(transfer.from))) continue;
    content.transfers.push({
      block,
      txHash: log.txHash,
      logIndex: log.logIndex,
      ...transfer,
      authorizationNonce: spent?.nonce,
    });
  }
  return content;
}

/** Operations of watched wallets. A reverted operation's reason is the log before its event. */
function decodeOperations(
  block: BlockHeader,
  logs: readonly PlacedLog[],
  isWatched: (address: Hex) => boolean,
): SeenOperation[] {
  const operations: SeenOperation[] = [];
  const revertData = new Map<string, Hex>();
  let previous: PlacedLog | undefined;
  for (const log of logs) {
    const outcome = decodeUserOperationLog(log);
    if (!outcome) {
      const revert = decodeRevertLog(log);
      if (revert) revertData.set(revert.userOpHash, revert.data);
      continue;
    }
    const previousLogIndex = previous?.txHash === log.txHash ? previous.logIndex : -1;
    previous = log;
    const { userOpHash, sender, nonce, success: succeeded, gasUsed } = outcome;
    if (!isWatched(sender)) continue;
    const { txHash, logIndex } = log;
    operations.push({
      block,
      txHash,
      logIndex,
      previousLogIndex,
      userOpHash,
      sender,
      nonce,
      succeeded,
      gasUsed,
      revertData: revertData.get(userOpHash),
    });
  }
  return operations;
}

function decodeAccountLogs(
  logs: readonly PlacedLog[],
  isWatched: (address: Hex) => boolean,
): SeenAccountLog[] {
  return logs.flatMap((log) => {
    const walletAddress = log.address.toLowerCase() as Hex;
    const change = isWatched(walletAddress) ? decodeAccountLog(log) : undefined;
    return change ? [{ ...change, txHash: log.txHash, logIndex: log.logIndex, walletAddress }] : [];
  });
}

/** Whether a block contains anything about our wallets. */
export function isOurs({ transfers, operations, accountLogs }: BlockContent): boolean {
  return transfers.length > 0 || operations.length > 0 || accountLogs.length > 0;
}

/** An AuthorizationUsed without its Transfer after it: the response lacks logs. */
export function hasLoneAuthorization(logs: readonly PlacedLog[]): boolean {
  return logs.some((log, index) => {
    if (log.topics[0] !== AUTHORIZATION_USED_TOPIC) return false;
    const next = logs[index + 1];
    return !next || !isNext(log, next) || next.topics[0] !== TRANSFER_TOPIC;
  });
}

function isNext(log: PlacedLog, next: PlacedLog): boolean {
  return next.logIndex === log.logIndex + 1 && next.txHash === log.txHash;
}

function malformed(message: string): RpcTransportError {
  return new RpcTransportError("malformed", message);
}
