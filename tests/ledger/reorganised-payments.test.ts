/** What a reorganisation undoes of payments and claims: what stood above the last common block, and nothing below. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import {
  accepted,
  type BooksLab,
  claim,
  makeTransfer,
  openBooks,
  paymentOf,
  randomHash,
  read,
  signRelay,
  UNITS,
  undoAbove,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});
afterAll(() => lab?.stop());

const acceptedAnew = async () => accepted(lab, await seedLink(lab.sql, lab.merchant));

describe("a reorganisation", () => {
  test("a settled payment in the last common block stays settled; one in the block above is queued again", async () => {
    const kept = await accepted(lab, await seedLink(lab.sql, lab.merchant));
    const undone = await accepted(lab, await seedLink(lab.sql, lab.merchant));
    await read(lab, [makeTransfer(lab, 90, { payment: kept }), makeTransfer(lab, 91, { payment: undone })]);
    await undoAbove(lab, 90);
    expect(await paymentOf(lab, kept)).toMatchObject({ state: "CONFIRMED" });
    expect(await paymentOf(lab, undone)).toMatchObject({ state: "QUEUED" });
  });

  test.each(["SIGNED", "BROADCAST", "MINED", "CONFIRMED"])(
    "a payment settled by a transaction that is %s waits for that transaction again",
    async (state) => {
      const payment = await acceptedAnew();
      const { relayId, txHash } = await signRelay(lab, payment);
      await read(lab, [makeTransfer(lab, 91, { payment, txHash })]);
      expect(await paymentOf(lab, payment)).toMatchObject({ state: "CONFIRMED" });
      const isInBlock = state === "MINED" || state === "CONFIRMED";
      const place = isInBlock ? [txHash, 91, randomHash()] : [null, null, null];
      await lab.sql`
      update relays
      set state = ${state}, tx_hash = ${place[0] ?? null}::bytea, block_number = ${place[1] ?? null}::bigint,
        block_hash = ${place[2] ?? null}::bytea
      where id = ${relayId}`;
      await undoAbove(lab, 90);
      const [row] = await lab.sql`select state, relay_id from payments where id = ${payment.id}`;
      expect(row).toEqual({ state: "SIGNED", relayId });
      const [relay] = await lab.sql`select state from relays where id = ${relayId}`;
      expect(relay).toEqual({ state: state === "SIGNED" ? "SIGNED" : "BROADCAST" });
    },
  );

  test("a payment settled by a transaction that is LOST is queued again", async () => {
    const payment = await acceptedAnew();
    const { relayId } = await signRelay(lab, payment);
    await read(lab, [makeTransfer(lab, 91, { payment })]);
    await lab.sql`update relays set state = 'LOST' where id = ${relayId}`;
    await undoAbove(lab, 90);
    const [row] = await lab.sql`select state, relay_id from payments where id = ${payment.id}`;
    expect(row).toEqual({ state: "QUEUED", relayId: null });
  });

  test("a claim whose transfer is in the last common block stays matched while another one is open again", async () => {
    const claimIds: string[] = [];
    for (const [index, blockNumber] of [90, 91].entries()) {
      const units = BigInt(index + 2) * UNITS;
      const linkId = await seedLink(lab.sql, lab.merchant, { amountUnits: units });
      const transfer = makeTransfer(lab, blockNumber, { amountUnits: units });
      claimIds.push(await claim(lab, linkId, transfer));
      await read(lab, [transfer]);
    }
    await undoAbove(lab, 90);
    const rows = await lab.sql<{ id: string; state: string }[]>`
      select id, state from claims where id = any(${claimIds}::text[])`;
    expect(claimIds.map((id) => rows.find((row) => row.id === id)?.state)).toEqual(["MATCHED", "OPEN"]);
  });

  test("a settled payment whose block was not deep enough is queued again", async () => {
    const payment = await acceptedAnew();
    await read(lab, [makeTransfer(lab, 91, { payment })], [], { isDeep: false });
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "MINED" });
    await undoAbove(lab, 90);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED" });
  });

  test("a claim by someone other than the transaction's sender keeps its outcome", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const transfer = makeTransfer(lab, 91);
    const own = await claim(lab, linkId, transfer);
    const other = await claim(lab, linkId, { ...transfer, from: randomAddress() });
    await read(lab, [transfer]);
    await lab.sql`update claims set state = 'MATCHED' where id = ${other}`;
    await undoAbove(lab, 90);
    const rows = await lab.sql<{ id: string; state: string }[]>`
      select id, state from claims where link_id = ${linkId}`;
    expect(Object.fromEntries(rows.map(({ id, state }) => [id, state]))).toEqual({
      [own]: "OPEN",
      [other]: "MATCHED",
    });
  });

  test("a claim whose transfer left the chain is open again for a full lease", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const transfer = makeTransfer(lab, 91);
    const claimId = await claim(lab, linkId, transfer);
    await read(lab, [transfer]);
    const stateOfClaim = async () => {
      const [row] = await lab.sql<{ state: string; leaseS: number }[]>`
        select state, round(extract(epoch from lease_until - updated_at))::int as lease_s
        from claims where id = ${claimId}`;
      return row;
    };
    expect(await stateOfClaim()).toMatchObject({ state: "MATCHED" });
    await undoAbove(lab, 90);
    expect(await stateOfClaim()).toEqual({ state: "OPEN", leaseS: 90 });
  });
});
