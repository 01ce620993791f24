/**
 * A transaction that settles locks all links it changes by one statement, in the order of their ids. One that held some while it waited for
 * others would meet an API's group of payments, or a contested claim, that waits the other way round.
 */
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import { newLinkId, newRefundId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { cancelLink } from "../../db/links/links.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { cancelUses } from "../../db/links/uses.ts";
import { lockPayments } from "../../db/payments/payments.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { insertOperation } from "../../db/wallet-ops/operations.ts";
import { type Term, watchOf } from "../../indexer/leader-term.ts";
import { applyMissedBlocks } from "../../indexer/settle/apply-missed-blocks.ts";
import { applySpan, toSpan } from "../../indexer/settle/apply-span.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { readRange } from "../../indexer/source/block-logs.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  amounts,
  headOf,
  type Lab,
  type Merchant,
  makeLink,
  makeMerchant,
  makePayer,
  NETWORK,
  openLab,
  openTerm,
  pay,
  settled,
  startIndexer,
} from "../support/indexer-lab.ts";
import {
  accept,
  accepted,
  type BooksLab,
  claim,
  linkOf,
  lookBack,
  makePayment,
  makeTransfer,
  openBooks,
  paymentOf,
  randomHash,
  read,
  readUpTo,
  undoAbove,
} from "../support/ledger-lab.ts";
import { waitFor } from "../support/relay-lab.ts";
import { seedLinks, seedMerchant } from "../support/seed.ts";
import { meet } from "../support/until-blocked.ts";

setDefaultTimeout(120_000);

/** With one that locks both links in the order of their ids. */
function meetInOrder(sql: Sql, { low, high }: { low: string; high: string }, other: () => Promise<unknown>) {
  return meet(sql, { first: (tx) => lockLinks(tx, [low]), second: (tx) => lockLinks(tx, [high]) }, other);
}

async function inOrder(sql: Sql, ids: readonly string[]): Promise<{ low: string; high: string }> {
  const rows = await sql<
    { id: string }[]
  >`select id from payment_links where id = any(${[...ids]}) order by id`;
  const [low, high] = rows.map(({ id }) => id);
  if (!low || !high) throw new Error("there are no two links");
  return { low, high };
}

/** A refund of this link that its merchant has prepared. Returns its id. */
async function makeRefund(
  sql: Sql,
  { userId, address }: { userId: string; address: Hex },
  linkId: string,
): Promise<string> {
  const [wallet] = await sql<{ id: string }[]>`select id from wallets where user_id = ${userId}`;
  const id = newRefundId(new Date());
  await insertOperation(sql, {
    id,
    userId,
    walletId: wallet?.id ?? "",
    network: NETWORK,
    kind: "REFUND",
    userOpHash: randomHash(),
    accountNonce: 0n,
    callData: "0x",
    callGas: 1n,
    verificationGas: 1n,
    challengeId: "ch_1",
    idempotencyKey: undefined,
    request: id,
    requestId: "req_1",
    lifeMs: 600_000,
    items: [],
    terms: { owners: [], warnings: [], balanceAfter: "0", deploysWallet: false },
    renews: false,
  });
  await sql`
    insert into refunds (
      id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units
    )
    values (${id}, ${userId}, ${linkId}, ${NETWORK}, ${randomHash()}, 1, ${address}, 'given', 1)`;
  return id;
}

async function executeRefund(
  sql: Sql,
  id: string,
  { state, blockNumber }: { state: "MINED" | "CONFIRMED"; blockNumber: number },
): Promise<void> {
  await sql`
    update wallet_operations
    set
      state = ${state}, tx_hash = ${randomHash()}, succeeded = true, block_number = ${blockNumber}, prior_state = 'BROADCAST', signature = '0x',
      confirmed_at = case when ${state === "CONFIRMED"}::boolean then now() end
    where id = ${id}`;
}

async function stateOfRefund(sql: Sql, id: string) {
  const [row] = await sql<{ state: string }[]>`select state from wallet_operations where id = ${id}`;
  return row?.state;
}

describe("a transaction that settles locks its links in one order", () => {
  let lab: BooksLab;
  beforeAll(async () => {
    lab = await openBooks();
  });
  beforeEach(async () => {
    lab.merchant = await seedMerchant(lab.sql);
  });
  afterAll(() => lab.stop());

  test("behavior: including those of payments that ended without a transfer", async () => {
    const links = await inOrder(lab.sql, await seedLinks(lab.sql, lab.merchant, { count: 2 }));
    const [spent, paid] = [await accept(lab, links.low), await accept(lab, links.high)];
    if (!spent || !paid) throw new Error("a payment was not accepted");
    // the transfer does not fit the other link
    await lab.sql`update payment_links set amount_units = 1 where id = ${links.low}`;
    await meetInOrder(lab.sql, links, () => read(lab, [makeTransfer(lab, 101, { payment: paid })], [spent]));
    expect(await paymentOf(lab, spent)).toMatchObject({ state: "FAILED" });
    expect(await linkOf(lab, links.high)).toMatchObject({ status: "PAID" });
  });

  test("behavior: including the one that a transfer leaves for its sender's proof", async () => {
    const links = await inOrder(lab.sql, await seedLinks(lab.sql, lab.merchant, { count: 2 }));
    const { txHash, from } = makeTransfer(lab, 99);
    await bookTransfer(lab, { link: links.low, pays: true, settledBy: "early_claim", txHash, from });
    await lab.sql`update payment_links set status = 'PENDING', amount_units = 1 where id = ${links.low}`;
    await claim(lab, links.high, makeTransfer(lab, 99, { txHash, from }), "EOA");
    await meetInOrder(lab.sql, links, () => lookBack(lab));
    expect(await linkOf(lab, links.low)).toMatchObject({ status: "ACTIVE" });
    expect(await linkOf(lab, links.high)).toMatchObject({ status: "PAID" });
  });

  test("behavior: including the one whose proof gives up a transfer for the one that fits", async () => {
    const links = await inOrder(lab.sql, await seedLinks(lab.sql, lab.merchant, { count: 2 }));
    await lab.sql`update payment_links set amount_units = 2000000 where id = ${links.low}`;
    const fitting = makeTransfer(lab, 101, { logIndex: 3 });
    const taken = { ...fitting, logIndex: 4, amountUnits: 2_000_000n };
    await claim(lab, links.high, fitting, "EOA");
    await read(lab, [taken]);
    await meetInOrder(lab.sql, links, () => read(lab, [fitting], [], { booked: [taken] }));
    expect(await linkOf(lab, links.low)).toMatchObject({ status: "PAID" });
    expect(await linkOf(lab, links.high)).toMatchObject({ status: "PAID" });
  });

  test("behavior: including, in a reorganisation, the one whose refund it takes back", async () => {
    const links = await inOrder(lab.sql, await seedLinks(lab.sql, lab.merchant, { count: 2 }));
    await bookTransfer(lab, { link: links.high, pays: true, settledBy: "amount", blockNumber: 101 });
    const id = await makeRefund(lab.sql, lab.merchant, links.low);
    await executeRefund(lab.sql, id, { state: "CONFIRMED", blockNumber: 101 });
    await meetInOrder(lab.sql, links, () => undoAbove(lab, 100));
    expect(await stateOfRefund(lab.sql, id)).toBe("QUEUED");
    expect(await linkOf(lab, links.high)).toMatchObject({ status: "ACTIVE" });
  });

  test("behavior: including, in a block that was missed, the one whose refund is deep enough", async () => {
    const links = await inOrder(lab.sql, await seedLinks(lab.sql, lab.merchant, { count: 2 }));
    const payment = await accepted(lab, links.high);
    // the transfer does not fit the other link
    await lab.sql`update payment_links set amount_units = 1 where id = ${links.low}`;
    await readUpTo(lab, 102);
    const transfer = makeTransfer(lab, 101, { payment });
    const id = await makeRefund(lab.sql, lab.merchant, links.low);
    await executeRefund(lab.sql, id, { state: "MINED", blockNumber: 100 });
    const content = {
      block: transfer.block,
      transfers: [transfer],
      spent: [],
      operations: [],
      accountLogs: [],
      logCount: 1,
    };
    const term = { ...lab.term, cursor: { number: 102, hash: "0x" as Hex } };
    await meetInOrder(lab.sql, links, () =>
      applyMissedBlocks(term, [content], (address) => address === lab.merchant.address),
    );
    expect(await stateOfRefund(lab.sql, id)).toBe("CONFIRMED");
    expect(await linkOf(lab, links.high)).toMatchObject({ status: "PAID" });
  });
});

test("behavior: a reusable link that is cancelled locks its uses in the order of their ids", async () => {
  const lab = await openBooks();
  const [parent = ""] = await seedLinks(lab.sql, lab.merchant, { isReusable: true });
  const uses = [newLinkId(), newLinkId()].sort().reverse();
  // the higher first, as a scan finds them: the order of ids is not that of time
  for (const id of uses)
    await lab.sql`
      insert into payment_links (
        id, parent_id, user_id, network, recipient, amount_units, description, expires_at, tag, created_at
      )
      select
        ${id}, id, user_id, network, recipient, amount_units, description, expires_at, ${linkTag(id)}::bytea,
        now() - make_interval(secs => ${uses.indexOf(id)}::int)
      from payment_links
      where id = ${parent}`;
  const links = await inOrder(lab.sql, uses);
  await meetInOrder(lab.sql, links, () =>
    lab.sql.begin(async (tx) => {
      await cancelLink(tx, { id: parent, userId: lab.merchant.userId });
      await cancelUses(tx, parent);
    }),
  );
  for (const id of uses) expect(await linkOf(lab, id)).toMatchObject({ status: "CANCELLED" });
  await lab.stop();
});

describe("a block that settles one link and confirms another", () => {
  let lab: Lab;
  let merchant: Merchant;
  let payer: Hex;
  let term: Term & { close: () => void };
  const freshUnits = amounts();
  beforeAll(async () => {
    lab = await openLab();
    [merchant, payer] = [await makeMerchant(lab), await makePayer(lab)];
  });
  afterEach(() => term.close());
  afterAll(() => lab.stop());

  async function nextSpan() {
    const { number } = term.cursor;
    await waitFor("the transfer's block", async () => (await headOf(lab)).number > number);
    const head = await readHeader(term.chain, "latest");
    if (!head) throw new Error("the chain has no head");
    const range = { from: number + 1, to: head.number };
    const span = toSpan(term, await readRange(term.chain, range, watchOf(term.watched)), head);
    if (!span) throw new Error("there is no block to apply");
    return span;
  }

  /** Two links, and a leader at the head that takes two confirmations. */
  async function startTerm() {
    const unitsOf = new Map<string, bigint>();
    for (const units of [freshUnits(), freshUnits()])
      unitsOf.set(await makeLink(lab, merchant, { units }), units);
    const links = await inOrder(lab.sql, [...unitsOf.keys()]);
    const indexer = startIndexer(lab);
    await settled(lab);
    await indexer.stop();
    term = Object.assign(await openTerm(lab), { confirmations: 2 });
    const payLink = (id: string) => pay(lab, payer, merchant.address, unitsOf.get(id) ?? 0n);
    return { links, payLink };
  }

  test("behavior: locks both in one order", async () => {
    const { links, payLink } = await startTerm();
    await payLink(links.low);
    await applySpan(term, await nextSpan());
    expect(await linkOf(lab, links.low)).toMatchObject({ status: "PENDING" });
    await payLink(links.high);
    const span = await nextSpan();
    await meetInOrder(lab.sql, links, () => applySpan(term, span));
    expect(await linkOf(lab, links.low)).toMatchObject({ status: "PAID" });
    expect(await linkOf(lab, links.high)).toMatchObject({ status: "PENDING" });
  });

  test("behavior: locks the payment that it confirms before any link, like a worker that ends it", async () => {
    const { links, payLink } = await startTerm();
    await payLink(links.low);
    await applySpan(term, await nextSpan());
    expect(await linkOf(lab, links.low)).toMatchObject({ status: "PENDING" });
    const { id, token, nonce } = makePayment({ merchant }, links.low);
    await lab.sql`
      insert into payments (
        id, link_id, network, token, payer, payer_kind, recipient, amount_units, valid_after, valid_before, nonce, signature,
        state, tx_hash, log_index, block_number
      )
      select
        ${id}, link_id, network, ${token}::bytea, from_address, 'EOA', to_address, amount_units, 0, 9999999999,
        ${nonce}::bytea, '\\x', 'MINED', tx_hash, log_index, block_number
      from transfers
      where link_id = ${links.low}`;
    await lab.sql`update transfers set payment_id = ${id} where link_id = ${links.low}`;
    await payLink(links.high);
    const span = await nextSpan();
    await meet(
      lab.sql,
      { first: (tx) => lockPayments(tx, [id]), second: (tx) => lockLinks(tx, [links.low]) },
      () => applySpan(term, span),
    );
    expect(await linkOf(lab, links.low)).toMatchObject({ status: "PAID" });
    expect(await linkOf(lab, links.high)).toMatchObject({ status: "PENDING" });
  });

  test.each(["attributed to another link", "of no link"])(
    "behavior: with a transfer %s, locks the link whose refund it confirms with the others",
    async (kind) => {
      const { links, payLink } = await startTerm();
      // of the two, the one that the refund's end locks by itself is the lower where a transfer names the higher
      const isAttributed = kind === "attributed to another link";
      const refunded = isAttributed ? links.low : links.high;
      const id = await makeRefund(lab.sql, merchant, refunded);
      if (!isAttributed) {
        await payLink(links.low);
        await applySpan(term, await nextSpan());
      }
      await executeRefund(lab.sql, id, { state: "MINED", blockNumber: 0 });
      await (isAttributed ? payLink(links.high) : pay(lab, payer, merchant.address, 7n));
      const span = await nextSpan();
      await meetInOrder(lab.sql, links, () => applySpan(term, span));
      expect(await stateOfRefund(lab.sql, id)).toBe("CONFIRMED");
    },
  );
});
