/** What is reported of a wallet's owners and of money that left it: each once, at depth, to its own user, as ours or not. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import {
  type AccountChangeType,
  confirmAccountChanges,
  findAccountLogsNumber,
  forgetAccountChanges,
  listOutgoing,
  noteAccountLogs,
  recordAccountChanges,
} from "../../db/wallet-ops/account-changes.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { type Made, type OperationLab, openOperationLab, randomHash } from "../support/operation-lab.ts";
import { seedOwnerChange } from "../support/passkey-rows.ts";
import { randomAddress, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);
const OTHER_NETWORK = "base";

let lab: OperationLab;
let sql: Sql;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql } = lab);
});
afterAll(() => lab?.stop());

const randomKey = (): Hex => `0x${randomHash().slice(2)}${randomHash().slice(2)}`;
let logIndex = 0;

type Logged = {
  type?: AccountChangeType;
  subject?: Hex;
  txHash?: Hex;
  blockNumber?: number;
  ownerIndex?: bigint;
  network?: NetworkId;
};

async function log(
  { address }: { address: Hex },
  { network = NETWORK, ...given }: Logged = {},
): Promise<void> {
  logIndex += 1;
  const change = {
    ...{ blockNumber: 10, blockHash: randomHash(), txHash: randomHash(), logIndex, walletAddress: address },
    ...({ type: "OWNER_ADDED", ownerIndex: 1n, subject: randomKey() } as const),
    ...given,
  };
  for (let count = 0; count < 2; count++) await recordAccountChanges(sql, network, [change]);
}

const confirm = async ({ address }: { address: Hex }, depthNumber: number) =>
  (await confirmAccountChanges(sql, { network: NETWORK, depthNumber })).filter(
    ({ walletAddress }) => walletAddress === address,
  );

describe("a change of an account", () => {
  test("is reported once, when deep and not before, on its own network, to the wallet's user", async () => {
    const merchant = await seedMerchant(sql);
    await log(merchant);
    await log(merchant, { network: OTHER_NETWORK });
    expect(await confirm(merchant, 9)).toEqual([]);
    expect(await confirm(merchant, 10)).toMatchObject([
      { userId: merchant.userId, walletId: merchant.walletId, type: "OWNER_ADDED", ownerChangeId: null },
    ]);
    expect(await confirm(merchant, 11)).toEqual([]);
  });

  test("is the first owner's by index and key, from which the address was computed", async () => {
    const merchant = await seedMerchant(sql);
    const first: Hex = `0x${"11".repeat(64)}`;
    await log(merchant, { ownerIndex: 0n, subject: first });
    await log(merchant, { ownerIndex: 0n, subject: randomKey() });
    await log(merchant, { ownerIndex: 1n, subject: first });
    await log(merchant, { ownerIndex: 0n, subject: first, type: "OWNER_REMOVED" });
    expect((await confirm(merchant, 10)).map(({ isFirst }) => isFirst)).toEqual([true, false, false, false]);
  });

  /** An operation of an owner change that was mined in this transaction. */
  async function mined(made: Made, { changeId, txHash }: { changeId: string | undefined; txHash: Hex }) {
    const kind = changeId === undefined ? {} : ({ kind: "OWNERS", ownerChangeId: changeId } as const);
    const { id } = await lab.makeOperation(made, 0n, kind);
    await sql`update wallet_operations set tx_hash = ${txHash} where id = ${id}`;
  }

  test("is ours if this owner's change was executed in its transaction, even next to another owner's", async () => {
    const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
    const [txHash, other, first, second] = [randomHash(), randomHash(), randomKey(), randomKey()];
    await mined(made, { changeId: undefined, txHash });
    await mined(stranger, {
      changeId: await seedOwnerChange(sql, stranger.userId, { owner: first }),
      txHash,
    });
    const changes: string[] = [];
    for (const owner of [first, second]) {
      const changeId = await seedOwnerChange(sql, made.userId, { owner });
      await mined(made, { changeId, txHash });
      changes.push(changeId);
    }
    const removal = await seedOwnerChange(sql, made.userId, { owner: first, action: "REMOVE" });
    await mined(made, { changeId: removal, txHash: other });
    for (const subject of [second, first]) await log(made, { subject, txHash });
    await log(made, { subject: first, txHash: other, type: "OWNER_REMOVED" });
    await log(made, { subject: first, txHash: other });
    await log(made, { subject: randomKey(), txHash });
    await log(made, { subject: first, txHash: randomHash() });
    const confirmed = await confirm(made, 10);
    expect(confirmed.map(({ ownerChangeId }) => ownerChangeId)).toEqual([
      ...[changes[1] ?? "", changes[0] ?? "", removal],
      ...[null, null, null],
    ]);
  });

  test("is deleted above the common ancestor, only on its own network, and searched for again", async () => {
    const [kept, gone] = [await seedMerchant(sql), await seedMerchant(sql)];
    await log(kept, { blockNumber: 20 });
    await log(gone, { blockNumber: 21 });
    await log(gone, { blockNumber: 21, network: OTHER_NETWORK });
    await sql`
      insert into cursors (network, number, hash, head_number) values (${OTHER_NETWORK}, 500, ${randomHash()}, 500)`;
    expect(await findAccountLogsNumber(sql, NETWORK)).toBeNull();
    await forgetAccountChanges(sql, { network: NETWORK, ancestor: 20 });
    expect(await findAccountLogsNumber(sql, NETWORK)).toBeNull();
    expect(await confirm(kept, 30)).toHaveLength(1);
    expect(await confirm(gone, 30)).toEqual([]);
    const [row] = await sql<{ count: number }[]>`
      select count(*)::int as count from account_changes where wallet_address = ${gone.address}`;
    expect(row?.count).toBe(1);
    await noteAccountLogs(sql, { network: NETWORK, from: null, to: 30 });
    await noteAccountLogs(sql, { network: OTHER_NETWORK, from: null, to: 30 });
    await forgetAccountChanges(sql, { network: NETWORK, ancestor: 25 });
    await forgetAccountChanges(sql, { network: NETWORK, ancestor: 28 });
    expect(await findAccountLogsNumber(sql, NETWORK)).toBe(25);
    expect(await findAccountLogsNumber(sql, OTHER_NETWORK)).toBe(30);
  });

  test("is searched for from where the search has got to: one begun before a reorganisation records nothing", async () => {
    await sql`update cursors set account_logs_number = 40`;
    for (const from of [null, 45]) await noteAccountLogs(sql, { network: NETWORK, from, to: 50 });
    expect(await findAccountLogsNumber(sql, NETWORK)).toBe(40);
    await noteAccountLogs(sql, { network: NETWORK, from: 40, to: 50 });
    expect(await findAccountLogsNumber(sql, NETWORK)).toBe(50);
    expect(await findAccountLogsNumber(sql, OTHER_NETWORK)).toBe(40);
  });
});

describe("money that left a wallet", () => {
  const outgoing = async ({ walletId }: { walletId: string }, range = { after: 98, to: 99 }) =>
    (await listOutgoing(sql, { network: NETWORK, ...range })).filter((sent) => sent.walletId === walletId);

  const send = (from: { address: Hex }, given: Omit<Parameters<typeof bookTransfer>[1], "from"> = {}) =>
    bookTransfer(
      { sql, merchant: { ...from, userId: "", walletId: "", network: NETWORK, email: "" } },
      { to: randomAddress(), ...given, from: from.address },
    );

  test("is listed by transaction: in these blocks, on this network, confirmed and within the last day", async () => {
    const merchant = await seedMerchant(sql);
    const txHash = randomHash();
    for (const units of [1n, 2n]) await send(merchant, { txHash, units });
    await send(merchant, { status: "DETECTED" });
    await send(merchant, { network: OTHER_NETWORK });
    await bookTransfer({ sql, merchant });
    const elsewhere = await seedMerchant(sql, { network: OTHER_NETWORK });
    await send(elsewhere, { network: OTHER_NETWORK });
    expect(await outgoing(elsewhere)).toEqual([]);
    expect(await outgoing(merchant)).toMatchObject([
      { txHash, units: 3n, recipients: 2, recipient: null, isOurs: false },
    ]);
    expect(await outgoing(merchant, { after: 99, to: 100 })).toEqual([]);
    expect(await outgoing(merchant, { after: 97, to: 98 })).toEqual([]);
    await sql`update transfers set block_time = now() - interval '25 hours' where tx_hash = ${txHash}`;
    expect(await outgoing(merchant)).toEqual([]);
  });

  test("to a single address names it", async () => {
    const [merchant, to] = [await seedMerchant(sql), randomAddress()];
    await send(merchant, { to });
    expect(await outgoing(merchant)).toMatchObject([{ recipients: 1, recipient: to }]);
  });

  test("is ours as a payment, or by an operation of this wallet that ran in its transaction", async () => {
    const [made, stranger] = [await lab.makeOperation(), await lab.makeOperation()];
    const [txHash, paid] = [randomHash(), randomHash()];
    for (const hash of [txHash, paid]) await send(made, { txHash: hash });
    const isOurs = async (hash: Hex) => (await outgoing(made)).find((sent) => sent.txHash === hash)?.isOurs;
    const settle = ({ id }: Made, given: { hash: Hex; succeeded: boolean | null }) =>
      sql`update wallet_operations set tx_hash = ${given.hash}, succeeded = ${given.succeeded} where id = ${id}`;
    await settle(stranger, { hash: txHash, succeeded: true });
    await settle(made, { hash: randomHash(), succeeded: true });
    expect(await isOurs(txHash)).toBe(false);
    await settle(made, { hash: txHash, succeeded: false });
    expect(await isOurs(txHash)).toBe(false);
    await settle(made, { hash: txHash, succeeded: true });
    expect(await isOurs(txHash)).toBe(true);
    expect(await isOurs(paid)).toBe(false);
    await sql`update transfers set payment_id = 'pay_1' where tx_hash = ${paid}`;
    expect(await isOurs(paid)).toBe(true);
  });
});
