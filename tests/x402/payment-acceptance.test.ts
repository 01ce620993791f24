/** What is decided about an authorization shown for a link: each rule just inside and just outside, and which rule comes first. */
import { describe, expect, test } from "bun:test";
import {
  type AcceptanceDecision,
  decideAcceptance,
  findObstacle,
  type PayableLink,
  type ShownPayment,
} from "../../core/domain/payment-acceptance.ts";
import { PAYMENT_GAS } from "../../core/domain/relay-budget.ts";

const NOW = new Date("2026-11-20T12:00:00.000Z");
const NOW_S = BigInt(NOW.getTime() / 1_000);
const seconds = (count: number) => new Date(NOW.getTime() + count * 1_000);
const LIMITS = { relayMinUnits: 1_000n, relayGasPerMerchantPerDay: undefined };
const address = (digit: string) => `0x${digit.repeat(40)}` as const;
const word = (digit: string) => `0x${digit.repeat(64)}` as const;
const PAYER = address("a");
const NONCE = word("b");
const HASH = word("c");

const LINK: PayableLink = {
  ...{ id: "link_1", network: "base-sepolia", recipient: address("1"), amountUnits: 5_000n, description: "" },
  ...{ status: "ACTIVE", expiresAt: seconds(60), chainTime: NOW },
  ...{ paymentId: null, payer: null, nonce: null, payerKind: null, signature: null, validAfter: null },
  ...{ validBefore: null, idempotencyKey: null },
  ...{ paidTxHash: null, paidLogIndex: null, paidFrom: null, paidNonce: null },
  ...{ taggedLinkId: null, acceptedBefore: null, isExecuted: false },
  ...{ relayGasUsed: 0n, relayGasOwnMaximum: null },
};
const SHOWN: ShownPayment = {
  authorization: {
    ...{ from: PAYER, to: LINK.recipient, value: LINK.amountUnits, nonce: NONCE },
    ...{ validAfter: 0n, validBefore: NOW_S + 60n },
  },
  network: "base-sepolia",
  idempotencyKey: undefined,
};
const STORED = { payerKind: "EOA", signature: "0x5a", validAfter: 0n, validBefore: NOW_S + 60n } as const;
/** The link while a live payment holds it. */
const HELD: Partial<PayableLink> = {
  ...{ status: "PENDING", paymentId: "pay_1", payer: PAYER, nonce: NONCE },
  ...STORED,
};
/** The link while a transfer that no live payment explains pays it. */
const TRANSFERRED: Partial<PayableLink> = {
  ...{ status: "PENDING", paidTxHash: HASH, paidLogIndex: 7, paidFrom: PAYER, paidNonce: NONCE },
};
const JOINED: AcceptanceDecision = {
  kind: "join",
  paymentId: "pay_1",
  stored: { ...STORED, recipient: LINK.recipient, amountUnits: LINK.amountUnits },
};
const ELSEWHERE: AcceptanceDecision = { kind: "paid-elsewhere", txHash: HASH, logIndex: 7 };
const ACCEPTED: AcceptanceDecision = { kind: "accept" };

type Changes = {
  link?: Partial<PayableLink>;
  shown?: Partial<ShownPayment>;
  authorization?: Partial<ShownPayment["authorization"]>;
  limits?: Partial<Parameters<typeof decideAcceptance>[2]["limits"]>;
};

function decideWith({ link, shown, authorization, limits }: Changes): AcceptanceDecision {
  return decideAcceptance(
    { ...LINK, ...link },
    { ...SHOWN, ...shown, authorization: { ...SHOWN.authorization, ...authorization } },
    { now: NOW, limits: { ...LIMITS, ...limits } },
  );
}

const cases: [title: string, changes: Changes, expected: AcceptanceDecision | string][] = [
  ["accepts an authorization that meets an open link's terms", {}, ACCEPTED],
  ["accepts it while claims alone hold the link", { link: { status: "PENDING" } }, ACCEPTED],

  ["refuses an ACTIVE link that is used up", { link: { isUsedUp: true } }, "LINK_ALREADY_PAID"],
  [
    "refuses a cancelled link that is used up as cancelled",
    { link: { isUsedUp: true, status: "CANCELLED" } },
    "LINK_NOT_PAYABLE",
  ],
  ["accepts a nonce that names this link", { link: { taggedLinkId: LINK.id } }, ACCEPTED],
  ["refuses a nonce that names another link", { link: { taggedLinkId: "link_2" } }, "NONCE_USED"],
  [
    "refuses a nonce that names another link, also when its payment holds this one",
    { link: { ...HELD, taggedLinkId: "link_2" } },
    "NONCE_USED",
  ],

  ["joins the payment with the same payer and nonce", { link: HELD }, JOINED],
  ["joins it after the link is paid", { link: { ...HELD, ...TRANSFERRED, status: "PAID" } }, JOINED],
  ["joins it after the link expired", { link: { ...HELD, expiresAt: NOW } }, JOINED],
  [
    "joins it although the window has ended since",
    { link: HELD, authorization: { validBefore: NOW_S - 1n } },
    JOINED,
  ],
  [
    "joins it when the idempotency key is its own",
    {
      link: { ...HELD, idempotencyKey: "key" },
      shown: { idempotencyKey: "key" },
    },
    JOINED,
  ],
  ["refuses its nonce with another amount", { link: HELD, authorization: { value: 4_999n } }, "NONCE_USED"],
  [
    "refuses its nonce to another recipient",
    { link: HELD, authorization: { to: address("2") } },
    "NONCE_USED",
  ],
  ["refuses its nonce on another network", { link: HELD, shown: { network: "base" } }, "NONCE_USED"],
  ["refuses its nonce on an unknown network", { link: HELD, shown: { network: undefined } }, "NONCE_USED"],
  [
    "refuses another payer beside it",
    { link: HELD, authorization: { from: address("d") } },
    "PAYMENT_IN_PROGRESS",
  ],
  [
    "refuses another nonce beside it",
    { link: HELD, authorization: { nonce: word("d") } },
    "PAYMENT_IN_PROGRESS",
  ],

  ["reports the transfer with the same payer and nonce", { link: TRANSFERRED }, ELSEWHERE],
  ["reports it after the link is paid", { link: { ...TRANSFERRED, status: "PAID" } }, ELSEWHERE],
  [
    "refuses its nonce with another amount than the link's",
    {
      link: TRANSFERRED,
      authorization: { value: 5_001n },
    },
    "NONCE_USED",
  ],
  [
    "refuses another payer beside a transfer that is about to pay",
    {
      link: TRANSFERRED,
      authorization: { from: address("d") },
    },
    "PAYMENT_IN_PROGRESS",
  ],
  [
    "refuses another payer beside a plain transfer",
    { link: { ...TRANSFERRED, paidNonce: null } },
    "PAYMENT_IN_PROGRESS",
  ],
  [
    "refuses another payer after the link is paid",
    {
      link: { ...TRANSFERRED, status: "PAID" },
      authorization: { from: address("d") },
    },
    "LINK_ALREADY_PAID",
  ],

  [
    "refuses another authorization under the live payment's idempotency key",
    {
      link: { ...HELD, idempotencyKey: "key" },
      shown: { idempotencyKey: "key" },
      authorization: { nonce: word("d") },
    },
    "IDEMPOTENCY_KEY_REUSED",
  ],
  [
    "says that a payment is in progress under another idempotency key",
    {
      link: { ...HELD, idempotencyKey: "key" },
      shown: { idempotencyKey: "other" },
      authorization: { nonce: word("d") },
    },
    "PAYMENT_IN_PROGRESS",
  ],
  [
    "says that a payment is in progress when neither has an idempotency key",
    {
      link: HELD,
      authorization: { nonce: word("d") },
    },
    "PAYMENT_IN_PROGRESS",
  ],

  ["accepts a second before expiry", { link: { expiresAt: seconds(1) } }, ACCEPTED],
  ["refuses at expiry", { link: { expiresAt: NOW } }, "LINK_NOT_PAYABLE"],
  [
    "refuses at expiry also while claims hold the link",
    {
      link: { status: "PENDING", expiresAt: NOW },
    },
    "LINK_NOT_PAYABLE",
  ],
  ["refuses an expired link", { link: { status: "EXPIRED", expiresAt: NOW } }, "LINK_NOT_PAYABLE"],
  ["refuses a cancelled link", { link: { status: "CANCELLED" } }, "LINK_NOT_PAYABLE"],

  ["accepts the least amount that is relayed", { limits: { relayMinUnits: 5_000n } }, ACCEPTED],
  ["refuses less than that", { limits: { relayMinUnits: 5_001n } }, "AMOUNT_TOO_SMALL_TO_RELAY"],
  [
    "accepts what just fits into the merchant's gas",
    {
      link: { relayGasUsed: 7n },
      limits: { relayGasPerMerchantPerDay: 7n + PAYMENT_GAS },
    },
    ACCEPTED,
  ],
  [
    "refuses what does not",
    {
      link: { relayGasUsed: 8n },
      limits: { relayGasPerMerchantPerDay: 7n + PAYMENT_GAS },
    },
    "RELAY_BUDGET_SPENT",
  ],
  [
    "lets the merchant's own limit go before the general one",
    {
      link: { relayGasUsed: 8n, relayGasOwnMaximum: 8n + PAYMENT_GAS },
      limits: { relayGasPerMerchantPerDay: 1n },
    },
    ACCEPTED,
  ],

  ["refuses another network", { shown: { network: "base" } }, "NETWORK_MISMATCH"],
  ["refuses an unknown network", { shown: { network: undefined } }, "NETWORK_MISMATCH"],
  ["refuses another recipient", { authorization: { to: address("2") } }, "RECIPIENT_MISMATCH"],
  ["refuses more than the amount", { authorization: { value: 5_001n } }, "AMOUNT_EXCEEDS_MAXIMUM"],
  ["refuses less than the amount", { authorization: { value: 4_999n } }, "AMOUNT_BELOW_REQUIRED"],
  ["accepts a window with six seconds left", { authorization: { validBefore: NOW_S + 6n } }, ACCEPTED],
  [
    "refuses a window with five seconds left",
    { authorization: { validBefore: NOW_S + 5n } },
    "EXPIRED_TRANSFER",
  ],
  [
    "counts what is left from a block that is ahead of our clock",
    {
      link: { chainTime: seconds(1) },
      authorization: { validBefore: NOW_S + 6n },
    },
    "EXPIRED_TRANSFER",
  ],
  [
    "counts it from our clock when the last block is older",
    {
      link: { chainTime: seconds(-60) },
      authorization: { validBefore: NOW_S + 5n },
    },
    "EXPIRED_TRANSFER",
  ],
  [
    "counts it from our clock while no block is known",
    {
      link: { chainTime: null },
      authorization: { validBefore: NOW_S + 6n },
    },
    ACCEPTED,
  ],
  ["accepts a window that began a second ago", { authorization: { validAfter: NOW_S - 1n } }, ACCEPTED],
  ["refuses a window that begins now", { authorization: { validAfter: NOW_S } }, "NOT_YET_VALID"],

  [
    "names the link's state before its relay limits",
    {
      link: { status: "CANCELLED" },
      limits: { relayMinUnits: 5_001n },
    },
    "LINK_NOT_PAYABLE",
  ],
  [
    "names the relay limits before the network",
    {
      shown: { network: "base" },
      limits: { relayMinUnits: 5_001n },
    },
    "AMOUNT_TOO_SMALL_TO_RELAY",
  ],
  [
    "names the network before the terms",
    {
      shown: { network: "base" },
      authorization: { to: address("2") },
    },
    "NETWORK_MISMATCH",
  ],
];

describe("decideAcceptance", () => {
  test.each(cases)("%s", (_title, changes, expected) => {
    const decision = decideWith(changes);
    if (typeof expected === "string") expect(decision).toMatchObject({ kind: "refuse", reason: expected });
    else expect(decision).toEqual(expected);
  });

  test.each(["payerKind", "signature", "validAfter", "validBefore"] as const)(
    "error: throws when the live payment was read without its %s",
    (column) => {
      expect(() => decideWith({ link: { ...HELD, [column]: null } })).toThrow("pay_1");
    },
  );

  test("distinguishes an expired link from a cancelled one by the message", () => {
    const messageOf = (link: Partial<PayableLink>) =>
      findObstacle({ ...LINK, ...link }, LIMITS, NOW)?.message;
    expect(messageOf({ expiresAt: NOW })).toBe("this link has expired");
    expect(messageOf({ status: "CANCELLED" })).toBe("this link was cancelled by its merchant");
  });
});
