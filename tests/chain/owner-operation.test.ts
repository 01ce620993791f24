/** Owner changes that one signature makes valid on both networks, on two chains with Circle's token and the account. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { encodeFunctionData, type Hex, parseAbi } from "viem";
import { entryPoint06Abi } from "viem/account-abstraction";
import { buildAnyChainOperation, buildOwnerOperation } from "../../core/chain/owner-operation.ts";
import {
  encodeAddOwner,
  encodeAnyChainCalls,
  encodeRemoveOwner,
  toOwner,
} from "../../core/chain/passkey-account.ts";
import { decodeUserOperationLog, type UserOperation } from "../../core/chain/user-operation.ts";
import { anyChainHash, userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { CONTRACTS } from "../../core/domain/networks.ts";
import { createSoftwarePasskey, type SoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import { buildUserOperationCall, findOwnerIndex } from "../support/account-on-chain.ts";
import {
  payShop,
  RELAYER,
  SITE,
  sign,
  startWalletWorld,
  type Wallet,
  type WalletWorld,
} from "../support/passkey-wallets.ts";

const TAG: Hex = `0x${"7a".repeat(16)}`;
const FIRST = 8453n << 64n;
const ABI = parseAbi([
  "function getUserOpHashWithoutChainId((address sender, uint256 nonce, bytes initCode, bytes callData, uint256 callGasLimit, uint256 verificationGasLimit, uint256 preVerificationGas, uint256 maxFeePerGas, uint256 maxPriorityFeePerGas, bytes paymasterAndData, bytes signature) userOp) view returns (bytes32)",
]);

let sepolia: WalletWorld;
let base: WalletWorld;
beforeAll(async () => {
  [sepolia, base] = await Promise.all([startWalletWorld(), startWalletWorld("base")]);
}, 120_000);
afterAll(() => Promise.all([sepolia?.stop(), base?.stop()]));

/** The same passkey's account on both chains. */
async function walletOnBoth(): Promise<Wallet> {
  const wallet = await sepolia.newDeployedWallet();
  await base.sendFromRelayer({ ...wallet.deployment, gas: 400_000n });
  return wallet;
}

async function signedByAll(passkey: SoftwarePasskey, operation: UserOperation): Promise<UserOperation> {
  return { ...operation, signature: await sign(passkey, anyChainHash(operation)) };
}

async function run(world: WalletWorld, operation: UserOperation, deployment?: Wallet["deployment"]) {
  const { logs } = await world.sendFromRelayer(buildUserOperationCall(operation, RELAYER, deployment));
  return logs.map(decodeUserOperationLog).find((one) => one !== undefined);
}

describe("one signature for every chain", () => {
  test("adds the same owner under the same index on both chains, once each", async () => {
    const { passkey, address } = await walletOnBoth();
    const second = await createSoftwarePasskey(SITE);
    const call = encodeAddOwner(second.publicKey);
    const operation = await signedByAll(
      passkey,
      buildAnyChainOperation({ sender: address, nonce: FIRST, call, tag: TAG }),
    );
    const outcomes = [await run(sepolia, operation), await run(base, operation)];
    expect(outcomes).toMatchObject([{ success: true }, { success: true }]);
    // the EntryPoint's event names the hash with the chain's id, on each chain another
    expect(outcomes.map((one) => one?.userOpHash)).toEqual([
      userOperationHash(operation, 84_532),
      userOperationHash(operation, 8_453),
    ]);
    for (const world of [sepolia, base]) {
      expect(await findOwnerIndex(world.chain, address, toOwner(second.publicKey))).toBe(1);
      expect(await world.refusalOf(operation)).toBe("AA25 invalid account nonce");
    }
  });

  test("works in the bundle that deploys the account", async () => {
    const { passkey, address, deployment } = await sepolia.newWallet();
    const second = await createSoftwarePasskey(SITE);
    const call = encodeAddOwner(second.publicKey);
    const operation = await signedByAll(
      passkey,
      buildAnyChainOperation({ sender: address, nonce: FIRST, call, tag: TAG }),
    );
    expect(await run(base, operation, deployment)).toMatchObject({ success: true });
    expect(await findOwnerIndex(base.chain, address, toOwner(second.publicKey))).toBe(1);
  });

  test("signs the hash that the account computes, which is not the EntryPoint's", async () => {
    const { address } = await walletOnBoth();
    const call = encodeAddOwner(RELAYER);
    const operation = buildAnyChainOperation({ sender: address, nonce: FIRST, call, tag: TAG });
    const ask = (to: Hex, data: Hex) => sepolia.callContract(to, data);
    const args = [operation] as const;
    expect(
      await ask(address, encodeFunctionData({ abi: ABI, functionName: "getUserOpHashWithoutChainId", args })),
    ).toBe(anyChainHash(operation));
    expect(
      await ask(
        CONTRACTS.entryPointV06,
        encodeFunctionData({ abi: entryPoint06Abi, functionName: "getUserOpHash", args }),
      ),
    ).not.toBe(anyChainHash(operation));
  });

  test("error: a signature over a hash with a chain id, a changed call or another nonce is not valid", async () => {
    const { passkey, address } = await walletOnBoth();
    const call = encodeAddOwner(RELAYER);
    const operation = buildAnyChainOperation({ sender: address, nonce: FIRST, call, tag: TAG });
    const bound = { ...operation, signature: await sign(passkey, userOperationHash(operation, 84_532)) };
    expect(await sepolia.refusalOf(bound)).toBe("AA24 signature error");
    const signed = await signedByAll(passkey, operation);
    expect(await sepolia.refusalOf(signed)).toBeUndefined();
    const other = buildAnyChainOperation({
      sender: address,
      nonce: FIRST,
      call,
      tag: `0x${"7b".repeat(16)}`,
    });
    expect(await sepolia.refusalOf({ ...other, signature: signed.signature })).toBe("AA24 signature error");
    expect(await sepolia.refusalOf({ ...signed, nonce: FIRST + 1n })).toStartWith("AA2");
  });

  test("error: under an ordinary nonce it is refused, and an ordinary operation under its nonce", async () => {
    const { passkey, address } = await walletOnBoth();
    const call = encodeAddOwner(RELAYER);
    const operation = buildAnyChainOperation({ sender: address, nonce: FIRST, call, tag: TAG });
    const ordinary = { ...operation, nonce: 0n };
    expect(
      await sepolia.refusalOf({ ...ordinary, signature: await sign(passkey, anyChainHash(ordinary)) }),
    ).toStartWith("AA23 reverted");
    const send = { ...(await sepolia.operationOf(address, [payShop(1n)])), nonce: FIRST };
    for (const hash of [anyChainHash(send), userOperationHash(send, 84_532)])
      expect(await sepolia.refusalOf({ ...send, signature: await sign(passkey, hash) })).toStartWith(
        "AA23 reverted",
      );
    expect(() => buildAnyChainOperation({ sender: address, nonce: 0n, call, tag: TAG })).toThrow(RangeError);
  });

  test("error: it moves no money", async () => {
    const { passkey, address } = await walletOnBoth();
    const one = buildAnyChainOperation({ sender: address, nonce: FIRST, call: payShop(1n).data, tag: TAG });
    expect(await run(sepolia, await signedByAll(passkey, one))).toMatchObject({ success: false });
    const many = { ...one, nonce: FIRST + 1n, callData: encodeAnyChainCalls([payShop(1n).data]) };
    expect(await run(sepolia, await signedByAll(passkey, many))).toMatchObject({ success: false });
  });
});

test("a removal is an ordinary operation of one chain, with the index of that chain", async () => {
  const { passkey, address, origin } = await walletOnBoth();
  const [first = "0x"] = origin.owners;
  const second = await createSoftwarePasskey(SITE);
  const add = buildOwnerOperation({
    sender: address,
    nonce: 0n,
    call: encodeAddOwner(second.publicKey),
    tag: TAG,
  });
  const signature = await sign(passkey, userOperationHash(add, 84_532));
  expect(await run(sepolia, { ...add, signature })).toMatchObject({ success: true });
  const remove = buildOwnerOperation({
    sender: address,
    nonce: 1n,
    call: encodeRemoveOwner(0, first),
    tag: TAG,
  });
  const bySecond = await sign(second, userOperationHash(remove, 84_532), {}, 1);
  expect(await run(sepolia, { ...remove, signature: bySecond })).toMatchObject({ success: true });
  expect(await findOwnerIndex(sepolia.chain, address, first)).toBeUndefined();
  expect(await findOwnerIndex(base.chain, address, first)).toBe(0);
});
