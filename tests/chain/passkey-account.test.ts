import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  bytesToHex,
  concatHex,
  createPublicClient,
  encodeAbiParameters,
  encodeFunctionData,
  getCreate2Address,
  type Hex,
  hexToBytes,
  http,
  keccak256,
  parseAbi,
  toHex,
} from "viem";
import { toCoinbaseSmartAccount, toWebAuthnAccount } from "viem/account-abstraction";
import { baseSepolia } from "viem/chains";
import { readCoseKey } from "../../core/chain/cose-key.ts";
import {
  accountAddress,
  accountOriginOf,
  encodeAddOwner,
  encodeRemoveOwner,
  toAddressOwner,
  toOwner,
} from "../../core/chain/passkey-account.ts";
import { decodeUserOperationLog } from "../../core/chain/user-operation.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { toCoseKey } from "../../local/passkey/encoding.ts";
import { createSoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import { buildUserOperationCall, findOwnerIndex, replaySafeHash } from "../support/account-on-chain.ts";
import {
  CHAIN_ID,
  payShop,
  RELAYER,
  SITE,
  sign,
  signOperation,
  startWalletWorld,
  type WalletWorld,
} from "../support/passkey-wallets.ts";

const PROXY_CREATION_CODE =
  "0x603d3d8160223d397300000110dcdedc9581cb5ecb8467282f2926534d60095155f3363d3d373d3d363d7f360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc545af43d6000803e6038573d6000fd5b3d6000f3";
/** Code hash of a wallet as it stands on the public networks. */
const DEPLOYED_PROXY_HASH = "0xaaa52c8cc8a0e3fd27ce756cc6b4e70c51423e9b597b11f32d3e49f8b1fc890d";
const GOLDEN_ADDRESS = "0x6611a2014b1b71a37b1876cde06ac0411f489d82";
const ABI = parseAbi([
  "function getAddress(bytes[] owners, uint256 nonce) view returns (address)",
  "function replaySafeHash(bytes32 hash) view returns (bytes32)",
  "function isValidSignature(bytes32 hash, bytes signature) view returns (bytes4)",
]);

let world: WalletWorld;
beforeAll(async () => {
  world = await startWalletWorld();
});
afterAll(() => world.stop());

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

  test("equals the factory's address for any owners and nonce", async () => {
    const owners = fc.array(fc.oneof(passkeyOwners, addressOwners), { minLength: 1, maxLength: 3 });
    const nonces = fc.bigInt({ min: 0n, max: 2n ** 64n });
    const { factory, implementation } = accountOriginOf((await createSoftwarePasskey(SITE)).publicKey);
    await fc.assert(
      fc.asyncProperty(owners, nonces, async (first, saltNonce) => {
        const data = encodeFunctionData({ abi: ABI, functionName: "getAddress", args: [first, saltNonce] });
        const returned = await world.callContract(factory, data);
        expect(accountAddress({ factory, implementation, owners: first, saltNonce })).toBe(
          `0x${returned.slice(26)}`,
        );
      }),
      { numRuns: 25 },
    );
  });

  test("equals the address of viem's account for the same passkey", async () => {
    const { publicKey } = await createSoftwarePasskey(SITE);
    const owner = toWebAuthnAccount({ credential: { id: "x", publicKey: toOwner(publicKey) } });
    const client = createPublicClient({ chain: baseSepolia, transport: http(world.rpcUrl) });
    const account = await toCoinbaseSmartAccount({ client, owners: [owner], version: "1.1" });
    expect(accountAddress(accountOriginOf(publicKey))).toBe(account.address.toLowerCase() as Hex);
  });

  test("is where the factory deploys the account, idempotently", async () => {
    const { address, deployment } = await world.newWallet();
    expect(await world.chain.request("eth_getCode", [address, "latest"])).toBe("0x");
    expect((await world.sendFromRelayer({ ...deployment, gas: 400_000n })).status).toBe("0x1");
    const code = (await world.chain.request("eth_getCode", [address, "latest"])) as Hex;
    expect(keccak256(code)).toBe(DEPLOYED_PROXY_HASH);
    expect((await world.sendFromRelayer({ ...deployment, gas: 400_000n })).status).toBe("0x1");
  });
});

describe("owners", () => {
  test("a second passkey signs under its own index until it is removed", async () => {
    const { passkey, address } = await world.newDeployedWallet();
    const second = await createSoftwarePasskey(SITE);
    const secondOwner = toOwner(second.publicKey);
    expect(await findOwnerIndex(world.chain, address, toOwner(passkey.publicKey))).toBe(0);
    expect(await findOwnerIndex(world.chain, address, secondOwner)).toBeUndefined();

    const add = await world.operationOf(address, [{ to: address, data: encodeAddOwner(second.publicKey) }]);
    await world.sendFromRelayer(buildUserOperationCall(await signOperation(passkey, add), RELAYER));
    expect(await findOwnerIndex(world.chain, address, secondOwner)).toBe(1);

    const send = await world.operationOf(address, [payShop(1n)]);
    const signature = await sign(second, userOperationHash(send, CHAIN_ID), {}, 1);
    expect(await world.refusalOf({ ...send, signature })).toBeUndefined();

    const remove = await world.operationOf(address, [
      { to: address, data: encodeRemoveOwner(1, secondOwner) },
    ]);
    await world.sendFromRelayer(buildUserOperationCall(await signOperation(passkey, remove), RELAYER));
    expect(await findOwnerIndex(world.chain, address, secondOwner)).toBeUndefined();
    const late = await world.operationOf(address, [payShop(1n)]);
    const lateSignature = await sign(second, userOperationHash(late, CHAIN_ID), {}, 1);
    expect(await world.refusalOf({ ...late, signature: lateSignature })).toStartWith("AA23 reverted");
  });

  test("an address can be an owner, and the last owner cannot be removed", async () => {
    const { passkey, address, origin } = await world.newDeployedWallet();
    const recovery = localAccount(5).address.toLowerCase() as Hex;
    const add = await world.operationOf(address, [{ to: address, data: encodeAddOwner(recovery) }]);
    await world.sendFromRelayer(buildUserOperationCall(await signOperation(passkey, add), RELAYER));
    expect(await findOwnerIndex(world.chain, address, toAddressOwner(recovery))).toBe(1);

    const [first] = origin.owners;
    const removeBoth = [
      { to: address, data: encodeRemoveOwner(1, toAddressOwner(recovery)) },
      { to: address, data: encodeRemoveOwner(0, first ?? "0x") },
    ];
    const operation = await signOperation(passkey, await world.operationOf(address, removeBoth));
    const receipt = await world.sendFromRelayer(buildUserOperationCall(operation, RELAYER));
    expect(receipt.logs.map(decodeUserOperationLog).find((one) => one)?.success).toBe(false);
  });
});

describe("ERC-1271", () => {
  test("the wallet validates its passkey's signature over the replay-safe hash", async () => {
    const { passkey, address } = await world.newDeployedWallet();
    const message = keccak256(toHex("a message"));
    const hash = replaySafeHash(address, CHAIN_ID, message);
    const asked = encodeFunctionData({ abi: ABI, functionName: "replaySafeHash", args: [message] });
    expect(await world.callContract(address, asked)).toBe(hash);
    const ask = (signature: Hex) =>
      world.callContract(
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

  test("a point off the curve, another algorithm, short coordinates and malformed keys give none", async () => {
    const { publicKey } = await createSoftwarePasskey(SITE);
    const moved = { ...publicKey, y: toHex(BigInt(publicKey.y) ^ 1n, { size: 32 }) };
    expect(readCoseKey(coseOf(moved))).toBeUndefined();
    expect(readCoseKey(coseOf({ x: toHex(0n, { size: 32 }), y: toHex(0n, { size: 32 }) }))).toBeUndefined();
    expect(readCoseKey(coseOf(publicKey, -257))).toBeUndefined();
    expect(readCoseKey(coseOf({ ...publicKey, x: `0x${publicKey.x.slice(4)}` }))).toBeUndefined();
    expect(readCoseKey(new Uint8Array([1, 2, 3]))).toBeUndefined();
  });
});
