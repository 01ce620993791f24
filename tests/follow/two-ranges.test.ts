/** Two ranges of a catch-up in flight at the same time: whatever happens to either, the ledger is as if they came one by one. */
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { catchUp } from "../../indexer/follow/catch-up.ts";
import { FencedError, type Term, watchOf } from "../../indexer/leader-term.ts";
import { type Applying, applyAfter, NOTHING_BEFORE, toSpan } from "../../indexer/settle/apply-span.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { readRange } from "../../indexer/source/block-logs.ts";
import { startFaultProxy } from "../rpc/fault-proxy.ts";
import {
  amounts,
  hashesOfEvents,
  headOf,
  type Lab,
  linkOf,
  type Merchant,
  makeClaim,
  makeLink,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  openTerm,
  pay,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";
import { reorganise } from "../support/indexer-lab-reorgs.ts";
import { assertInvariants } from "../support/invariants.ts";

setDefaultTimeout(120_000);
const freshUnits = amounts();
const NEVER = new Promise<never>(() => undefined);

let lab: Lab;
let merchant: Merchant;
let payer: Hex;
let term: Term & { close: () => void };
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  payer = await makePayer(lab);
  await readToHead();
});
afterEach(() => term?.close());
afterAll(async () => {
  await readToHead();
  await assertInvariants(lab.sql, lab.chain);
  await lab.stop();
});

async function readToHead(): Promise<void> {
  const indexer = startIndexer(lab);
  await settled(lab);
  await indexer.stop();
}

/** Pays these amounts, each in a block, and returns the spans of `sizes` blocks with a leader that is about to apply them. */
async function payInSpans(units: readonly bigint[], sizes: readonly number[]) {
  await readToHead();
  const start = (await headOf(lab)).number;
  const hashes: Hex[] = [];
  for (const one of units) hashes.push(await pay(lab, payer, merchant.address, one));
  await until("all are mined", async () => (await headOf(lab)).number === start + units.length);
  term = await openTerm(lab);
  term.isCatchingUp = true;
  const head = await readHeader(term.chain, "latest");
  if (!head || head.number !== term.cursor.number + units.length) throw new Error("not all are mined");
  const spans: NonNullable<ReturnType<typeof toSpan>>[] = [];
  let from = term.cursor.number + 1;
  for (const size of sizes) {
    const read = await readRange(term.chain, { from, to: from + size - 1 }, watchOf(term.watched));
    const span = toSpan(term, read, head);
    if (!span) throw new Error("there is no block to apply");
    spans.push(span);
    from += size;
  }
  const [one, two] = spans;
  if (!one || !two) throw new Error("there are no two spans");
  return { one, two, hashes };
}

async function count(hashes: readonly Hex[]) {
  const [row] = await lab.sql<{ transfers: number; history: number; events: number }[]>`
    select
      (select count(*)::int from transfers where tx_hash = any(${[...hashes]}::bytea[])) as transfers,
      (select count(*)::int from transactions where tx_hash = any(${[...hashes]}::bytea[])) as history,
      (select count(*)::int from events where data ->> 'txHash' = any(${[...hashes]}::text[])) as events`;
  return row && { ...row };
}

const cursorNumber = async () => {
  const [row] = await lab.sql<{ number: bigint }[]>`select number from cursors where network = ${NETWORK}`;
  return Number(row?.number);
};

/** Sessions that wait for a row or an advisory lock, and those that have written and wait for their client. */
async function sessions() {
  const rows = await lab.sql<{ pid: number; isWaiting: boolean; isIdle: boolean }[]>`
    select
      pid, wait_event_type = 'Lock' as is_waiting,
      state = 'idle in transaction' and backend_xid is not null as is_idle
    from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`;
  return {
    waiting: rows.filter(({ isWaiting }) => isWaiting),
    idle: rows.filter(({ isIdle }) => isIdle),
  };
}

/** Both have stored their rows; the first waits for the cursor, which `holder` has, and the second for the first. */
async function untilBothStored(): Promise<void> {
  await until("both have stored their rows", async () => {
    const { waiting, idle } = await sessions();
    // one of those that are idle holds the cursor
    return waiting.length === 1 && idle.length === 2;
  });
}

async function holdCursor(): Promise<{ sql: Awaited<ReturnType<Sql["reserve"]>>; end: () => Promise<void> }> {
  const sql = await lab.sql.reserve();
  await sql`begin`;
  await sql`update cursors set last_error = null where network = ${NETWORK}`;
  return {
    sql,
    async end() {
      await sql`commit`;
      sql.release();
    },
  };
}

const outcomeOf = ({ applied }: Applying) =>
  applied.then(
    () => "applied",
    (error: unknown) => error,
  );

test("two ranges are stored concurrently, and become visible one after the other", async () => {
  const { one, two, hashes } = await payInSpans([freshUnits(), freshUnits(), freshUnits()], [2, 1]);
  const holder = await holdCursor();
  const first = applyAfter(term, one, NOTHING_BEFORE);
  const second = applyAfter(term, two, first);
  expect(await Promise.all([first.isUnrelated, second.isUnrelated])).toEqual([true, true]);
  await untilBothStored();
  expect(await count(hashes)).toEqual({ transfers: 0, history: 0, events: 0 });
  await holder.end();
  expect(await first.applied).toMatchObject({ movedBlocks: 2 });
  expect(await second.applied).toMatchObject({ movedBlocks: 1 });
  expect(term.cursor).toEqual(two.to);
  expect(await cursorNumber()).toBe(two.to.number);
  expect(await count(hashes)).toEqual({ transfers: 3, history: 3, events: 3 });
  expect(await hashesOfEvents(lab, hashes)).toEqual(hashes);
});

test("events of a range that has to be stored a second time still come before those of the next range", async () => {
  const { one, two, hashes } = await payInSpans([freshUnits(), freshUnits()], [1, 1]);
  const seen = one.blocks[0]?.transfers[0];
  if (!seen) throw new Error("nothing was read");
  const { block, txHash, logIndex, from, to, amountUnits } = seen;
  const holder = await holdCursor();
  // left by a reorganisation, by a transaction that ends only when both ranges are in flight
  await holder.sql`
    insert into transfers (network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units, status)
    values (
      ${NETWORK}, ${block.number}, ${block.hash}, to_timestamp(${block.timeS}), ${txHash}, ${logIndex}, ${from}, ${to}, ${amountUnits},
      'ORPHANED'
    )`;
  const second = applyAfter(term, two, applyAfter(term, one, NOTHING_BEFORE));
  await untilBothStored();
  await holder.end();
  await second.applied;
  expect(await hashesOfEvents(lab, hashes)).toEqual(hashes);
});

test("a leader of a later term fences both ranges, and neither leaves a row", async () => {
  const { one, two, hashes } = await payInSpans([freshUnits(), freshUnits()], [1, 1]);
  const before = await cursorNumber();
  const holder = await holdCursor();
  const first = applyAfter(term, one, NOTHING_BEFORE);
  const second = applyAfter(term, two, first);
  const outcomes = [outcomeOf(first), outcomeOf(second)];
  await untilBothStored();
  await holder.sql`update cursors set epoch = epoch + 1 where network = ${NETWORK}`;
  await holder.end();
  expect(await Promise.all(outcomes)).toEqual([expect.any(FencedError), expect.any(FencedError)]);
  expect(await count(hashes)).toEqual({ transfers: 0, history: 0, events: 0 });
  expect(await cursorNumber()).toBe(before);
});

test("a range of an earlier leader is refused before it stores anything, and does not wait for the range before", async () => {
  const { one } = await payInSpans([freshUnits(), freshUnits()], [1, 1]);
  const old = term;
  term = await openTerm(lab);
  const applying = applyAfter(old, one, { isUnrelated: Promise.resolve(true), applied: NEVER });
  await expect(applying.applied).rejects.toThrow(FencedError);
  expect(await applying.isUnrelated).toBe(false);
  old.close();
});

test("a range whose predecessor fails fails with it, and both are read again once", async () => {
  const { one, two, hashes } = await payInSpans([freshUnits(), freshUnits(), freshUnits()], [1, 2]);
  const start = term.cursor;
  const holder = await holdCursor();
  const first = applyAfter(term, one, NOTHING_BEFORE);
  const second = applyAfter(term, two, first);
  const outcomes = [outcomeOf(first), outcomeOf(second)];
  await untilBothStored();
  const [waiting] = (await sessions()).waiting;
  // as when its connection is lost
  await lab.sql`select pg_terminate_backend(${waiting?.pid ?? 0}::int)`;
  const [firstError, secondError] = await Promise.all(outcomes);
  await holder.end();
  expect(firstError).toBeInstanceOf(Error);
  expect(secondError).toBe(firstError);
  expect(term.cursor).toEqual(start);
  expect(await count(hashes)).toEqual({ transfers: 0, history: 0, events: 0 });
  const again = applyAfter(term, one, NOTHING_BEFORE);
  await applyAfter(term, two, again).applied;
  expect(await count(hashes)).toEqual({ transfers: 3, history: 3, events: 3 });
});

test("a range applied before the commit of its predecessor changes nothing", async () => {
  const { two, hashes } = await payInSpans([freshUnits(), freshUnits()], [1, 1]);
  const early = applyAfter(term, two, { isUnrelated: Promise.resolve(true), applied: Promise.resolve() });
  await expect(early.applied).rejects.toThrow(FencedError);
  expect(await count(hashes)).toEqual({ transfers: 0, history: 0, events: 0 });
});

test("a range begins no transaction before the end of one that decides about links", async () => {
  const { one, hashes } = await payInSpans([freshUnits(), freshUnits()], [1, 1]);
  const gate = Promise.withResolvers<void>();
  const applying = applyAfter(term, one, { isUnrelated: Promise.resolve(false), applied: gate.promise });
  const outcome = outcomeOf(applying);
  // time enough to begin one
  await lab.sql`select pg_sleep(0.5)`;
  gate.reject(new Error("lost"));
  expect(await applying.isUnrelated).toBe(false);
  expect(await outcome).toEqual(new Error("lost"));
  expect(await count(hashes)).toEqual({ transfers: 0, history: 0, events: 0 });
});

test("a new leader waits for what a former leader is writing ahead of the cursor", async () => {
  const { one, hashes } = await payInSpans([freshUnits(), freshUnits()], [1, 1]);
  const gate = Promise.withResolvers<void>();
  // it may not be awaited yet when it fails
  gate.promise.catch(() => undefined);
  const applying = applyAfter(term, one, { isUnrelated: Promise.resolve(true), applied: gate.promise });
  const outcome = outcomeOf(applying);
  await until("it has stored its rows", async () => (await sessions()).idle.length === 1);
  let hasBegun = false;
  const opening = openTerm(lab).then((opened) => {
    hasBegun = true;
    return opened;
  });
  await until("the new leader waits", async () => (await sessions()).waiting.length === 1);
  expect(hasBegun).toBe(false);
  gate.reject(new Error("lost"));
  expect(await outcome).toEqual(new Error("lost"));
  const next = await opening;
  expect(next.epoch).toBe(term.epoch + 1n);
  next.close();
  expect(await count(hashes)).toEqual({ transfers: 0, history: 0, events: 0 });
});

test("rows that a frozen leader holds ahead of the cursor do not keep the next one from leading", async () => {
  const { one, hashes } = await payInSpans([freshUnits(), freshUnits()], [1, 1]);
  const sql = openDatabase(lab.db.url, { name: "indexer", maxConnections: 3 });
  const frozen: Term = { ...term, sql };
  const applying = applyAfter(frozen, one, { isUnrelated: Promise.resolve(true), applied: NEVER });
  applying.applied.catch(() => undefined);
  await until("it has stored its rows", async () => (await sessions()).idle.length === 1);
  const next = await openTerm(lab);
  expect((await sessions()).idle).toHaveLength(0);
  expect(await count(hashes)).toEqual({ transfers: 0, history: 0, events: 0 });
  next.close();
  await sql.end({ timeout: 1 });
});

test("a link is paid by the first of two equal transfers, even if both ranges were read before it was paid", async () => {
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  const { one, two, hashes } = await payInSpans([units, units], [1, 1]);
  const first = applyAfter(term, one, NOTHING_BEFORE);
  const second = applyAfter(term, two, first);
  expect(await first.isUnrelated).toBe(false);
  await second.applied;
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "NONE" });
  const paying = await lab.sql<{ txHash: Hex }[]>`select tx_hash from transfers where link_id = ${linkId}`;
  expect(paying.map(({ txHash }) => txHash)).toEqual(hashes.slice(0, 1));
});

test("a link is paid in a range that follows one without links, and in one that follows another link's", async () => {
  const [units, other] = [freshUnits(), freshUnits()];
  const links = [await makeLink(lab, merchant, { units }), await makeLink(lab, merchant, { units: other })];
  const { one, two } = await payInSpans([freshUnits(), units, other], [1, 1]);
  const first = applyAfter(term, one, NOTHING_BEFORE);
  const second = applyAfter(term, two, first);
  await second.applied;
  expect(await Promise.all([first.isUnrelated, second.isUnrelated])).toEqual([true, false]);
  const head = await readHeader(term.chain, "latest");
  const from = term.cursor.number + 1;
  const rest = await readRange(term.chain, { from, to: from }, watchOf(term.watched));
  const last = head && toSpan(term, rest, head);
  if (!last) throw new Error("there is no third span");
  await applyAfter(term, last, second).applied;
  for (const id of links) expect(await linkOf(lab, id)).toMatchObject({ status: "PAID", exception: "NONE" });
});

const [oneEvidence, otherEvidence] = [freshUnits(), freshUnits()];
test.each<[string, (link: { id: string; units: bigint }) => Promise<{ units: bigint; claims?: boolean }>]>([
  ["its amount", async ({ units }) => ({ units })],
  [
    "its unique amount",
    async ({ id, units }) => {
      await lab.sql`update payment_links set pay_amount_units = ${units + 7n} where id = ${id}`;
      return { units: units + 7n };
    },
  ],
  ["a claim", async () => ({ units: otherEvidence, claims: true })],
])("a range that may concern a link by %s is not stored ahead", async (_, arrange) => {
  const units = oneEvidence + BigInt(Math.floor(Math.random() * 1_000_000_000));
  const id = await makeLink(lab, merchant, { units });
  const { units: paidUnits, claims } = await arrange({ id, units });
  const { one, hashes } = await payInSpans([paidUnits, freshUnits()], [1, 1]);
  const [txHash] = hashes;
  if (claims && txHash) await makeClaim(lab, { linkId: id, txHash, clientAddress: payer });
  const applying = applyAfter(term, one, NOTHING_BEFORE);
  await applying.applied;
  expect(await applying.isUnrelated).toBe(false);
});

test("a range that an assignment names is not stored ahead", async () => {
  const linkId = await makeLink(lab, merchant, { units: freshUnits() });
  const { one, hashes } = await payInSpans([freshUnits(), freshUnits()], [1, 1]);
  await lab.sql`
    insert into assignments (network, tx_hash, log_index, user_id, link_id)
    values (${NETWORK}, ${hashes[0] ?? ""}, 0, ${merchant.userId}, ${linkId})`;
  const applying = applyAfter(term, one, NOTHING_BEFORE);
  await applying.applied;
  expect(await applying.isUnrelated).toBe(false);
  const [row] = await lab.sql`select settled_by from transfers where tx_hash = ${hashes[0] ?? ""}`;
  expect(row).toMatchObject({ settledBy: "merchant" });
});

test("a reorganisation below a range read while two are in flight is detected; both are committed, then undone", async () => {
  await readToHead();
  const proxy = startFaultProxy(lab.chain.rpcUrl);
  const start = (await headOf(lab)).number;
  const units = freshUnits();
  for (let block = 0; block < 4; block++) {
    const before = (await headOf(lab)).number;
    await pay(lab, payer, merchant.address, units + BigInt(block));
    await until("it is mined", async () => (await headOf(lab)).number === before + 1);
    await mine(lab, 15);
  }
  await mine(lab, 64);
  term = await openTerm(lab, [proxy.url]);
  term.isCatchingUp = true;
  expect(term.cursor.number).toBe(start);
  const head = await readHeader(term.chain, "latest");
  if (!head) throw new Error("there is no head");
  // ranges of 16 and 24 blocks come first
  const third = start + 16 + 24 + 1;
  const [asked, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  proxy.delay = (calls) => {
    const isThird = calls.some(({ params }) => params[0] === `0x${third.toString(16)}`);
    if (!isThird) return undefined;
    asked.resolve();
    return gate.promise;
  };
  const holder = await holdCursor();
  const caughtUp = catchUp(term, head, watchOf(term.watched));
  await asked.promise;
  await untilBothStored();
  const depth = (await headOf(lab)).number - (start + 20);
  await reorganise(lab, depth, []);
  gate.resolve();
  await holder.end();
  expect(await caughtUp).toBe(false);
  expect(term.cursor.number).toBe(start + 16 + 24);
  expect(await cursorNumber()).toBe(start + 16 + 24);
  expect((await sessions()).idle).toHaveLength(0);
  await proxy.stop();
  await mine(lab, 3);
  await readToHead();
  await assertInvariants(lab.sql, lab.chain);
  const states = await lab.sql<{ status: string; count: number }[]>`
    select status, count(*)::int
    from transfers
    where block_number > ${start} and amount_units between ${units} and ${units + 12n}
    group by status order by status`;
  expect(states.map((row) => ({ ...row }))).toEqual([
    { status: "CONFIRMED", count: 2 },
    { status: "ORPHANED", count: 1 },
  ]);
});
