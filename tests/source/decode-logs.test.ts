/** A block's logs: which are taken from a node's answer, and what they say about our wallets. */
import { describe, expect, test } from "bun:test";
import { encodeAbiParameters } from "viem";
import { ADD_OWNER_TOPIC, UPGRADED_TOPIC } from "../../core/chain/account-logs.ts";
import { topicOfAddress } from "../../core/chain/bloom.ts";
import {
  AUTHORIZATION_CANCELED_TOPIC,
  AUTHORIZATION_USED_TOPIC,
  TRANSFER_TOPIC,
} from "../../core/chain/usdc.ts";
import { USER_OPERATION_EVENT_TOPIC, USER_OPERATION_REVERT_TOPIC } from "../../core/chain/user-operation.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import {
  assertOfBlock,
  decodeBlock,
  hasLoneAuthorization,
  isOurs,
  type PlacedLog,
  parseLogs,
  selectFollowedLogs,
} from "../../indexer/source/decode-logs.ts";
import { makeBlock, randomHash } from "../support/ledger-lab.ts";
import { randomAddress } from "../support/seed.ts";

const USDC = NETWORKS["base-sepolia"].usdc.address;
const block = makeBlock(100);
const [ours, payer, other] = [randomAddress(), randomAddress(), randomAddress()];
const [txHash, otherTx] = [randomHash(), randomHash()];
const isWatched = (address: Hex) => address === ours;

const uint = (value: bigint): string => value.toString(16).padStart(64, "0");

function log(logIndex: number, change: Partial<PlacedLog>): PlacedLog {
  return {
    ...{ address: USDC, blockHash: block.hash, blockNumber: block.number, txHash, logIndex },
    ...{ topics: [], data: "0x", ...change },
  };
}

function transfer(logIndex: number, given: { from?: Hex; to?: Hex; units?: bigint; txHash?: Hex } = {}) {
  const { from = payer, to = ours, units = 1n, txHash: hash = txHash } = given;
  const topics = [TRANSFER_TOPIC, topicOfAddress(from), topicOfAddress(to)];
  return log(logIndex, { topics, data: `0x${uint(units)}`, txHash: hash });
}

function authorization(logIndex: number, nonce: Hex, topic: string = AUTHORIZATION_USED_TOPIC): PlacedLog {
  return log(logIndex, { topics: [topic, topicOfAddress(payer), nonce] });
}

function operation(
  logIndex: number,
  given: { sender?: Hex; hash?: Hex; txHash?: Hex; isGood?: boolean } = {},
) {
  const { sender = ours, hash = randomHash(), txHash: tx = txHash, isGood = true } = given;
  const topics = [USER_OPERATION_EVENT_TOPIC, hash, topicOfAddress(sender), uint(0n)];
  const data = `0x${[7n, isGood ? 1n : 0n, 0n, 50_000n].map(uint).join("")}`;
  return log(logIndex, { address: CONTRACTS.entryPointV06, topics, data, txHash: tx });
}

const decode = (...logs: PlacedLog[]) => decodeBlock(block, logs, isWatched);

describe("a node's answer", () => {
  const [one, two] = [transfer(0), transfer(1)];
  const answered = ({ blockNumber, txHash: transactionHash, logIndex, ...rest }: PlacedLog) => ({
    ...rest,
    ...{
      transactionHash,
      blockNumber: `0x${blockNumber.toString(16)}`,
      logIndex: `0x${logIndex.toString(16)}`,
    },
  });
  const wire = answered(one);

  test("is read log by log, each position once", () => {
    const elsewhere = { ...one, blockHash: randomHash() };
    expect(parseLogs([one, two, one, elsewhere].map(answered))).toEqual([one, two, elsewhere]);
    expect(parseLogs([])).toEqual([]);
    expect(parseLogs([{ ...wire, removed: false }])).toEqual([one]);
  });

  test.each([
    ["is no list", { logs: [] }],
    ["is null", null],
    ["has a log that was removed", [{ ...wire, removed: true }]],
    ["has two hashes for one place", [wire, { ...wire, transactionHash: otherTx }]],
    ["has two amounts for one place", [wire, { ...wire, data: `0x${uint(2n)}` }]],
    ["has nothing for a log", [undefined]],
    ...Object.keys(wire).map((field) => [`lacks ${field}`, [{ ...wire, [field]: undefined }]] as const),
  ])("that %s is refused", (_why, answer) => {
    expect(() => parseLogs(answer)).toThrow(RpcTransportError);
  });

  test("must belong to the requested block", () => {
    expect(() => assertOfBlock([one, two], block)).not.toThrow();
    expect(() => assertOfBlock([one, { ...two, blockHash: randomHash() }], block)).toThrow(
      "was returned for",
    );
    expect(() => assertOfBlock([{ ...one, blockNumber: 101 }], block)).toThrow("was returned for");
  });

  test("is reduced to the token's, the EntryPoint's and accounts' logs, in the block's order", () => {
    const upper = { ...transfer(5), address: `0x${USDC.slice(2).toUpperCase()}` };
    const upgraded = log(2, { address: other, topics: [UPGRADED_TOPIC, topicOfAddress(other)] });
    const ran = operation(3);
    const foreign = [
      { ...transfer(1), address: other },
      { ...operation(4), address: other },
      { ...operation(6), address: USDC },
      log(7, { topics: [randomHash()] }),
    ];
    expect(selectFollowedLogs([upper, ...foreign, ran, upgraded, one], USDC)).toEqual([
      ...[one, upgraded, ran, upper],
    ]);
  });
});

describe("transfers", () => {
  test("count if they are to or from one of our wallets, and move something", () => {
    const { transfers } = decode(
      transfer(0),
      transfer(1, { from: ours, to: other }),
      transfer(2, { to: other }),
      transfer(3, { units: 0n }),
    );
    expect(transfers.map(({ logIndex }) => logIndex)).toEqual([0, 1]);
    expect(transfers[0]).toEqual({
      ...{ block, txHash, logIndex: 0, from: payer, to: ours, amountUnits: 1n },
      authorizationNonce: undefined,
    });
  });

  test("of another shape than the token's are not counted", () => {
    expect(() => decode({ ...transfer(0), data: "0x" })).toThrow("is not USDC's Transfer");
  });

  test("execute the authorization of the log before them, no matter who is paid", () => {
    const [nonce, elsewhere] = [randomHash(), randomHash()];
    const content = decode(
      authorization(0, nonce),
      transfer(1),
      transfer(2),
      authorization(3, elsewhere),
      transfer(4, { to: other, units: 5n }),
    );
    expect(content.transfers.map(({ authorizationNonce }) => authorizationNonce)).toEqual([nonce, undefined]);
    const place = { txHash, blockNumber: block.number, blockTimeS: block.timeS };
    expect(content.spent).toEqual([
      {
        payer,
        nonce,
        blockNumber: block.number,
        transfer: { ...place, logIndex: 1, to: ours, amountUnits: 1n },
      },
      {
        payer,
        nonce: elsewhere,
        blockNumber: block.number,
        transfer: { ...place, logIndex: 4, to: other, amountUnits: 5n },
      },
    ]);
  });

  test.each([
    ["of another sender", transfer(1, { from: other })],
    ["two logs later", transfer(2)],
    ["of another transaction", transfer(1, { txHash: otherTx })],
  ])("%s do not execute it", (_which, behind) => {
    const nonce = randomHash();
    const { transfers, spent } = decode(authorization(0, nonce), behind);
    expect(transfers.map(({ authorizationNonce }) => authorizationNonce)).toEqual([undefined]);
    expect(spent).toEqual([{ payer, nonce, blockNumber: block.number }]);
  });

  test("after a cancelled authorization do not execute it, nor one used before that", () => {
    const [used, cancelled] = [randomHash(), randomHash()];
    const { transfers, spent } = decode(
      authorization(0, used),
      authorization(1, cancelled, AUTHORIZATION_CANCELED_TOPIC),
      transfer(2),
    );
    expect(transfers.map(({ authorizationNonce }) => authorizationNonce)).toEqual([undefined]);
    expect(spent).toEqual([
      { payer, nonce: used, blockNumber: block.number },
      { payer, nonce: cancelled, blockNumber: block.number },
    ]);
  });
});

describe("an authorization", () => {
  const used = authorization(0, randomHash());
  test.each([
    ["its transfer behind it is not lone", [used, transfer(1)], false],
    ["no log behind it is lone", [used], true],
    ["a log of another transaction behind it is lone", [used, transfer(1, { txHash: otherTx })], true],
    ["a log left out behind it is lone", [used, transfer(2)], true],
    ["another authorization behind it is lone", [used, authorization(1, randomHash())], true],
  ] as const)("with %s", (_what, logs, isLone) => {
    expect(hasLoneAuthorization(logs)).toBe(isLone);
  });

  test("that was cancelled is not lone, nor are logs without one", () => {
    expect(hasLoneAuthorization([authorization(0, randomHash(), AUTHORIZATION_CANCELED_TOPIC)])).toBe(false);
    expect(hasLoneAuthorization([transfer(0)])).toBe(false);
    expect(hasLoneAuthorization([])).toBe(false);
  });
});

describe("user operations", () => {
  test("are those of our wallets, each with the event before it in its transaction", () => {
    const logs = [
      operation(1, { sender: other }),
      operation(4),
      operation(6, { txHash: otherTx }),
      operation(9, { txHash: otherTx }),
    ];
    const { operations } = decode(...logs);
    expect(operations.map(({ logIndex, previousLogIndex }) => [logIndex, previousLogIndex])).toEqual([
      [4, 1],
      [6, -1],
      [9, 6],
    ]);
    expect(operations[0]).toMatchObject({ sender: ours, nonce: 7n, succeeded: true, gasUsed: 50_000n });
  });

  test("that failed have the revert data of their calls, by their own hash", () => {
    const [failed, sound] = [randomHash(), randomHash()];
    const reason = encodeAbiParameters([{ type: "uint256" }, { type: "bytes" }], [7n, "0xdead"]);
    const revert = log(0, {
      ...{ address: CONTRACTS.entryPointV06, data: reason },
      topics: [USER_OPERATION_REVERT_TOPIC, failed, topicOfAddress(ours)],
    });
    const { operations } = decode(
      revert,
      operation(1, { hash: failed, isGood: false }),
      operation(2, { hash: sound }),
    );
    expect(
      operations.map(({ succeeded, revertData, previousLogIndex }) => [
        succeeded,
        revertData,
        previousLogIndex,
      ]),
    ).toEqual([
      [false, "0xdead", -1],
      [true, undefined, 1],
    ]);
  });
});

describe("a block", () => {
  const owner: Hex = `0x${"00".repeat(12)}${other.slice(2)}`;
  const added = (address: Hex) =>
    log(0, {
      ...{
        address: address.toUpperCase().replace("0X", "0x"),
        data: encodeAbiParameters([{ type: "bytes" }], [owner]),
      },
      topics: [ADD_OWNER_TOPIC, `0x${uint(3n)}`],
    });

  test("has owner changes that our wallets wrote themselves", () => {
    expect(decode(added(ours)).accountLogs).toEqual([
      { type: "OWNER_ADDED", ownerIndex: 3n, subject: owner, txHash, logIndex: 0, walletAddress: ours },
    ]);
    expect(decode(added(other)).accountLogs).toEqual([]);
  });

  test("concerns us by a transfer, an operation or an owner change, and by nothing else", () => {
    expect([transfer(0), operation(0), added(ours)].map((one) => isOurs(decode(one)))).toEqual([
      true,
      true,
      true,
    ]);
    const foreign = [transfer(0, { to: other }), operation(1, { sender: other }), added(other)];
    expect(isOurs(decode(...foreign, authorization(3, randomHash())))).toBe(false);
    expect(decode(...foreign).logCount).toBe(3);
  });
});
