/** The rules of the page for leaving, which shares no code with the service: both must come to the same bytes. */

import { describe, expect, test } from "bun:test";
import { accountAddress, accountOriginOf } from "../../core/chain/passkey-account.ts";
import { encodePasskeySignature } from "../../core/chain/passkey-signature.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { buildUserOperation } from "../../core/chain/user-operation.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import * as core from "../../core/domain/networks.ts";
import { buildWalletFiles, formatWalletFile } from "../../core/domain/wallet-file.ts";
import { createSoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../web/chain/networks.ts";
import type { Account } from "../../web/leave/account.ts";
import { formatAmount, readAmount, readRecipient } from "../../web/leave/amounts.ts";
import { openRpc } from "../../web/leave/rpc.ts";
import { encodeSignature, readDer } from "../../web/leave/signature.ts";
import {
  buildOperation,
  buildTransaction,
  operationHash,
  revertReason,
} from "../../web/leave/user-operation.ts";
import { readWalletFile } from "../../web/leave/wallet-file.ts";
import { buildUserOperationCall } from "../support/account-on-chain.ts";

const passkey = await createSoftwarePasskey({ rpId: "pay.example.com", origin: "https://pay.example.com" });
const origin = accountOriginOf(passkey.publicKey);
const address = accountAddress(origin);
const bytesOf = (hex: Hex) => Buffer.from(hex.slice(2), "hex");
const [built] = buildWalletFiles(
  [
    {
      network: "base",
      address,
      factory: origin.factory,
      owners: origin.owners,
      saltNonce: 0n,
      rpId: "pay.example.com",
    },
  ],
  [
    {
      id: passkey.credentialId,
      publicKeyX: bytesOf(passkey.publicKey.x),
      publicKeyY: bytesOf(passkey.publicKey.y),
      transports: ["internal", "teleport"],
      rpId: "pay.example.com",
    },
  ],
);
if (!built) throw new Error("no wallet file was built");
const text = formatWalletFile(built);
const [BASE] = NETWORKS;
if (!BASE) throw new Error("the page knows no network");
const account: Account = {
  rpc: openRpc("https://node.example"),
  network: BASE,
  file: readWalletFile(text),
  balanceUnits: 25_000_000n,
  nonce: 7n,
  isDeployed: true,
  owners: [],
};
const TO: Hex = `0x${"5a".repeat(20)}`;

describe("constants", () => {
  test("networks and contracts are those of the service", () => {
    const ours = Object.values(core.NETWORKS).map(
      ({ chainId, displayName, usdc, publicRpcUrl, explorerUrl }) => ({
        ...{ chainId, name: displayName, usdc: usdc.address, rpcUrl: publicRpcUrl, explorerUrl },
      }),
    );
    expect(NETWORKS).toEqual(ours);
    const { entryPointV06, smartWalletFactory, smartWalletImplementation, multicall3 } = core.CONTRACTS;
    expect(CONTRACTS).toEqual({
      ...{ entryPoint: entryPointV06, factory: smartWalletFactory },
      ...{ implementation: smartWalletImplementation, multicall3 },
    });
  });
});

describe("the wallet file", () => {
  test("is read as the service writes it; unknown transports are left out", () => {
    expect(readWalletFile(text)).toEqual({
      rpId: "pay.example.com",
      credentials: [{ id: passkey.credentialId, transports: ["internal"] }],
      owners: [...origin.owners],
      saltNonce: 0n,
      address,
      chainIds: [8453],
    });
  });

  const [network] = built.networks;
  test.each([
    ["is not JSON", "{", "not JSON"],
    ["is not an object", "[1]", "holds no object"],
    ["has another version", { version: 2 }, "of version 1"],
    ["has no owner", { owners: [] }, "names no owner"],
    ["has half an owner", { owners: [origin.owners[0]?.slice(0, 66)] }, '"owners" is missing or malformed'],
    ["has an empty list", { credentials: [null] }, '"credentials" is missing'],
    ["has an RP id that is a URL", { rpId: "https://pay.example.com" }, '"rpId" is missing or malformed'],
    ["has another address", { address: TO }, "damaged"],
    ["has another owner", { owners: [`0x${"1".repeat(128)}`] }, "damaged"],
    ["has another salt", { saltNonce: "1" }, "damaged"],
    ["names another factory", { factory: TO }, "another contract than this page (factory"],
    [
      "names another implementation",
      { implementation: TO },
      "another contract than this page (implementation",
    ],
    [
      "names another token",
      { networks: [{ ...network, usdc: TO }] },
      "another contract than this page (USDC",
    ],
    [
      "names another EntryPoint",
      { networks: [{ ...network, entryPoint: TO }] },
      "another contract than this page (entry",
    ],
    ["has a passkey without an id", { credentials: [{ transports: [] }] }, "a passkey without an id"],
    ["is larger than any wallet file", { note: "x".repeat(100_000) }, "too large"],
  ])("error: a file that %s is refused", (_name, changed, message) => {
    const given = typeof changed === "string" ? changed : JSON.stringify({ ...built, ...changed });
    expect(() => readWalletFile(given)).toThrow(message);
  });
});

describe("the operation", () => {
  const transfer = { to: TO, amountUnits: 1_500_000n };
  const operation = buildOperation(account, transfer);
  const ours = buildUserOperation({
    ...{ sender: address, nonce: 7n },
    calls: [{ to: BASE.usdc, data: encodeTransfer(TO, 1_500_000n) }],
  });

  test("is the service's, field by field, and has the same hash on each chain", () => {
    expect({ ...operation, signature: "0x" }).toEqual(ours);
    for (const { chainId } of NETWORKS)
      expect(operationHash(operation, chainId)).toBe(userOperationHash(ours, chainId));
    expect(operationHash(operation, 8453)).not.toBe(operationHash(operation, 84532));
  });

  test("its transaction is the service's, except for the beneficiary of the fee of 0", () => {
    const dead = "0x000000000000000000000000000000000000dead";
    const signed = { ...ours, signature: "0x1234" as Hex };
    const call = buildUserOperationCall(signed, dead);
    expect(buildTransaction(account, operation, "0x1234")).toMatchObject({ to: call.to, data: call.data });
  });

  test("the passkey's signature is encoded as the service encodes it, for a low and a high s", async () => {
    for (const s of ["low", "high"] as const) {
      const { response } = await passkey.authenticate({ challenge: "AAAA" }, { s });
      const { r, s: value } = readDer(Buffer.from(response.signature, "base64url"));
      const encoded = encodeSignature({
        clientData: Buffer.from(response.clientDataJSON, "base64url"),
        authenticatorData: Buffer.from(response.authenticatorData, "base64url"),
        ...{ r, s: value, ownerIndex: 3 },
      });
      expect(encoded).toBe(encodePasskeySignature(response, 3));
    }
  });

  test.each([
    ["an empty one", ""],
    ["one with bytes after s", "3007020101020101ff"],
    ["one that ends early", "300602010102"],
    ["one of another type", "3106020101020101"],
  ])("error: a malformed DER signature is refused: %s", (_name, hex) => {
    expect(() => readDer(Buffer.from(hex, "hex"))).toThrow("malformed");
  });

  test("revert reasons are decoded, and unknown errors have none", () => {
    const word = (value: number) => value.toString(16).padStart(64, "0");
    const string = (value: string) => word(value.length) + Buffer.from(value).toString("hex").padEnd(64, "0");
    expect(revertReason(`0x08c379a0${word(32)}${string("Pausable: paused")}`)).toBe("Pausable: paused");
    expect(revertReason(`0x220266b6${word(0)}${word(64)}${string("AA25 invalid account nonce")}`)).toBe(
      "AA25 invalid account nonce",
    );
    for (const data of [undefined, "0x", "0x08c379a0", `0xdeadbeef${word(1)}`])
      expect(revertReason(data)).toBeUndefined();
  });
});

describe("what a person types", () => {
  test.each([
    ["25", 25_000_000n],
    ["0.000001", 1n],
    [" 12.5 ", 12_500_000n],
  ])("%s USDC", (typed, units) => {
    expect(readAmount(typed, account)).toBe(units);
  });

  test.each([
    ["0", "more than 0"],
    ["25.000001", "holds 25.00 USDC only"],
    ["0.0000001", "at most 6 places"],
    ["1e3", "at most 6 places"],
    ["1,5", "at most 6 places"],
    ["-1", "at most 6 places"],
    ["", "at most 6 places"],
  ])("error: the amount %s is refused", (typed, message) => {
    expect(() => readAmount(typed, account)).toThrow(message);
  });

  test("amounts have two to six places", () => {
    expect([0n, 1n, 25_500_000n, 1_000_000_000_120n].map(formatAmount)).toEqual([
      ...["0.00", "0.000001", "25.50", "1000000.00012"],
    ]);
  });

  /** Of EIP-55 itself. */
  const CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
  test("a recipient in mixed case needs the right checksum; one in a single case needs none", () => {
    expect(readRecipient(CHECKSUMMED, account)).toBe(CHECKSUMMED.toLowerCase() as Hex);
    expect(readRecipient(` ${CHECKSUMMED.toLowerCase()} `, account)).toBe(CHECKSUMMED.toLowerCase() as Hex);
    expect(() => readRecipient(CHECKSUMMED.replace("aA", "aa"), account)).toThrow("EIP-55");
  });

  test.each([
    ["an e-mail address", "ann@example.com", "0x and 40 digits"],
    ["an address that lacks a digit", TO.slice(0, -1), "0x and 40 digits"],
    ["the zero address", `0x${"0".repeat(40)}`, "zero address"],
    ["the wallet itself", address, "own address"],
    ["the token", BASE.usdc, "USDC contract itself"],
    ["the EntryPoint", CONTRACTS.entryPoint, "infrastructure"],
  ])("error: the recipient is refused: %s", (_name, typed, message) => {
    expect(() => readRecipient(typed, account)).toThrow(message);
  });

  test("nodes are reached over https, or on this machine", () => {
    for (const url of ["https://node.example/key", "http://127.0.0.1:8545", "http://localhost:8545"])
      expect(() => openRpc(url)).not.toThrow();
    for (const url of ["http://node.example", "ws://127.0.0.1:8545", "node.example", ""])
      expect(() => openRpc(url)).toThrow("https://");
  });
});
