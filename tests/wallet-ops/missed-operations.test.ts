/** Operations whose event, block or row was missed: what is found, bound and restored, and what is left as it is. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { restoredOperationId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import {
  bindBookedTransfers,
  findRecordedEvents,
  findUnspentNonces,
} from "../../db/wallet-ops/missed-events.ts";
import { openHistory } from "../../db/wallet-ops/operations.ts";
import { findKnownHashes, restoreOperation } from "../../db/wallet-ops/restored-operations.ts";
import { loadOperations, recordOperationEvents } from "../../db/wallet-ops/settlement.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import {
  eventOf,
  type Made,
  type OperationLab,
  openOperationLab,
  randomHash,
} from "../support/operation-lab.ts";
import { seedOwnerChange } from "../support/passkey-rows.ts";
import { countRowsRead } from "../support/rows-read.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { insertHistory } from "../transactions/history.ts";

setDefaultTimeout(120_000);
const OTHER_NETWORK = "base";

let lab: OperationLab;
let sql: Sql;
let { makeOperation, relayed } = {} as OperationLab;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql, makeOperation, relayed } = lab);
});
afterAll(() => lab?.stop());

const set = ({ id }: { id: string }, given: object) =>
  sql`update wallet_operations set ${sql(given)} where id = ${id}`;
const item = (amountUnits: bigint) => ({ to: randomAddress(), amountUnits, note: "", isFee: false });

type HistoryRow = { id: string; status: string; txHash: Hex | null };

async function historyOf({ id }: { id: string }): Promise<HistoryRow[]> {
  return sql<HistoryRow[]>`
    select id, status, tx_hash from transactions where operation_id = ${id} order by operation_item_id`;
}

describe("events that were missed", () => {
  test("are those in a range that are not recorded on this network", async () => {
    const made = await makeOperation();
    const [inside, below, above] = [1_002, 1_000, 1_004].map((blockNumber) => eventOf(made, { blockNumber }));
    if (!inside || !below || !above) throw new Error("no event");
    await recordOperationEvents(sql, NETWORK, [inside, below, above]);
    await recordOperationEvents(sql, OTHER_NETWORK, [eventOf(made, { blockNumber: 1_002 })]);
    const found = await findRecordedEvents(sql, NETWORK, { from: 1_001, to: 1_003 });
    expect(found).toEqual([{ blockHash: inside.blockHash, logIndex: inside.logIndex }]);
  });

  test("are searched for at this network's accounts, for any earlier spent nonce, in any state that may yet run", async () => {
    const made = await relayed("SIGNED");
    await sql`update wallets set indexed_from = 0 where id = ${made.walletId}`;
    await recordOperationEvents(sql, NETWORK, [eventOf(made, { nonce: 1n, userOpHash: randomHash() })]);
    const isCompared = async (network: typeof NETWORK | typeof OTHER_NETWORK = NETWORK) => {
      const rows = await findUnspentNonces(sql, network, { key: 0n, number: 50, limit: 1_000 });
      return rows.some(({ address }) => address === made.address);
    };
    expect([await isCompared(), await isCompared(OTHER_NETWORK)]).toEqual([true, false]);
    for (const state of ["QUEUED", "SIGNED", "BROADCAST", "EXPIRED", "CANCELLED", "FAILED"]) {
      await set(made, { state, reason: state === "FAILED" ? "NOT_SENT" : null });
      expect([state, await isCompared()]).toEqual([state, true]);
    }
  });

  test("are searched for without reading the operations that ended before", async () => {
    const made = await makeOperation();
    await sql`
      insert into wallet_operations (
        id, user_id, wallet_id, network, kind, state, account_nonce, call_data, call_gas, verification_gas,
        challenge_id, expires_at, terms, user_op_hash, succeeded, tx_hash, updated_at
      )
      select
        'snd_' || lpad(to_hex(n), 44, '0'), user_id, wallet_id, network, kind,
        case when n % 2 = 0 then 'CONFIRMED' else 'EXPIRED' end, n, '0x', 1, 1, challenge_id, now(), terms,
        '0x' || lpad(to_hex(n), 64, '0'), true, ${randomHash()}, now() - interval '2 days'
      from wallet_operations, generate_series(1, 5000) n
      where id = ${made.id}`;
    await sql`analyze wallet_operations`;
    const read = await countRowsRead(sql, "wallet_operations", (tx) =>
      findUnspentNonces(tx, NETWORK, { key: 0n, number: 50, limit: 1_000 }),
    );
    expect(read).toBeLessThan(500);
  });

  test("are searched for by their nonce's key, for an owner change from its first preparation on", async () => {
    const made = await relayed("SIGNED");
    await sql`update wallets set indexed_from = 0 where id = ${made.walletId}`;
    const compared = async (key: bigint) => {
      const rows = await findUnspentNonces(sql, NETWORK, { key, number: 50, limit: 1_000 });
      return rows.find(({ address }) => address === made.address);
    };
    expect([await compared(8453n), await compared(8454n)]).toEqual([undefined, undefined]);
    const ownerChangeId = await seedOwnerChange(sql, made.userId, { owner: randomHash(), action: "ADD" });
    const preparedAt = new Date("2026-01-02T03:04:05.000Z");
    await sql`update owner_changes set created_at = ${preparedAt} where id = ${ownerChangeId}`;
    await set(made, {
      kind: "OWNERS",
      account_nonce: (8453n << 64n).toString(),
      owner_change_id: ownerChangeId,
    });
    expect(await compared(0n)).toBeUndefined();
    expect(await compared(8453n)).toMatchObject({ accountNonce: 8453n << 64n, preparedAt });
  });
});

describe("a transfer that was recorded before its operation was known", () => {
  async function booked(made: Made, { units = 5n } = {}) {
    const txHash = randomHash();
    await bookTransfer(
      { sql, merchant: {} as SeededMerchant },
      { txHash, units, from: made.address, to: randomAddress() },
    );
    const [transfer] = await sql<{ id: bigint; blockHash: Hex; logIndex: number }[]>`
      select id, block_hash, log_index from transfers where tx_hash = ${txHash}`;
    const [row = ""] = await insertHistory(sql, made.userId, [{ type: "SEND", txHash, amountUnits: units }]);
    await sql`update transactions set transfer_id = ${transfer?.id ?? 0n} where id = ${row}`;
    return { row, txHash, blockHash: transfer?.blockHash ?? "0x", logIndex: transfer?.logIndex ?? 0 };
  }

  const typesOf = async (id: string) => {
    const rows = await sql<{ type: string }[]>`select type from events where subject_id = ${id}`;
    return rows.map(({ type }) => type);
  };

  async function operation({ isOpened }: { isOpened: boolean }) {
    const made = await lab.queued(undefined, 0n, { items: [item(5n)] });
    const [{ items: [first] = [] } = {}] = await loadOperations(sql, NETWORK, [made.userOpHash]);
    const opened = `txn_${made.id}`;
    if (isOpened)
      await openHistory(sql, made, { ids: [opened], linkId: null, description: null, note: null });
    return { made, itemId: first?.id ?? 0n, opened };
  }

  test("moves to the row opened for it, and its own row is deleted; others are unchanged", async () => {
    const [{ made, itemId, opened }, other] = [
      await operation({ isOpened: true }),
      await operation({ isOpened: true }),
    ];
    const [transfer, another] = [await booked(made), await booked(made)];
    await bindBookedTransfers(sql, NETWORK, [{ itemId, ...transfer }]);
    expect(await historyOf(made)).toEqual([{ id: opened, status: "CONFIRMED", txHash: transfer.txHash }]);
    expect(await historyOf(other.made)).toMatchObject([{ id: other.opened, status: "PENDING" }]);
    const left = await sql<{ id: string }[]>`
      select id from transactions where id in (${transfer.row}, ${another.row})`;
    expect(left.map(({ id }) => id)).toEqual([another.row]);
    expect(await typesOf(opened)).toEqual(["transaction.confirmed"]);
    await bindBookedTransfers(sql, NETWORK, [{ itemId, ...transfer }]);
    expect(await historyOf(made)).toHaveLength(1);
    expect(await typesOf(opened)).toHaveLength(1);
  });

  test("becomes the operation's row if none was opened, and no other does", async () => {
    const { made, itemId } = await operation({ isOpened: false });
    const [transfer, another] = [await booked(made), await booked(made)];
    await bindBookedTransfers(sql, NETWORK, [{ itemId, ...transfer }]);
    expect((await historyOf(made)).map(({ id }) => id)).toEqual([transfer.row]);
    const [kept] = await sql<{ operationId: string | null }[]>`
      select operation_id from transactions where id = ${another.row}`;
    expect(kept?.operationId).toBeNull();
  });

  test("is not bound to another user's operation, if received, or a second time", async () => {
    const { made, itemId } = await operation({ isOpened: false });
    const stranger = await makeOperation();
    const [foreign, received, bound] = [await booked(stranger), await booked(made), await booked(made)];
    await sql`update transactions set type = 'RECEIVE' where id = ${received.row}`;
    const other = await operation({ isOpened: false });
    await sql`
      update transactions set operation_item_id = ${other.itemId}, operation_id = ${other.made.id}
      where id = ${bound.row}`;
    for (const transfer of [foreign, received, bound])
      await bindBookedTransfers(sql, NETWORK, [{ itemId, ...transfer }]);
    expect(await historyOf(made)).toEqual([]);
    expect((await historyOf(other.made)).map(({ id }) => id)).toEqual([bound.row]);
  });
});

describe("a lost operation", () => {
  const lostOf = (address: Hex, given: { linkTag?: Hex; to?: Hex } = {}) => ({
    ...{ sender: address, userOpHash: randomHash(), nonce: 3n, callData: "0x" as Hex, callGas: 1n },
    ...{ verificationGas: 1n, tag: `0x${randomHash().slice(2, 34)}` as Hex, linkTag: given.linkTag },
    ...{ items: [{ to: given.to ?? randomAddress(), amountUnits: 5n }], blockTimeS: 1_700_000_000 },
  });

  const found = async ({ userOpHash }: { userOpHash: Hex }) => {
    const [row] = await sql<
      { id: string; userId: string; kind: string; state: string; paidTxHash: Hex | null }[]
    >`
      select op.id, op.user_id, op.kind, op.state, refund.paid_tx_hash
      from wallet_operations op
      left join refunds refund on refund.id = op.id
      where op.user_op_hash = ${userOpHash}`;
    return row;
  };

  test("is found by its hash on its own network", async () => {
    const [made, other] = [await makeOperation(), await makeOperation()];
    expect(await findKnownHashes(sql, NETWORK, [made.userOpHash, randomHash()])).toEqual([made.userOpHash]);
    expect(await findKnownHashes(sql, OTHER_NETWORK, [other.userOpHash])).toEqual([]);
  });

  test("is restored once for the user of its wallet, and for no wallet of another network or that is not ours", async () => {
    const [merchant] = [await seedMerchant(sql), await seedMerchant(sql)];
    const [lost, elsewhere, unknown] = [
      lostOf(merchant.address),
      lostOf(merchant.address),
      lostOf(randomAddress()),
    ];
    for (let count = 0; count < 2; count++) await restoreOperation(sql, NETWORK, [], lost);
    await restoreOperation(sql, OTHER_NETWORK, [], elsewhere);
    await restoreOperation(sql, NETWORK, [], unknown);
    expect(await found(lost)).toMatchObject({ userId: merchant.userId, kind: "SEND", state: "EXPIRED" });
    expect([await found(elsewhere), await found(unknown)]).toEqual([undefined, undefined]);
    const { id } = (await found(lost)) ?? { id: "" };
    expect(await historyOf({ id })).toHaveLength(1);
  });

  test("with the tag of a link on another network is a send: its amount is not the link's", async () => {
    const merchant = await seedMerchant(sql);
    const link = await seedLink(sql, merchant);
    await bookTransfer({ sql, merchant }, { link, pays: true });
    await sql`
      insert into wallets (id, user_id, network, address, passkey_id, factory, owners)
      select id || 'other', user_id, ${OTHER_NETWORK}, address, passkey_id, factory, owners
      from wallets
      where id = ${merchant.walletId}`;
    const [row] = await sql<{ tag: Hex }[]>`select hex_of(tag) as tag from payment_links where id = ${link}`;
    const restoredOn = async (network: typeof NETWORK | typeof OTHER_NETWORK) => {
      const lost = lostOf(merchant.address, { linkTag: row?.tag ?? "0x" });
      await restoreOperation(sql, network, [], lost);
      return (await found(lost))?.kind;
    };
    expect(await restoredOn(OTHER_NETWORK)).toBe("SEND");
    expect(await restoredOn(NETWORK)).toBe("REFUND");
  });

  test("is not restored under the id of a refund that was only requested", async () => {
    const merchant = await seedMerchant(sql);
    const link = await seedLink(sql, merchant);
    await bookTransfer({ sql, merchant }, { link, pays: true });
    const [row] = await sql<{ tag: Hex }[]>`select hex_of(tag) as tag from payment_links where id = ${link}`;
    const lost = lostOf(merchant.address, row ? { linkTag: row.tag } : {});
    const id = restoredOperationId("REFUND", new Date(lost.blockTimeS * 1000), lost.tag);
    await sql`
      insert into refunds (
        id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units, requested_by
      )
      values (${id}, ${merchant.userId}, ${link}, ${NETWORK}, '0x', 1, ${merchant.address}, 'given', 1, ${merchant.userId})`;
    await restoreOperation(sql, NETWORK, [], lost);
    expect(await found(lost)).toBeUndefined();
  });

  test("with a link's tag is the refund of that link of its own user, of the recipient's transfer, else the largest", async () => {
    const [merchant, stranger] = [await seedMerchant(sql), await seedMerchant(sql)];
    const [link, other, foreign] = [
      await seedLink(sql, merchant),
      await seedLink(sql, merchant),
      await seedLink(sql, stranger),
    ];
    const tagOf = async (id: string) => {
      const [row] = await sql<{ tag: Hex }[]>`select hex_of(tag) as tag from payment_links where id = ${id}`;
      return row?.tag ?? "0x";
    };
    const payer = randomAddress();
    const hashes = {
      ...{ paying: randomHash(), own: randomHash(), largest: randomHash(), orphaned: randomHash() },
      elsewhere: randomHash(),
    };
    const book = (given: Parameters<typeof bookTransfer>[1]) =>
      bookTransfer({ sql, merchant }, { link, ...given });
    await book({ txHash: hashes.paying, pays: true, units: 10n });
    await book({ txHash: hashes.orphaned, status: "ORPHANED", units: 1_000n, from: payer });
    await book({ txHash: randomHash(), status: "ORPHANED", units: 1_000n, from: payer, pays: true });
    await book({ txHash: hashes.own, units: 1n, from: payer });
    await book({ txHash: hashes.elsewhere, link: other, units: 500n, from: payer });
    await book({ txHash: randomHash(), link: other, units: 500n, from: payer, pays: true });
    const restored = async (
      to: Hex,
      linkTag: Hex,
      attributed: Parameters<typeof restoreOperation>[2] = [],
    ) => {
      const lost = lostOf(merchant.address, { linkTag, to });
      await restoreOperation(sql, NETWORK, attributed, lost);
      return found(lost);
    };
    const tag = await tagOf(link);
    expect(await restored(payer, tag)).toMatchObject({ kind: "REFUND", paidTxHash: hashes.own });
    expect(await restored(randomAddress(), tag)).toMatchObject({ kind: "REFUND", paidTxHash: hashes.paying });
    const given = {
      linkId: link,
      txHash: hashes.largest,
      logIndex: 1,
      from: randomAddress(),
      amountUnits: 99n,
    };
    const elsewhere = { ...given, linkId: other, txHash: randomHash(), amountUnits: 10_000n };
    expect(await restored(randomAddress(), tag, [given, elsewhere])).toMatchObject({
      paidTxHash: hashes.largest,
    });
    await bookTransfer({ sql, merchant: stranger }, { link: foreign, pays: true });
    expect(await restored(payer, await tagOf(foreign))).toMatchObject({ kind: "SEND" });
  });
});
