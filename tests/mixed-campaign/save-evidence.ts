/** Saves what finds the cause of a violation: processes' logs, tables, links and their payers, and the chains. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { readTransfers } from "../support/invariants.ts";
import { type Operation, PROCESSES, type Stage } from "./stage.ts";

const TABLES = [
  "account_changes",
  "blocks",
  "cursors",
  "events",
  "open_payments",
  "owner_changes",
  "payment_links",
  "claims",
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

/** Returns the new folder. `findings` go into it with the seed and the time; what cannot be read is a file that says why. */
export async function saveEvidence(stage: Stage, findings: readonly string[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "mixed-campaign-"));
  const save = async (file: string, read: () => string | Promise<string>) => {
    const text = await Promise.try(read).catch((error: unknown) => `not read: ${error}`);
    writeFileSync(join(folder, file), text);
  };
  const { sql, service, chains, links } = stage;
  const header = [`TEST_SEED=${process.env.TEST_SEED}`, new Date().toISOString()];
  await save("findings.txt", () => [...header, ...findings].join("\n"));
  for (const name of PROCESSES) await save(`${name}.log`, () => service.logOf(name));
  await save("links.jsonl", () => toLines(links));
  await save("operations.jsonl", () => toLines(stage.operations.map(withoutKeys)));
  for (const table of TABLES)
    await save(`${table}.jsonl`, async () => toLines(await sql`select * from ${sql(table)}`));
  await save("activity.jsonl", async () => toLines(await readActivity(stage)));
  for (const { network, node, rpc } of chains) {
    await save(`transfers-on-${network}.jsonl`, async () =>
      toLines(await readTransfers(node.rpcUrl, network)),
    );
    await save(`pending-on-${network}.json`, async () => JSON.stringify(await rpc("txpool_content")));
  }
  await save("nonces.jsonl", async () => toLines(await readRelayerNonces(stage)));
  return folder;
}

function withoutKeys({ merchant, ...operation }: Operation): object {
  return { ...operation, userId: merchant.userId, wallet: merchant.walletAddress };
}

function readActivity({ sql }: Stage): Promise<readonly object[]> {
  return sql`
    select
      pid, application_name, state, wait_event_type, wait_event, now() - query_start as age, left(query, 200) as query
    from pg_stat_activity
    where datname = current_database()`;
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
