import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { bytesToHex, concatHex, type Hex, keccak256, toFunctionSelector } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { nobleSecp256k1, secp256k1 } from "../../core/chain/secp256k1.ts";
import { relayerAddress, signRelay } from "../../core/chain/sign-relay.ts";
import { CONTRACTS, NETWORKS } from "../../core/domain/networks.ts";
import { type Fees, nextFees } from "../../core/domain/raise-fees.ts";

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const privateKeys = fc
  .bigInt({ min: 1n, max: ORDER - 1n })
  .map((key): Hex => `0x${key.toString(16).padStart(64, "0")}`);
const GWEI = 1_000_000_000n;

describe("signRelay", () => {
  const networks = fc.constantFrom(NETWORKS.base, NETWORKS["base-sepolia"]);
  const data = fc
    .oneof(
      fc.uint8Array({ maxLength: 60 }),
      fc.uint8Array({ minLength: 200, maxLength: 70_000, size: "max" }),
    )
    .map((bytes) => bytesToHex(bytes));
  const fees = fc.oneof(fc.bigInt({ min: 0n, max: 300n }), fc.bigInt({ min: 0n, max: 2n ** 100n }));

  test("equals viem's signTransaction, on both engines", async () => {
    const transactions = fc.record({
      network: networks,
      key: privateKeys,
      nonce: fc.oneof(fc.constantFrom(0, 1, 127, 128, 255, 256), fc.nat()),
      tail: data,
      gas: fc.bigInt({ min: 0n, max: 16_777_216n }),
      maxPriorityFeePerGas: fees,
      above: fees,
      target: fc.constantFrom("usdc", "multicall3"),
    });
    await fc.assert(
      fc.asyncProperty(
        transactions,
        async ({ network, key, nonce, tail, gas, maxPriorityFeePerGas, above, target }) => {
          const [to, selector] =
            target === "usdc"
              ? ([network.usdc.address, "0xe3ee160e"] as const)
              : ([CONTRACTS.multicall3, "0x82ad56cb"] as const);
          const maxFeePerGas = maxPriorityFeePerGas + above;
          const transaction = {
            chainId: network.chainId,
            nonce,
            to,
            data: concatHex([selector, tail]),
            gas,
            maxFeePerGas,
            maxPriorityFeePerGas,
          };
          const expected = await privateKeyToAccount(key).signTransaction({
            type: "eip1559",
            value: 0n,
            ...transaction,
          });
          for (const engine of [secp256k1, nobleSecp256k1]) {
            const { raw, hash } = signRelay(key, { ...transaction, nonce: BigInt(nonce) }, engine);
            expect(raw).toBe(expected);
            expect(hash).toBe(keccak256(expected));
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  test("knows the relayer's address as viem does", () => {
    fc.assert(
      fc.property(privateKeys, (key) => {
        expect(relayerAddress(key)).toBe(privateKeyToAccount(key).address.toLowerCase() as Hex);
      }),
      { numRuns: 30 },
    );
  });

  describe("signs nothing but relays:", () => {
    const key: Hex = `0x${"07".repeat(32)}`;
    const self = relayerAddress(key);
    const transaction = {
      chainId: 84532,
      nonce: 0,
      to: NETWORKS["base-sepolia"].usdc.address as Hex,
      data: "0xe3ee160e" as Hex,
      gas: 21_000n,
      maxFeePerGas: 1n,
      maxPriorityFeePerGas: 1n,
    };

    test.each([
      [
        "USDC",
        "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)",
        transaction.to,
      ],
      [
        "USDC",
        "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
        transaction.to,
      ],
      ["Multicall3", "aggregate3((address,bool,bytes)[])", CONTRACTS.multicall3],
      ["the factory", "createAccount(bytes[],uint256)", CONTRACTS.smartWalletFactory],
      [
        "the EntryPoint",
        "handleOps((address,uint256,bytes,bytes,uint256,uint256,uint256,uint256,uint256,bytes,bytes)[],address)",
        CONTRACTS.entryPointV06,
      ],
    ] as const)(
      "a call that relays make to %s is signed, and refused for another contract: %s",
      (_, signature, to) => {
        const data = toFunctionSelector(`function ${signature}`);
        expect(signRelay(key, { ...transaction, to, data }).raw).toStartWith("0x02");
        expect(() =>
          signRelay(key, { ...transaction, to: CONTRACTS.smartWalletImplementation, data }),
        ).toThrow(RangeError);
      },
    );

    test("the relayer's own USDC does not move", () => {
      for (const signature of ["transfer(address,uint256)", "approve(address,uint256)"]) {
        const data = toFunctionSelector(`function ${signature}`);
        expect(() => signRelay(key, { ...transaction, data })).toThrow(RangeError);
      }
    });

    test("an unknown address, the other network's token, an unknown chain", () => {
      expect(() => signRelay(key, { ...transaction, to: `0x${"11".repeat(20)}` })).toThrow(RangeError);
      expect(() => signRelay(key, { ...transaction, to: NETWORKS.base.usdc.address })).toThrow(RangeError);
      expect(() => signRelay(key, { ...transaction, chainId: 1 })).toThrow(RangeError);
    });

    test("itself, except for a no-op", () => {
      expect(signRelay(key, { ...transaction, to: self, data: "0x" }).raw).toStartWith("0x02");
      expect(() => signRelay(key, { ...transaction, to: self, data: "0x00" })).toThrow(RangeError);
    });

    test("more gas than a transaction may have, negative numbers, half bytes", () => {
      expect(signRelay(key, { ...transaction, gas: 16_777_216n }).raw).toStartWith("0x02");
      expect(() => signRelay(key, { ...transaction, gas: 16_777_217n })).toThrow(RangeError);
      expect(() => signRelay(key, { ...transaction, nonce: -1 })).toThrow(RangeError);
      expect(() => signRelay(key, { ...transaction, data: "0xe3ee160e1" })).toThrow(RangeError);
    });
  });
});

describe("nextFees", () => {
  const market = { baseFeePerGas: 10n * GWEI, tipPerGas: GWEI, maxFeeWei: 100n * GWEI };

  test("offers twice the base fee plus the tip at first", () => {
    expect(nextFees(market)).toEqual({ maxFeePerGas: 21n * GWEI, maxPriorityFeePerGas: GWEI });
  });

  test("never offers more than the cap, nor a tip above the whole fee", () => {
    expect(nextFees({ ...market, maxFeeWei: 5n * GWEI })).toEqual({
      maxFeePerGas: 5n * GWEI,
      maxPriorityFeePerGas: GWEI,
    });
    expect(nextFees({ ...market, maxFeeWei: GWEI / 2n })).toEqual({
      maxFeePerGas: GWEI / 2n,
      maxPriorityFeePerGas: GWEI / 2n,
    });
  });

  test("raises both fees by a quarter when the market does not move", () => {
    const previous = { maxFeePerGas: 40n * GWEI, maxPriorityFeePerGas: 4n * GWEI };
    expect(nextFees({ ...market, previous })).toEqual({
      maxFeePerGas: 50n * GWEI,
      maxPriorityFeePerGas: 5n * GWEI,
    });
  });

  test("follows the market when it rose by more", () => {
    const previous = { maxFeePerGas: 3n * GWEI, maxPriorityFeePerGas: GWEI / 10n };
    expect(nextFees({ ...market, previous })).toEqual({
      maxFeePerGas: 21n * GWEI,
      maxPriorityFeePerGas: GWEI,
    });
  });

  test("stops raising where the cap leaves less than an eighth", () => {
    const inside = { maxFeePerGas: 88n * GWEI, maxPriorityFeePerGas: GWEI };
    expect(nextFees({ ...market, previous: inside }).maxFeePerGas).toBe(100n * GWEI);
    const outside = { maxFeePerGas: 89n * GWEI, maxPriorityFeePerGas: GWEI };
    expect(nextFees({ ...market, previous: outside })).toEqual(outside);
  });

  test("raises the tip to ten times the node's suggestion and no further", () => {
    const at = (maxPriorityFeePerGas: bigint) => ({ maxFeePerGas: 40n * GWEI, maxPriorityFeePerGas });
    expect(nextFees({ ...market, previous: at(8n * GWEI) }).maxPriorityFeePerGas).toBe(10n * GWEI);
    expect(nextFees({ ...market, previous: at(9n * GWEI) })).toEqual(at(9n * GWEI));
    expect(nextFees({ ...market, previous: at(10n * GWEI) })).toEqual(at(10n * GWEI));
  });

  test("raises the tip to 0.1 gwei where the node suggests less than a tenth of that", () => {
    const base = { baseFeePerGas: GWEI / 200n, maxFeeWei: 2n * GWEI };
    for (const tipPerGas of [undefined, GWEI / 1000n, GWEI / 100n - 1n]) {
      let previous = nextFees({ ...base, tipPerGas });
      for (let bump = 0; bump < 60; bump++) previous = nextFees({ ...base, tipPerGas, previous });
      expect(previous.maxPriorityFeePerGas).toBeLessThanOrEqual(GWEI / 10n);
      expect(previous.maxPriorityFeePerGas).toBeGreaterThan(((GWEI / 10n) * 8n) / 9n);
    }
    const above = { ...base, tipPerGas: GWEI / 50n };
    const previous = { maxFeePerGas: GWEI, maxPriorityFeePerGas: GWEI / 10n };
    expect(nextFees({ ...above, previous }).maxPriorityFeePerGas).toBe(GWEI / 8n);
  });

  test("every raise is large enough for nodes to accept, and the caps hold", () => {
    const amount = fc.bigInt({ min: 0n, max: 200n * GWEI });
    fc.assert(
      fc.property(
        amount,
        amount,
        amount,
        fc.bigInt({ min: 1n, max: 200n * GWEI }),
        (baseFeePerGas, tipPerGas, first, maxFeeWei) => {
          let previous: Fees = nextFees({ baseFeePerGas: first, tipPerGas, maxFeeWei });
          for (let bump = 0; bump < 20; bump++) {
            const next = nextFees({ baseFeePerGas, tipPerGas, maxFeeWei, previous });
            expect(next.maxFeePerGas).toBeLessThanOrEqual(maxFeeWei);
            expect(next.maxPriorityFeePerGas).toBeLessThanOrEqual(next.maxFeePerGas);
            if (next === previous) break;
            expect(next.maxFeePerGas * 1000n).toBeGreaterThanOrEqual(previous.maxFeePerGas * 1125n);
            expect(next.maxPriorityFeePerGas * 1000n).toBeGreaterThanOrEqual(
              previous.maxPriorityFeePerGas * 1125n,
            );
            previous = next;
          }
        },
      ),
    );
  });
});
