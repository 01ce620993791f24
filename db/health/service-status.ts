/** All figures of the operator's page, read from the rows that the processes write. */
import type { NetworkId } from "../../core/domain/networks.ts";
import { findLastBackup } from "../backup/last-backup.ts";
import { countQueue, countWaitingPayments } from "../jobs/queue-depth.ts";
import { countDifferences } from "../ledger/reconciliation.ts";
import type { Tx } from "../postgres/client.ts";
import { countWaitingOperations } from "../wallet-ops/queue.ts";
import { findIndexerPosition } from "./component-status.ts";
import { listProcesses, type ProcessReport } from "./process-heartbeats.ts";

export async function readServiceStatus(tx: Tx, networks: readonly NetworkId[]) {
  const [processes, relayers, budgets, payments, operations, queue, backup, schema, positions] =
    await Promise.all([
      listProcesses(tx),
      listRelayers(tx, networks),
      listBudgets(tx, networks),
      countWaitingPayments(tx),
      countWaitingOperations(tx),
      countQueue(tx),
      findLastBackup(tx),
      findLastMigration(tx),
      Promise.all(networks.map((network) => readNetwork(tx, network))),
    ]);
  const balances = readBalances(processes);
  return {
    processes,
    networks: positions.flat(),
    relayers: relayers.map((relayer) => ({
      ...relayer,
      balanceWei: balances.get(`${relayer.network} ${relayer.address}`),
    })),
    budgets,
    waiting: [
      ...payments.map((one) => ({ ...one, what: "payment" })),
      ...operations.map((one) => ({ ...one, what: "send" })),
    ],
    tasks: byTask(queue),
    lastBackupS: backup?.ageS,
    schema,
  };
}

async function readNetwork(tx: Tx, network: NetworkId) {
  const position = await findIndexerPosition(tx, network);
  if (!position) return [];
  const { number, headNumber, lagS, silentS, lastError } = position;
  const differences = await countDifferences(tx, network);
  return [
    {
      network,
      cursorBlock: Number(number),
      headBlock: Number(headNumber),
      lagS,
      silentS,
      lastError,
      differences,
    },
  ];
}

type Lane = { network: NetworkId; address: string; nextNonce: number; inFlight: number; oldestS: number };

async function listRelayers(tx: Tx, networks: readonly NetworkId[]): Promise<Lane[]> {
  return tx<Lane[]>`
    select
      lane.network, lane.address, lane.next_nonce::int, coalesce(load.count, 0)::int as in_flight,
      coalesce(load.oldest_s, 0)::float8 as oldest_s
    from relayers lane
    left join lateral (
      select count(*) as count, extract(epoch from now() - min(created_at)) as oldest_s
      from relays
      where relays.network = lane.network and relays.relayer = lane.address and relays.state in ('SIGNED', 'BROADCAST')
    ) load on true
    where lane.network = any(${[...networks]}::text[])
    order by lane.network, lane.address`;
}

type Budget = { network: NetworkId; scope: string; used: bigint; reserved: bigint; maximum: bigint | null };

/** The most used budget of each scope: every merchant and sender has one. */
async function listBudgets(tx: Tx, networks: readonly NetworkId[]) {
  const rows = await tx<Budget[]>`
    select distinct on (network, scope) network, scope, used, reserved, maximum
    from relay_budgets
    where day = (now() at time zone 'utc')::date and network = any(${[...networks]}::text[])
    order by network, scope, used / nullif(maximum, 0) desc nulls last, used desc`;
  return rows.map(({ maximum, ...budget }) => ({ ...budget, limit: maximum ?? undefined }));
}

async function findLastMigration(tx: Tx): Promise<string> {
  const [row] = await tx<
    { name: string }[]
  >`select name from migrations order by applied_at desc, name desc limit 1`;
  return row?.name ?? "none";
}

function byTask(counts: Awaited<ReturnType<typeof countQueue>>) {
  const tasks = [...Map.groupBy(counts, ({ task }) => task)];
  return tasks
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([task, states]) => {
      const countOf = (state: string) => states.find((one) => one.state === state)?.count ?? 0;
      return {
        task,
        ready: countOf("ready"),
        waiting: countOf("waiting"),
        running: countOf("running"),
        failed: countOf("failed"),
      };
    });
}

/** As last read from a node by workers, by network and address. */
function readBalances(processes: readonly ProcessReport[]): Map<string, bigint> {
  const given = processes.flatMap(({ details }) => Object.entries((details as WorkerDetails).balances ?? {}));
  return new Map(given.map(([key, wei]) => [key, BigInt(wei)]));
}

/** What workers add to their report: wei as decimal text by `network address`, and their keys (`network address`). */
export type WorkerDetails = { balances?: Record<string, string>; relayers?: readonly string[] };
