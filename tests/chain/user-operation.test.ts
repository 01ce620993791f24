import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  bytesToHex,
  decodeAbiParameters,
  encodeAbiParameters,
  encodeFunctionData,
  type Hex,
  parseAbi,
  parseAbiParameters,
} from "viem";
import { entryPoint06Abi } from "viem/account-abstraction";
import { encodePasskeySignature } from "../../core/chain/passkey-signature.ts";
import { encodeTransfer, readBalance } from "../../core/chain/usdc.ts";
import { decodeUserOperationLog, type UserOperation } from "../../core/chain/user-operation.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { CONTRACTS, NETWORKS } from "../../core/domain/networks.ts";
import { RpcResponseError } from "../../core/rpc/errors.ts";
import { createSoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import { buildUserOperationCall } from "../support/account-on-chain.ts";
import {
  CHAIN_ID,
  payShop,
  RELAYER,
  SHOP,
  SITE,
  sign,
  signOperation,
  startWalletWorld,
  type Wallet,
  type WalletWorld,
} from "../support/passkey-wallets.ts";

const USDC = NETWORKS["base-sepolia"].usdc.address;
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const WRAPPER = parseAbiParameters("(uint256 ownerIndex, bytes signatureData)");
const AUTH = parseAbiParameters(
  "(bytes authenticatorData, bytes clientDataJSON, uint256 challengeIndex, uint256 typeIndex, uint256 r, uint256 s)",
);
const ABI = parseAbi([
  "function initialize(bytes[] owners)",
  "function execute(address target, uint256 value, bytes data)",
]);

let world: WalletWorld;
beforeAll(async () => {
  world = await startWalletWorld();
});
afterAll(() => world.stop());

describe("a send", () => {
  test("the first operation deploys the wallet, the second uses it", async () => {
    const { passkey, address, deployment } = await world.newWallet();
    const before = await readBalance(world.chain, SHOP);
    const first = await signOperation(passkey, await world.operationOf(address, [payShop(1_000_000n)]));
    const receipt = await world.sendFromRelayer(buildUserOperationCall(first, RELAYER, deployment));
    expect(receipt.status).toBe("0x1");
    const outcomes = receipt.logs.map(decodeUserOperationLog).filter((one) => one !== undefined);
    expect(outcomes).toMatchObject([
      { userOpHash: userOperationHash(first, CHAIN_ID), sender: address, success: true, nonce: 0n },
    ]);

    const second = await signOperation(passkey, await world.operationOf(address, [payShop(500_000n)]));
    expect(second.nonce).toBe(1n);
    expect((await world.sendFromRelayer(buildUserOperationCall(second, RELAYER))).status).toBe("0x1");
    expect(await readBalance(world.chain, SHOP)).toBe(before + 1_500_000n);
    expect(await readBalance(world.chain, address)).toBe(8_500_000n);
  });

  test("succeeds when the wallet was deployed by another transaction first", async () => {
    const { passkey, address, deployment } = await world.newDeployedWallet();
    const operation = await signOperation(passkey, await world.operationOf(address, [payShop(1n)]));
    const receipt = await world.sendFromRelayer(buildUserOperationCall(operation, RELAYER, deployment));
    expect(receipt.logs.map(decodeUserOperationLog).find((one) => one)?.success).toBe(true);
  });

  test("several calls in one operation succeed or fail together", async () => {
    const { passkey, address } = await world.newDeployedWallet();
    const both = await signOperation(
      passkey,
      await world.operationOf(address, [payShop(1_000_000n), payShop(2_000_000n)]),
    );
    await world.sendFromRelayer(buildUserOperationCall(both, RELAYER));
    expect(await readBalance(world.chain, address)).toBe(7_000_000n);

    const tooMuch = await signOperation(
      passkey,
      await world.operationOf(address, [payShop(1n), payShop(7_000_000n)]),
    );
    const receipt = await world.sendFromRelayer(buildUserOperationCall(tooMuch, RELAYER));
    expect(receipt.status).toBe("0x1");
    expect(receipt.logs.map(decodeUserOperationLog).find((one) => one)?.success).toBe(false);
    expect(await readBalance(world.chain, address)).toBe(7_000_000n);
  });

  test("a payout of 100 and its fee fit the gas of one operation, 102 calls are refused", async () => {
    const { passkey, address } = await world.newDeployedWallet();
    const recipients = Array.from({ length: 101 }, () =>
      bytesToHex(crypto.getRandomValues(new Uint8Array(20))),
    );
    const calls = recipients.map((to) => ({ to: USDC, data: encodeTransfer(to, 10n) }));
    const operation = await signOperation(passkey, await world.operationOf(address, calls));
    const receipt = await world.sendFromRelayer(buildUserOperationCall(operation, RELAYER));
    expect(receipt.logs.map(decodeUserOperationLog).find((one) => one)?.success).toBe(true);
    expect(await readBalance(world.chain, recipients[100] ?? SHOP)).toBe(10n);
    await expect(world.operationOf(address, [...calls, payShop(1n)])).rejects.toThrow(RangeError);
  });

  test("the hash equals the EntryPoint's", async () => {
    const { address } = await world.newWallet();
    const ours = await world.operationOf(address, [payShop(3n)]);
    const gas = { callGasLimit: 1n, verificationGasLimit: 2n, preVerificationGas: 3n };
    const fees = { maxFeePerGas: 4n, maxPriorityFeePerGas: 5n };
    const bytes = { initCode: "0x0102", callData: "0x03", paymasterAndData: `0x${"04".repeat(40)}` } as const;
    for (const operation of [ours, { ...ours, ...gas, ...fees, ...bytes }]) {
      const data = encodeFunctionData({
        abi: entryPoint06Abi,
        functionName: "getUserOpHash",
        args: [operation],
      });
      expect(await world.callContract(CONTRACTS.entryPointV06, data)).toBe(
        userOperationHash(operation, CHAIN_ID),
      );
    }
  });
});

describe("the wallet", () => {
  let wallet: Wallet;
  let operation: UserOperation;
  beforeAll(async () => {
    wallet = await world.newDeployedWallet();
    operation = await world.operationOf(wallet.address, [payShop(1_000n)]);
  });
  const hash = () => userOperationHash(operation, CHAIN_ID);

  test("accepts the passkey's signature", async () => {
    expect(await world.refusalOf(await signOperation(wallet.passkey, operation))).toBeUndefined();
  });

  test("refuses a changed amount, changed gas limits and the other chain", async () => {
    const signed = await signOperation(wallet.passkey, operation);
    const { callData } = await world.operationOf(wallet.address, [payShop(1_001n)]);
    expect(await world.refusalOf({ ...signed, callData })).toBe("AA24 signature error");
    expect(await world.refusalOf({ ...signed, callGasLimit: signed.callGasLimit + 1n })).toBe(
      "AA24 signature error",
    );
    const elsewhere = await sign(wallet.passkey, userOperationHash(operation, 8453));
    expect(await world.refusalOf({ ...operation, signature: elsewhere })).toBe("AA24 signature error");
  });

  test("refuses another passkey and an unused owner index", async () => {
    const stranger = await createSoftwarePasskey(SITE);
    expect(await world.refusalOf(await signOperation(stranger, operation))).toBe("AA24 signature error");
    const signature = await sign(wallet.passkey, hash(), {}, 1);
    expect(await world.refusalOf({ ...operation, signature })).toStartWith("AA23 reverted");
  });

  test("refuses an absent user, a challenge of 33 bytes and the wrong ceremony", async () => {
    expect(
      await world.refusalOf(await signOperation(wallet.passkey, operation, { userPresent: false })),
    ).toBe("AA24 signature error");
    const longer = await sign(wallet.passkey, `${hash()}00`);
    expect(await world.refusalOf({ ...operation, signature: longer })).toBe("AA24 signature error");
    await expect(signOperation(wallet.passkey, operation, { type: "webauthn.create" })).rejects.toThrow(
      RangeError,
    );
  });

  test("refuses the high-s form of a signature whose low-s form it accepts", async () => {
    const signed = await signOperation(wallet.passkey, operation, { s: "high" });
    expect(await world.refusalOf(signed)).toBeUndefined();
    expect(await world.refusalOf({ ...signed, signature: withOtherS(signed.signature) })).toBe(
      "AA24 signature error",
    );
  });

  test("finds the members of clientDataJSON wherever the browser put them", async () => {
    const quirks = {
      clientDataBefore: { note: "früher", nested: { type: "webauthn.create", challenge: 1 } },
      clientDataAfter: { other_keys_can_be_added_here: "do not compare clientDataJSON against a template" },
    };
    expect(await world.refusalOf(await signOperation(wallet.passkey, operation, quirks))).toBeUndefined();
  });

  test("accepts any origin, any RP id and an unverified user: the server checks those", async () => {
    const careless = {
      origin: "https://evil.example",
      rpId: "evil.example",
      userVerified: false,
      crossOrigin: true,
    };
    expect(await world.refusalOf(await signOperation(wallet.passkey, operation, careless))).toBeUndefined();
  });

  test("refuses a repeated operation", async () => {
    const signed = await signOperation(wallet.passkey, operation);
    expect((await world.sendFromRelayer(buildUserOperationCall(signed, RELAYER))).status).toBe("0x1");
    expect(await world.refusalOf(signed)).toBe("AA25 invalid account nonce");
  });

  test("cannot be called by others, nor initialised again", async () => {
    const execute = encodeFunctionData({
      abi: ABI,
      functionName: "execute",
      args: [USDC, 0n, payShop(1n).data],
    });
    await expect(world.callContract(wallet.address, execute)).rejects.toBeInstanceOf(RpcResponseError);
    const initialize = encodeFunctionData({
      abi: ABI,
      functionName: "initialize",
      args: [wallet.origin.owners],
    });
    await expect(world.callContract(wallet.address, initialize)).rejects.toBeInstanceOf(RpcResponseError);
    await expect(world.callContract(CONTRACTS.smartWalletImplementation, initialize)).rejects.toBeInstanceOf(
      RpcResponseError,
    );
  });
});

describe("assertions", () => {
  test("error: signatures that are not DER of two integers in range", async () => {
    const { response } = await (await createSoftwarePasskey(SITE)).authenticate({ challenge: "AAAA" });
    const broken = [
      "",
      "00",
      "3006020101020100",
      "3006020101020101ff",
      "300602010102020101",
      "3007020101020101",
      "3006020101030101",
    ];
    for (const hex of broken) {
      const signature = Buffer.from(hex, "hex").toString("base64url");
      expect(() => encodePasskeySignature({ ...response, signature }, 0)).toThrow(RangeError);
    }
    const valid = Buffer.from("3006020101020101", "hex").toString("base64url");
    expect(encodePasskeySignature({ ...response, signature: valid }, 0)).toStartWith("0x");
  });
});

/** The same signature with n - s for s, as only an attacker would send it. */
function withOtherS(signature: Hex): Hex {
  const [{ ownerIndex, signatureData }] = decodeAbiParameters(WRAPPER, signature);
  const [auth] = decodeAbiParameters(AUTH, signatureData);
  const other = encodeAbiParameters(AUTH, [{ ...auth, s: ORDER - auth.s }]);
  return encodeAbiParameters(WRAPPER, [{ ownerIndex, signatureData: other }]);
}
