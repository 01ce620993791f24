/** Which money of a link goes back, how much, and to whom. */
import { describe, expect, test } from "bun:test";
import type { LinkException } from "../../core/domain/link.ts";
import type { Hex } from "../../core/domain/networks.ts";
import {
  chooseRefund,
  leftToRefund,
  type RefundableTransfer,
  type RefundRequest,
  refundableUnits,
} from "../../core/domain/refund.ts";

const PRICE = 5_000_000n;
const GIVEN: Hex = `0x${"ab".repeat(20)}`;

/** Of its own sender, with nothing taken yet. */
function transfer(change: Partial<RefundableTransfer> = {}): RefundableTransfer {
  const amountUnits = change.amountUnits ?? PRICE;
  const digit = change.transactionId?.at(-1) ?? "1";
  return {
    ...{ txHash: `0x${digit.repeat(64)}`, logIndex: 0, sender: `0x${digit.repeat(40)}`, amountUnits },
    ...{ pays: true, isAuthorization: false, transactionId: "txn_1", leftUnits: amountUnits },
    ...change,
  };
}

const first = transfer();
const second = transfer({ transactionId: "txn_2", pays: false });
const third = transfer({ transactionId: "txn_3", pays: false });

function choose(
  transfers: readonly RefundableTransfer[],
  request: Partial<RefundRequest> = {},
  exception: LinkException = "NONE",
) {
  const asked = { transactionId: undefined, toAddress: undefined, amountUnits: undefined, ...request };
  return chooseRefund({ amountUnits: PRICE, exception }, transfers, asked);
}

/** Id of the transfer that is refunded, or why none is. */
function chosen(...given: Parameters<typeof choose>): string | null {
  const choice = choose(...given);
  return choice.ok ? choice.transfer.transactionId : choice.issue;
}

describe("choosing the transfer to refund", () => {
  test("takes the named one, if anything of it is left", () => {
    expect(chosen([first, second], { transactionId: "txn_2" })).toBe("txn_2");
    expect(chosen([first, second], { transactionId: "txn_3" })).toBe("unknown_transaction");
    const spent = { ...second, leftUnits: 0n };
    expect(chosen([first, spent], { transactionId: "txn_2" })).toBe("nothing_to_refund");
    expect(chosen([first, { ...second, leftUnits: 1n }], { transactionId: "txn_2" })).toBe("txn_2");
  });

  test("takes the only one with something left", () => {
    expect(chosen([first])).toBe("txn_1");
    expect(chosen([])).toBe("nothing_to_refund");
    expect(chosen([{ ...first, leftUnits: 0n }])).toBe("nothing_to_refund");
    expect(
      chosen([
        { ...first, leftUnits: 0n },
        { ...second, leftUnits: 1n },
      ]),
    ).toBe("txn_2");
  });

  test("takes the one that does not pay, if the link is paid twice", () => {
    expect(chosen([first, second], {}, "DUPLICATE")).toBe("txn_2");
    expect(chosen([second, first], {}, "DUPLICATE")).toBe("txn_2");
  });

  test("is ambiguous between two transfers if the link was not paid twice", () => {
    expect(chosen([first, second], {}, "OVERPAID")).toBe("payer_ambiguous");
  });

  test("is ambiguous between two that do not pay, if the link is paid twice", () => {
    expect(chosen([first, second, third], {}, "DUPLICATE")).toBe("payer_ambiguous");
    expect(chosen([first, transfer({ transactionId: "txn_4" })], {}, "DUPLICATE")).toBe("payer_ambiguous");
  });

  test("takes with an address the first that covers the amount, else the first", () => {
    const [small, large] = [
      { ...first, leftUnits: 2n },
      { ...second, leftUnits: 3n },
    ];
    const ask = (amountUnits: bigint | undefined) =>
      choose([small, large], { toAddress: GIVEN, amountUnits }, "OVERPAID");
    expect(ask(2n)).toMatchObject({ ok: true, transfer: small, amountUnits: 2n });
    expect(ask(3n)).toMatchObject({ ok: true, transfer: large, amountUnits: 3n });
    expect(ask(4n)).toEqual({ ok: false, issue: "exceeds_refundable", refundableUnits: 2n });
    expect(ask(undefined)).toMatchObject({ ok: true, transfer: small, amountUnits: 2n });
  });
});

describe("choosing the amount to refund", () => {
  test("takes by default what is left, and never more", () => {
    const left = { ...first, leftUnits: PRICE - 1n };
    expect(choose([left])).toMatchObject({ ok: true, amountUnits: PRICE - 1n });
    expect(choose([left], { amountUnits: PRICE - 1n })).toMatchObject({ ok: true, amountUnits: PRICE - 1n });
    expect(choose([left], { amountUnits: PRICE })).toEqual({
      ...{ ok: false, issue: "exceeds_refundable", refundableUnits: PRICE - 1n },
    });
  });

  test("takes by default the surplus of an overpaid link", () => {
    const over = transfer({ amountUnits: PRICE + 3n });
    expect(choose([over], {}, "OVERPAID")).toMatchObject({ ok: true, amountUnits: 3n });
    expect(choose([over], {}, "DUPLICATE")).toMatchObject({ ok: true, amountUnits: PRICE + 3n });
    // what was too much has gone back already
    const rest = { ...over, leftUnits: PRICE };
    expect(choose([rest], {}, "OVERPAID")).toMatchObject({ ok: true, amountUnits: PRICE });
  });
});

test("a refund goes to the given address, else to the signer or the sender", () => {
  expect(choose([first])).toMatchObject({ to: first.sender, toSource: "transfer_sender" });
  const signed = { ...first, isAuthorization: true };
  expect(choose([signed])).toMatchObject({ to: first.sender, toSource: "x402_payer" });
  expect(choose([signed], { toAddress: GIVEN })).toMatchObject({ to: GIVEN, toSource: "given" });
});

test("the refundable amount of a link is the sum of what is left", () => {
  expect(refundableUnits([first, { ...second, leftUnits: 0n }, { ...third, leftUnits: 1n }])).toBe(
    PRICE + 1n,
  );
  // a reorganisation left less than was taken: it takes nothing from another payer's
  expect(refundableUnits([first, { ...second, leftUnits: -4n }])).toBe(PRICE);
});

test.each([
  ["all of a transfer without refunds", [10n, 0n, 10n, 0n], 10n],
  ["the rest of a partly refunded transfer, whatever another payer paid,", [10n, 4n, 30n, 4n], 6n],
  ["what the link's refunds leave of a transfer moved by a reorganisation", [10n, 0n, 10n, 7n], 3n],
  ["a negative amount if a refunded transfer is no longer on the chain", [10n, 0n, 10n, 12n], -2n],
] as const)(
  "%s may be refunded",
  (_, [transferUnits, transferRefundedUnits, linkUnits, linkRefundedUnits], left) => {
    expect(leftToRefund({ transferUnits, transferRefundedUnits, linkUnits, linkRefundedUnits })).toBe(left);
  },
);
