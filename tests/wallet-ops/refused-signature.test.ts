/** When it is final that the account refuses a queued operation's signature: a reorganisation may have taken its signer away only for now. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { newOwnerChangeIds } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { forgetRefusedSignature, noteRefusedSignature } from "../../db/wallet-ops/refused-signature.ts";
import { reopenOperations } from "../../db/wallet-ops/reorganised-operations.ts";
import { recordOperationEvents, settleOperations } from "../../db/wallet-ops/settlement.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import {
  eventOf,
  type Made,
  type OperationLab,
  openOperationLab,
  randomHash,
} from "../support/operation-lab.ts";
import { seedOwnerChange } from "../support/passkey-rows.ts";

setDefaultTimeout(120_000);
const BLOCKS = 15;
const FIRST = 100;

let lab: OperationLab;
let sql: Sql;
beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql } = lab);
  await sql`insert into cursors (network, number, hash, head_number) values ('base', 900, ${randomHash()}, 900)`;
});
beforeEach(() => readTo(FIRST));
afterAll(() => lab?.stop());

async function readTo(number: number): Promise<void> {
  await sql`update cursors set number = ${number} where network = ${NETWORK}`;
}
const note = ({ id }: Made) => noteRefusedSignature(sql, id, BLOCKS);
const set = ({ id }: Made, given: object) => sql`update wallet_operations set ${sql(given)} where id = ${id}`;
const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000);

async function ownerOf({ userId }: Made): Promise<Hex> {
  const [row] = await sql<{ owner: Hex }[]>`
    select '0x' || encode(public_key_x || public_key_y, 'hex') as owner from passkeys where user_id = ${userId}`;
  return row?.owner ?? "0x";
}

/** Refused at the ledger's block 100, and read so far that a second refusal is final. */
async function refused(nonce = 0n): Promise<Made> {
  const made = await lab.queued(undefined, nonce);
  await readTo(FIRST);
  expect(await note(made)).toBe(false);
  await readTo(FIRST + BLOCKS);
  return made;
}

test("a refused signature is final after enough blocks to rule out a reorganisation of its signer's addition", async () => {
  const made = await refused();
  expect((await lab.rowOf(made)).signatureRefusedBlock).toBe(BigInt(FIRST));
  await readTo(FIRST + BLOCKS - 1);
  expect(await note(made)).toBe(false);
  await readTo(FIRST + BLOCKS);
  expect(await note(made)).toBe(true);
  expect((await lab.rowOf(made)).signatureRefusedBlock).toBe(BigInt(FIRST));
});

test("a refused signature is not final if the account accepted it in between, or a block had the operation", async () => {
  const [made, mined] = [await refused(), await refused()];
  await forgetRefusedSignature(sql, made.id);
  expect(await note(made)).toBe(false);
  const event = eventOf(mined, { blockNumber: FIRST + BLOCKS });
  await recordOperationEvents(sql, NETWORK, [event]);
  await settleOperations(sql, NETWORK, [event]);
  await reopenOperations(sql, { network: NETWORK, ancestor: FIRST + BLOCKS - 1 });
  expect((await lab.rowOf(mined)).state).toBe("QUEUED");
  expect(await note(mined)).toBe(false);
});

test("a refused signature is not final for an operation that no longer waits", async () => {
  const [made, other] = [await refused(), await refused()];
  await set(made, { state: "CANCELLED", next_try_at: minutesAgo(1) });
  expect(await note(made)).toBe(false);
  expect((await lab.rowOf(made)).nextTryAt.getTime()).toBeLessThan(Date.now() - 50_000);
  await forgetRefusedSignature(sql, made.id);
  expect((await lab.rowOf(made)).signatureRefusedBlock).toBe(BigInt(FIRST));
  expect(await note(other)).toBe(true);
});

test("a refused signature is not final before its nonce is the account's next: the signature is checked first", async () => {
  const made = await refused(2n);
  const spend = (nonce: bigint, of = made, network: "base" | "base-sepolia" = NETWORK) =>
    recordOperationEvents(sql, network, [eventOf(of, { nonce, userOpHash: randomHash() })]);
  await spend(0n);
  await spend(1n, made, "base");
  await spend(1n, await lab.makeOperation());
  expect(await note(made)).toBe(false);
  await spend(1n);
  expect(await note(made)).toBe(true);
});

test("a refused signature is also final at the first nonce of operations for every network", async () => {
  const key = 8453n << 64n;
  expect(await note(await refused(key))).toBe(true);
  expect(await note(await refused(key + 1n))).toBe(false);
});

test("a refused signature is not final while its signer is being added to this wallet, for a quarter of an hour", async () => {
  const [made, stranger] = [await refused(), await lab.makeOperation()];
  await readTo(FIRST + BLOCKS);
  const owner = await ownerOf(made);
  let nonce = 8453n << 64n;
  const change = async (of: Made, { action = "ADD" as "ADD" | "REMOVE", added = owner } = {}) => {
    const ownerChangeId = await seedOwnerChange(sql, of.userId, { owner: added, action });
    const [id = ""] = newOwnerChangeIds(new Date(), 1);
    return lab.queued(of, nonce++, { id, kind: "OWNERS", ownerChangeId, isAnyChain: true });
  };
  await change(stranger);
  await change(made, { action: "REMOVE" });
  await change(made, { added: `0x${"ab".repeat(64)}` });
  expect(await note(made)).toBe(true);
  const addition = await change(made);
  const found: string[] = [];
  await set(addition, { relay_id: await lab.makeRelay("SIGNED"), succeeded: true, tx_hash: "0x" });
  for (const state of ["QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED", "CANCELLED"]) {
    await set(addition, { state });
    if (!(await note(made))) found.push(state);
  }
  expect(found).toEqual(["QUEUED", "SIGNED", "BROADCAST", "MINED"]);
  await set(addition, { state: "QUEUED" });
  await set(made, { updated_at: minutesAgo(14.9) });
  expect(await note(made)).toBe(false);
  await set(made, { updated_at: minutesAgo(15.1) });
  expect(await note(made)).toBe(true);
});

test("a refused operation is simulated again at intervals that grow with its waiting time", async () => {
  const made = await refused();
  const delayMs = async (minutes: number) => {
    await set(made, { updated_at: minutesAgo(minutes) });
    const before = Date.now();
    await note(made);
    const after = Date.now();
    const nextTryMs = (await lab.rowOf(made)).nextTryAt.getTime();
    // it was noted at some time in between
    return { most: nextTryMs - before, least: nextTryMs - after };
  };
  for (const [minutes, from, to] of [
    [0, 400, 1_500],
    [0.5, 7_400, 8_900],
    [10, 14_900, 16_400],
  ] as const) {
    const { least, most } = await delayMs(minutes);
    expect([minutes, most > from, least < to]).toEqual([minutes, true, true]);
  }
});
