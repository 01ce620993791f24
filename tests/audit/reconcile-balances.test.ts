/** Balances are compared for wallets that moved and, once a day, for all others: many in one call, and by what came since the last time. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { holdEpoch } from "../../db/ledger/leader-epoch.ts";
import { noteReconciled } from "../../db/ledger/reconciliation.ts";
import {
  continueSums,
  discardSums,
  discardSumsAbove,
  raiseReconciledNumber,
  storeSums,
} from "../../db/ledger/running-sums.ts";
import { advanceSums } from "../../indexer/audit/advance-running-sums.ts";
import { reconcileBalances, recountSums } from "../../indexer/audit/reconcile-balances.ts";
import type { Term } from "../../indexer/leader-term.ts";
import { type FaultProxy, startFaultProxy } from "../rpc/fault-proxy.ts";
import {
  type Lab,
  type Merchant,
  makeManyWallets,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  openTerm,
  pay,
  type RunningIndexer,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";

setDefaultTimeout(120_000);
/** More than one call takes. */
const WALLETS = 620;
/** Above the depth anvil calls final. */
const FINAL_BLOCKS = 70;

let lab: Lab;
let proxy: FaultProxy;
let payer: `0x${string}`;
let merchant: Merchant;
let other: Merchant;
let indexer: RunningIndexer;
let term: Term & { close: () => void };
beforeAll(async () => {
  lab = await openLab();
  proxy = startFaultProxy(lab.chain.rpcUrl);
  payer = await makePayer(lab);
  merchant = await makeMerchant(lab);
  other = await makeMerchant(lab);
  await makeManyWallets(lab, WALLETS);
  indexer = startIndexer(lab);
  await pay(lab, payer, merchant.address, 1_000n);
  await until("all are read", async () => {
    const rows = await lab.sql`select from wallets where backfilled_at is null`;
    return rows.length === 0;
  });
  await settleFinal();
});
afterAll(async () => {
  term?.close();
  await indexer.stop();
  await proxy.stop();
  await lab.stop();
});
beforeEach(async () => {
  proxy.methods.length = 0;
});

/** What was paid is read and final, and the term is ours. */
async function settleFinal(): Promise<void> {
  term?.close();
  await indexer.stop();
  indexer = startIndexer(lab);
  await mine(lab, FINAL_BLOCKS);
  await settled(lab);
  await indexer.stop();
  term = await openTerm(lab, [proxy.url]);
}

const callsOf = (method: string) => proxy.methods.filter((one) => one === method).length;

async function readWallet({ address }: Merchant) {
  const [row] = await lab.sql<
    {
      id: string;
      bookedUnits: bigint;
      differenceUnits: bigint;
      reconciledAt: Date;
      bookedNumber: bigint;
    }[]
  >`select * from wallets where address = ${address}`;
  if (!row) throw new Error(`no wallet ${address}`);
  return row;
}

test("hundreds of wallets that were never compared take two calls, and none once nothing moves", async () => {
  await lab.sql`update wallets set reconciled_at = null`;
  expect(await reconcileBalances(term)).toBe(0);
  expect(callsOf("eth_call")).toBe(2);
  const rows = await lab.sql`select from wallets where reconciled_at is null`;
  expect(rows).toHaveLength(0);
  expect((await readWallet(merchant)).bookedUnits).toBe(1_000n);
  proxy.methods.length = 0;
  expect(await reconcileBalances(term)).toBe(0);
  expect(callsOf("eth_call")).toBe(0);
});

test("a wallet with new transfers is compared by those alone, and no other wallet is compared", async () => {
  const before = await readWallet(other);
  await pay(lab, payer, merchant.address, 500n);
  await settleFinal();
  // what was compared is not read again: no difference, although the sum of all transfers has one
  await lab.sql`update transfers set amount_units = 1 where to_address = ${merchant.address} and amount_units = 1000`;
  expect(await reconcileBalances(term)).toBe(0);
  expect(callsOf("eth_call")).toBe(1);
  expect((await readWallet(merchant)).bookedUnits).toBe(1_500n);
  expect((await readWallet(other)).reconciledAt).toEqual(before.reconciledAt);
  await lab.sql`update transfers set amount_units = 1000 where to_address = ${merchant.address} and amount_units = 1`;
});

test("an idle wallet is compared after a day, not before", async () => {
  const age = (hours: number) =>
    lab.sql`
      update wallets
      set reconciled_at = now() - make_interval(hours => ${hours})
      where address = ${other.address}`;
  await age(23);
  await reconcileBalances(term);
  expect(callsOf("eth_call")).toBe(0);
  await age(25);
  await reconcileBalances(term);
  expect(callsOf("eth_call")).toBe(1);
  expect((await readWallet(other)).reconciledAt.getTime()).toBeGreaterThan(Date.now() - 60_000);
});

test("a wallet whose transfers change while its balance is read is not reported; its next comparison decides", async () => {
  const { id } = await readWallet(merchant);
  // known and recent, so that it is not recounted first
  const differBy = (units: number) => lab.sql`
    update wallets
    set opening_units = opening_units - ${units}, difference_units = difference_units + ${units}, reconciled_at = now()
    where id = ${id}`;
  await differBy(7);
  const newestRow = async () => [...(await lab.sql`select id from reconciliations order by id desc limit 1`)];
  const before = await newestRow();
  proxy.delay = async (calls) => {
    if (calls.some(({ method }) => method === "eth_call"))
      await discardSums(lab.sql, NETWORK, [merchant.address]);
  };
  expect(await reconcileBalances(term)).toBe(0);
  proxy.delay = async () => {};
  expect(await newestRow()).toEqual(before);
  expect(await reconcileBalances(term)).toBe(1);
  await differBy(-7);
});

test("a transfer recorded below the last comparison is no difference: the whole ledger decides", async () => {
  const { bookedNumber } = await readWallet(merchant);
  await lab.sql`
    update wallets
    set booked_units = booked_units - 1000, reconciled_at = null
    where address = ${merchant.address}`;
  expect(await reconcileBalances(term)).toBe(0);
  expect(await readWallet(merchant)).toMatchObject({
    bookedUnits: 1_500n,
    bookedNumber,
    differenceUnits: 0n,
  });
});

test("a missing transfer is a difference at every comparison until it is recorded", async () => {
  await pay(lab, payer, merchant.address, 7n);
  await settleFinal();
  const lost = await lab.sql`
    update transfers set status = 'ORPHANED' where to_address = ${merchant.address} and amount_units = 7
    returning id`;
  expect(lost).toHaveLength(1);
  await lab.sql`update wallets set reconciled_at = null where address = ${merchant.address}`;
  expect(await reconcileBalances(term)).toBe(1);
  expect((await readWallet(merchant)).differenceUnits).toBe(7n);
  expect(await reconcileBalances(term)).toBe(1);
  // booked at last, far below the last comparison
  await lab.sql`update transfers set status = 'CONFIRMED' where amount_units = 7`;
  await lab.sql`update wallets set reconciled_at = now() - interval '59 minutes' where address = ${merchant.address}`;
  expect(await reconcileBalances(term)).toBe(1);
  await lab.sql`update wallets set reconciled_at = now() - interval '61 minutes' where address = ${merchant.address}`;
  expect(await reconcileBalances(term)).toBe(0);
});

test("a node that refuses that many balances in one call is asked for fewer", async () => {
  await lab.sql`update wallets set reconciled_at = null`;
  proxy.fault = ([call]) =>
    call?.method === "eth_call" && JSON.stringify(call.params).length > 20_000
      ? { kind: "error", code: -32000, message: "gas required exceeds allowance" }
      : undefined;
  expect(await reconcileBalances(term)).toBe(0);
  expect(await lab.sql`select from wallets where reconciled_at is null`).toHaveLength(0);
  proxy.fault = () => undefined;
});

/** Until every sum was counted again once. Returns how many were wrong. */
async function recountAll(): Promise<number> {
  await lab.sql`update cursors set recounted_wallet = ''`;
  let wrong = 0;
  for (let call = 0; call < WALLETS; call++) {
    wrong += await recountSums(term);
    const [cursor] = await lab.sql<{ recountedWallet: string }[]>`select recounted_wallet from cursors`;
    if (cursor?.recountedWallet === "") break;
  }
  return wrong;
}

test("a wrong running sum that balances do not reveal is found by recounting", async () => {
  await lab.sql`delete from wallets where address not in (${merchant.address}, ${other.address})`;
  expect(await reconcileBalances(term)).toBe(0);
  const { bookedUnits } = await readWallet(merchant);
  await lab.sql`
    update wallets
    set booked_units = booked_units + 5, opening_units = opening_units - 5, reconciled_at = null
    where address = ${merchant.address}`;
  expect(await reconcileBalances(term)).toBe(0);
  expect(await recountAll()).toBe(1);
  // the opening balance was made wrong by this test: now it shows
  expect(await readWallet(merchant)).toMatchObject({ bookedUnits, differenceUnits: 5n });
  await lab.sql`update wallets set opening_units = opening_units + 5 where address = ${merchant.address}`;
  expect(await recountAll()).toBe(0);
  expect(await reconcileBalances(term)).toBe(0);
});

test("a sum is not stored once its transfers changed after they were read", async () => {
  const { id, bookedNumber } = await readWallet(merchant);
  const number = Number(bookedNumber);
  const store = (sums: Awaited<ReturnType<typeof continueSums>>) =>
    lab.sql.begin(async (tx) => {
      expect(await holdEpoch(tx, NETWORK, term.epoch)).toBeDefined();
      return (await storeSums(tx, NETWORK, { sums, number })).size;
    });
  const read = () => continueSums(lab.sql, NETWORK, { ids: [id], number, rows: 100 });

  const unchanged = await read();
  expect(await store(unchanged)).toBe(1);
  expect((await readWallet(merchant)).bookedNumber).toBe(bookedNumber);

  const beforeRepair = await read();
  await discardSums(lab.sql, NETWORK, [merchant.address]);
  expect(await store(beforeRepair)).toBe(0);
  expect(await readWallet(merchant)).toMatchObject({ bookedUnits: 0n, bookedNumber: -1n });

  const beforeReorg = await read();
  await raiseReconciledNumber(lab.sql, { network: NETWORK, epoch: term.epoch, number });
  await discardSumsAbove(lab.sql, NETWORK, number - 1);
  expect(await store(beforeReorg)).toBe(0);
  expect(await readWallet(merchant)).toMatchObject({ bookedUnits: 0n, bookedNumber: -1n });
});

test("a reorganisation below a sum's block discards it, one at its block does not", async () => {
  await raiseReconciledNumber(lab.sql, { network: NETWORK, epoch: term.epoch, number: 100 });
  await lab.sql`update wallets set booked_units = 1, booked_number = 100 where address = ${merchant.address}`;
  await discardSumsAbove(lab.sql, NETWORK, 100);
  expect((await readWallet(merchant)).bookedNumber).toBe(100n);
  await discardSumsAbove(lab.sql, NETWORK, 99);
  expect((await readWallet(merchant)).bookedNumber).toBe(-1n);
});

test("a lower final block, or a former leader's, does not hide a sum from a reorganisation below it", async () => {
  const raise = (number: number, epoch = term.epoch) =>
    raiseReconciledNumber(lab.sql, { network: NETWORK, epoch, number });
  await raise(100);
  await raise(90);
  await raise(110, term.epoch - 1n);
  const [cursor] = await lab.sql`select reconciled_number from cursors where network = ${NETWORK}`;
  expect(cursor).toEqual({ reconciledNumber: 100n });
  await lab.sql`update wallets set booked_units = 1, booked_number = 100 where address = ${merchant.address}`;
  await discardSumsAbove(lab.sql, NETWORK, 95);
  expect((await readWallet(merchant)).bookedNumber).toBe(-1n);
});

test("a long history is summed in steps that read a bounded number of transfers", async () => {
  const { id } = await readWallet(other);
  // 200 transfers each way, two a block and way
  await lab.sql`
    insert into transfers (
      network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units, status
    )
    select
      ${NETWORK}, 1000 + n / 2, sha256('old'), now(), sha256('old'), n * 2 + way,
      case way when 0 then ${merchant.address}::bytea else ${other.address}::bytea end,
      case way when 0 then ${other.address}::bytea else ${merchant.address}::bytea end, 10 - way, 'CONFIRMED'
    from generate_series(0, 199) n
    cross join generate_series(0, 1) way`;
  await discardSums(lab.sql, NETWORK, [other.address]);
  const ends: number[] = [];
  for (let step = 0; step < 10 && ends.at(-1) !== 2_000; step++) {
    const sums = await continueSums(lab.sql, NETWORK, { ids: [id], number: 2_000, rows: 60 });
    await lab.sql.begin((tx) => storeSums(tx, NETWORK, { sums, number: 2_000 }));
    ends.push(...sums.map((sum) => Number(sum.number)));
  }
  // 60 transfers are those of 30 blocks; the first that is too many stands in the block after
  expect(ends).toEqual([1_029, 1_059, 1_089, 2_000]);
  expect((await readWallet(other)).bookedUnits).toBe(200n);
  // one block with more than a step's share is summed whole
  await discardSums(lab.sql, NETWORK, [other.address]);
  const [first] = await continueSums(lab.sql, NETWORK, { ids: [id], number: 2_000, rows: 1 });
  await lab.sql.begin((tx) => storeSums(tx, NETWORK, { sums: first ? [first] : [], number: 2_000 }));
  const [second] = await continueSums(lab.sql, NETWORK, { ids: [id], number: 2_000, rows: 1 });
  expect([first?.number, first?.units, second?.number, second?.units]).toEqual([999n, 0n, 1_000n, 2n]);
  expect((await advanceSums(term, [id], 2_000)).sums.get(id)).toEqual({
    bookUnits: 200n,
    isRecounted: false,
  });
});

test("a comparison is not recorded once the wallet's transfers changed after they were summed", async () => {
  const { id } = await readWallet(merchant);
  const at = (number: number) => lab.sql`
    update wallets
    set booked_number = ${number}, opening_units = null, difference_units = 0, reconciled_at = null, is_counting = true
    where id = ${id}`;
  const note = async () => {
    await noteReconciled(lab.sql, {
      ...{ number: 100, wallets: [{ id, openingUnits: 5n, differenceUnits: 7n }] },
    });
    const [row] = await lab.sql`
      select opening_units, difference_units, reconciled_at is not null as is_compared, is_counting
      from wallets
      where id = ${id}`;
    return row;
  };
  await at(100);
  await discardSums(lab.sql, NETWORK, [merchant.address]);
  const unchanged = { openingUnits: null, differenceUnits: 0n, isCompared: false, isCounting: true };
  expect(await note()).toEqual(unchanged);
  await at(99);
  expect(await note()).toEqual(unchanged);
  await at(100);
  expect(await note()).toEqual({
    openingUnits: 5n,
    differenceUnits: 7n,
    isCompared: true,
    isCounting: false,
  });
});
