import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { bytesToHex, type Hex, hashTypedData, hexToBytes } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import {
  authorizationDigest,
  domainSeparator,
  tokenDomainOf,
} from "../../core/chain/authorization-digest.ts";
import { recoverPayer, toAddress } from "../../core/chain/recover-payer.ts";
import { findNativeSecp256k1, nobleSecp256k1, secp256k1 } from "../../core/chain/secp256k1.ts";
import { type Authorization, parseSignature } from "../../core/domain/authorization.ts";
import { NETWORKS } from "../../core/domain/networks.ts";
import { TRANSFER_TYPES } from "../support/payer.ts";

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

const hexOf = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((value) => bytesToHex(value));
const uint256 = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 64n }),
  fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }),
);
const authorizations: fc.Arbitrary<Authorization> = fc.record({
  from: hexOf(20),
  to: hexOf(20),
  value: uint256,
  validAfter: uint256,
  validBefore: uint256,
  nonce: hexOf(32),
});
const domains = fc.constantFrom(tokenDomainOf(NETWORKS.base), tokenDomainOf(NETWORKS["base-sepolia"]));
const privateKeys = fc.bigInt({ min: 1n, max: ORDER - 1n }).map(toWord);

function toWord(value: bigint): Hex {
  return `0x${value.toString(16).padStart(64, "0")}`;
}

function typedData(domain: ReturnType<typeof tokenDomainOf>, message: Authorization) {
  return { domain, types: TRANSFER_TYPES, primaryType: "TransferWithAuthorization", message } as const;
}

describe("the digest", () => {
  test("has the domain separators of the deployed tokens", () => {
    expect(bytesToHex(domainSeparator(tokenDomainOf(NETWORKS["base-sepolia"])))).toBe(
      "0x71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818",
    );
    expect(bytesToHex(domainSeparator(tokenDomainOf(NETWORKS.base)))).toMatch(/^0x02fa7265.*834f$/);
  });

  test("equals viem's hashTypedData for every authorization", () => {
    fc.assert(
      fc.property(domains, authorizations, (domain, authorization) => {
        const expected = hashTypedData(typedData(domain, authorization));
        expect(bytesToHex(authorizationDigest(domain, authorization))).toBe(expected);
      }),
      { numRuns: 300 },
    );
  });

  test("refuses fields of the wrong length instead of hashing leftovers of the previous one", () => {
    const domain = tokenDomainOf(NETWORKS.base);
    fc.assert(
      fc.property(authorizations, (authorization) => {
        const cut = (hex: Hex) => hex.slice(0, -2) as Hex;
        expect(() =>
          authorizationDigest(domain, { ...authorization, from: cut(authorization.from) }),
        ).toThrow(RangeError);
        expect(() =>
          authorizationDigest(domain, { ...authorization, nonce: `${authorization.nonce}00` }),
        ).toThrow(RangeError);
        expect(() => authorizationDigest(domain, { ...authorization, value: 2n ** 256n })).toThrow(
          RangeError,
        );
        expect(() => authorizationDigest(domain, { ...authorization, value: -1n })).toThrow(RangeError);
      }),
      { numRuns: 20 },
    );
  });
});

describe("recoverPayer", () => {
  test("finds the signer of what viem signed, on both engines", async () => {
    await fc.assert(
      fc.asyncProperty(domains, authorizations, privateKeys, async (domain, authorization, key) => {
        const account = privateKeyToAccount(key);
        const signature = await account.signTypedData(typedData(domain, authorization));
        const expected = account.address.toLowerCase() as Hex;
        expect(recoverPayer(domain, authorization, signature)).toBe(expected);
        expect(recoverPayer(domain, authorization, signature, nobleSecp256k1)).toBe(expected);
      }),
      { numRuns: 60 },
    );
  });

  test("every spelling of one signature normalises to the same payer", async () => {
    await fc.assert(
      fc.asyncProperty(domains, authorizations, privateKeys, async (domain, authorization, key) => {
        const account = privateKeyToAccount(key);
        const signature = await account.signTypedData(typedData(domain, authorization));
        const r = signature.slice(2, 66);
        const s = BigInt(`0x${signature.slice(66, 130)}`);
        const parity = signature.endsWith("1c") ? 1 : 0;
        const spellings = [
          `0x${r}${toWord(s).slice(2)}0${parity}`,
          `0x${r}${toWord(ORDER - s).slice(2)}${parity === 0 ? "1c" : "1b"}`,
          `0x${r}${toWord(ORDER - s).slice(2)}0${1 - parity}`,
          `0x${r}${toWord(s | (BigInt(parity) << 255n)).slice(2)}`,
          signature.toUpperCase().replace("0X", "0x"),
        ];
        for (const spelling of spellings) {
          const { ecdsa } = parseSignature(spelling) ?? {};
          expect(ecdsa).toBe(signature);
          expect(recoverPayer(domain, authorization, ecdsa ?? "0x")).toBe(
            account.address.toLowerCase() as Hex,
          );
        }
      }),
      { numRuns: 30 },
    );
  });

  test("refuses what the token's ECRecover refuses: high s, v outside 27 and 28, other lengths", async () => {
    const domain = tokenDomainOf(NETWORKS.base);
    await fc.assert(
      fc.asyncProperty(authorizations, privateKeys, async (authorization, key) => {
        const signature = await privateKeyToAccount(key).signTypedData(typedData(domain, authorization));
        const s = BigInt(`0x${signature.slice(66, 130)}`);
        const flipped = signature.endsWith("1c") ? "1b" : "1c";
        const twin = `${signature.slice(0, 66)}${toWord(ORDER - s).slice(2)}${flipped}` as Hex;
        for (const engine of [secp256k1, nobleSecp256k1]) {
          expect(recoverPayer(domain, authorization, twin, engine)).toBeUndefined();
          for (const v of ["00", "01", "1a", "1d", "ff"]) {
            expect(
              recoverPayer(domain, authorization, `${signature.slice(0, 130)}${v}` as Hex, engine),
            ).toBeUndefined();
          }
          expect(recoverPayer(domain, authorization, signature.slice(0, 130) as Hex, engine)).toBeUndefined();
          expect(recoverPayer(domain, authorization, `${signature}00`, engine)).toBeUndefined();
        }
      }),
      { numRuns: 20 },
    );
  });

  test("a changed field, another network and another key give another address", async () => {
    const [base, sepolia] = [tokenDomainOf(NETWORKS.base), tokenDomainOf(NETWORKS["base-sepolia"])];
    await fc.assert(
      fc.asyncProperty(authorizations, privateKeys, async (authorization, key) => {
        const account = privateKeyToAccount(key);
        const signature = await account.signTypedData(typedData(base, authorization));
        const payer = account.address.toLowerCase();
        const other = { ...authorization, value: authorization.value ^ 1n };
        expect(recoverPayer(base, other, signature)).not.toBe(payer as Hex);
        expect(recoverPayer(sepolia, authorization, signature)).not.toBe(payer as Hex);
      }),
      { numRuns: 20 },
    );
  });
});

describe("the two engines", () => {
  const anyScalar = fc.oneof(
    fc.constantFrom(0n, 1n, 2n, ORDER / 2n, ORDER / 2n + 1n, ORDER - 1n, ORDER, ORDER + 1n, 2n ** 256n - 1n),
    fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }),
  );

  test("the native binding is loaded here, not the package's JavaScript fallback", () => {
    expect(findNativeSecp256k1()?.name).toBe("native");
    expect(secp256k1.name).toBe("native");
  });

  test("recover the same key, or none, from any r, s, parity and hash", () => {
    let recovered = 0;
    let refused = 0;
    fc.assert(
      fc.property(hexOf(32), anyScalar, anyScalar, fc.constantFrom(0, 1), (hash, r, s, parity) => {
        const rs = hexToBytes(`${toWord(r)}${toWord(s).slice(2)}`);
        const native = findNativeSecp256k1()?.recover(hexToBytes(hash), rs, parity);
        const noble = nobleSecp256k1.recover(hexToBytes(hash), rs, parity);
        expect(native && bytesToHex(native)).toBe(noble && bytesToHex(noble));
        if (noble) recovered++;
        else refused++;
      }),
      { numRuns: 500 },
    );
    expect(recovered).toBeGreaterThan(50);
    expect(refused).toBeGreaterThan(50);
  });

  test("sign the same bytes, and know the same address as viem", () => {
    fc.assert(
      fc.property(hexOf(32), privateKeys, (hash, key) => {
        const [hashBytes, keyBytes] = [hexToBytes(hash), hexToBytes(key)];
        const native = secp256k1.sign(hashBytes, keyBytes);
        const noble = nobleSecp256k1.sign(hashBytes, keyBytes);
        expect(bytesToHex(native.rs)).toBe(bytesToHex(noble.rs));
        expect(native.parity).toBe(noble.parity);
        const address = privateKeyToAccount(key).address.toLowerCase() as Hex;
        expect(toAddress(secp256k1.publicKeyOf(keyBytes))).toBe(address);
        expect(toAddress(nobleSecp256k1.publicKeyOf(keyBytes))).toBe(address);
      }),
      { numRuns: 60 },
    );
  });
});
