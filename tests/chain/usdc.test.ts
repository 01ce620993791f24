import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { bytesToHex, encodeFunctionData, erc20Abi, type Hex, parseAbi } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { explainRevert } from "../../core/chain/revert-reasons.ts";
import {
  AUTHORIZATION_USED_TOPIC,
  assertTokenDomain,
  decodeAuthorizationLog,
  decodeTransferLog,
  encodeTransfer,
  encodeTransferWithBytes,
  encodeTransferWithVrs,
  readAuthorizationState,
  readBalance,
  TRANSFER_TOPIC,
} from "../../core/chain/usdc.ts";
import type { Authorization } from "../../core/domain/authorization.ts";
import { NETWORKS } from "../../core/domain/networks.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { RpcResponseError, RpcTransportError } from "../../core/rpc/errors.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { signAuthorization } from "../support/payer.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

const USDC = NETWORKS["base-sepolia"].usdc.address;
const ABI = parseAbi([
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)",
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)",
  "function cancelAuthorization(address authorizer, bytes32 nonce, bytes signature)",
  "function pause()",
  "function unpause()",
  "function blacklist(address account)",
]);
const OWNER = localAccount(9).address;

let node: TestChain;
let chain: ReturnType<typeof openChain>;
beforeAll(async () => {
  node = await startTestChain();
  chain = openChain({ network: "base-sepolia", urls: [node.rpcUrl], timeoutMs: 5_000 });
});
afterAll(async () => {
  chain.close();
  await node.stop();
});

const newPayer = () => privateKeyToAccount(generatePrivateKey());
const payee = () => newPayer().address.toLowerCase() as Hex;
const inAnHour = () => BigInt(Math.floor(Date.now() / 1000) + 3600);

async function send(data: Hex, from: Hex = OWNER) {
  const transaction = { from, to: USDC, data, gas: "0x100000" };
  return waitForReceipt(node.rpcUrl, await callRpc(node.rpcUrl, "eth_sendTransaction", [transaction]));
}

async function refusalOf(data: Hex) {
  try {
    await chain.request("eth_call", [{ from: OWNER, to: USDC, data }, "latest"]);
  } catch (error) {
    if (error instanceof RpcResponseError) return explainRevert(error.data).reason;
    throw error;
  }
  return undefined;
}

describe("calldata", () => {
  const bytes = (length: number) =>
    fc.uint8Array({ minLength: length, maxLength: length }).map((value) => bytesToHex(value));
  const uint256 = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n });
  const authorizations = fc.record({
    from: bytes(20),
    to: bytes(20),
    value: uint256,
    validAfter: uint256,
    validBefore: uint256,
    nonce: bytes(32),
  });
  const signatures = fc.uint8Array({ minLength: 1, maxLength: 200 }).map((value) => bytesToHex(value));

  test("both overloads equal viem's encoding", () => {
    fc.assert(
      fc.property(authorizations, bytes(64), fc.constantFrom("1b", "1c"), signatures, (a, rs, v, long) => {
        const head = [a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce] as const;
        const [r, s] = [rs.slice(0, 66) as Hex, `0x${rs.slice(66)}` as Hex];
        expect(encodeTransferWithVrs(a, `${rs}${v}` as Hex)).toBe(
          encodeFunctionData({
            abi: ABI,
            functionName: "transferWithAuthorization",
            args: [...head, Number(`0x${v}`), r, s],
          }),
        );
        expect(encodeTransferWithBytes(a, long)).toBe(
          encodeFunctionData({ abi: ABI, functionName: "transferWithAuthorization", args: [...head, long] }),
        );
      }),
    );
  });

  test("a plain transfer equals viem's encoding", () => {
    const to = payee();
    expect(encodeTransfer(to, 12_345n)).toBe(
      encodeFunctionData({ abi: erc20Abi, functionName: "transfer", args: [to, 12_345n] }),
    );
  });

  test("the v, r, s overload refuses signatures that are not 65 bytes", () => {
    const [sample] = fc.sample(authorizations, 1);
    expect(() => encodeTransferWithVrs(sample as never, `0x${"11".repeat(64)}`)).toThrow(RangeError);
  });
});

describe("the token on a chain", () => {
  test("has the domain that signatures are checked against", async () => {
    await assertTokenDomain(chain);
  });

  test("error: a token with another domain is refused", async () => {
    const other = { ...chain, network: { ...NETWORKS.base, usdc: { ...NETWORKS.base.usdc, address: USDC } } };
    await expect(assertTokenDomain(other)).rejects.toThrow(
      /DOMAIN_SEPARATOR 0x71f17a3b.*expected 0x02fa7265/,
    );
  });

  test("error: no token at the address throws instead of returning a balance of 0", async () => {
    const nowhere = {
      ...chain,
      network: { ...chain.network, usdc: { ...chain.network.usdc, address: payee() } },
    };
    await expect(readBalance(nowhere, payee())).rejects.toBeInstanceOf(RpcTransportError);
  });

  test.each(["v, r, s", "bytes"])("transfers with the %s overload and emits the logs", async (form) => {
    const payer = newPayer();
    const from = payer.address.toLowerCase() as Hex;
    const to = payee();
    await fundUsdc(node.rpcUrl, from, 10_000_000n);
    const { authorization, signature } = await signAuthorization(payer, { to, value: 2_500_000n });
    expect(await readAuthorizationState(chain, from, authorization.nonce)).toBe(false);
    const encode = form === "bytes" ? encodeTransferWithBytes : encodeTransferWithVrs;
    const { status, logs } = await send(encode(authorization, signature));
    expect(status).toBe("0x1");
    expect(await readBalance(chain, from)).toBe(7_500_000n);
    expect(await readBalance(chain, to)).toBe(2_500_000n);
    expect(await readAuthorizationState(chain, from, authorization.nonce)).toBe(true);
    expect(logs.map(decodeAuthorizationLog)).toEqual([
      { authorizer: from, nonce: authorization.nonce, isCanceled: false },
      undefined,
    ]);
    expect(logs.map(decodeTransferLog)).toEqual([undefined, { from, to, amountUnits: 2_500_000n }]);
  });

  test("a cancelled authorization is recognised by its log, not by its state", async () => {
    const payer = newPayer();
    const from = payer.address.toLowerCase() as Hex;
    const nonce: Hex = `0x${"ca".repeat(32)}`;
    const signature = await payer.signTypedData({
      domain: { name: "USDC", version: "2", chainId: 84532, verifyingContract: USDC },
      types: {
        CancelAuthorization: [
          { name: "authorizer", type: "address" },
          { name: "nonce", type: "bytes32" },
        ],
      },
      primaryType: "CancelAuthorization",
      message: { authorizer: from, nonce },
    });
    const data = encodeFunctionData({
      abi: ABI,
      functionName: "cancelAuthorization",
      args: [from, nonce, signature],
    });
    const { logs } = await send(data);
    expect(logs.map(decodeAuthorizationLog)).toEqual([{ authorizer: from, nonce, isCanceled: true }]);
    expect(await readAuthorizationState(chain, from, nonce)).toBe(true);
  });
});

describe("logs of other contracts", () => {
  const topics = [
    TRANSFER_TOPIC,
    `0x${"00".repeat(12)}${"11".repeat(20)}`,
    `0x${"00".repeat(12)}${"22".repeat(20)}`,
  ];
  const data = `0x${"00".repeat(31)}07`;

  test("a Transfer with both parties indexed is read", () => {
    const expected = { from: `0x${"11".repeat(20)}`, to: `0x${"22".repeat(20)}`, amountUnits: 7n } as const;
    expect(decodeTransferLog({ topics, data })).toEqual(expected);
  });

  test("an NFT's Transfer, one without indexed parties, and other events are not", () => {
    expect(decodeTransferLog({ topics: [...topics, data], data })).toBeUndefined();
    expect(decodeTransferLog({ topics: topics.slice(0, 1), data })).toBeUndefined();
    expect(decodeTransferLog({ topics, data: "0x" })).toBeUndefined();
    expect(
      decodeTransferLog({ topics: [AUTHORIZATION_USED_TOPIC, ...topics.slice(1)], data }),
    ).toBeUndefined();
    expect(decodeAuthorizationLog({ topics, data: "0x" })).toBeUndefined();
    expect(decodeAuthorizationLog({ topics: [AUTHORIZATION_USED_TOPIC], data: "0x" })).toBeUndefined();
  });
});

describe("revert strings become the documented refusals", () => {
  async function authorized(change: Partial<Authorization> = {}, units = 10_000_000n) {
    const payer = newPayer();
    await fundUsdc(node.rpcUrl, payer.address, units);
    const signed = await signAuthorization(payer, { to: payee(), validBefore: inAnHour(), ...change });
    return { payer, ...signed, data: encodeTransferWithVrs(signed.authorization, signed.signature) };
  }

  test("a good authorization is not refused", async () => {
    expect(await refusalOf((await authorized()).data)).toBeUndefined();
  });

  test("NONCE_USED", async () => {
    const { data } = await authorized();
    await send(data);
    expect(await refusalOf(data)).toBe("NONCE_USED");
  });

  test("EXPIRED_TRANSFER and NOT_YET_VALID", async () => {
    expect(await refusalOf((await authorized({ validBefore: 1n })).data)).toBe("EXPIRED_TRANSFER");
    expect(await refusalOf((await authorized({ validAfter: inAnHour() - 1n })).data)).toBe("NOT_YET_VALID");
  });

  test("INSUFFICIENT_FUNDS one micro-USDC short, fine when exact", async () => {
    expect(await refusalOf((await authorized({ value: 5n }, 4n)).data)).toBe("INSUFFICIENT_FUNDS");
    expect(await refusalOf((await authorized({ value: 5n }, 5n)).data)).toBeUndefined();
  });

  test("INVALID_SIGNATURE for another signer, a high s and a v the token does not know", async () => {
    const { authorization, signature } = await authorized();
    const other = await signAuthorization(newPayer(), { to: payee() });
    expect(await refusalOf(encodeTransferWithVrs(authorization, other.signature))).toBe("INVALID_SIGNATURE");
    const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
    const high = (order - BigInt(`0x${signature.slice(66, 130)}`)).toString(16).padStart(64, "0");
    const twin = `${signature.slice(0, 66)}${high}${signature.endsWith("1b") ? "1c" : "1b"}` as Hex;
    expect(await refusalOf(encodeTransferWithVrs(authorization, twin))).toBe("INVALID_SIGNATURE");
    const odd = `${signature.slice(0, 130)}1d` as Hex;
    expect(await refusalOf(encodeTransferWithVrs(authorization, odd))).toBe("INVALID_SIGNATURE");
  });

  test("PAYMENT_NOT_ALLOWED for a blacklisted payer and for a paused token", async () => {
    const { payer, data } = await authorized();
    await send(encodeFunctionData({ abi: ABI, functionName: "blacklist", args: [payer.address] }));
    expect(await refusalOf(data)).toBe("PAYMENT_NOT_ALLOWED");
    const other = await authorized();
    await send(encodeFunctionData({ abi: ABI, functionName: "pause" }));
    expect(await refusalOf(other.data)).toBe("PAYMENT_NOT_ALLOWED");
    await send(encodeFunctionData({ abi: ABI, functionName: "unpause" }));
    expect(await refusalOf(other.data)).toBeUndefined();
  });

  test("an unknown revert reason is INTERNAL_ERROR and retried", () => {
    expect(explainRevert("0x")).toMatchObject({ reason: "INTERNAL_ERROR", healable: true });
    expect(explainRevert(undefined)).toMatchObject({ reason: "INTERNAL_ERROR", healable: true });
    expect(explainRevert("0x08c379a0")).toMatchObject({
      reason: "INTERNAL_ERROR",
      text: "reverted with 0x08c379a0",
    });
    expect(explainRevert("0x82b42900")).toMatchObject({
      reason: "INTERNAL_ERROR",
      text: "reverted with 0x82b42900",
    });
  });
});
