/** Payers with code: passkey wallets pay like everybody; who burns our gas is stopped, and harms nobody else. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import type { Hex } from "viem";
import { serializeErc6492Signature } from "viem/utils";
import { authorizationDigest, tokenDomainOf } from "../../core/chain/authorization-digest.ts";
import {
  accountAddress,
  accountOriginOf,
  encodeCreateAccount,
  replaySafeHash,
} from "../../core/chain/passkey-account.ts";
import { NETWORKS } from "../../core/domain/networks.ts";
import { localAccount } from "../../local/accounts.ts";
import { createSoftwarePasskey } from "../../local/software-passkey.ts";
import { fundUsdc } from "../../local/usdc.ts";
import { SITE, sign } from "../chain/passkey-wallets.ts";
import { waitForReceipt } from "../chain/wait-for-receipt.ts";
import { seedLink } from "../support/seed.ts";
import {
  type Lab,
  linkStatus,
  newOrder,
  newOrders,
  type Order,
  pay,
  paymentOf,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "./lab.ts";

const NETWORK = NETWORKS["base-sepolia"];
/** Answers ERC-1271's magic value to whoever asks. */
const YES_SAYER: Hex = "0x631626ba7e60e01b60005260206000f3";
/** The same while nobody pays for gas, as in a simulation; in a real transaction it burns all it is given. */
const GAS_BOMB: Hex = "0x3a156009575b6005565b631626ba7e60e01b60005260206000f3";
const CONTRACT_GAS = 200_000n;

let lab: Lab;
let lastAmount = 5_000_000n;

beforeAll(async () => {
  lab = await startLab();
}, 60_000);

afterAll(() => lab?.stop());

/** An order whose payer is this address; `sign` gives the bytes over the authorization's digest. */
async function orderOf(from: Hex, signDigest: (digest: Hex) => Promise<Hex>): Promise<Order> {
  lastAmount += 1n;
  const amount = lastAmount;
  await fundUsdc(lab.chain.rpcUrl, from, amount * 2n);
  const linkId = await seedLink(lab.sql, lab.merchant, { amountUnits: amount });
  const authorization = {
    from,
    to: lab.merchant.address,
    value: amount,
    validAfter: 0n,
    validBefore: BigInt(Math.floor(Date.now() / 1000) + 600),
    nonce: `0x${randomBytes(32).toString("hex")}` as Hex,
  };
  const digest = authorizationDigest(tokenDomainOf(NETWORK), authorization);
  const signature = await signDigest(`0x${Buffer.from(digest).toString("hex")}`);
  const [validAfter, validBefore] = [0, Number(authorization.validBefore)];
  return { linkId, payment: { ...authorization, value: String(amount), validAfter, validBefore, signature } };
}

async function walletOrder({ isDeployed }: { isDeployed: boolean }): Promise<Order> {
  const passkey = await createSoftwarePasskey(SITE);
  const origin = accountOriginOf(passkey.publicKey);
  const data = encodeCreateAccount(origin.owners, origin.saltNonce);
  if (isDeployed) {
    const transaction = { from: localAccount(6).address, to: origin.factory, data, gas: "0x61a80" };
    const hash = await lab.rpc("eth_sendTransaction", [transaction]);
    await waitForReceipt(lab.chain.rpcUrl, hash);
  }
  return orderOf(accountAddress(origin), async (digest) => {
    const inner = await sign(passkey, replaySafeHash(accountAddress(origin), NETWORK.chainId, digest));
    if (isDeployed) return inner;
    return serializeErc6492Signature({ address: origin.factory, data, signature: inner });
  });
}

async function contractOrder(code: Hex): Promise<Order> {
  const address: Hex = `0x${randomBytes(20).toString("hex")}`;
  await lab.rpc("anvil_setCode", [address, code]);
  return orderOf(address, async () => "0x1234");
}

describe("a payer with code", () => {
  for (const isDeployed of [true, false]) {
    const name = isDeployed ? "deployed" : "not deployed yet (ERC-6492)";
    test(`a passkey wallet that is ${name} pays a link over HTTP`, async () => {
      const order = await walletOrder({ isDeployed });
      expect(await pay(lab, order)).toMatchObject({ status: 200, body: { success: true, settled: true } });
      expect(await linkStatus(lab, order.linkId)).toBe("PAID");
      const code = await lab.rpc("eth_getCode", [order.payment.from, "latest"]);
      expect(code).not.toBe("0x");
    }, 20_000);
  }

  test("error: INVALID_SIGNATURE for a wallet whose passkey signed something else", async () => {
    const [order, other] = [await walletOrder({ isDeployed: true }), await walletOrder({ isDeployed: true })];
    const payment = { ...order.payment, signature: other.payment.signature };
    expect(await pay(lab, { ...order, payment })).toMatchObject({
      status: 400,
      body: { error: "INVALID_SIGNATURE" },
    });
    expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
  }, 20_000);

  test("a keyed account that delegates to code (EIP-7702) pays alone, with the signature of its key", async () => {
    const order = await newOrder(lab);
    await lab.rpc("anvil_setCode", [order.payment.from, YES_SAYER]);
    const mates = await newOrders(lab, 5);
    const answers = await Promise.all([order, ...mates].map((one) => pay(lab, one)));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    const own = await paymentOf(lab, order.linkId);
    const [row] = await lab.sql<{ together: number }[]>`
      select count(*)::int as together from payments where relay_id = ${own?.relayId ?? 0n}`;
    expect(row?.together).toBe(1);
  }, 20_000);
});

describe("a payer that burns gas", () => {
  test("behavior: three transactions at most are lost on it, and 20 others are paid meanwhile", async () => {
    const bomb = await contractOrder(GAS_BOMB);
    const others = await newOrders(lab, 20);
    const [answer, ...rest] = await Promise.all([bomb, ...others].map((one) => pay(lab, one)));
    expect(rest.map(({ status }) => status)).toEqual(rest.map(() => 200));
    expect(answer?.status).toBeOneOf([202, 403]);
    await waitForLink(lab, bomb.linkId, "ACTIVE");
    expect(await paymentOf(lab, bomb.linkId)).toMatchObject({
      state: "FAILED",
      reason: "PAYMENT_NOT_ALLOWED",
      reverts: 3,
    });
    const burnt = await waitFor("the receipts", async () => {
      const rows = (await relaysOf(lab)).filter((relay) => relay.succeeded === false);
      return rows.length === 3 && rows;
    });
    for (const { gasUsed } of burnt) expect(gasUsed).toBeLessThanOrEqual(CONTRACT_GAS);
  }, 30_000);

  test("error: PAYMENT_NOT_ALLOWED for its next payment, before any gas is spent", async () => {
    const [row] = await lab.sql<{ payer: Hex }[]>`select payer from payments where reverts >= 3`;
    if (!row) throw new Error("nobody wasted three transactions");
    const before = (await relaysOf(lab)).length;
    const order = await orderOf(row.payer, async () => "0x1234");
    expect(await pay(lab, order)).toMatchObject({ status: 403, body: { error: "PAYMENT_NOT_ALLOWED" } });
    expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
    expect((await relaysOf(lab)).length).toBe(before);
  }, 20_000);
});
