import { expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import type { ChainTransfer } from "../support/invariants.ts";
import {
  judgeLink,
  judgeOperation,
  judgeSummary,
  readLinkMoney,
  type ShownLink,
  type SummaryRow,
} from "./judge-money.ts";
import type { Link } from "./stage.ts";

const addressOf = (digit: string): Hex => `0x${digit.repeat(40)}`;
const [WALLET, PAYER, SECOND, CUSTOMER] = ["a", "b", "c", "d"].map(addressOf) as [Hex, Hex, Hex, Hex];
const LINK: Link = {
  ...{ id: "link_1", network: "base", merchantId: "user_1", wallet: WALLET, tag: `0x${"1".repeat(32)}` },
  ...{ amountUnits: 1_000_000n, payAmountUnits: 1_000_007n, way: "two authorizations", madeAtMs: 0 },
  ...{ authorizers: [PAYER, SECOND], senders: [], isToldPaid: false },
};
const PAID: ShownLink = { status: "PAID", exception: "NONE", refundedAmount: 0 };
const ACTIVE: ShownLink = { ...PAID, status: "ACTIVE" };

function moved(from: Hex, to: Hex, amountUnits: bigint): ChainTransfer {
  return {
    ...{ blockNumber: 1, blockHash: "0x1", blockTimeS: 1, txHash: "0x2", logIndex: 0 },
    ...{ from, to, amountUnits },
  };
}

const faultsOf = (broken: readonly string[]) => broken.map((text) => text.slice(text.lastIndexOf(": ") + 2));

function judgeIn(shown: ShownLink, transfers: readonly ChainTransfer[], link: Link = LINK): string[] {
  return faultsOf(judgeLink(link, shown, readLinkMoney(link, transfers, [{ to: CUSTOMER }])));
}

test("a link is judged by its transfers", () => {
  const payment = moved(PAYER, WALLET, 1_000_000n);
  expect(judgeIn(PAID, [payment])).toEqual([]);
  expect(judgeIn(ACTIVE, [])).toEqual([]);
  expect(judgeIn(PAID, [])).toEqual(["the chain says otherwise"]);
  expect(judgeIn(PAID, [moved(PAYER, WALLET, 999_999n)])).toEqual(["the chain says otherwise"]);
  expect(judgeIn(PAID, [moved(CUSTOMER, WALLET, 1_000_000n)])).toEqual(["the chain says otherwise"]);
  expect(judgeIn(ACTIVE, [payment])).toEqual(["the chain says otherwise"]);
  expect(judgeIn({ ...PAID, status: "PENDING" }, [])).toEqual(["nothing holds it any more"]);
  expect(judgeIn(ACTIVE, [], { ...LINK, isToldPaid: true })).toEqual([
    "its payer was answered that it is paid",
  ]);
});

test("a link is cancelled only by its merchant, and not once its payment is on the chain", () => {
  const cancelled: ShownLink = { ...PAID, status: "CANCELLED" };
  const way: Link = { ...LINK, way: "authorization and cancellation" };
  expect(judgeIn(cancelled, [])).toEqual(["nothing holds it any more"]);
  expect(judgeIn(cancelled, [], way)).toEqual([]);
  expect(judgeIn(cancelled, [moved(PAYER, WALLET, 1_000_000n)], way)).toEqual(["the chain says otherwise"]);
});

test("a second charge is a violation, a second transfer only if its payer could have known of the first", () => {
  const both = [moved(PAYER, WALLET, 1_000_000n), moved(SECOND, WALLET, 1_000_000n)];
  const charged = ["it was charged twice", "more transfers than it had independent payers"];
  expect(judgeIn(PAID, both)).toEqual(charged);
  const mixed: Link = {
    ...LINK,
    ...{ way: "authorization and transfer", authorizers: [PAYER], senders: [SECOND] },
  };
  expect(judgeIn(PAID, both, mixed)).toEqual([]);
});

test("refunds never exceed what was received, and are shown correctly", () => {
  const payment = moved(PAYER, WALLET, 1_000_000n);
  const refund = moved(WALLET, CUSTOMER, 600_000n);
  expect(judgeIn({ ...PAID, refundedAmount: 0.6 }, [payment, refund])).toEqual([]);
  expect(judgeIn(PAID, [payment, refund])).toEqual(["it shows 0 as refunded instead of 0.600000"]);
  expect(judgeIn({ ...PAID, refundedAmount: 1.2 }, [payment, refund, refund])).toEqual([
    "1200000 were refunded of 1000000",
  ]);
});

test("an operation moves its amount once if it is CONFIRMED, and nothing otherwise", () => {
  const operation = {
    ...({ id: "send_1", kind: "SEND", network: "base", to: CUSTOMER, units: 5n } as const),
    ...{ linkId: undefined, isConfirmed: true },
  };
  const judge = (status: string, ...amounts: bigint[]) =>
    faultsOf(
      judgeOperation(
        operation,
        WALLET,
        { status },
        amounts.map((units) => moved(WALLET, CUSTOMER, units)),
      ),
    );
  expect(judge("CONFIRMED", 5n)).toEqual([]);
  expect(judge("FAILED")).toEqual([]);
  expect(judge("CONFIRMED")).toEqual(["it moved nothing"]);
  expect(judge("CONFIRMED", 5n, 5n)).toEqual(["it moved 5 and 5"]);
  expect(judge("CONFIRMED", 4n)).toEqual(["it moved 4"]);
  expect(judge("FAILED", 5n)).toEqual(["it moved 5"]);
  expect(judge("QUEUED")).toEqual(["it has not ended"]);
});

test("a summary has the totals and the counts of the chain", () => {
  const transfers = [
    moved(PAYER, WALLET, 1_000_000n),
    moved(SECOND, WALLET, 500_000n),
    moved(WALLET, CUSTOMER, 1n),
  ];
  const rows: SummaryRow[] = [
    { type: "RECEIVE", status: "CONFIRMED", amount: "1.500000", count: 2 },
    { type: "SEND", status: "CONFIRMED", amount: "0.000001", count: 1 },
    { type: "SEND", status: "FAILED", amount: "7.000000", count: 3 },
  ];
  const judge = (given: readonly SummaryRow[]) => faultsOf(judgeSummary("user_1", WALLET, given, transfers));
  expect(judge(rows)).toEqual([]);
  expect(judge(rows.slice(0, 1))).toEqual(["0 sent of 0, the chain has 1 of 1"]);
  expect(judge(rows.slice(1))).toEqual(["0 received of 0, the chain has 2 of 1500000"]);
  expect(judge([...rows, { type: "SEND", status: "PENDING", amount: "0.000000", count: 0 }])).toEqual([
    "0 of SEND are still PENDING",
  ]);
});
