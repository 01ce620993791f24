import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { noteError, noteFinalized, noteHead } from "../../db/ledger/cursors.ts";
import { FencedError, watchOf } from "../../indexer/leader-term.ts";
import { applySpan, toSpan } from "../../indexer/settle/apply-span.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { readBlocks } from "../../indexer/source/block-logs.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import {
  amounts,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeMerchant,
  makePayer,
  mine,
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

let lab: Lab;
let merchant: Merchant;
let payer: `0x${string}`;
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  payer = await makePayer(lab);
  const indexer = startIndexer(lab);
  await settled(lab);
  await indexer.stop();
});
afterAll(() => lab.stop());

test("a range that is applied twice changes nothing the second time", async () => {
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  await pay(lab, payer, merchant.address, units);
  await until("it is mined", async () => (await linkOf(lab, linkId)).id === linkId);
  const term = await openTerm(lab);
  const before = term.cursor;
  const head = await readHeader(term.chain, before.number + 1);
  if (!head) throw new Error("no block was mined");
  const blocks = await readBlocks(term.chain, [head], watchOf(term.watched));
  const span = toSpan(term, blocks, head);
  if (!span) throw new Error("there is no block to apply");
  await applySpan(term, span);
  const dump = async () => ({
    transactions: [...(await lab.sql`select * from transactions order by id`)],
    transfers: [...(await lab.sql`select * from transfers order by id`)],
    links: [...(await lab.sql`select * from payment_links order by id`)],
    events: [...(await lab.sql`select id, type from events order by id`)],
  });
  const once = await dump();
  expect(once.transfers).toHaveLength(1);
  term.cursor = before;
  await expect(applySpan(term, span)).rejects.toThrow(FencedError);
  expect(await dump()).toEqual(once);
  // also with the cursor set back by hand
  await lab.sql`update cursors set number = ${before.number}, hash = ${before.hash}`;
  await applySpan(term, span);
  expect(await dump()).toEqual(once);
  term.close();
});

test("an older leader that lost its term without noticing writes nothing", async () => {
  const old = await openTerm(lab);
  const young = await openTerm(lab);
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  await pay(lab, payer, merchant.address, units);
  await until("it is mined", async () => (await readHeader(old.chain, old.cursor.number + 1)) !== undefined);
  const head = await readHeader(old.chain, old.cursor.number + 1);
  if (!head) throw new Error("no block was mined");
  const span = toSpan(old, await readBlocks(old.chain, [head], watchOf(old.watched)), head);
  if (!span) throw new Error("there is no block to apply");
  await expect(applySpan(old, span)).rejects.toThrow(FencedError);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  await applySpan(young, span);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
  // what it sends beside its move of the cursor finds the rows that the younger one has stored
  for (const isCatchingUp of [false, true]) {
    old.isCatchingUp = isCatchingUp;
    await expect(applySpan(old, span)).rejects.toThrow(FencedError);
  }
  expect(await lab.sql`select 1 from transfers where link_id = ${linkId}`).toHaveLength(1);
  const [before] = await lab.sql`select head_number, finalized_number from cursors`;
  const seen = { number: 1_000_000, timeS: Math.floor(Date.now() / 1_000) };
  await noteHead(lab.sql, { network: old.network, epoch: old.epoch, head: seen });
  await noteFinalized(lab.sql, { network: old.network, epoch: old.epoch, number: seen.number });
  const [after] = await lab.sql`select head_number, finalized_number from cursors`;
  expect(after).toEqual(before);
  for (const { network, epoch } of [young, old]) {
    await noteError(lab.sql, { network, epoch, message: `term ${epoch} failed` });
    expect([...(await lab.sql`select last_error from cursors`)]).toEqual([
      { lastError: `term ${young.epoch} failed` },
    ]);
  }
  old.close();
  young.close();
});

test("a leader whose lock connection is cut steps down and leads again", async () => {
  const epoch = async () => (await lab.sql<{ epoch: bigint }[]>`select epoch from cursors`)[0]?.epoch ?? 0n;
  const before = await epoch();
  const indexer = startIndexer(lab);
  await until("it leads", async () => (await epoch()) === before + 1n);
  await lab.sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'indexer-lead' and datname = current_database()`;
  await until("another term began", async () => (await epoch()) === before + 2n);
  await pay(lab, payer, merchant.address, freshUnits());
  await settled(lab);
  await indexer.stop();
  await assertInvariants(lab.sql, lab.chain);
});

test("when the chain loses its last blocks, their payments are undone once another block takes the place of one", async () => {
  const indexer = startIndexer(lab);
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  await mine(lab, 3);
  await pay(lab, payer, merchant.address, units);
  await mine(lab, 2);
  await settled(lab);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
  await callRpc(lab.chain.rpcUrl, "anvil_rollback", [4]);
  await mine(lab);
  await until("the cursor went back", async () => (await linkOf(lab, linkId)).status === "ACTIVE");
  await settled(lab);
  await indexer.stop();
  await assertInvariants(lab.sql, lab.chain);
});

test("a reorganisation deeper than the stored blocks stops it with an error and without changes", async () => {
  const indexer = startIndexer(lab);
  await pay(lab, payer, merchant.address, freshUnits());
  await settled(lab);
  await indexer.stop();
  // only the newest two blocks are remembered
  await lab.sql`delete from blocks where number < (select number - 1 from cursors)`;
  const [before] = await lab.sql`select count(*) from transfers where status <> 'ORPHANED'`;
  await reorganise(lab, 4, []);
  await mine(lab, 2);
  const again = startIndexer(lab);
  await until("health can see it", async () => {
    const [row] = await lab.sql<{ lastError: string | null }[]>`select last_error from cursors`;
    return row?.lastError?.includes("none of the last") ?? false;
  });
  const [after] = await lab.sql`select count(*) from transfers where status <> 'ORPHANED'`;
  expect(after).toEqual(before);
  await again.stop();
});
