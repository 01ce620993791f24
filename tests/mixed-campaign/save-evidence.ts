/** Saves what finds the cause of a violation: processes' logs, tables, links and their payers, and the chains. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { readTransfers } from "../support/invariants.ts";
import { PROCESSES, type Stage } from "./stage.ts";

const TABLES = [
  "account_changes",
  "blocks",
  "cursors",
  "events",
  "open_payments",
  "owner_changes",
  "payment_links",
  "payments",
  "refunds",
  "relay_attempts",
  "relays",
  "security_events",
  "transactions",
  "transfers",
  "wallet_operation_events",
  "wallet_operations",
] as const;

/** Returns the new folder. `findings` go into it with the seed and the time. */
export async function saveEvidence(stage: Stage, findings: readonly string[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "mixed-campaign-"));
  const save = (file: string, text: string) => writeFileSync(join(folder, file), text);
  const { sql, service, chains } = stage;
  const header = [`TEST_SEED=${process.env.TEST_SEED}`, new Date().toISOString()];
  save("findings.txt", [...header, ...findings].join("\n"));
  for (const name of PROCESSES) save(`${name}.log`, service.logOf(name));
  save("links.jsonl", toLines(stage.links));
  save(
    "operations.jsonl",
    toLines(stage.operations.map(({ merchant, ...rest }) => ({ ...rest, userId: merchant.userId }))),
  );
  for (const table of TABLES) save(`${table}.jsonl`, toLines(await sql`select * from ${sql(table)}`));
  const activity = await sql`
    select pid, application_name, state, wait_event_type, wait_event, now() - query_start as age, left(query, 200) as query
    from pg_stat_activity
    where datname = current_database()`;
  save("activity.jsonl", toLines(activity));
  for (const { network, node, rpc } of chains) {
    save(`transfers-on-${network}.jsonl`, toLines(await readTransfers(node.rpcUrl, network)));
    save(`pending-on-${network}.json`, JSON.stringify(await rpc("txpool_content"), undefined, 1));
  }
  save("nonces.jsonl", toLines(await readRelayerNonces(stage)));
  return folder;
}

async function readRelayerNonces({ sql, chains }: Stage): Promise<object[]> {
  const relayers = await sql<{ address: Hex; network: NetworkId }[]>`select address, network from relayers`;
  return Promise.all(
    relayers.map(async ({ address, network }) => {
      const chain = chains.find((one) => one.network === network);
      const read = async (block: string) =>
        Number(await chain?.rpc("eth_getTransactionCount", [address, block]));
      return { address, network, latest: await read("latest"), pending: await read("pending") };
    }),
  );
}

function toLines(rows: readonly object[]): string {
  const toText = (_: string, value: unknown) => (typeof value === "bigint" ? value.toString() : value);
  return rows.map((row) => JSON.stringify(row, toText)).join("\n");
}
