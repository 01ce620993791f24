/** The sender without a worker: one network of it on a real node, whose transactions wait in the mempool until `mine`. */
import pino from "pino";
import { Registry } from "prom-client";
import { generatePrivateKey } from "viem/accounts";
import { buildNoopCall } from "../../core/chain/relay.ts";
import { relayerAddress } from "../../core/chain/sign-relay.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { startCursor } from "../../db/ledger/cursors.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { findInFlight, type InFlightRelay } from "../../db/relays/relays.ts";
import type { Relay } from "../../db/schema.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import type { LocalKey, RelayerKey } from "../../worker/relayer-keys-env.ts";
import { openRelayMetrics } from "../../worker/sender/metrics.ts";
import type { RelayKind } from "../../worker/sender/relay-kind.ts";
import type { RelayNetwork } from "../../worker/sender/relay-network.ts";
import { openLanes } from "../../worker/sender/relayer-lanes.ts";
import { sendAttempt, storeRelay } from "../../worker/sender/send-relay.ts";
import { type FaultProxy, startFaultProxy } from "../rpc/fault-proxy.ts";
import { startTestChain } from "./chain.ts";
import { NETWORK, randomHash } from "./ledger-lab.ts";
import { createTestDatabase, TEST_POOL } from "./postgres.ts";

const ONE_ETH = 10n ** 18n;
/** Above what the local chain's base fee makes of a first offer and several raises. */
export const MAX_FEE_WEI = 10n ** 12n;
export const FEES = { maxFeePerGas: 10n ** 10n, maxPriorityFeePerGas: 10n ** 9n };

export type SenderLab = {
  sql: Sql;
  /** What the sender reaches the node through. */
  proxy: FaultProxy;
  rpc: (method: string, params?: readonly unknown[]) => Promise<unknown>;
  /** Lines of level warn and above since the lab was opened. */
  warnings: string[];
  /** A network of the sender with these keys, its budget and cap, and what handles payments. */
  openNetwork: (given: {
    keys: readonly RelayerKey[];
    payments?: RelayKind;
    maxFeeWei?: bigint;
    dailyFeeMaxWei?: bigint;
  }) => RelayNetwork;
  stop: () => Promise<void>;
};

export async function openSenderLab(): Promise<SenderLab> {
  const [db, node] = await Promise.all([createTestDatabase(), startTestChain()]);
  const rpc = (method: string, params: readonly unknown[] = []) => callRpc(node.rpcUrl, method, params);
  await rpc("evm_setAutomine", [false]);
  const sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 4 });
  await startCursor(sql, NETWORK, { number: 0, hash: randomHash() });
  const proxy = startFaultProxy(node.rpcUrl);
  const chain = openChain({ network: NETWORK, urls: [proxy.url], timeoutMs: 5_000 });
  const warnings: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void warnings.push(JSON.parse(line).msg) });
  return {
    ...{ sql, proxy, rpc, warnings },
    openNetwork({ keys, payments = {}, maxFeeWei = MAX_FEE_WEI, dailyFeeMaxWei }) {
      const config = { relayMaxFeeWei: maxFeeWei, relayDailyFeeMaxWei: dailyFeeMaxWei };
      return {
        ...{ chain, confirmations: 1, metrics: openRelayMetrics(new Registry()) },
        ...{ usedSeenAt: new Map(), firstHeads: new Map() },
        lanes: openLanes(sql, chain, keys, { maxFeeWei, dailyFeeMaxWei }),
        deps: { sql, asyncCommitSql: sql, log, config },
        kinds: { PAYMENTS: payments, DEPLOY: {}, OPERATIONS: {}, NOOP: {} },
      } as unknown as RelayNetwork;
    },
    async stop() {
      chain.close();
      await sql.end({ timeout: 5 });
      await Promise.all([proxy.stop(), node.stop(), db.drop()]);
    },
  };
}

/** A new key with an ether. */
export async function newKey({ rpc, sql }: SenderLab): Promise<LocalKey> {
  const privateKey = generatePrivateKey();
  const address = relayerAddress(privateKey);
  await rpc("anvil_setBalance", [address, `0x${ONE_ETH.toString(16)}`]);
  await ensureLane(sql, { network: NETWORK, relayer: address }, 0n);
  return { address, privateKey };
}

/** A relayer's call, of an authorization that nobody signed: it is mined and reverts. */
export const CALL = {
  ...{ to: NETWORKS[NETWORK].usdc.address, gas: 60_000n },
  data: `0xe3ee160e${"00".repeat(9 * 32)}` as Hex,
} as const;

/** A transaction of the key, stored and sent to the node; `isSent: false`: only stored. */
export async function send(
  network: RelayNetwork,
  key: LocalKey,
  {
    kind = "PAYMENTS",
    isSent = true,
    fees = FEES,
  }: { kind?: Relay["kind"]; isSent?: boolean; fees?: typeof FEES } = {},
): Promise<{ id: bigint; txHash: Hex }> {
  const call = kind === "NOOP" ? buildNoopCall(key.address) : CALL;
  const { deps, chain } = network;
  const stored = await deps.sql.begin((tx) =>
    storeRelay(tx, chain, key, { kind, call, fees, dailyFeeMaxWei: deps.config.relayDailyFeeMaxWei }),
  );
  if (isSent) await sendAttempt(deps, chain, stored);
  return { id: stored.relayId, txHash: stored.txHash };
}

/** A pending relay as the monitor reads it. */
export async function inFlight(
  { sql }: Pick<SenderLab, "sql">,
  { id }: { id: bigint },
): Promise<InFlightRelay> {
  const found = (await findInFlight(sql, NETWORK, { after: undefined, limit: 1_000 })).find(
    (relay) => relay.id === id,
  );
  if (!found) throw new Error(`relay ${id} is not pending`);
  return found;
}

export async function stateOf(
  { sql }: Pick<SenderLab, "sql">,
  { id }: { id: bigint },
): Promise<string | undefined> {
  const [row] = await sql<{ state: string }[]>`select state from relays where id = ${id}`;
  return row?.state;
}

/** What is reserved of the fees of all relays. */
export async function reservedWei({ sql }: Pick<SenderLab, "sql">): Promise<bigint> {
  const [row] = await sql<{ reserved: string }[]>`
    select coalesce(sum(reserved), 0)::text as reserved from relay_budgets where scope = 'FEES'`;
  return BigInt(row?.reserved ?? 0);
}
