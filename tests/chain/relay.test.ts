import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  bytesToHex,
  encodeFunctionData,
  type Hex,
  hashTypedData,
  multicall3Abi,
  serializeErc6492Signature,
  toHex,
} from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { findContracts } from "../../core/chain/accounts-with-code.ts";
import { findForbiddenFactory, isContractSignatureValid } from "../../core/chain/contract-signature.ts";
import { encodeAggregate3 } from "../../core/chain/multicall.ts";
import { accountAddress, accountOriginOf, encodeCreateAccount } from "../../core/chain/passkey-account.ts";
import { encodePasskeySignature } from "../../core/chain/passkey-signature.ts";
import {
  buildNoopCall,
  buildPaymentsCall,
  type RelayItem,
  simulatePayments,
} from "../../core/chain/relay.ts";
import { relayerAddress, signRelay } from "../../core/chain/sign-relay.ts";
import { decodeAuthorizationLog, decodeTransferLog, readBalance } from "../../core/chain/usdc.ts";
import type { Authorization } from "../../core/domain/authorization.ts";
import { NO_LINK_TAG } from "../../core/domain/link-tag.ts";
import { CONTRACTS, NETWORKS } from "../../core/domain/networks.ts";
import { WALLET_FACTORIES } from "../../core/domain/wallet-factories.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../../local/chain/usdc.ts";
import { createSoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import { replaySafeHash } from "../support/account-on-chain.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { signAuthorization, TRANSFER_TYPES } from "../support/payer.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

const NETWORK = NETWORKS["base-sepolia"];
const [RELAYER_KEY = "0x" as Hex] = localRelayerKeys();
const RELAYER = relayerAddress(RELAYER_KEY);
/** Code that burns whatever gas it is given. */
const GAS_BOMB = "0xfe";

let node: TestChain;
let chain: Chain;
let nonce = 0n;
beforeAll(async () => {
  node = await startTestChain();
  chain = openChain({ network: "base-sepolia", urls: [node.rpcUrl], timeoutMs: 5_000 });
  nonce = BigInt((await chain.request("eth_getTransactionCount", [RELAYER, "latest"])) as string);
});
afterAll(async () => {
  chain.close();
  await node.stop();
});

const randomAddress = () => bytesToHex(crypto.getRandomValues(new Uint8Array(20)));
const inAnHour = () => BigInt(Math.floor(Date.now() / 1000) + 3600);

async function newItem(change: Partial<Authorization> = {}, fundUnits = 5_000_000n): Promise<RelayItem> {
  const payer = privateKeyToAccount(generatePrivateKey());
  await fundUsdc(node.rpcUrl, payer.address, fundUnits);
  return {
    isContract: false,
    tag: NO_LINK_TAG,
    ...(await signAuthorization(payer, { to: randomAddress(), ...change })),
  };
}

function newItems(count: number): Promise<RelayItem[]> {
  return Promise.all(Array.from({ length: count }, () => newItem()));
}

async function relay(call: { to: Hex; data: Hex; gas: bigint }, key = RELAYER_KEY, at?: bigint) {
  const { raw, hash } = signRelay(key, {
    chainId: NETWORK.chainId,
    nonce: at ?? nonce++,
    maxFeePerGas: 10_000_000_000n,
    maxPriorityFeePerGas: 1_000_000n,
    ...call,
  });
  expect(await chain.request("eth_sendRawTransaction", [raw])).toBe(hash);
  return waitForReceipt(node.rpcUrl, hash);
}

async function newPasskeyPayer(isDeployed: boolean) {
  const passkey = await createSoftwarePasskey({ rpId: "localhost", origin: "http://localhost:3000" });
  const origin = accountOriginOf(passkey.publicKey);
  const address = accountAddress(origin);
  const factoryData = encodeCreateAccount(origin.owners, origin.saltNonce);
  await fundUsdc(node.rpcUrl, address, 5_000_000n);
  if (isDeployed) await relay({ to: origin.factory, data: factoryData, gas: 400_000n });

  const authorization: Authorization = {
    from: address,
    to: randomAddress(),
    value: 1_000_000n,
    validAfter: 0n,
    validBefore: inAnHour(),
    nonce: bytesToHex(crypto.getRandomValues(new Uint8Array(32))),
  };
  const digest = hashTypedData({
    domain: { name: "USDC", version: "2", chainId: NETWORK.chainId, verifyingContract: NETWORK.usdc.address },
    types: TRANSFER_TYPES,
    primaryType: "TransferWithAuthorization",
    message: authorization,
  });
  const challenge = Buffer.from(replaySafeHash(address, NETWORK.chainId, digest).slice(2), "hex").toString(
    "base64url",
  );
  const inner = encodePasskeySignature((await passkey.authenticate({ challenge })).response, 0);
  const wrap = (factory: Hex) =>
    serializeErc6492Signature({ address: factory, data: factoryData, signature: inner });
  return { authorization, inner, wrapped: wrap(CONTRACTS.smartWalletFactory), wrap };
}

describe("a relay's call", () => {
  test("aggregate3 equals viem's encoding", () => {
    const hex = (length: number) =>
      fc.uint8Array({ minLength: length, maxLength: length }).map((value) => bytesToHex(value));
    const data = fc.uint8Array({ maxLength: 100 }).map((value) => bytesToHex(value));
    fc.assert(
      fc.property(fc.array(fc.record({ to: hex(20), data }), { maxLength: 8 }), (calls) => {
        const args = [
          calls.map(({ to, data }) => ({ target: to, allowFailure: true, callData: data })),
        ] as const;
        expect(encodeAggregate3(calls)).toBe(
          encodeFunctionData({ abi: multicall3Abi, functionName: "aggregate3", args }),
        );
      }),
    );
  });

  test("one payment goes straight to the token, two go through Multicall3", async () => {
    const items = await newItems(2);
    expect(buildPaymentsCall(NETWORK, items.slice(0, 1)).to).toBe(NETWORK.usdc.address);
    expect(buildPaymentsCall(NETWORK, items).to).toBe(CONTRACTS.multicall3);
  });

  test("a contract payer does not share a transaction, and none or too many are refused", async () => {
    const [item] = await newItems(1);
    if (!item) throw new Error("no item");
    expect(() => buildPaymentsCall(NETWORK, [item, { ...item, isContract: true }])).toThrow(RangeError);
    expect(() => buildPaymentsCall(NETWORK, [])).toThrow(RangeError);
    expect(() =>
      buildPaymentsCall(
        NETWORK,
        Array.from({ length: 151 }, () => item),
      ),
    ).toThrow(RangeError);
  });

  test.each([1, 2, 10, 50])(
    "%d payments to first-time payees settle within the gas they get",
    async (count) => {
      const items = await newItems(count);
      const call = buildPaymentsCall(NETWORK, items);
      const receipt = await relay(call);
      expect(receipt.status).toBe("0x1");
      expect(BigInt(receipt.gasUsed)).toBeLessThan((call.gas * 95n) / 100n);
      const used = receipt.logs.map(decodeAuthorizationLog).filter((log) => log !== undefined);
      expect(used.map((log) => log.nonce)).toEqual(items.map((item) => item.authorization.nonce));
      const paid = receipt.logs.map(decodeTransferLog).filter((log) => log !== undefined);
      expect(paid.map((log) => log.to)).toEqual(items.map((item) => item.authorization.to));
    },
  );

  test("a payment that fails in a batch does not affect the others", async () => {
    const items = [...(await newItems(2)), await newItem({}, 0n)];
    const receipt = await relay(buildPaymentsCall(NETWORK, items));
    expect(receipt.status).toBe("0x1");
    const paid = receipt.logs.map(decodeTransferLog).filter((log) => log !== undefined);
    expect(paid.map((log) => log.to)).toEqual(items.slice(0, 2).map((item) => item.authorization.to));
  });
});

describe("a simulation", () => {
  test("gives every payment its own verdict, in order", async () => {
    const [good, used, swapped, other] = await newItems(4);
    if (!good || !used || !swapped || !other) throw new Error("no items");
    await relay(buildPaymentsCall(NETWORK, [used]));
    const items = [
      good,
      used,
      await newItem({ validBefore: 1n }),
      await newItem({ validAfter: inAnHour() - 1n }),
      { ...swapped, signature: other.signature },
      await newItem({ value: 5_000_001n }),
      other,
    ];
    const results = await simulatePayments(chain, RELAYER, items);
    expect(results.map((result) => (result.ok ? "ok" : [result.reason, result.healable]))).toEqual([
      "ok",
      ["NONCE_USED", false],
      ["EXPIRED_TRANSFER", false],
      ["NOT_YET_VALID", true],
      ["INVALID_SIGNATURE", false],
      ["INSUFFICIENT_FUNDS", true],
      "ok",
    ]);
  });

  test("sees one payer's balance shrink from payment to payment", async () => {
    const payer = privateKeyToAccount(generatePrivateKey());
    await fundUsdc(node.rpcUrl, payer.address, 1_500_000n);
    const sign = async () => ({
      isContract: false,
      tag: NO_LINK_TAG,
      ...(await signAuthorization(payer, { to: randomAddress() })),
    });
    const results = await simulatePayments(chain, RELAYER, [await sign(), await sign()]);
    expect(results).toMatchObject([{ ok: true }, { ok: false, reason: "INSUFFICIENT_FUNDS" }]);
  });

  test("moves nothing", async () => {
    const [item] = await newItems(1);
    if (!item) throw new Error("no item");
    expect(await simulatePayments(chain, RELAYER, [item])).toEqual([{ ok: true }]);
    expect(await readBalance(chain, item.authorization.to)).toBe(0n);
  });

  test.each([
    [0, 10],
    [4, 10],
    [9, 10],
    [0, 50],
    [48, 50],
  ])(
    "a payer who became a gas bomb at place %d of %d is found, and all others are cleared",
    async (place, count) => {
      const items = await newItems(count);
      const bomber = items[place]?.authorization.from ?? "0x";
      await callRpc(node.rpcUrl, "anvil_setCode", [bomber, GAS_BOMB]);
      const results = await simulatePayments(chain, RELAYER, items);
      expect(results.map((result) => result.ok)).toEqual(items.map((_, index) => index !== place));
      const payers = items.map((item) => item.authorization.from);
      expect(await findContracts(chain, payers)).toEqual(new Set([bomber]));
    },
  );

  test("error: without a node there is no verdict", async () => {
    const nowhere = openChain({ network: "base-sepolia", urls: ["http://127.0.0.1:1"], timeoutMs: 500 });
    await expect(simulatePayments(nowhere, RELAYER, await newItems(1))).rejects.toBeInstanceOf(
      RpcTransportError,
    );
    nowhere.close();
  });

  test("error: a node of another chain gives no verdict", async () => {
    const wrong = openChain({ network: "base", urls: [node.rpcUrl], timeoutMs: 500 });
    await expect(simulatePayments(wrong, RELAYER, await newItems(1))).rejects.toMatchObject({
      kind: "wrong-chain",
    });
    wrong.close();
  });
});

describe("contract payers", () => {
  test("a deployed passkey wallet pays with its signature", async () => {
    const { authorization, inner } = await newPasskeyPayer(true);
    expect(await isContractSignatureValid(chain, authorization, inner)).toBe(true);
    const item = { isContract: true, tag: NO_LINK_TAG, authorization, signature: inner };
    expect(await simulatePayments(chain, RELAYER, [item])).toEqual([{ ok: true }]);
    const call = buildPaymentsCall(NETWORK, [item]);
    const receipt = await relay(call);
    expect(receipt.status).toBe("0x1");
    expect(BigInt(receipt.gasUsed)).toBeLessThan(call.gas);
    expect(await readBalance(chain, authorization.to)).toBe(1_000_000n);
  });

  test("a wallet that is not deployed yet is deployed together with its payment (ERC-6492)", async () => {
    const { authorization, inner, wrapped } = await newPasskeyPayer(false);
    expect(await isContractSignatureValid(chain, authorization, inner)).toBe(false);
    expect(await isContractSignatureValid(chain, authorization, wrapped)).toBe(true);
    const item = { isContract: true, tag: NO_LINK_TAG, authorization, signature: wrapped };
    expect(await simulatePayments(chain, RELAYER, [item])).toEqual([{ ok: true }]);
    const call = buildPaymentsCall(NETWORK, [item]);
    const receipt = await relay(call);
    expect(receipt.status).toBe("0x1");
    expect(BigInt(receipt.gasUsed)).toBeLessThan(call.gas);
    expect(await readBalance(chain, authorization.to)).toBe(1_000_000n);
    expect(await simulatePayments(chain, RELAYER, [item])).toMatchObject([
      { ok: false, reason: "NONCE_USED" },
    ]);
  });

  test("a wrapped signature stays valid after the wallet was deployed", async () => {
    const { authorization, wrapped } = await newPasskeyPayer(true);
    expect(await isContractSignatureValid(chain, authorization, wrapped)).toBe(true);
    const receipt = await relay(
      buildPaymentsCall(NETWORK, [{ isContract: true, tag: NO_LINK_TAG, authorization, signature: wrapped }]),
    );
    expect(receipt.logs.map(decodeTransferLog).filter((log) => log)).toHaveLength(1);
  });

  test("signatures that name a factory outside the list are not valid", async () => {
    const { authorization, wrap } = await newPasskeyPayer(false);
    const factory = randomAddress();
    const foreign = wrap(factory);
    expect(findForbiddenFactory(chain, foreign)).toBe(factory);
    expect(await isContractSignatureValid(chain, authorization, foreign)).toBe(false);
    for (const own of WALLET_FACTORIES) expect(findForbiddenFactory(chain, wrap(own))).toBeUndefined();
    const strict = openChain({
      ...{ network: "base-sepolia", urls: [node.rpcUrl], timeoutMs: 5_000, walletFactories: [factory] },
    });
    expect(findForbiddenFactory(strict, foreign)).toBeUndefined();
    expect(findForbiddenFactory(strict, wrap(CONTRACTS.smartWalletFactory))).toBe(
      CONTRACTS.smartWalletFactory,
    );
    strict.close();
  });

  test("another wallet's signature, a changed amount and broken wrappers are not valid", async () => {
    const [one, two] = [await newPasskeyPayer(true), await newPasskeyPayer(true)];
    expect(await isContractSignatureValid(chain, one.authorization, two.inner)).toBe(false);
    expect(await isContractSignatureValid(chain, { ...one.authorization, value: 2n }, one.inner)).toBe(false);
    const broken = `0x1234${"6492".repeat(16)}` as Hex;
    expect(await isContractSignatureValid(chain, one.authorization, broken)).toBe(false);
    const refused = {
      isContract: true,
      tag: NO_LINK_TAG,
      authorization: one.authorization,
      signature: two.inner,
    };
    expect(await simulatePayments(chain, RELAYER, [refused])).toMatchObject([
      { ok: false, reason: "INVALID_SIGNATURE" },
    ]);
  });

  test("an account without code has no contract signature", async () => {
    const [item] = await newItems(1);
    if (!item) throw new Error("no item");
    expect(await isContractSignatureValid(chain, item.authorization, item.signature)).toBe(false);
  });

  test("a gas bomb alone is refused by its signature before any gas is paid", async () => {
    const { authorization, inner } = await newPasskeyPayer(true);
    await callRpc(node.rpcUrl, "anvil_setCode", [authorization.from, GAS_BOMB]);
    expect(await isContractSignatureValid(chain, authorization, inner)).toBe(false);
    const item = { isContract: true, tag: NO_LINK_TAG, authorization, signature: inner };
    expect(await simulatePayments(chain, RELAYER, [item])).toMatchObject([
      { ok: false, reason: "INVALID_SIGNATURE" },
    ]);
  });
});

describe("a no-op", () => {
  test("uses up a nonce for 21,000 gas", async () => {
    const key = generatePrivateKey();
    const address = relayerAddress(key);
    await fundEth(node.rpcUrl, address, 10n ** 18n);
    const receipt = await relay(buildNoopCall(address), key, 0n);
    expect(receipt).toMatchObject({ status: "0x1", gasUsed: toHex(21_000) });
    expect(await chain.request("eth_getTransactionCount", [address, "latest"])).toBe("0x1");
  });
});
