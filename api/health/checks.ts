/**
 * The health checks, one function per component: returns its public details; throws or returns `unhealthy` when it does not work. The
 * indexer of a network is unhealthy when it has never started, when a block is unread for more than 10 s, when no leader has reported for
 * more than 60 s, or when the last reconciliation found that the ledger differs from the chain. It is reported, but /health/ready does not
 * depend on it. Which components it depends on: report.ts.
 */

import { AUDITED_CONTRACTS, isAuditedCode } from "../../core/chain/contract-code.ts";
import { CONTRACTS, type NetworkId } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { parseHeader } from "../../core/rpc/head.ts";
import { parseData, parseQuantity, toQuantity } from "../../core/rpc/parse-answers.ts";
import { type DiskSpace, describeSpace, isNearlyFull } from "../../core/runtime/machine-limits.ts";
import {
  countLiveWorkers,
  findIndexerPosition,
  listRelayerAddresses,
  takesWrites,
} from "../../db/health/component-status.ts";
import { findWorkerKeys } from "../../db/health/process-heartbeats.ts";
import { countDifferences } from "../../db/ledger/reconciliation.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { balanceCall, codeCall } from "./chain-calls.ts";

export type Finding = {
  status: "healthy" | "unhealthy";
  error?: string;
  details?: Record<string, string | number | boolean>;
};

/** A working indexer reads every block within this time; link payments are delayed until it does. */
const INDEXER_UNREAD_MAX_S = 10;
/** A leader reports every few seconds, even when the chain produces no blocks. */
const INDEXER_SILENT_MAX_S = 60;

export async function checkDatabase(sql: Sql): Promise<Finding> {
  if (await takesWrites(sql)) return { status: "healthy" };
  return { status: "unhealthy", error: "the database does not accept writes" };
}

/** This process's disk; reported before it is so full that logs stop, or Postgres on the same machine. */
export function judgeDisk(space: DiskSpace | undefined): Finding {
  if (!space) return { status: "healthy" };
  const details = { freeBytes: space.freeBytes, totalBytes: space.totalBytes };
  if (!isNearlyFull(space)) return { status: "healthy", details };
  return { status: "unhealthy", error: `the disk is nearly full: ${describeSpace(space)}`, details };
}

export async function checkNetwork(chain: Chain): Promise<Finding> {
  return { status: "healthy", details: { blockNumber: await readHead(chain) } };
}

/**
 * The token, the entry point and the wallet contracts are deployed where we call them; on a public network with the audited code.
 * A local chain may use a stand-in, which is reported.
 */
export async function checkContracts(chain: Chain, { isPublic }: { isPublic: boolean }): Promise<Finding> {
  const contracts = {
    usdc: chain.network.usdc.address,
    entryPoint: CONTRACTS.entryPointV06,
    walletFactory: CONTRACTS.smartWalletFactory,
    walletImplementation: CONTRACTS.smartWalletImplementation,
  };
  const outcomes = await chain.batch(Object.values(contracts).map((address) => codeCall(address)));
  const missing = Object.keys(contracts).filter((_, index) => {
    const outcome = outcomes[index];
    if (outcome && !outcome.ok) throw outcome.error;
    return outcome?.result === "0x";
  });
  if (missing.length > 0) return { status: "unhealthy", error: `no contract code at ${missing.join(", ")}` };
  const codes = outcomes.map((outcome) => (outcome.ok ? parseData(outcome.result, "eth_getCode") : "0x"));
  const others = AUDITED_CONTRACTS.filter(
    (name) => !isAuditedCode(name, codes[Object.keys(contracts).indexOf(name)] ?? "0x"),
  );
  if (isPublic && others.length > 0)
    return { status: "unhealthy", error: `not the audited code at ${others.join(", ")}` };
  return { status: "healthy", details: { walletCode: others.length === 0 ? "audited" : "local stand-in" } };
}

/** Healthy while a worker is alive and at least one key per network can pay for gas. Without any key: `isMissing`. */
export async function checkRelayer(
  sql: Sql,
  chains: readonly Chain[],
  floorWei: bigint,
): Promise<Finding & { isMissing: boolean }> {
  const [workers, held] = await Promise.all([countLiveWorkers(sql), findWorkerKeys(sql)]);
  const details: Record<string, string | number | boolean> = { workers };
  const faults: string[] = workers === 0 ? ["no worker is running"] : [];
  let isMissing = false;
  for (const chain of chains) {
    const { id } = chain.network;
    const addresses = await listRelayerAddresses(sql, id);
    details[`keys-${id}`] = addresses.length;
    // none at all: a worker that has just started has not reported its keys yet
    if (held?.length && !held.some((key) => key.startsWith(`${id} `)))
      faults.push(`no worker relays on ${id}: its NETWORKS or relayer keys lack it`);
    if (addresses.length === 0) {
      isMissing = true;
      faults.push(`no relayer key was loaded on ${id}`);
      continue;
    }
    const funded = await countFunded(chain, addresses, floorWei);
    details[`funded-${id}`] = funded;
    if (funded === 0) faults.push(`every relayer key is low on gas on ${id}`);
  }
  if (faults.length === 0) return { status: "healthy", details, isMissing };
  return { status: "unhealthy", error: faults.join("; "), details, isMissing };
}

async function countFunded(chain: Chain, addresses: readonly string[], floorWei: bigint): Promise<number> {
  const outcomes = await chain.batch(addresses.map((address) => balanceCall(address)));
  return outcomes.filter((outcome) => {
    if (!outcome.ok) throw outcome.error;
    return parseQuantity(outcome.result, "eth_getBalance") >= floorWei;
  }).length;
}

/** How far the ledger lags behind the chain's head, whether an indexer is running, and the result of the last reconciliation. */
export async function checkIndexer(sql: Sql, chain: Chain): Promise<Finding> {
  const { id } = chain.network;
  const position = await findIndexerPosition(sql, id);
  if (!position) return { status: "unhealthy", error: "the indexer has not started on this network" };
  const head = Math.max(Number(position.headNumber), await readHead(chain));
  const lagBlocks = Math.max(0, head - Number(position.number));
  const differences = await countDifferences(sql, id);
  const unreadS = lagBlocks === 0 ? 0 : await readAge(chain, Number(position.number) + 1);
  const details = {
    lagBlocks,
    ...(lagBlocks === 0 ? {} : { oldestUnreadSeconds: unreadS }),
    indexedBlock: Number(position.number),
    ...(position.lagS === null ? {} : { lagSeconds: Math.max(0, position.lagS) }),
    ...(position.lastError === null ? {} : { lastError: position.lastError }),
    ...(differences === undefined ? {} : { differences }),
  };
  const faults = [
    ...(unreadS > INDEXER_UNREAD_MAX_S
      ? [`the indexer is ${lagBlocks} blocks behind, the oldest is ${unreadS} s old`]
      : []),
    ...(position.silentS > INDEXER_SILENT_MAX_S
      ? [`no indexer has reported for ${Math.round(position.silentS)} s`]
      : []),
    ...(differences ? [`the ledger differs from the chain in ${differences} place(s)`] : []),
  ];
  if (faults.length === 0) return { status: "healthy", details };
  return { status: "unhealthy", error: faults.join("; "), details };
}

/** Whole seconds since a block was produced; 0 for a block this node does not have. */
async function readAge(chain: Chain, number: number): Promise<number> {
  const block = parseHeader(await chain.request("eth_getBlockByNumber", [toQuantity(number), false]));
  return block ? Math.max(0, Math.floor(Date.now() / 1000) - block.timestampS) : 0;
}

async function readHead(chain: Chain): Promise<number> {
  return Number(parseQuantity(await chain.request("eth_blockNumber", []), "eth_blockNumber"));
}

export type ComponentName =
  | "database"
  | `network-${NetworkId}`
  | `smart-contract-${NetworkId}`
  | "x402-relayer"
  | "disk"
  | `indexer-${NetworkId}`;
