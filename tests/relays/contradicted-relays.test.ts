/** CONFIRMED relays that an operation of theirs contradicts: which are found, and which are left to the ledger. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { findContradictedRelays } from "../../db/relays/reorganised-relays.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { type Made, type OperationLab, openOperationLab, randomHash } from "../support/operation-lab.ts";

setDefaultTimeout(120_000);
const OTHER_NETWORK = "base";
let lab: OperationLab;
let sql: Sql;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql } = lab);
  await sql`insert into cursors (network, number, hash, head_number) values (${OTHER_NETWORK}, 500, ${randomHash()}, 500)`;
});
afterAll(() => lab?.stop());

/** Whether the relay of this operation is contradicted, by whom asks for this network. */
async function isContradicted(made: Made, network: NetworkId = NETWORK): Promise<boolean> {
  const { relayId } = await lab.rowOf(made);
  const found = await findContradictedRelays(sql, network, { lanes: [], limit: 100 });
  return found.some(({ id }) => id === relayId);
}

const set = ({ id }: Made, given: object) => sql`update wallet_operations set ${sql(given)} where id = ${id}`;

test("a relay is contradicted while an operation that it carries is SIGNED or BROADCAST, on this network", async () => {
  const made = await lab.relayed("CONFIRMED", 50);
  expect([await isContradicted(made), await isContradicted(made, OTHER_NETWORK)]).toEqual([true, false]);
  const contradicted: Record<string, boolean> = {};
  await set(made, { succeeded: true, tx_hash: "0x" });
  for (const state of ["QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED", "EXPIRED", "CANCELLED"]) {
    await set(made, { state });
    contradicted[state] = await isContradicted(made);
  }
  expect(Object.keys(contradicted).filter((state) => contradicted[state])).toEqual(["SIGNED", "BROADCAST"]);
});

test("a relay that is not CONFIRMED is not contradicted, nor one above what the ledger has read", async () => {
  const [mined, above, at] = [
    await lab.relayed("MINED", 50),
    await lab.relayed("CONFIRMED", 101),
    await lab.relayed("CONFIRMED", 100),
  ];
  expect([await isContradicted(mined), await isContradicted(above), await isContradicted(at)]).toEqual([
    false,
    false,
    true,
  ]);
});

test("a relay whose block the ledger has is left to it; another block there, on its own network, disproves it", async () => {
  const [kept, gone] = [await lab.relayed("CONFIRMED", 60), await lab.relayed("CONFIRMED", 61)];
  const keep = (network: NetworkId, number: number, hash: string) => sql`
    insert into blocks (network, number, hash, parent_hash, block_time) values (${network}, ${number}, ${hash}, '0x', now())`;
  await keep(OTHER_NETWORK, 61, randomHash());
  const find = async (made: Made) => {
    const { relayId } = await lab.rowOf(made);
    const found = await findContradictedRelays(sql, NETWORK, { lanes: [], limit: 100 });
    return found.find(({ id }) => id === relayId)?.isDisproved;
  };
  expect([await find(kept), await find(gone)]).toEqual([false, false]);
  const [row] = await sql<{ hash: string }[]>`select block_hash as hash from relays where block_number = 60`;
  await keep(NETWORK, 60, row?.hash ?? "");
  await keep(NETWORK, 61, randomHash());
  expect([await find(kept), await find(gone)]).toEqual([undefined, true]);
});
