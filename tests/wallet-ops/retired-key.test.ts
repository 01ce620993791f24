/** Operations in a pending transaction whose key no worker has: when another key takes them, and when they may fail. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import pino from "pino";
import type { Hex } from "../../core/domain/networks.ts";
import { findWorkerKeys } from "../../db/health/process-heartbeats.ts";
import {
  failQueuedOperations,
  markOperationsBroadcast,
  markOperationsSigned,
  requeueUnrunOperations,
} from "../../db/wallet-ops/queue.ts";
import { findEmptyRelays, requeueFromRetiredKeys } from "../../db/wallet-ops/retired-keys.ts";
import { settleOperations } from "../../db/wallet-ops/settlement.ts";
import type { RelayNetwork } from "../../worker/sender/relay-network.ts";
import { sendOperations } from "../../worker/wallet-ops/send-operations.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import {
  eventOf,
  type Made,
  type OperationLab,
  openOperationLab,
  randomHash,
} from "../support/operation-lab.ts";
import { randomAddress } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";

setDefaultTimeout(30_000);

let lab: OperationLab;
beforeAll(async () => {
  lab = await openOperationLab();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  await lab.sql`delete from processes`;
});

const own = randomAddress();
const requeue = (sql = lab.sql, network: "base" | "base-sepolia" = NETWORK) =>
  requeueFromRetiredKeys(sql, network, { relayers: [own], afterS: 120 });

/** BROADCAST in a relay of this key, with an attempt of each of these ages. */
async function carried(
  given: { relayer?: Hex; attemptsS?: number[]; state?: string } = {},
): Promise<Made & { relayId: bigint; relayer: Hex }> {
  const { relayer = randomAddress(), attemptsS = [300], state = "BROADCAST" } = given;
  const made = await lab.relayed(state, state === "MINED" ? 98 : null);
  const { relayId } = await lab.rowOf(made);
  if (relayId === null) throw new Error("no relay");
  if (state === "BROADCAST") await markOperationsBroadcast(lab.sql, relayId);
  await lab.sql`
    insert into relayers (network, address, next_nonce)
    values (${NETWORK}, ${relayer}, 1000000)
    on conflict do nothing`;
  await lab.sql`update relays set relayer = ${relayer}, created_at = now() - interval '1 day' where id = ${relayId}`;
  for (const [index, ageS] of attemptsS.entries())
    await lab.sql`
      insert into relay_attempts (relay_id, tx_hash, max_fee_per_gas, max_priority_fee_per_gas, created_at)
      values (${relayId}, ${randomHash()}, ${index + 1}, 1, now() - make_interval(secs => ${ageS}::int))`;
  return { ...made, relayId, relayer };
}

async function reportAs(given: { kind?: string; silentS?: number; details: object }): Promise<void> {
  const { kind = "worker", silentS = 0, details } = given;
  await lab.sql`
    insert into processes (id, kind, version, host, pid, details, seen_at)
    values (
      ${crypto.randomUUID()}, ${kind}, '1', 'host', 1, ${JSON.stringify(details)}::text::jsonb,
      now() - make_interval(secs => ${silentS}::int)
    )`;
}

test("an operation is queued again with its former relay, and others are left", async () => {
  const stranded = await carried();
  const unsent = await carried({ state: "SIGNED" });
  const [young, mined, kept] = [
    await carried({ attemptsS: [300, 60] }),
    await carried({ state: "MINED" }),
    await carried({ relayer: own }),
  ];
  const settled = await carried();
  await settleOperations(lab.sql, NETWORK, [eventOf(settled)]);
  expect(await requeue(lab.sql, "base")).toEqual([]);
  const ids = await requeue();
  expect([stranded, unsent, young, mined, kept, settled].map(({ id }) => ids.includes(id))).toEqual([
    true,
    true,
    false,
    false,
    false,
    false,
  ]);
  expect(await lab.rowOf(stranded)).toMatchObject({
    state: "QUEUED",
    relayId: null,
    formerRelayIds: [stranded.relayId],
  });
});

test("a worker's keys count until it has been silent for ten minutes; one that reports none may have any", async () => {
  await reportAs({ kind: "api", details: {} });
  await reportAs({ details: { relayers: ["base 0x01"] } });
  await reportAs({ details: { relayers: ["base 0x02", "base-sepolia 0x02"] }, silentS: 590 });
  expect((await findWorkerKeys(lab.sql))?.sort()).toEqual(["base 0x01", "base 0x02", "base-sepolia 0x02"]);
  await lab.sql`update processes set seen_at = seen_at - interval '20 seconds'`;
  expect(await findWorkerKeys(lab.sql)).toEqual(["base 0x01"]);
  await reportAs({ details: { balances: {} } });
  expect(await findWorkerKeys(lab.sql)).toBeUndefined();
});

test("of two workers that take an operation at once, one does; the other leaves it in its new relay", async () => {
  const made = await carried();
  const newRelay = await lab.makeRelay("SIGNED");
  let second: Promise<string[]> | undefined;
  await lab.sql.begin(async (tx) => {
    expect(await requeueFromRetiredKeys(tx, NETWORK, { relayers: [own], afterS: 120 })).toContain(made.id);
    await markOperationsSigned(tx, newRelay, [made.id]);
    second = requeue();
    second.catch(() => undefined);
    await waitingForLock();
  });
  expect(await second).not.toContain(made.id);
  expect(await lab.rowOf(made)).toMatchObject({
    state: "SIGNED",
    relayId: newRelay,
    formerRelayIds: [made.relayId],
  });
});

test("an operation that its block settles at this moment is not queued again", async () => {
  const made = await carried();
  let taken: Promise<string[]> | undefined;
  await lab.sql.begin(async (tx) => {
    await settleOperations(tx, NETWORK, [eventOf(made)]);
    taken = requeue();
    taken.catch(() => undefined);
    await waitingForLock();
  });
  expect(await taken).not.toContain(made.id);
  expect(await lab.rowOf(made)).toMatchObject({ state: "MINED", relayId: made.relayId });
});

async function waitingForLock(): Promise<void> {
  for (;;) {
    const [row] = await lab.sql`
      select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like '%with stranded%'`;
    if (row) return;
    await Bun.sleep(10);
  }
}

test("a refused operation does not fail while a former relay may still execute it", async () => {
  const made = await carried();
  await requeue();
  const fail = () => failQueuedOperations(lab.sql, [{ id: made.id, reason: "REVERTED" }]);
  // BROADCAST, then in a block that the ledger may not have read, or that may be reorganised away
  expect(await fail()).toEqual([]);
  await lab.sql`update relays set state = 'SIGNED' where id = ${made.relayId}`;
  expect(await fail()).toEqual([]);
  await lab.sql`update relays set state = 'MINED', block_number = 98 where id = ${made.relayId}`;
  expect(await fail()).toEqual([]);
  expect(await lab.rowOf(made)).toMatchObject({ state: "QUEUED", reason: null });
  await lab.sql`update relays set state = 'CONFIRMED' where id = ${made.relayId}`;
  expect(await fail()).toEqual([made.id]);
  const lost = await carried();
  await requeue();
  await lab.sql`update relays set state = 'LOST' where id = ${lost.relayId}`;
  expect(await failQueuedOperations(lab.sql, [{ id: lost.id, reason: "REVERTED" }])).toEqual([lost.id]);
});

test("the former relay of another operation holds nothing", async () => {
  const held = await carried();
  await requeue();
  const free = await lab.queued();
  expect(await failQueuedOperations(lab.sql, [{ id: free.id, reason: "REVERTED" }])).toEqual([free.id]);
  expect(await failQueuedOperations(lab.sql, [{ id: held.id, reason: "REVERTED" }])).toEqual([]);
});

test("the third relay that did not execute it ends an operation only when no former one may", async () => {
  const made = await carried();
  await requeue();
  const miss = async (state: string) => {
    const relayId = await lab.makeRelay(state, state === "LOST" ? null : 98);
    await markOperationsSigned(lab.sql, relayId, [made.id]);
    return requeueUnrunOperations(lab.sql, NETWORK, 1);
  };
  expect((await miss("CONFIRMED")).requeued).toContain(made.id);
  expect((await miss("CONFIRMED")).requeued).toContain(made.id);
  expect((await miss("LOST")).requeued).toContain(made.id);
  expect(await miss("CONFIRMED")).toEqual({ requeued: [], failed: [] });
  expect(await lab.rowOf(made)).toMatchObject({ state: "SIGNED", missedRelays: 2 });
  await lab.sql`update relays set state = 'LOST' where id = ${made.relayId}`;
  expect((await requeueUnrunOperations(lab.sql, NETWORK, 1)).failed).toEqual([made.id]);
});

test("a relay is empty when its operations are in another one, or final", async () => {
  const [taken, own, mined, final] = [await carried(), await carried(), await carried(), await carried()];
  await lab.sql`
    update wallet_operations
    set state = 'QUEUED', relay_id = null, former_relay_ids = array[relay_id]
    where id = ${taken.id}`;
  await settleOperations(lab.sql, NETWORK, [eventOf(mined), eventOf(final)]);
  await lab.sql`update wallet_operations set state = 'CONFIRMED' where id = ${final.id}`;
  const empty = await findEmptyRelays(
    lab.sql,
    [taken, own, mined, final].map(({ relayId }) => relayId),
  );
  expect([taken, own, mined, final].map(({ relayId }) => empty.has(relayId))).toEqual([
    true,
    false,
    false,
    true,
  ]);
});

test("what no transaction executed is queued again although an operation of a removed key is held by another transaction", async () => {
  const [unrun, held] = [await lab.relayed("CONFIRMED", 98), await carried()];
  await reportAs({ details: { relayers: [] } });
  const network = {
    deps: { sql: lab.sql, log: pino({ level: "silent" }) },
    chain: { network: { id: NETWORK } },
    ...{ lanes: { keys: [] }, confirmations: 1 },
  } as unknown as RelayNetwork;
  let sending: Promise<void> | undefined;
  await lab.sql.begin(async (tx) => {
    await tx`select from wallet_operations where id = ${held.id} for update`;
    sending = sendOperations(network);
    sending.catch(() => undefined);
    await untilBlocked(lab.sql, sending);
    expect(await lab.rowOf(unrun)).toMatchObject({ state: "QUEUED", missedRelays: 1 });
  });
  await sending;
  expect(await lab.rowOf(held)).toMatchObject({ state: "QUEUED", formerRelayIds: [held.relayId] });
});
