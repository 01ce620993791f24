/** When a membership must not end: a passkey of the member is an owner on the chain, or may become one by an addition that is signed. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newOwnerChangeIds } from "../../core/domain/ids.ts";
import { mayOwnOnChain } from "../../db/members/members.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { recordOperationEvents } from "../../db/wallet-ops/settlement.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import {
  eventOf,
  type Made,
  type OperationLab,
  openOperationLab,
  randomHash,
} from "../support/operation-lab.ts";
import {
  logOwner,
  type SeededPasskey,
  seedOwnerChange,
  seedPasskey,
  seedUser,
} from "../support/passkey-rows.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;
let sql: Sql;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql } = lab);
});
afterAll(() => lab?.stop());

const set = ({ id }: { id: string }, given: object) =>
  sql`update wallet_operations set ${sql(given)} where id = ${id}`;

/** A merchant with a wallet, and a member with a passkey that the merchant's change adds. */
async function prepare() {
  const made = await lab.makeOperation();
  const passkey = await seedPasskey(sql, await seedUser(sql));
  const changeId = await seedOwnerChange(sql, made.userId, { owner: passkey.owner, member: passkey.userId });
  const mayOwn = (of: Pick<SeededPasskey, "userId"> = passkey) =>
    mayOwnOnChain(sql, { merchantId: made.userId, userId: of.userId });
  return { made, passkey, changeId, mayOwn };
}

/** The addition's operation of this wallet, not signed yet. */
async function operate(
  of: Made,
  ownerChangeId: string,
  { nonce = 1n, isAnyChain = false } = {},
): Promise<Made> {
  const [id = ""] = newOwnerChangeIds(new Date(), 1);
  return lab.makeOperation(of, nonce, { id, kind: "OWNERS", ownerChangeId, isAnyChain });
}

const FAILED = { state: "FAILED", reason: "NOT_SENT" };

test("an owner on the chain may be an owner from the log of the addition until its removal is confirmed", async () => {
  const { made, passkey, mayOwn } = await prepare();
  const wallet = { address: made.address, network: NETWORK } as const;
  expect(await mayOwn()).toBe(false);
  await logOwner(sql, wallet, passkey.owner, { isDeep: false });
  expect(await mayOwn()).toBe(true);
  expect(await mayOwn({ userId: await seedUser(sql) })).toBe(false);
  await logOwner(sql, wallet, passkey.owner, { type: "OWNER_REMOVED", isDeep: false });
  expect(await mayOwn()).toBe(true);
  await sql`update account_changes set confirmed_at = now() where subject = ${passkey.owner}`;
  expect(await mayOwn()).toBe(false);
});

test("a key that was added as another person's gives its holder no rights", async () => {
  const { made, passkey } = await prepare();
  const thief = await seedPasskey(sql, await seedUser(sql), { key: passkey.owner });
  await logOwner(sql, { address: made.address, network: NETWORK }, passkey.owner);
  expect(await mayOwnOnChain(sql, { merchantId: made.userId, userId: thief.userId })).toBe(false);
});

test("an addition may still run from its signature until it ends without having been sent", async () => {
  const { made, changeId, mayOwn } = await prepare();
  const operation = await operate(made, changeId);
  await set(operation, { signature: "0x01", relay_id: await lab.makeRelay("SIGNED"), succeeded: true });
  const found: Record<string, boolean> = {};
  for (const state of [
    ...["AWAITING_SIGNATURE", "QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED"],
    ...["EXPIRED", "CANCELLED", "FAILED"],
  ]) {
    const isMined = ["MINED", "CONFIRMED"].includes(state);
    const reason = state === "FAILED" ? "NOT_SENT" : null;
    await set(operation, { state, reason, tx_hash: isMined ? "0x" : null });
    found[state] = await mayOwn();
  }
  expect(Object.keys(found).filter((state) => found[state])).toEqual([
    ...["QUEUED", "SIGNED", "BROADCAST", "MINED"],
  ]);
});

test("an addition that was relayed and failed may be executed by anyone until its nonce is spent", async () => {
  const { made, changeId, mayOwn } = await prepare();
  const operation = await operate(made, changeId);
  await set(operation, FAILED);
  expect(await mayOwn()).toBe(false);
  await set(operation, { relayed_at: new Date() });
  expect(await mayOwn()).toBe(true);
  await recordOperationEvents(sql, NETWORK, [eventOf(made, { nonce: 1n, userOpHash: randomHash() })]);
  expect(await mayOwn()).toBe(false);
});

test("an addition relayed on one network is public on all, if it was signed for all", async () => {
  const { made, changeId, mayOwn } = await prepare();
  const nonce = 1n << 64n;
  const relayed = await operate(made, changeId, { nonce });
  const waiting = await operate(made, changeId, { nonce: nonce + 1n });
  for (const operation of [relayed, waiting]) await set(operation, FAILED);
  await set(relayed, { relayed_at: new Date() });
  await recordOperationEvents(sql, NETWORK, [eventOf(made, { nonce, userOpHash: randomHash() })]);
  expect(await mayOwn()).toBe(false);
  await set(waiting, { is_any_chain: true });
  expect(await mayOwn()).toBe(true);
});

test("another change, another merchant's change, a removal, or another key's change is no evidence", async () => {
  const { made, passkey, mayOwn } = await prepare();
  const stranger = await lab.makeOperation();
  const other = await seedPasskey(sql, passkey.userId);
  const changes = [
    { of: stranger, change: { owner: passkey.owner, member: passkey.userId } },
    { of: made, change: { owner: passkey.owner, member: passkey.userId, action: "REMOVE" as const } },
    { of: made, change: { owner: other.owner } },
  ];
  for (const { of, change } of changes) {
    const operation = await operate(of, await seedOwnerChange(sql, of.userId, change));
    await set(operation, { ...FAILED, relayed_at: new Date() });
  }
  expect(await mayOwn()).toBe(false);
});

test("a relayed operation of another change makes no addition public", async () => {
  const { made, passkey, changeId, mayOwn } = await prepare();
  await set(await operate(made, changeId, { nonce: 1n << 64n, isAnyChain: true }), FAILED);
  const removal = { owner: passkey.owner, action: "REMOVE" } as const;
  const other = await operate(made, await seedOwnerChange(sql, made.userId, removal));
  await set(other, { ...FAILED, relayed_at: new Date() });
  expect(await mayOwn()).toBe(false);
});
