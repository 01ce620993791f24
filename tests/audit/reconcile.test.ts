/** Balances are compared for wallets that moved and, once a day, for all others: many in one call, and by what came since the last time. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { reconcileBalances } from "../../indexer/audit/reconcile.ts";
import type { Term } from "../../indexer/term.ts";
import { type FaultProxy, startFaultProxy } from "../rpc/fault-proxy.ts";
import {
  type Lab,
  type Merchant,
  makeManyWallets,
  makeMerchant,
  makePayer,
  mine,
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
    { bookedUnits: bigint; differenceUnits: bigint; reconciledAt: Date; bookedNumber: bigint }[]
  >`select * from wallets where address = ${address}`;
  if (!row) throw new Error(`no wallet ${address}`);
  return row;
}

test("hundreds of wallets that were never compared take two calls, and none when nothing moved", async () => {
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

test("a wallet that moved is compared by its new transfers alone, and no other wallet", async () => {
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

test("a wallet at rest is compared after a day, and not before", async () => {
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

test("a transfer booked below the last comparison is no difference: the whole ledger decides", async () => {
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

test("a transfer that is missing is a difference at every comparison until it is booked", async () => {
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

test("a node that refuses so many balances at once is asked for fewer", async () => {
  await lab.sql`update wallets set reconciled_at = null`;
  proxy.fault = ([call]) =>
    call?.method === "eth_call" && JSON.stringify(call.params).length > 20_000
      ? { kind: "error", code: -32000, message: "gas required exceeds allowance" }
      : undefined;
  expect(await reconcileBalances(term)).toBe(0);
  expect(await lab.sql`select from wallets where reconciled_at is null`).toHaveLength(0);
  proxy.fault = () => undefined;
});
