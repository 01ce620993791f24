/** Whom a wallet's operation may pay, which transfers are its own, and which owner may be removed. */
import { describe, expect, test } from "bun:test";
import { canRemoveOwner } from "../../core/domain/last-owner.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { additionsInOrder, ownerIdOf, withAdded } from "../../core/domain/owner.ts";
import { parseRecipient, resembles } from "../../core/domain/recipient.ts";
import {
  isStillPossible,
  OPERATION_STATES,
  operationTag,
  pairTransfers,
} from "../../core/domain/wallet-operation.ts";

const WALLET: Hex = `0x${"a1".repeat(20)}`;
/** The first example of EIP-55. */
const CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const SEND_FROM = { network: "base", wallet: WALLET } as const;

describe("a recipient", () => {
  const lower = CHECKSUMMED.toLowerCase() as Hex;
  const upper = `0x${CHECKSUMMED.slice(2).toUpperCase()}`;

  test.each([CHECKSUMMED, lower, upper])("%s is accepted in lower case", (text) => {
    expect(parseRecipient(text, SEND_FROM)).toEqual({ ok: true, address: lower });
  });

  test.each([
    [CHECKSUMMED.replace("aA", "Aa"), "bad_checksum"],
    [`0xa${"B".repeat(39)}`, "bad_checksum"],
    [CHECKSUMMED.slice(0, -1), "invalid"],
    [`${CHECKSUMMED}0`, "invalid"],
    [CHECKSUMMED.slice(2), "invalid"],
    [`0x${"0".repeat(40)}`, "zero_address"],
    [NETWORKS.base.usdc.address, "token_contract"],
    [CONTRACTS.entryPointV06, "not_a_recipient"],
    [WALLET, "own_wallet"],
  ] as const)("%s is refused: %s", (text, issue) => {
    expect(parseRecipient(text, SEND_FROM)).toEqual({ ok: false, issue });
  });

  test("resembles another by its first and last four digits, but not itself", () => {
    const [start, end] = ["0x1234", "abcd"];
    const of = (head: string, fill: string, tail: string): Hex => `${head}${fill.repeat(32)}${tail}` as Hex;
    const known = of(start, "0", end);
    expect(resembles(of(start, "f", end), known)).toBe(true);
    expect(resembles(known, known)).toBe(false);
    expect(resembles(of("0x1235", "f", end), known)).toBe(false);
    expect(resembles(of(start, "f", "abce"), known)).toBe(false);
  });
});

describe("the transfers of an operation", () => {
  const [alice, bob]: [Hex, Hex] = [`0x${"0a".repeat(20)}`, `0x${"0b".repeat(20)}`];
  const logs = (...transfers: readonly (readonly [Hex, bigint])[]) =>
    transfers.map(([to, amountUnits], logIndex) => ({ to, amountUnits, logIndex }));
  /** Log index of each item; null without one. */
  const pair = (items: ReturnType<typeof logs>, transfers: ReturnType<typeof logs>) => {
    const pairs = pairTransfers(items, transfers);
    return items.map((item) => pairs.get(item)?.logIndex ?? null);
  };

  test("are its items' in order, each log once", () => {
    const two = logs([alice, 1n], [alice, 1n]);
    expect(pair(two, logs([alice, 1n], [alice, 1n]))).toEqual([0, 1]);
    expect(pair(two, logs([alice, 1n]))).toEqual([0, null]);
  });

  test("are only those of the same address and amount", () => {
    expect(pair(logs([alice, 1n]), logs([bob, 1n], [alice, 2n], [alice, 1n]))).toEqual([2]);
    expect(pair(logs([alice, 1n]), logs([bob, 1n], [alice, 2n]))).toEqual([null]);
  });

  test("never precede that of an earlier item, and an item without one blocks none", () => {
    expect(pair(logs([alice, 1n], [bob, 2n]), logs([bob, 2n], [alice, 1n]))).toEqual([1, null]);
    expect(pair(logs([alice, 9n], [bob, 2n]), logs([bob, 2n], [alice, 1n]))).toEqual([null, 0]);
    const three = logs([alice, 1n], [alice, 9n], [alice, 1n]);
    expect(pair(three, logs([alice, 1n]))).toEqual([0, null, null]);
  });
});

test("an operation's tag is the 16 random bytes of its id", () => {
  const bytes = "0123456789abcdef".repeat(2);
  expect(operationTag(`snd_ffffffffffff${bytes}`)).toBe(`0x${bytes}`);
});

test.each(OPERATION_STATES)(
  "an operation that is %s may still be executed only if it has ended and its nonce is free",
  (state) => {
    const hasEnded = ["EXPIRED", "CANCELLED", "FAILED"].includes(state);
    expect(isStillPossible({ state, isNonceSpent: false })).toBe(hasEnded);
    expect(isStillPossible({ state, isNonceSpent: true })).toBe(false);
  },
);

describe("an owner", () => {
  const passkey = (digit: string): Hex => `0x${digit.repeat(128)}`;
  const address: Hex = `0x${"0".repeat(24)}${"ad".repeat(20)}`;
  const [mine, phone, members, unknown] = [passkey("1"), passkey("2"), passkey("3"), passkey("4")];
  const known = { own: new Set([mine, phone]), members: new Set([members]) };
  const isRemovable = (removed: Hex, ...slots: (Hex | undefined)[]) =>
    canRemoveOwner(slots, { removed, ...known });

  test("of the account is removable while another of the account remains", () => {
    expect(isRemovable(mine, mine, phone)).toBe(true);
    expect(isRemovable(mine, mine, address)).toBe(true);
    expect(isRemovable(address, address, mine)).toBe(true);
    expect(isRemovable(mine, mine)).toBe(false);
    expect(isRemovable(address, address)).toBe(false);
  });

  test("of the account is not removable if only a member's, or one with an unknown key, remains", () => {
    expect(isRemovable(mine, mine, members)).toBe(false);
    expect(isRemovable(address, address, members)).toBe(false);
    expect(isRemovable(mine, mine, unknown)).toBe(false);
    expect(isRemovable(mine, undefined, mine, undefined)).toBe(false);
  });

  test("of a member is removable while any usable one remains", () => {
    expect(isRemovable(members, members, mine)).toBe(true);
    expect(isRemovable(members, members)).toBe(false);
    expect(isRemovable(members, members, unknown)).toBe(false);
    expect(isRemovable(unknown, unknown, members)).toBe(true);
  });

  test("is identified by 32 digits of its digest, however it is written", () => {
    const upper = address.toUpperCase().replace("0X", "0x") as Hex;
    expect(ownerIdOf(upper)).toBe(ownerIdOf(address));
    expect(ownerIdOf(address)).toMatch(/^owner_[0-9a-f]{32}$/);
  });

  test("that is added gets the next index, once", () => {
    expect(withAdded([mine, undefined], [phone, mine, phone])).toEqual([mine, undefined, phone]);
  });

  test("that is added comes in the order of nonces, up to the first missing one", () => {
    const at = (...nonces: bigint[]) => nonces.map((nonce) => ({ nonce }));
    expect(additionsInOrder([], 5n)).toEqual({ inOrder: [], missingNonce: undefined });
    expect(additionsInOrder(at(5n, 6n), 5n)).toEqual({ inOrder: at(5n, 6n), missingNonce: undefined });
    expect(additionsInOrder(at(6n, 7n), 5n)).toEqual({ inOrder: [], missingNonce: 5n });
    expect(additionsInOrder(at(5n, 7n, 9n), 5n)).toEqual({ inOrder: at(5n), missingNonce: 6n });
    expect(additionsInOrder(at(5n, 5n, 6n), 5n)).toEqual({ inOrder: at(5n, 6n), missingNonce: undefined });
  });
});
