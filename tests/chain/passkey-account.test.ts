import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  bytesToHex,
  concatHex,
  createPublicClient,
  decodeAbiParameters,
  encodeAbiParameters,
  encodeFunctionData,
  getCreate2Address,
  type Hex,
  hexToBytes,
  http,
  keccak256,
  parseAbi,
  parseAbiParameters,
  toHex,
} from "viem";
import { entryPoint06Abi, toCoinbaseSmartAccount, toWebAuthnAccount } from "viem/account-abstraction";
import { baseSepolia } from "viem/chains";
import { type Chain, openChain } from "../../core/chain/clients.ts";
import { readCoseKey } from "../../core/chain/cose-key.ts";
import type { InnerCall } from "../../core/chain/multicall.ts";
import {
  accountAddress,
  accountOriginOf,
  encodeAddOwner,
  encodeCreateAccount,
  encodeRemoveOwner,
  findOwnerIndex,
  readAccountNonce,
  replaySafeHash,
  toAddressOwner,
  toOwner,
} from "../../core/chain/passkey-account.ts";
import { encodePasskeySignature } from "../../core/chain/passkey-signature.ts";
import { RpcResponseError } from "../../core/chain/rpc-errors.ts";
import { encodeTransfer, readBalance } from "../../core/chain/usdc.ts";
import {
  buildUserOperation,
  buildUserOperationCall,
  decodeUserOperationLog,
  explainFailedOperation,
  type UserOperation,
  userOperationHash,
} from "../../core/chain/user-operation.ts";
import { CONTRACTS, NETWORKS } from "../../core/domain/networks.ts";
import { localAccount } from "../../local/accounts.ts";
import { toCoseKey } from "../../local/passkey-encoding.ts";
import { callRpc } from "../../local/rpc.ts";
import {
  createSoftwarePasskey,
  type PasskeyQuirks,
  type SoftwarePasskey,
} from "../../local/software-passkey.ts";
import { fundUsdc } from "../../local/usdc.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { waitForReceipt } from "./wait-for-receipt.ts";

const SITE = { rpId: "localhost", origin: "http://localhost:3000" };
const CHAIN_ID = 84532;
const USDC = NETWORKS["base-sepolia"].usdc.address;
const RELAYER = localAccount(0).address.toLowerCase() as Hex;
const SHOP: Hex = `0x${"5a".repeat(20)}`;
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const PROXY_CREATION_CODE =
  "0x603d3d8160223d397300000110dcdedc9581cb5ecb8467282f2926534d60095155f3363d3d373d3d363d7f360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc545af43d6000803e6038573d6000fd5b3d6000f3";
/** Code hash of a wallet as it stands on the public networks. */
const DEPLOYED_PROXY_HASH = "0xaaa52c8cc8a0e3fd27ce756cc6b4e70c51423e9b597b11f32d3e49f8b1fc890d";
const GOLDEN_ADDRESS = "0x6611a2014b1b71a37b1876cde06ac0411f489d82";
const WRAPPER = parseAbiParameters("(uint256 ownerIndex, bytes signatureData)");
const AUTH = parseAbiParameters(
  "(bytes authenticatorData, bytes clientDataJSON, uint256 challengeIndex, uint256 typeIndex, uint256 r, uint256 s)",
);

let node: TestChain;
let chain: Chain;
beforeAll(async () => {
  node = await startTestChain();
  chain = openChain({ network: "base-sepolia", urls: [node.rpcUrl], timeoutMs: 5_000 });
});
afterAll(async () => {
  chain.close();
  await node.stop();
});

async function sendFromRelayer({ to, data, gas }: { to: Hex; data: Hex; gas: bigint }) {
  const transaction = { from: RELAYER, to, data, gas: toHex(gas) };
  return waitForReceipt(node.rpcUrl, await callRpc(node.rpcUrl, "eth_sendTransaction", [transaction]));
}

async function newWallet(fundUnits = 10_000_000n) {
  const passkey = await createSoftwarePasskey(SITE);
  const origin = accountOriginOf(passkey.publicKey);
  const address = accountAddress(origin);
  if (fundUnits > 0n) await fundUsdc(node.rpcUrl, address, fundUnits);
  const deployment = { to: origin.factory, data: encodeCreateAccount(origin.owners, origin.saltNonce) };
  return { passkey, origin, address, deployment };
}

async function newDeployedWallet() {
  const wallet = await newWallet();
  const { status } = await sendFromRelayer({ ...wallet.deployment, gas: 400_000n });
  expect(status).toBe("0x1");
  return wallet;
}

const payShop = (units: bigint): InnerCall => ({ to: USDC, data: encodeTransfer(SHOP, units) });

async function operationOf(sender: Hex, calls: readonly InnerCall[]): Promise<UserOperation> {
  return buildUserOperation({ sender, nonce: await readAccountNonce(chain, sender), calls });
}

/** Signs 32 bytes (or whatever `challenge` is) the way a browser does. */
async function sign(
  passkey: SoftwarePasskey,
  challenge: Hex,
  quirks?: PasskeyQuirks,
  ownerIndex = 0,
): Promise<Hex> {
  const request = { challenge: Buffer.from(challenge.slice(2), "hex").toString("base64url") };
  return encodePasskeySignature((await passkey.authenticate(request, quirks)).response, ownerIndex);
}

async function signOperation(passkey: SoftwarePasskey, operation: UserOperation, quirks?: PasskeyQuirks) {
  return { ...operation, signature: await sign(passkey, userOperationHash(operation, CHAIN_ID), quirks) };
}

/** Undefined when the EntryPoint takes the operation. */
async function refusalOf(operation: UserOperation): Promise<string | undefined> {
  const { to, data, gas } = buildUserOperationCall(operation, RELAYER);
  try {
    await chain.request("eth_call", [{ from: RELAYER, to, data, gas: toHex(gas) }, "latest"]);
    return undefined;
  } catch (error) {
    if (!(error instanceof RpcResponseError)) throw error;
    return explainFailedOperation(error.data) ?? error.message;
  }
}

const ABI = parseAbi([
  "function getAddress(bytes[] owners, uint256 nonce) view returns (address)",
  "function replaySafeHash(bytes32 hash) view returns (bytes32)",
  "function isValidSignature(bytes32 hash, bytes signature) view returns (bytes4)",
  "function initialize(bytes[] owners)",
  "function execute(address target, uint256 value, bytes data)",
]);

async function callContract(to: Hex, data: Hex): Promise<Hex> {
  return (await chain.request("eth_call", [{ to, data }, "latest"])) as Hex;
}

describe("the address", () => {
  const words = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => bytesToHex(bytes));
  const passkeyOwners = fc.record({ x: words, y: words }).map(toOwner);
  const addressOwners = fc
    .uint8Array({ minLength: 20, maxLength: 20 })
    .map((bytes) => toAddressOwner(bytesToHex(bytes)));

  test("golden vector: CREATE2 of the factory, the owners' salt and the proxy's creation code", () => {
    const publicKey = {
      x: "0x65a2fa44daad46eab0278703edb6c4dcf5e30b8a9aec09fdc71a56f52aa392e4",
      y: "0x4a7a9e4604aa36898209997288e902ac544a555e4b5e0a9efef2b59233f3f437",
    } as const;
    const owner = concatHex([publicKey.x, publicKey.y]);
    const salt = keccak256(encodeAbiParameters([{ type: "bytes[]" }, { type: "uint256" }], [[owner], 0n]));
    const from = "0xBA5ED110eFDBa3D005bfC882d75358ACBbB85842";
    const address = accountAddress(accountOriginOf(publicKey));
    expect(address).toBe(
      getCreate2Address({ from, salt, bytecode: PROXY_CREATION_CODE }).toLowerCase() as Hex,
    );
    expect(address).toBe(GOLDEN_ADDRESS);
  });

  test("equals the factory's for any owners and nonce", async () => {
    const owners = fc.array(fc.oneof(passkeyOwners, addressOwners), { minLength: 1, maxLength: 3 });
    const nonces = fc.bigInt({ min: 0n, max: 2n ** 64n });
    const { factory, implementation } = accountOriginOf((await createSoftwarePasskey(SITE)).publicKey);
    await fc.assert(
      fc.asyncProperty(owners, nonces, async (first, saltNonce) => {
        const data = encodeFunctionData({ abi: ABI, functionName: "getAddress", args: [first, saltNonce] });
        const told = await callContract(factory, data);
        expect(accountAddress({ factory, implementation, owners: first, saltNonce })).toBe(
          `0x${told.slice(26)}`,
        );
      }),
      { numRuns: 25 },
    );
  });

  test("is where viem's account of the same passkey lives", async () => {
    const { publicKey } = await createSoftwarePasskey(SITE);
    const owner = toWebAuthnAccount({ credential: { id: "x", publicKey: toOwner(publicKey) } });
    const client = createPublicClient({ chain: baseSepolia, transport: http(node.rpcUrl) });
    const account = await toCoinbaseSmartAccount({ client, owners: [owner], version: "1.1" });
    expect(accountAddress(accountOriginOf(publicKey))).toBe(account.address.toLowerCase() as Hex);
  });

  test("is where the factory puts the account, once and again", async () => {
    const { address, deployment } = await newWallet();
    expect(await chain.request("eth_getCode", [address, "latest"])).toBe("0x");
    expect((await sendFromRelayer({ ...deployment, gas: 400_000n })).status).toBe("0x1");
    const code = (await chain.request("eth_getCode", [address, "latest"])) as Hex;
    expect(keccak256(code)).toBe(DEPLOYED_PROXY_HASH);
    expect((await sendFromRelayer({ ...deployment, gas: 400_000n })).status).toBe("0x1");
  });
});

describe("a send", () => {
  test("the first one deploys the wallet on the way, the second finds it there", async () => {
    const { passkey, address, deployment } = await newWallet();
    const before = await readBalance(chain, SHOP);
    const first = await signOperation(passkey, await operationOf(address, [payShop(1_000_000n)]));
    const receipt = await sendFromRelayer(buildUserOperationCall(first, RELAYER, deployment));
    expect(receipt.status).toBe("0x1");
    const outcomes = receipt.logs.map(decodeUserOperationLog).filter((one) => one !== undefined);
    expect(outcomes).toMatchObject([
      { userOpHash: userOperationHash(first, CHAIN_ID), sender: address, success: true, nonce: 0n },
    ]);

    const second = await signOperation(passkey, await operationOf(address, [payShop(500_000n)]));
    expect(second.nonce).toBe(1n);
    expect((await sendFromRelayer(buildUserOperationCall(second, RELAYER))).status).toBe("0x1");
    expect(await readBalance(chain, SHOP)).toBe(before + 1_500_000n);
    expect(await readBalance(chain, address)).toBe(8_500_000n);
  });

  test("goes through when somebody else deployed the wallet first", async () => {
    const { passkey, address, deployment } = await newDeployedWallet();
    const operation = await signOperation(passkey, await operationOf(address, [payShop(1n)]));
    const receipt = await sendFromRelayer(buildUserOperationCall(operation, RELAYER, deployment));
    expect(receipt.logs.map(decodeUserOperationLog).find((one) => one)?.success).toBe(true);
  });

  test("several calls in one operation are all or none", async () => {
    const { passkey, address } = await newDeployedWallet();
    const both = await signOperation(
      passkey,
      await operationOf(address, [payShop(1_000_000n), payShop(2_000_000n)]),
    );
    await sendFromRelayer(buildUserOperationCall(both, RELAYER));
    expect(await readBalance(chain, address)).toBe(7_000_000n);

    const tooMuch = await signOperation(
      passkey,
      await operationOf(address, [payShop(1n), payShop(7_000_000n)]),
    );
    const receipt = await sendFromRelayer(buildUserOperationCall(tooMuch, RELAYER));
    expect(receipt.status).toBe("0x1");
    expect(receipt.logs.map(decodeUserOperationLog).find((one) => one)?.success).toBe(false);
    expect(await readBalance(chain, address)).toBe(7_000_000n);
  });

  test("twenty calls fit the gas of one operation, twenty-one are refused", async () => {
    const { passkey, address } = await newDeployedWallet();
    const recipients = Array.from({ length: 20 }, () =>
      bytesToHex(crypto.getRandomValues(new Uint8Array(20))),
    );
    const calls = recipients.map((to) => ({ to: USDC, data: encodeTransfer(to, 10n) }));
    const operation = await signOperation(passkey, await operationOf(address, calls));
    const receipt = await sendFromRelayer(buildUserOperationCall(operation, RELAYER));
    expect(receipt.logs.map(decodeUserOperationLog).find((one) => one)?.success).toBe(true);
    expect(await readBalance(chain, recipients[19] ?? SHOP)).toBe(10n);
    await expect(operationOf(address, [...calls, payShop(1n)])).rejects.toThrow(RangeError);
  });

  test("the hash equals the EntryPoint's", async () => {
    const { address } = await newWallet(0n);
    const operation = await operationOf(address, [payShop(3n)]);
    const data = encodeFunctionData({
      abi: entryPoint06Abi,
      functionName: "getUserOpHash",
      args: [operation],
    });
    expect(await callContract(CONTRACTS.entryPointV06, data)).toBe(userOperationHash(operation, CHAIN_ID));
  });
});

describe("what the wallet takes and refuses", () => {
  let wallet: Awaited<ReturnType<typeof newDeployedWallet>>;
  let operation: UserOperation;
  beforeAll(async () => {
    wallet = await newDeployedWallet();
    operation = await operationOf(wallet.address, [payShop(1_000n)]);
  });
  const hash = () => userOperationHash(operation, CHAIN_ID);

  test("takes the passkey's signature", async () => {
    expect(await refusalOf(await signOperation(wallet.passkey, operation))).toBeUndefined();
  });

  test("refuses a changed amount, changed gas limits and the other chain", async () => {
    const signed = await signOperation(wallet.passkey, operation);
    const { callData } = await operationOf(wallet.address, [payShop(1_001n)]);
    expect(await refusalOf({ ...signed, callData })).toBe("AA24 signature error");
    expect(await refusalOf({ ...signed, callGasLimit: signed.callGasLimit + 1n })).toBe(
      "AA24 signature error",
    );
    const elsewhere = await sign(wallet.passkey, userOperationHash(operation, 8453));
    expect(await refusalOf({ ...operation, signature: elsewhere })).toBe("AA24 signature error");
  });

  test("refuses another passkey and an owner index nobody has", async () => {
    const stranger = await createSoftwarePasskey(SITE);
    expect(await refusalOf(await signOperation(stranger, operation))).toBe("AA24 signature error");
    const signature = await sign(wallet.passkey, hash(), {}, 1);
    expect(await refusalOf({ ...operation, signature })).toStartWith("AA23 reverted");
  });

  test("refuses an absent user, a challenge of 33 bytes and the wrong ceremony", async () => {
    expect(await refusalOf(await signOperation(wallet.passkey, operation, { userPresent: false }))).toBe(
      "AA24 signature error",
    );
    const longer = await sign(wallet.passkey, `${hash()}00`);
    expect(await refusalOf({ ...operation, signature: longer })).toBe("AA24 signature error");
    await expect(signOperation(wallet.passkey, operation, { type: "webauthn.create" })).rejects.toThrow(
      RangeError,
    );
  });

  test("refuses the high s of a signature whose low s it takes", async () => {
    const signed = await signOperation(wallet.passkey, operation, { s: "high" });
    expect(await refusalOf(signed)).toBeUndefined();
    expect(await refusalOf({ ...signed, signature: withOtherS(signed.signature) })).toBe(
      "AA24 signature error",
    );
  });

  test("finds the members of clientDataJSON wherever the browser put them", async () => {
    const quirks = {
      clientDataBefore: { note: "früher", nested: { type: "webauthn.create", challenge: 1 } },
      clientDataAfter: { other_keys_can_be_added_here: "do not compare clientDataJSON against a template" },
    };
    expect(await refusalOf(await signOperation(wallet.passkey, operation, quirks))).toBeUndefined();
  });

  test("takes any origin, any RP id and an unverified user: checking those is the server's work", async () => {
    const careless = {
      origin: "https://evil.example",
      rpId: "evil.example",
      userVerified: false,
      crossOrigin: true,
    };
    expect(await refusalOf(await signOperation(wallet.passkey, operation, careless))).toBeUndefined();
  });

  test("refuses an operation for the second time", async () => {
    const signed = await signOperation(wallet.passkey, operation);
    expect((await sendFromRelayer(buildUserOperationCall(signed, RELAYER))).status).toBe("0x1");
    expect(await refusalOf(signed)).toBe("AA25 invalid account nonce");
  });

  test("is nobody else's to command, nor to initialise again", async () => {
    const execute = encodeFunctionData({
      abi: ABI,
      functionName: "execute",
      args: [USDC, 0n, payShop(1n).data],
    });
    await expect(callContract(wallet.address, execute)).rejects.toBeInstanceOf(RpcResponseError);
    const initialize = encodeFunctionData({
      abi: ABI,
      functionName: "initialize",
      args: [wallet.origin.owners],
    });
    await expect(callContract(wallet.address, initialize)).rejects.toBeInstanceOf(RpcResponseError);
    await expect(callContract(CONTRACTS.smartWalletImplementation, initialize)).rejects.toBeInstanceOf(
      RpcResponseError,
    );
  });
});

describe("owners", () => {
  test("a second passkey signs under its own index, and not any more once it is removed", async () => {
    const { passkey, address } = await newDeployedWallet();
    const second = await createSoftwarePasskey(SITE);
    const secondOwner = toOwner(second.publicKey);
    expect(await findOwnerIndex(chain, address, toOwner(passkey.publicKey))).toBe(0);
    expect(await findOwnerIndex(chain, address, secondOwner)).toBeUndefined();

    const add = await operationOf(address, [{ to: address, data: encodeAddOwner(second.publicKey) }]);
    await sendFromRelayer(buildUserOperationCall(await signOperation(passkey, add), RELAYER));
    expect(await findOwnerIndex(chain, address, secondOwner)).toBe(1);

    const send = await operationOf(address, [payShop(1n)]);
    const signature = await sign(second, userOperationHash(send, CHAIN_ID), {}, 1);
    expect(await refusalOf({ ...send, signature })).toBeUndefined();

    const remove = await operationOf(address, [{ to: address, data: encodeRemoveOwner(1, secondOwner) }]);
    await sendFromRelayer(buildUserOperationCall(await signOperation(passkey, remove), RELAYER));
    expect(await findOwnerIndex(chain, address, secondOwner)).toBeUndefined();
    const late = await operationOf(address, [payShop(1n)]);
    const lateSignature = await sign(second, userOperationHash(late, CHAIN_ID), {}, 1);
    expect(await refusalOf({ ...late, signature: lateSignature })).toStartWith("AA23 reverted");
  });

  test("an address can be an owner too, and the last owner stays", async () => {
    const { passkey, address, origin } = await newDeployedWallet();
    const recovery = localAccount(5).address.toLowerCase() as Hex;
    const add = await operationOf(address, [{ to: address, data: encodeAddOwner(recovery) }]);
    await sendFromRelayer(buildUserOperationCall(await signOperation(passkey, add), RELAYER));
    expect(await findOwnerIndex(chain, address, toAddressOwner(recovery))).toBe(1);

    const [first] = origin.owners;
    const removeBoth = [
      { to: address, data: encodeRemoveOwner(1, toAddressOwner(recovery)) },
      { to: address, data: encodeRemoveOwner(0, first ?? "0x") },
    ];
    const operation = await signOperation(passkey, await operationOf(address, removeBoth));
    const receipt = await sendFromRelayer(buildUserOperationCall(operation, RELAYER));
    expect(receipt.logs.map(decodeUserOperationLog).find((one) => one)?.success).toBe(false);
  });
});

describe("ERC-1271", () => {
  test("the wallet vouches for what its passkey signed over the replay-safe hash", async () => {
    const { passkey, address } = await newDeployedWallet();
    const message = keccak256(toHex("a message"));
    const hash = replaySafeHash(address, CHAIN_ID, message);
    const asked = encodeFunctionData({ abi: ABI, functionName: "replaySafeHash", args: [message] });
    expect(await callContract(address, asked)).toBe(hash);
    const ask = (signature: Hex) =>
      callContract(
        address,
        encodeFunctionData({ abi: ABI, functionName: "isValidSignature", args: [message, signature] }),
      );
    expect(await ask(await sign(passkey, hash))).toStartWith("0x1626ba7e");
    expect(await ask(await sign(passkey, message))).toStartWith("0xffffffff");
  });
});

describe("COSE keys", () => {
  const coseOf = (publicKey: { x: Hex; y: Hex }, alg = -7) =>
    toCoseKey({ x: hexToBytes(publicKey.x), y: hexToBytes(publicKey.y) }, alg);

  test("an ES256 key gives its point", async () => {
    const { publicKey } = await createSoftwarePasskey(SITE);
    expect(readCoseKey(coseOf(publicKey))).toEqual(publicKey);
  });

  test("a point off the curve, another algorithm, short coordinates and no key at all give none", async () => {
    const { publicKey } = await createSoftwarePasskey(SITE);
    const moved = { ...publicKey, y: toHex(BigInt(publicKey.y) ^ 1n, { size: 32 }) };
    expect(readCoseKey(coseOf(moved))).toBeUndefined();
    expect(readCoseKey(coseOf({ x: toHex(0n, { size: 32 }), y: toHex(0n, { size: 32 }) }))).toBeUndefined();
    expect(readCoseKey(coseOf(publicKey, -257))).toBeUndefined();
    expect(readCoseKey(coseOf({ ...publicKey, x: `0x${publicKey.x.slice(4)}` }))).toBeUndefined();
    expect(readCoseKey(new Uint8Array([1, 2, 3]))).toBeUndefined();
  });
});

describe("assertions", () => {
  test("error: signatures that are no DER of two integers in range", async () => {
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
