/** Owner changes for every network: which wait, which are signed, which a removal has overtaken, and when their operations are due. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { ANY_CHAIN_NONCE_KEY } from "../../core/chain/owner-operation.ts";
import { newOwnerChangeIds } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import {
  copySignedAddition,
  findOwnerChange,
  hasRemovedOwner,
  listAddedOwners,
  listSignedAdditions,
  listWaitingAdditions,
} from "../../db/wallet-ops/owner-changes.ts";
import {
  failQueuedOperations,
  failUnsentOperations,
  leaseQueuedOperations,
} from "../../db/wallet-ops/queue.ts";
import { recordOperationEvents, settleOperations } from "../../db/wallet-ops/settlement.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import {
  eventOf,
  type Made,
  type OperationLab,
  openOperationLab,
  randomHash,
} from "../support/operation-lab.ts";
import { logOwner, seedOwnerChange } from "../support/passkey-rows.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;
let sql: Sql;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql } = lab);
});
afterAll(() => lab?.stop());

const randomKey = (): Hex => `0x${randomHash().slice(2)}${randomHash().slice(2)}`;
const set = ({ id }: { id: string }, given: object) =>
  sql`update wallet_operations set ${sql(given)} where id = ${id}`;

type Change = { owner?: Hex; nonce?: bigint; action?: "ADD" | "REMOVE"; isAnyChain?: boolean };

/** A change of the wallet of this operation that is signed and queued. */
async function changed(
  of: Made,
  { owner = randomKey(), nonce = 1n << 64n, action = "ADD", isAnyChain = true }: Change = {},
): Promise<Made & { owner: Hex }> {
  const ownerChangeId = await seedOwnerChange(sql, of.userId, { owner, action });
  const [id = ""] = newOwnerChangeIds(new Date(), 1);
  return { ...(await lab.queued(of, nonce, { id, kind: "OWNERS", ownerChangeId, isAnyChain })), owner };
}

const ownersOf = (rows: readonly { owner: Hex }[]) => rows.map(({ owner }) => owner);

/** Every state, and whether the operation is listed in it. */
async function statesListed(made: Made, isListed: () => Promise<boolean>): Promise<Record<string, boolean>> {
  const found: Record<string, boolean> = {};
  await set(made, { relay_id: await lab.makeRelay("SIGNED"), succeeded: true });
  for (const state of [
    ...["AWAITING_SIGNATURE", "QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED"],
    ...["EXPIRED", "CANCELLED", "FAILED"],
  ]) {
    const isMined = ["MINED", "CONFIRMED"].includes(state);
    await set(made, {
      state,
      reason: state === "FAILED" ? "NOT_SENT" : null,
      tx_hash: isMined ? "0x" : null,
    });
    found[state] = await isListed();
  }
  return found;
}

test("an owner change is found only by its own user", async () => {
  const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
  const [id, other] = [
    await seedOwnerChange(sql, made.userId, { owner: randomKey() }),
    await seedOwnerChange(sql, made.userId, { owner: randomKey() }),
  ];
  for (const own of [id, other])
    expect(await findOwnerChange(sql, { id: own, userId: made.userId })).toMatchObject({ id: own });
  expect(await findOwnerChange(sql, { id, userId: stranger.userId })).toBeUndefined();
});

test("an addition waits on its own wallet from its signature until it is mined, if it is for every network", async () => {
  const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
  await changed(stranger);
  await changed(made, { isAnyChain: false, nonce: 1n });
  const addition = await changed(made);
  const waiting = async () => ownersOf(await listWaitingAdditions(sql, [made.walletId]));
  const found = await statesListed(addition, async () => (await waiting()).includes(addition.owner));
  expect(Object.keys(found).filter((state) => found[state])).toEqual(["QUEUED", "SIGNED", "BROADCAST"]);
  await set(addition, { state: "QUEUED", reason: null });
  expect(await waiting()).toEqual([addition.owner]);
  // as a reorganisation leaves it when others follow it: it still runs, before them
  await set(addition, { is_extra: true });
  expect(await waiting()).toEqual([addition.owner]);
});

test("waiting additions have to start from the nonce after the highest spent one of their key", async () => {
  const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
  const key = 8453n << 64n;
  const later = await changed(made, { nonce: key + 2n });
  const sooner = await changed(made, { nonce: key + 1n });
  await changed(stranger, { nonce: key });
  const unspent = async ({ walletId }: Made) =>
    (await listWaitingAdditions(sql, [walletId])).map(({ unspentNonce }) => unspentNonce);
  const spend = (of: Made, nonce: bigint, network: "base" | "base-sepolia" = NETWORK) =>
    recordOperationEvents(sql, network, [eventOf(of, { nonce, userOpHash: randomHash() })]);
  // of other keys, of another network
  await spend(made, key - 2n);
  await spend(made, key + (1n << 64n));
  await spend(made, key, "base");
  expect(await unspent(made)).toEqual([key, key]);
  await spend(made, key);
  expect(await unspent(made)).toEqual([key + 1n, key + 1n]);
  expect(await unspent(stranger)).toEqual([key]);
  const listed = ownersOf(await listWaitingAdditions(sql, [made.walletId]));
  expect(listed).toEqual([sooner.owner, later.owner]);
});

test("an addition counts as signed for other networks too if it may run here, or has run, even unsuccessfully", async () => {
  const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
  await changed(stranger);
  await changed(made, { isAnyChain: false, nonce: 1n });
  const addition = await changed(made);
  const signed = async () => ownersOf(await listSignedAdditions(sql, made.walletId));
  const found = await statesListed(addition, async () => (await signed()).includes(addition.owner));
  expect(Object.keys(found).filter((state) => found[state])).toEqual([
    ...["QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED"],
  ]);
  expect(await signed()).toEqual([]);
  await set(addition, { tx_hash: "0x" });
  expect(await signed()).toEqual([addition.owner]);
  await set(addition, { signature: null });
  expect(await signed()).toEqual([]);
});

test("the owners that a change adds to a wallet are listed for this wallet, without removals", async () => {
  const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
  await changed(stranger);
  const [addition, removal] = [
    await changed(made),
    await changed(made, { nonce: 2n << 64n, action: "REMOVE" }),
  ];
  expect(ownersOf(await listAddedOwners(sql, made.walletId))).toEqual([addition.owner]);
  expect(removal.owner).not.toBe(addition.owner);
});

describe("a removal rules out an owner that a further network would get", () => {
  const overtaken = ({ walletId, address }: Made) =>
    hasRemovedOwner(sql, { id: walletId, network: NETWORK, address }, ANY_CHAIN_NONCE_KEY);

  test("if the chain shows it for its owner, its wallet and its network", async () => {
    const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
    const addition = await changed(made);
    const wallet = { address: made.address, network: NETWORK } as const;
    const type = "OWNER_REMOVED";
    await logOwner(sql, wallet, addition.owner);
    await logOwner(sql, wallet, randomKey(), { type });
    await logOwner(sql, wallet, addition.owner, { type, network: "base" });
    await logOwner(sql, { ...wallet, address: stranger.address }, addition.owner, { type });
    expect(await overtaken(made)).toBe(false);
    await logOwner(sql, wallet, addition.owner, { type, isDeep: false });
    expect(await overtaken(made)).toBe(true);
    expect(await overtaken(stranger)).toBe(false);
    await set(addition, { is_any_chain: false });
    expect(await overtaken(made)).toBe(false);
    await set(addition, { is_any_chain: true, state: "FAILED", reason: "NOT_SENT", signature: null });
    expect(await overtaken(made)).toBe(false);
  });

  test("or is of one of the first owners, which determine the address on every network", async () => {
    const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
    const [first, kept] = [randomKey(), randomKey()];
    await sql`update wallets set owners = ${[kept, first]} where id = ${made.walletId}`;
    await logOwner(sql, { address: made.address, network: NETWORK }, first, { type: "OWNER_REMOVED" });
    expect(await overtaken(made)).toBe(true);
    expect(await overtaken(stranger)).toBe(false);
    await sql`update wallets set owners = ${[kept]} where id = ${made.walletId}`;
    await sql`update wallets set owners = ${[first]} where id = ${stranger.walletId}`;
    expect(await overtaken(made)).toBe(false);
  });

  test("but not by the addition to another wallet, which says nothing about this one", async () => {
    const [made, other] = [await lab.makeOperation(), await lab.makeOperation()];
    const owner = randomKey();
    await logOwner(sql, { address: other.address, network: NETWORK }, owner);
    const [row] = await sql<{ txHash: Hex }[]>`select tx_hash from account_changes where subject = ${owner}`;
    const given = { nonce: ANY_CHAIN_NONCE_KEY << 64n, txHash: row?.txHash ?? "0x" };
    await recordOperationEvents(sql, NETWORK, [eventOf(other, given)]);
    await logOwner(sql, { address: made.address, network: NETWORK }, owner, { type: "OWNER_REMOVED" });
    expect(await overtaken(made)).toBe(false);
    await logOwner(sql, { address: other.address, network: NETWORK }, owner, { type: "OWNER_REMOVED" });
    expect(await overtaken(other)).toBe(true);
  });

  test("even if the addition had failed here and a stranger executed it", async () => {
    const made = await lab.makeOperation();
    const [addition, failed] = [await changed(made), await changed(made, { nonce: (1n << 64n) + 1n })];
    const send = await lab.queued(made);
    const ended = [addition, failed, send].map(({ id }) => ({ id, reason: "NOT_SENT" as const }));
    await failQueuedOperations(sql, ended);
    expect((await lab.rowOf(send)).signature).toBeNull();
    expect(await listSignedAdditions(sql, made.walletId)).toEqual([]);
    const event = eventOf(addition, { nonce: 1n << 64n });
    await settleOperations(sql, NETWORK, [event]);
    // a further network runs it before what follows it
    expect(ownersOf(await listSignedAdditions(sql, made.walletId))).toEqual([addition.owner]);
    expect(await overtaken(made)).toBe(false);
    const wallet = { address: made.address, network: NETWORK } as const;
    await logOwner(sql, wallet, addition.owner, { type: "OWNER_REMOVED" });
    expect(await overtaken(made)).toBe(true);
  });

  test("even if a stranger executed it after it was cancelled here, so that its signature is unknown", async () => {
    const made = await lab.makeOperation();
    const addition = await changed(made);
    await set(addition, { state: "CANCELLED", signature: null });
    await logOwner(sql, { address: made.address, network: NETWORK }, addition.owner, {
      type: "OWNER_REMOVED",
    });
    expect(await overtaken(made)).toBe(false);
    await settleOperations(sql, NETWORK, [eventOf(addition, { nonce: 1n << 64n })]);
    expect(await overtaken(made)).toBe(true);
  });

  test("even if the addition ran here and has no row, by the nonce of its operation", async () => {
    const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
    const owner = randomKey();
    const wallet = { address: made.address, network: NETWORK } as const;
    await logOwner(sql, wallet, owner);
    const [row] = await sql<{ txHash: Hex }[]>`select tx_hash from account_changes where subject = ${owner}`;
    const ran = (nonce: bigint, of = made, { txHash = row?.txHash ?? "0x" } = {}) =>
      recordOperationEvents(sql, NETWORK, [eventOf(of, { nonce, txHash, userOpHash: randomHash() })]);
    const [anyChain, nextKey] = [ANY_CHAIN_NONCE_KEY << 64n, (ANY_CHAIN_NONCE_KEY + 1n) << 64n];
    for (const nonce of [0n, anyChain - 1n, nextKey]) await ran(nonce);
    await ran(anyChain, stranger);
    await ran(anyChain, made, { txHash: randomHash() });
    await logOwner(sql, wallet, owner, { type: "OWNER_REMOVED" });
    expect(await overtaken(made)).toBe(false);
    await ran(anyChain + 1n);
    expect(await overtaken(made)).toBe(true);
    expect(await overtaken(stranger)).toBe(false);
    await sql`update account_changes set subject = ${randomKey()} where subject = ${owner} and type = 'OWNER_REMOVED'`;
    expect(await overtaken(made)).toBe(false);
    const here = { owner, action: "REMOVE", isAnyChain: false, nonce: 1n } as const;
    await changed(stranger, here);
    expect(await overtaken(made)).toBe(false);
    const removal = await changed(made, here);
    expect(await overtaken(made)).toBe(true);
    await set(removal, { state: "FAILED", reason: "NOT_SENT" });
    expect(await overtaken(made)).toBe(false);
  });

  test("if a change of this user removes its owner and is signed, until it ends", async () => {
    const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
    const { owner } = await changed(made);
    const here = { action: "REMOVE", isAnyChain: false, nonce: 1n } as const;
    await changed(made, { owner, nonce: 2n << 64n });
    await changed(stranger, { ...here, owner });
    const other = await changed(made, here);
    expect(await overtaken(made)).toBe(false);
    await set(other, { state: "FAILED", reason: "NOT_SENT" });
    const removal = await changed(made, { ...here, owner });
    const found = await statesListed(removal, () => overtaken(made));
    expect(Object.keys(found).filter((state) => found[state])).toEqual([
      ...["QUEUED", "SIGNED", "BROADCAST", "MINED"],
    ]);
  });
});

describe("an operation for every network", () => {
  const leased = async () => leaseQueuedOperations(sql, NETWORK, { limit: 100, leaseMs: 0 });
  const isDue = async ({ id }: Made) => (await leased()).some((operation) => operation.id === id);
  const deploy = ({ walletId }: Made) => sql`update wallets set deployed_at = now() where id = ${walletId}`;

  test("is due once its account is deployed, however long that takes, and is never NOT_SENT", async () => {
    const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
    await deploy(stranger);
    const addition = await changed(made);
    await set(addition, { queued_at: new Date(Date.now() - 3_600_000) });
    expect(await isDue(addition)).toBe(false);
    expect(await failUnsentOperations(sql, NETWORK)).not.toContain(addition.id);
    await deploy(made);
    expect(await isDue(addition)).toBe(true);
  });

  test("runs before the first send of its wallet, in the order of nonces, while it is QUEUED", async () => {
    const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
    await changed(stranger);
    const second = await changed(made, { nonce: 2n << 64n });
    const [first, sent] = [await changed(made), await changed(made, { nonce: 3n << 64n })];
    await set(sent, { state: "FAILED", reason: "NOT_SENT" });
    const amount = (amountUnits: bigint) => ({
      items: [{ to: made.address, amountUnits, note: "", isFee: false }],
    });
    await lab.makeOperation(stranger, 0n, amount(7n));
    const send = await lab.queued(made, 0n, amount(5n));
    const find = async () => (await leased()).find(({ id }) => id === send.id);
    const found = await find();
    expect(found?.before.map(({ id }) => id)).toEqual([first.id, second.id]);
    expect(found?.items).toEqual([{ to: made.address, units: "5" }]);
    await deploy(made);
    expect((await find())?.before).toEqual([]);
  });

  test("is copied for another network only from this one", async () => {
    const [made, other] = [await lab.makeOperation(), await lab.makeOperation()];
    const addition = await changed(made);
    const [copyId = ""] = newOwnerChangeIds(new Date(), 1);
    await copySignedAddition(sql, {
      ...{ id: addition.id, copyId, walletId: other.walletId, network: NETWORK, ownerIndex: 3 },
      ...{ userOpHash: randomHash(), signature: "0x02" },
    });
    const { ownerChangeId, accountNonce } = await lab.rowOf(addition);
    expect(await lab.rowOf({ ...other, id: copyId })).toMatchObject({
      ...{ ownerChangeId, accountNonce, walletId: other.walletId, ownerIndex: 3, state: "QUEUED" },
      isAnyChain: true,
    });
  });
});
