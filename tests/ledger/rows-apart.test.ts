/** Statements of one link, claim, wallet or network, run while others of the same kind are there: these stay as they are. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newLinkId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { findAssignableTransfer } from "../../db/ledger/assignments.ts";
import { storePlainTransfers } from "../../db/ledger/bulk-transfers.ts";
import { lockPaymentsOfBlocks } from "../../db/ledger/lock-payments.ts";
import { type NewTransfer, storeTransfers } from "../../db/ledger/transfers.ts";
import { findWalletsToRead } from "../../db/ledger/wallet-backfills.ts";
import { disputeTransfers, findPendingLinks } from "../../db/links/claim-proofs.ts";
import { demoteUndecided, endClaim } from "../../db/links/end-claims.ts";
import { expireLinks } from "../../db/links/expire-links.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { cancelUses, listLinkPayments, openUse } from "../../db/links/uses.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accepted,
  acceptFacilitated,
  type BooksLab,
  claim,
  fail,
  linkOf,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  paidBy,
  read,
  UNITS,
  undoAbove,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

const ELSEWHERE = "base";
let lab: BooksLab;
let linkId: string;
let otherLink: string;

beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  otherLink = await seedLink(lab.sql, await seedMerchant(lab.sql));
  linkId = await seedLink(lab.sql, lab.merchant);
});

const statusOf = async (id: string) => (await linkOf(lab, id))?.status;
const claimState = async (id: string) => {
  const [row] = await lab.sql<{ state: string }[]>`select state from claims where id = ${id}`;
  return row?.state;
};
const pendingRows = (claimId: string) =>
  lab.sql`select from transactions where claim_id = ${claimId} and status = 'PENDING'`;

describe("a wallet's address that is another user's on another network", () => {
  const toRow = ({ block, from, to, txHash, logIndex, amountUnits }: ReturnType<typeof makeTransfer>) => {
    const nothing = {
      linkId: undefined,
      settledBy: undefined,
      paymentId: undefined,
      operationItemId: undefined,
    };
    return {
      ...{ ...nothing, from, to, txHash, logIndex, amountUnits, pays: false, candidates: [] },
      ...{
        blockNumber: block.number,
        blockHash: block.hash,
        blockTimeS: block.timeS,
        confirmedAtS: block.timeS,
      },
      ...{ authorizationNonce: undefined, historyPaymentId: undefined, historyClaimId: undefined },
    } satisfies NewTransfer;
  };

  describe.each(["IN", "OUT"])("%s", (side) => {
    test.each([
      ["as blocks are read", storeTransfers],
      [
        "in bulk",
        (...[tx, network, rows]: Parameters<typeof storeTransfers>) =>
          storePlainTransfers(tx, network, rows, { eventsFromS: 0 }),
      ],
    ])("has its transfers in the history of its own network's user alone, %s", async (_, store) => {
      for (const isOwnFirst of [true, false]) {
        const address = randomAddress();
        const seedOn = (network: typeof NETWORK | typeof ELSEWHERE) =>
          seedMerchant(lab.sql, { network, address });
        const networks = [NETWORK, ELSEWHERE] as const;
        const seeded = [];
        for (const network of isOwnFirst ? networks : networks.toReversed())
          seeded.push(await seedOn(network));
        const own = seeded.find(({ network }) => network === NETWORK);
        const ends = side === "IN" ? { to: address } : { to: randomAddress(), from: address };
        const transfer = makeTransfer(lab, 81, ends);
        await lab.sql.begin((tx) => store(tx, NETWORK, [toRow(transfer)]));
        const rows = await lab.sql<{ userId: string }[]>`
          select user_of(owner) as user_id from transactions where tx_hash = ${transfer.txHash}`;
        expect(rows.map(({ userId }) => userId)).toEqual([own?.userId ?? ""]);
      }
    });
  });
});

describe("transfers that are stored together", () => {
  test("are each stored, although one of them is back at the log index of another", async () => {
    const back = makeTransfer(lab, 81, { amountUnits: 5n });
    await read(lab, [back]);
    await undoAbove(lab, 80);
    const fresh = makeTransfer(lab, 82, { amountUnits: 6n });
    await read(lab, [back, fresh]);
    const rows = await lab.sql<{ amountUnits: bigint; status: string }[]>`
      select amount_units, status from transfers where to_address = ${lab.merchant.address} order by amount_units`;
    expect(rows.map(({ amountUnits, status }) => [Number(amountUnits), status])).toEqual([
      [5, "CONFIRMED"],
      [6, "CONFIRMED"],
    ]);
  });

  test("leave what is known of one that is read again", async () => {
    const transfer = makeTransfer(lab, 81);
    await read(lab, [transfer]);
    await read(lab, [transfer], [], { isDeep: false });
    const rows =
      await lab.sql`select status, link_id, pays from transfers where tx_hash = ${transfer.txHash}`;
    expect([...rows]).toEqual([{ status: "CONFIRMED", linkId, pays: true }]);
  });

  test("are each stored, although another of their block is known", async () => {
    const block = makeBlock(81);
    const known = makeTransfer(lab, 81, { block, logIndex: 1, amountUnits: 5n });
    await read(lab, [known]);
    await read(lab, [known, makeTransfer(lab, 81, { block, logIndex: 2, amountUnits: 6n })]);
    const rows = await lab.sql<{ logIndex: number; amountUnits: bigint }[]>`
      select log_index, amount_units from transfers where block_hash = ${block.hash} order by log_index`;
    expect(rows.map(({ logIndex, amountUnits }) => [logIndex, Number(amountUnits)])).toEqual([
      [1, 5],
      [2, 6],
    ]);
  });

  test("bring back none that left the chain permanently", async () => {
    const [gone, back] = [
      makeTransfer(lab, 81, { amountUnits: 5n }),
      makeTransfer(lab, 81, { amountUnits: 6n }),
    ];
    await read(lab, [gone, back]);
    await undoAbove(lab, 80);
    await read(lab, [back]);
    const rows = await lab.sql<{ amountUnits: bigint }[]>`
      select amount_units from transfers where to_address = ${lab.merchant.address} and status <> 'ORPHANED'`;
    expect(rows.map(({ amountUnits }) => Number(amountUnits))).toEqual([6]);
  });

  test("have a history row each, whichever of them had one before", async () => {
    const payment = await accepted(lab, linkId);
    const [claimed] = await seedLinks(lab.sql, lab.merchant, { amountUnits: 7n });
    const paying = makeTransfer(lab, 81, { payment });
    const byClaim = makeTransfer(lab, 81, { amountUnits: 7n });
    await claim(lab, claimed ?? "", byClaim, "EOA");
    const plain = [makeTransfer(lab, 81, { amountUnits: 8n }), makeTransfer(lab, 81, { amountUnits: 9n })];
    const all = [paying, byClaim, ...plain];
    await read(lab, all);
    const rows = await lab.sql<{ txHash: string; status: string }[]>`
      select tx_hash, status from transactions where owner = owner_key(${lab.merchant.userId})`;
    expect(rows.map(({ txHash, status }) => `${txHash} ${status}`).sort()).toEqual(
      all.map(({ txHash }) => `${txHash} CONFIRMED`).sort(),
    );
  });
});

describe("a claim that ends", () => {
  test("takes its own row out of the history and leaves another's", async () => {
    const [own, other] = [
      await claim(lab, linkId, makeTransfer(lab, 81), "EOA"),
      await claim(lab, otherLink, makeTransfer(lab, 81), "EOA"),
    ];
    await lab.sql.begin((tx) =>
      endClaim(tx, { id: own, state: "EXPIRED", reason: "not_found", isProven: false }),
    );
    expect([await claimState(own), await claimState(other)]).toEqual(["EXPIRED", "OPEN"]);
    expect(await pendingRows(own)).toHaveLength(0);
    expect(await pendingRows(other)).toHaveLength(1);
    expect([await statusOf(linkId), await statusOf(otherLink)]).toEqual(["ACTIVE", "PENDING"]);
  });

  test("releases its link although another link is paid, and one has a payment under way", async () => {
    await bookTransfer(lab, { link: otherLink, pays: true, settledBy: "amount" });
    await accepted(lab, await seedLink(lab.sql, lab.merchant));
    const id = await claim(lab, linkId, makeTransfer(lab, 81), "EOA");
    await lab.sql.begin((tx) => endClaim(tx, { id, state: "EXPIRED", reason: "not_found", isProven: false }));
    expect(await statusOf(linkId)).toBe("ACTIVE");
  });

  test("as undecided leaves another that is undecided as well to its own check", async () => {
    await lab.sql`update users set claim_policy = 'proven'`;
    const transfers = [makeTransfer(lab, 81), makeTransfer(lab, 81)];
    const links = [linkId, await seedLink(lab.sql, lab.merchant)];
    const ids: string[] = [];
    for (const [index, transfer] of transfers.entries()) {
      const id = await claim(lab, links[index] ?? "", transfer, "EOA");
      await lab.sql`update claims set proof = null where id = ${id}`;
      await bookTransfer(lab, { txHash: transfer.txHash, from: transfer.from });
      ids.push(id);
    }
    const [own = "", other = ""] = ids;
    const ended = await lab.sql.begin((tx) => demoteUndecided(tx, { id: own, linkId }));
    expect([ended, await claimState(own), await claimState(other)]).toEqual([true, "HINT", "OPEN"]);
  });

  test("as disputed leaves another's state and row, and names its own transfer", async () => {
    const transfer = makeTransfer(lab, 81, { amountUnits: 3n });
    await read(lab, [makeTransfer(lab, 81, { amountUnits: 2n }), transfer]);
    const [own, other] = [
      await claim(lab, linkId, transfer, "EOA"),
      await claim(lab, otherLink, makeTransfer(lab, 81), "EOA"),
    ];
    const [row] = await lab.sql<{ id: bigint; historyId: string }[]>`
      select transfers.id, transactions.id as history_id
      from transfers join transactions on transactions.transfer_id = transfers.id
      where transfers.tx_hash = ${transfer.txHash}`;
    const dispute = { transferId: row?.id ?? 0n, claimId: own, claimedLinkId: linkId };
    await lab.sql.begin((tx) => disputeTransfers(tx, [dispute]));
    expect([await claimState(own), await claimState(other)]).toEqual(["DISPUTED", "OPEN"]);
    expect(await pendingRows(other)).toHaveLength(1);
    const events = await lab.sql<{ subjectId: string }[]>`
      select subject_id from events where type = 'transaction.disputed' and user_id = ${lab.merchant.userId}`;
    expect(events.map(({ subjectId }) => subjectId)).toEqual([row?.historyId ?? ""]);
  });
});

describe("a link", () => {
  test("is found PENDING among those that were asked about", async () => {
    for (const id of [linkId, otherLink])
      await lab.sql`update payment_links set status = 'PENDING' where id = ${id}`;
    expect(await lab.sql.begin((tx) => findPendingLinks(tx, [linkId]))).toEqual([linkId]);
  });

  test("is held by its own payment, not by another link's", async () => {
    await accepted(lab, await seedLink(lab.sql, lab.merchant));
    await lab.sql`update payment_links set status = 'PENDING' where id = ${linkId}`;
    await lab.sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: [linkId], isReorg: false }));
    expect(await statusOf(linkId)).toBe("ACTIVE");
  });

  test("is paid by its payment under way, whatever became of those before it", async () => {
    for (let count = 0; count < 2; count++) await fail(lab, await accepted(lab, linkId));
    const payment = await accepted(lab, linkId);
    await read(lab, [makeTransfer(lab, 81, { payment })]);
    expect(await paidBy(lab)).toEqual({ [linkId]: 1 });
    expect(await statusOf(linkId)).toBe("PAID");
  });

  test("expires once its time is over, unless it has left ACTIVE", async () => {
    const [over, held, open] = [linkId, await seedLink(lab.sql, lab.merchant), otherLink];
    await lab.sql`update payment_links set expires_at = now() - interval '1 second' where id in (${over}, ${held})`;
    await lab.sql`update payment_links set status = 'PENDING' where id = ${held}`;
    expect(await expireLinks(lab.sql, 100)).toMatchObject([{ id: over }]);
    expect(await Promise.all([over, held, open].map(statusOf))).toEqual(["EXPIRED", "PENDING", "ACTIVE"]);
  });

  test("that is reusable and cancelled ends its own uses, none of another's and no other link", async () => {
    const parents = await seedLinks(lab.sql, lab.merchant, { count: 2, isReusable: true });
    const uses = [];
    for (const parentId of parents) {
      const id = newLinkId();
      const given = { parentId, id, tag: linkTag(id), amountUnits: undefined, opener: "203.0.113.1" };
      await lab.sql.begin((tx) => openUse(tx, given));
      uses.push(id);
    }
    const [own = "", other = ""] = uses;
    const ended = await lab.sql.begin((tx) => cancelUses(tx, parents[0] ?? ""));
    expect(ended.map(({ id }) => id)).toEqual([own]);
    expect(await Promise.all([own, other, linkId].map(statusOf))).toEqual(["CANCELLED", "ACTIVE", "ACTIVE"]);
  });

  test("lists the transfer and the payment that are its own", async () => {
    const [paid, live] = [linkId, await seedLink(lab.sql, lab.merchant, { amountUnits: UNITS })];
    await accepted(lab, await seedLink(lab.sql, lab.merchant));
    await bookTransfer(lab, { link: otherLink, to: randomAddress(), pays: true, settledBy: "amount" });
    const payment = await accepted(lab, live);
    const transfer = makeTransfer(lab, 81);
    await claim(lab, paid, transfer, "EOA");
    await read(lab, [transfer]);
    expect(await paidBy(lab)).toEqual({ [paid]: transfer.logIndex });
    const [row] = await lab.sql<
      { id: string }[]
    >`select id from transactions where tx_hash = ${transfer.txHash}`;
    const list = (id: string) =>
      listLinkPayments(lab.sql, { linkId: id, userId: lab.merchant.userId }, { limit: 10 });
    expect(await list(paid)).toMatchObject([
      { txHash: transfer.txHash, payer: transfer.from, paymentId: null, transactionId: row?.id ?? "" },
    ]);
    expect(await list(live)).toMatchObject([
      { txHash: null, payer: payment.payer, paymentId: payment.id, transactionId: null },
    ]);
  });
});

test("a row of the history is assigned by its own id", async () => {
  const transfers = [makeTransfer(lab, 81, { amountUnits: 3n }), makeTransfer(lab, 81, { amountUnits: 4n })];
  await read(lab, transfers);
  for (const { txHash } of transfers) {
    const [row] = await lab.sql<{ id: string }[]>`select id from transactions where tx_hash = ${txHash}`;
    const asked = { transactionId: row?.id ?? "", userId: lab.merchant.userId };
    expect(await findAssignableTransfer(lab.sql, asked)).toMatchObject({ txHash });
  }
});

test("payments that are not among those of the blocks keep the block they were accepted at", async () => {
  const [own, other, elsewhere, facilitated] = [
    await accepted(lab, linkId),
    await accepted(lab, await seedLink(lab.sql, lab.merchant)),
    await accepted(lab, await seedLink(lab.sql, lab.merchant)),
    await acceptFacilitated(lab),
  ];
  const all = [own, other, elsewhere, facilitated];
  await lab.sql`update payments set accepted_block = 95 where id = any(${all.map(({ id }) => id)}::text[])`;
  // deep enough by number, on another network
  await lab.sql`
    update payments set network = ${ELSEWHERE}, state = 'MINED', block_number = 3 where id = ${facilitated.id}`;
  const from = randomAddress();
  await bookTransfer(lab, { network: ELSEWHERE, status: "DETECTED", from });
  await lab.sql`update transfers set payment_id = ${elsewhere.id}, block_number = 3 where from_address = ${from}`;
  const blocks = { from: 90, authorizations: [own], depthNumber: 85 };
  await lab.sql.begin((tx) => lockPaymentsOfBlocks(tx, NETWORK, blocks));
  const blockOf = async ({ id }: { id: string }) => {
    const [row] = await lab.sql<
      { block: bigint }[]
    >`select accepted_block as block from payments where id = ${id}`;
    return Number(row?.block);
  };
  expect(await Promise.all(all.map(blockOf))).toEqual([90, 95, 95, 95]);
});

test("wallets whose past is still to be read are those of the network", async () => {
  const elsewhere = await seedMerchant(lab.sql, { network: ELSEWHERE });
  await lab.sql`
    update wallets set indexed_from = 90 where id in (${elsewhere.walletId}, ${lab.merchant.walletId})`;
  const found = await findWalletsToRead(lab.sql, NETWORK, 100);
  expect(found.map(({ id }) => id)).toEqual([lab.merchant.walletId]);
});
