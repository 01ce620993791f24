/** A payer whose wallet is not deployed yet pays when its factory is one the service calls; the refusal of others names the factory. */

import { afterEach, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { serializeErc6492Signature } from "viem/utils";
import { authorizationDigest, tokenDomainOf } from "../../core/chain/authorization-digest.ts";
import { accountAddress, accountOriginOf, encodeCreateAccount } from "../../core/chain/passkey-account.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { createSoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import { replaySafeHash } from "../support/account-on-chain.ts";
import { SITE, sign } from "../support/passkey-wallets.ts";
import { type Lab, linkStatus, type Order, pay, startLab } from "../support/relay-lab.ts";
import { randomAddress, seedLink } from "../support/seed.ts";

const NETWORK = NETWORKS["base-sepolia"];
/** Coinbase Smart Wallet 1.0. */
const OLDER_FACTORY = "0x0ba5ed0c6aa8c49038f819e587e2633c4a9f428a";

let lab: Lab | undefined;
let lastAmount = 7_000_000n;

afterEach(async () => {
  await lab?.stop();
  lab = undefined;
}, 120_000);

/** An order whose payer is a wallet that only exists once this factory has made it. The factory's code is put there. */
async function orderFrom(at: Lab, factory: Hex): Promise<Order> {
  const code = await at.rpc("eth_getCode", [CONTRACTS.smartWalletFactory, "latest"]);
  await at.rpc("anvil_setCode", [factory, code]);
  lastAmount += 1n;
  const amount = lastAmount;
  const passkey = await createSoftwarePasskey(SITE);
  const origin = { ...accountOriginOf(passkey.publicKey), factory };
  const from = accountAddress(origin);
  await fundUsdc(at.chain.rpcUrl, from, amount);
  const linkId = await seedLink(at.sql, at.merchant, { amountUnits: amount });
  const authorization = {
    ...{ from, to: at.merchant.address, value: amount, validAfter: 0n },
    validBefore: BigInt(Math.floor(Date.now() / 1000) + 600),
    nonce: `0x${randomBytes(32).toString("hex")}` as Hex,
  };
  const digest = authorizationDigest(tokenDomainOf(NETWORK), authorization);
  const hash: Hex = `0x${Buffer.from(digest).toString("hex")}`;
  const inner = await sign(passkey, replaySafeHash(from, NETWORK.chainId, hash));
  const data = encodeCreateAccount(origin.owners, origin.saltNonce);
  const signature = serializeErc6492Signature({ address: factory, data, signature: inner });
  const validBefore = Number(authorization.validBefore);
  return {
    linkId,
    payment: { ...authorization, value: String(amount), validAfter: 0, validBefore, signature },
  };
}

async function expectPaid(at: Lab, order: Order) {
  expect(await pay(at, order)).toMatchObject({ status: 200, body: { success: true, settled: true } });
  expect(await linkStatus(at, order.linkId)).toBe("PAID");
  expect(await at.rpc("eth_getCode", [order.payment.from, "latest"])).not.toBe("0x");
}

async function expectRefused(at: Lab, order: Order, factory: Hex) {
  const { status, body } = await pay(at, order);
  expect({ status, error: body.error }).toEqual({ status: 400, error: "INVALID_SIGNATURE" });
  const { message } = body as { message?: string };
  expect(message).toContain(factory);
  expect(message).toContain("does not call");
  expect(message).not.toContain("is not the payer's");
  expect(await linkStatus(at, order.linkId)).toBe("ACTIVE");
  expect(await at.rpc("eth_getCode", [order.payment.from, "latest"])).toBe("0x");
}

describe("ERC6492_FACTORIES", () => {
  test("both factories of the Coinbase Smart Wallet are called by default; another is refused by name", async () => {
    const at = await startLab();
    lab = at;
    for (const factory of [CONTRACTS.smartWalletFactory, OLDER_FACTORY] as const) {
      await expectPaid(at, await orderFrom(at, factory));
    }
    const unknown = randomAddress();
    const order = await orderFrom(at, unknown);
    await expectRefused(at, order, unknown);
    await expectRefusedByHeader(at, order, unknown);
  }, 120_000);

  test("a configured list replaces the default", async () => {
    const chosen = randomAddress();
    const at = await startLab({ env: { ERC6492_FACTORIES: chosen } });
    lab = at;
    await expectPaid(at, await orderFrom(at, chosen));
    const order = await orderFrom(at, CONTRACTS.smartWalletFactory);
    await expectRefused(at, order, CONTRACTS.smartWalletFactory);
  }, 120_000);
});

/** On x402's own way the reason is in the 402 beside the requirements. */
async function expectRefusedByHeader(at: Lab, { linkId, payment }: Order, factory: Hex) {
  const { signature, ...fields } = payment;
  const authorization = { ...fields, validAfter: "0", validBefore: String(fields.validBefore) };
  const accepted = { scheme: "exact", network: NETWORK.caip2 };
  const payload = { x402Version: 2, accepted, payload: { signature, authorization } };
  const header = Buffer.from(JSON.stringify(payload)).toString("base64");
  const response = await fetch(`${at.service.baseUrlOf("api")}/v1/x402/${linkId}`, {
    headers: { "payment-signature": header },
  });
  expect(response.status).toBe(402);
  expect(await response.json()).toMatchObject({
    error: "INVALID_SIGNATURE",
    message: expect.stringContaining(factory),
  });
}
