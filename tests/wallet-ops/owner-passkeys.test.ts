/** Which passkeys are listed, and excluded when another is made: the conditions of the statement, one by one. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newOwnerChangeIds } from "../../core/domain/ids.ts";
import { insertMember } from "../../db/members/members.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { listOwnerPasskeys } from "../../db/wallet-ops/owner-passkeys.ts";
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
  RP_ID,
  type SeededPasskey,
  seedOwnerChange,
  seedPasskey,
  seedUser,
  seedWallet,
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

const isListed = async ({ id, userId }: SeededPasskey): Promise<boolean> =>
  (await listOwnerPasskeys(sql, userId, RP_ID)).some((passkey) => passkey.id === id);

/** A user with a wallet, another passkey of theirs, and a change with this action. */
async function prepare(action: "ADD" | "REMOVE" = "ADD") {
  const made = await lab.makeOperation();
  const passkey = await seedPasskey(sql, made.userId);
  const changeId = await seedOwnerChange(sql, made.userId, { owner: passkey.owner, action });
  return { made, passkey, changeId };
}

/** The change's operation of this wallet, not signed yet. */
async function operate(of: Made, ownerChangeId: string): Promise<Made> {
  const [id = ""] = newOwnerChangeIds(new Date(), 1);
  return lab.makeOperation(of, 1n, { id, kind: "OWNERS", ownerChangeId });
}

test("those that the wallet's address was computed from are listed and sign in, another user's are not", async () => {
  const userId = await seedUser(sql);
  const [first, other] = [await seedPasskey(sql, userId), await seedPasskey(sql, userId)];
  const foreign = await seedPasskey(sql, await seedUser(sql), { key: first.owner });
  await seedWallet(sql, [first]);
  const listed = await listOwnerPasskeys(sql, userId, RP_ID);
  expect(listed.map(({ id, signsIn }) => ({ id, signsIn }))).toEqual([{ id: first.id, signsIn: true }]);
  expect(await isListed(other)).toBe(false);
  expect(await isListed(foreign)).toBe(false);
  expect(await listOwnerPasskeys(sql, userId, "other.example.test")).toEqual([]);
});

test("one that the chain added is listed at once and signs in at depth, until its removal is deep", async () => {
  const { made, passkey } = await prepare();
  const wallet = { address: made.address, network: NETWORK } as const;
  const state = async () =>
    (await listOwnerPasskeys(sql, made.userId, RP_ID)).find(({ id }) => id === passkey.id)?.signsIn;
  expect(await state()).toBeUndefined();
  await logOwner(sql, wallet, passkey.owner, { isDeep: false });
  expect(await state()).toBe(false);
  await sql`update account_changes set confirmed_at = now() where subject = ${passkey.owner}`;
  expect(await state()).toBe(true);
  await logOwner(sql, wallet, passkey.owner, { type: "OWNER_REMOVED", isDeep: false });
  expect(await state()).toBe(false);
  await sql`update account_changes set confirmed_at = now() where subject = ${passkey.owner}`;
  expect(await state()).toBeUndefined();
});

test("one whose addition can be signed, or is on its way, is listed; not one whose addition ended unsent", async () => {
  const { made, passkey, changeId } = await prepare();
  const operation = await operate(made, changeId);
  await set(operation, { signature: "0x01", relay_id: await lab.makeRelay("SIGNED"), succeeded: true });
  const found: string[] = [];
  for (const state of [
    ...["AWAITING_SIGNATURE", "QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED"],
    ...["EXPIRED", "CANCELLED", "FAILED"],
  ]) {
    const reason = state === "FAILED" ? "NOT_SENT" : null;
    await set(operation, { state, reason, tx_hash: ["MINED", "CONFIRMED"].includes(state) ? "0x" : null });
    if (await isListed(passkey)) found.push(state);
  }
  expect(found).toEqual(["AWAITING_SIGNATURE", "QUEUED", "SIGNED", "BROADCAST", "MINED"]);
  await set(operation, { state: "AWAITING_SIGNATURE", reason: null, expires_at: new Date() });
  expect(await isListed(passkey)).toBe(false);
});

test("one whose relayed addition failed is listed while anyone could still execute it", async () => {
  const { made, passkey, changeId } = await prepare();
  await set(await operate(made, changeId), { state: "FAILED", reason: "NOT_RUN", relayed_at: new Date() });
  expect(await isListed(passkey)).toBe(true);
  await recordOperationEvents(sql, NETWORK, [eventOf(made, { nonce: 1n, userOpHash: randomHash() })]);
  expect(await isListed(passkey)).toBe(false);
});

test("a removal that can be signed, and another key's addition, list no passkey", async () => {
  const { made, passkey, changeId } = await prepare("REMOVE");
  await operate(made, changeId);
  const other = await seedPasskey(sql, made.userId);
  await operate(made, await seedOwnerChange(sql, made.userId, { owner: other.owner }));
  expect(await isListed(passkey)).toBe(false);
  expect(await isListed(other)).toBe(true);
});

test("one that owns the wallet of a merchant is listed for its member, and for nobody else", async () => {
  const merchant = await lab.makeOperation();
  const [userId, stranger] = [await seedUser(sql), await seedUser(sql)];
  const passkey = await seedPasskey(sql, userId);
  const same = await seedPasskey(sql, stranger, { key: passkey.owner });
  await logOwner(sql, { address: merchant.address, network: NETWORK }, passkey.owner);
  expect(await isListed(passkey)).toBe(false);
  await insertMember(sql, { merchantId: merchant.userId, userId, role: "owner", invitedBy: merchant.userId });
  expect(await isListed(passkey)).toBe(true);
  expect(await isListed(same)).toBe(false);
});

test("one whose addition to a merchant's wallet can be signed is listed for its member", async () => {
  const merchant = await lab.makeOperation();
  const userId = await seedUser(sql);
  const passkey = await seedPasskey(sql, userId);
  const change = { owner: passkey.owner, member: userId };
  await operate(merchant, await seedOwnerChange(sql, merchant.userId, change));
  expect(await isListed(passkey)).toBe(false);
  await insertMember(sql, { merchantId: merchant.userId, userId, role: "owner", invitedBy: merchant.userId });
  expect(await isListed(passkey)).toBe(true);
});
