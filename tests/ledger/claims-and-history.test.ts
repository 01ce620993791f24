/** Claims and rows of the history when a merchant's decision or a reorganisation changes what they wait for. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newTransactionId } from "../../core/domain/ids.ts";
import { matchClaimsOf, reopenClaims } from "../../db/ledger/assignments.ts";
import { loadClaims } from "../../db/ledger/attribution.ts";
import { endClaim } from "../../db/links/end-claims.ts";
import {
  type BooksLab,
  claim,
  makeTransfer,
  NETWORK,
  openBooks,
  read,
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

const historyRows = () =>
  lab.sql<{ id: string; type: string; status: string }[]>`
    select id, type, status from transactions where owner = owner_key(${lab.merchant.userId}) order by type, status`;
const stateOf = async (claimId: string) => {
  const [row] = await lab.sql<{ state: string }[]>`select state from claims where id = ${claimId}`;
  return row?.state;
};

describe("a row of the history whose block is reorganised away", () => {
  test("waits for the transfer of its claim again", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const transfer = makeTransfer(lab, 91);
    await claim(lab, linkId, transfer);
    const [opened] = await historyRows();
    await read(lab, [transfer]);
    expect(await historyRows()).toMatchObject([{ id: opened?.id, status: "CONFIRMED" }]);
    await undoAbove(lab, 90);
    expect([...(await historyRows())]).toEqual([
      { id: opened?.id ?? "", type: "PAYMENT_LINK", status: "PENDING" },
    ]);
  });

  test("waits for the transfer of its send again", async () => {
    await read(lab, [makeTransfer(lab, 91, { from: lab.merchant.address, to: makeTransfer(lab, 91).from })]);
    const id = newTransactionId();
    await lab.sql.begin(async (tx) => {
      // the send itself is not looked at
      await tx`set local session_replication_role = replica`;
      await tx`
        update transactions
        set id = ${id}, operation_item_id = 1
        where owner = owner_key(${lab.merchant.userId})`;
    });
    await undoAbove(lab, 90);
    expect([...(await historyRows())]).toEqual([{ id, type: "SEND", status: "PENDING" }]);
  });

  test("is orphaned when only its transfer had created it", async () => {
    await read(lab, [makeTransfer(lab, 91)]);
    await undoAbove(lab, 90);
    expect(await historyRows()).toMatchObject([{ status: "ORPHANED" }]);
  });
});

test("a claimed transfer between two merchants is in the history of both", async () => {
  const [payee, payer] = [lab.merchant, await seedMerchant(lab.sql)];
  const linkId = await seedLink(lab.sql, payee);
  const transfer = makeTransfer(lab, 91, { from: payer.address });
  await claim(lab, linkId, transfer);
  await read(lab, [transfer]);
  const rows = await lab.sql<{ userId: string; type: string }[]>`
    select user_of(owner) as user_id, type from transactions where tx_hash = ${transfer.txHash} order by type`;
  expect([...rows]).toEqual([
    { userId: payee.userId, type: "PAYMENT_LINK" },
    { userId: payer.userId, type: "SEND" },
  ]);
});

test("a claim made before its block counts as early unless another link's claim of the transaction may be valid", async () => {
  const [linkId, other] = [await seedLink(lab.sql, lab.merchant), await seedLink(lab.sql, lab.merchant)];
  const { block, ...transfer } = makeTransfer(lab, 91);
  const claimId = await claim(lab, linkId, transfer);
  const isEarly = async () => {
    const attributable = { ...transfer, blockNumber: block.number, blockTimeMs: block.timeS * 1_000 };
    const claims = await lab.sql.begin((tx) => loadClaims(tx, NETWORK, [attributable]));
    return claims.find(({ id }) => id === claimId)?.isEarly;
  };
  expect(await isEarly()).toBe(true);
  const rival = await claim(lab, other, transfer);
  await lab.sql`update claims set state = 'OPEN' where id = ${claimId}`;
  for (const [state, expected] of [
    ["OPEN", false],
    ["DISPUTED", false],
    ["REJECTED", true],
  ] as const) {
    await lab.sql`update claims set state = ${state} where id = ${rival}`;
    expect([state, await isEarly()]).toEqual([state, expected]);
  }
});

describe("the claims of a link to which its merchant assigns their transaction", () => {
  test.each(["OPEN", "HINT", "DISPUTED", "EXPIRED"])("are matched when they are %s", async (state) => {
    const [linkId, other] = [await seedLink(lab.sql, lab.merchant), await seedLink(lab.sql, lab.merchant)];
    const { txHash, from } = makeTransfer(lab, 91);
    const claimId = await claim(lab, linkId, { txHash, from });
    const otherTransaction = await claim(lab, linkId, { ...makeTransfer(lab, 91), from });
    const otherLink = await claim(lab, other, { txHash, from });
    const otherSender = await claim(lab, linkId, { txHash, from: randomAddress() });
    const others = [otherTransaction, otherLink, otherSender];
    await lab.sql`update claims set state = ${state} where id = any(${[claimId, ...others]}::text[])`;
    await lab.sql.begin((tx) => matchClaimsOf(tx, { linkId, txHash, sender: from }));
    expect(await stateOf(claimId)).toBe("MATCHED");
    // no rebuild would match the claim of another sender again
    expect(await Promise.all(others.map(stateOf))).toEqual([state, state, state]);
  });

  test("stay rejected when the chain has disproved them", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const { txHash, from } = makeTransfer(lab, 91);
    const claimId = await claim(lab, linkId, { txHash, from });
    await lab.sql`update claims set state = 'REJECTED' where id = ${claimId}`;
    await lab.sql.begin((tx) => matchClaimsOf(tx, { linkId, txHash, sender: from }));
    expect(await stateOf(claimId)).toBe("REJECTED");
  });

  test("leave the row of an attempt that reverted", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const { txHash, from } = makeTransfer(lab, 91);
    const id = await claim(lab, linkId, { txHash, from });
    const reverted = { id, state: "EXPIRED", reason: "reverted", isProven: true } as const;
    await lab.sql.begin((tx) => endClaim(tx, reverted));
    await lab.sql.begin((tx) => matchClaimsOf(tx, { linkId, txHash, sender: from }));
    expect(await historyRows()).toMatchObject([{ status: "FAILED" }]);
  });

  test("leave no pending history row; those of other transactions stay", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const [mine, another] = [makeTransfer(lab, 91), makeTransfer(lab, 92)];
    await claim(lab, linkId, mine);
    const opened = (await historyRows()).map(({ id }) => id);
    await claim(lab, linkId, another);
    await lab.sql.begin((tx) => matchClaimsOf(tx, { linkId, txHash: mine.txHash, sender: mine.from }));
    const left = await historyRows();
    expect(left).toHaveLength(1);
    expect(opened).not.toContain(left[0]?.id ?? "");
  });
});

describe("the claims of a link from which its merchant detaches their transaction", () => {
  test.each([
    ["its own that was matched", "MATCHED", "own", "EXPIRED"],
    ["its own that is open", "OPEN", "own", "OPEN"],
    ["another link's that was disputed", "DISPUTED", "other", "OPEN"],
    ["another link's that was matched", "MATCHED", "other", "MATCHED"],
  ] as const)("%s", async (_which, before, of, after) => {
    const [linkId, other] = [await seedLink(lab.sql, lab.merchant), await seedLink(lab.sql, lab.merchant)];
    const { txHash, from } = makeTransfer(lab, 91);
    const claimId = await claim(lab, of === "own" ? linkId : other, { txHash, from });
    await lab.sql`update claims set state = ${before} where id = ${claimId}`;
    const reopened = await lab.sql.begin((tx) =>
      reopenClaims(tx, { linkId, txHash, network: NETWORK, leaseS: 90 }),
    );
    expect(await stateOf(claimId)).toBe(after);
    expect(reopened).toEqual(before === "DISPUTED" ? [claimId] : []);
  });

  test("another network's, or another transaction's, stays disputed", async () => {
    const [linkId, other] = [await seedLink(lab.sql, lab.merchant), await seedLink(lab.sql, lab.merchant)];
    const { txHash, from } = makeTransfer(lab, 91);
    const claimId = await claim(lab, other, { txHash, from });
    await lab.sql`update claims set state = 'DISPUTED' where id = ${claimId}`;
    const reopen = (given: Pick<Parameters<typeof reopenClaims>[1], "txHash" | "network">) =>
      lab.sql.begin((tx) => reopenClaims(tx, { linkId, leaseS: 90, ...given }));
    await reopen({ txHash, network: "base" });
    await reopen({ txHash: makeTransfer(lab, 91).txHash, network: NETWORK });
    expect(await stateOf(claimId)).toBe("DISPUTED");
  });
});
