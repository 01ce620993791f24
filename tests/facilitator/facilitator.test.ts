/** Resource servers of other services verify and settle through us with standard clients. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { x402Client } from "@x402/core/client";
import { x402ResourceServer } from "@x402/core/server";
import { registerExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { privateKeyToAccount } from "viem/accounts";
import { linkTag } from "../../core/domain/link-tag.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { signPayment } from "../support/payer.ts";
import { waitFor } from "../support/relay-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";
import { broadcastAsStranger, cancelAuthorization } from "../support/stranger.ts";
import { startWorld } from "../support/world.ts";
import {
  type FacilitatorWorld,
  inVersion1,
  inVersion2,
  makeKey,
  type Purchase,
  purchase,
  startFacilitatorWorld,
} from "./world.ts";

let lab: FacilitatorWorld;

beforeAll(async () => {
  lab = await startFacilitatorWorld();
}, 120_000);

afterAll(() => lab?.stop());

function settle2(bought: Purchase) {
  const { payload, requirements } = inVersion2(bought);
  return lab.v2.settle(payload, requirements);
}

function verify2(bought: Purchase) {
  const { payload, requirements } = inVersion2(bought);
  return lab.v2.verify(payload, requirements);
}

async function balanceOf({ payTo }: Purchase) {
  return readUsdcBalance(lab.world.chain.rpcUrl, payTo);
}

async function post(path: string, body: unknown, headers: Record<string, string> = {}) {
  return fetch(`${lab.url}/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
}

describe("standard clients", () => {
  test("both versions read the supported kinds and the senders", async () => {
    const kinds = [
      { x402Version: 1, scheme: "exact", network: "base-sepolia" },
      { x402Version: 2, scheme: "exact", network: "eip155:84532" },
    ];
    expect((await lab.v1.supported()).kinds).toEqual(kinds as never);
    const supported = await lab.v2.getSupported();
    expect(supported.kinds).toEqual(kinds as never);
    expect(supported.signers["eip155:*"]?.length).toBeGreaterThan(0);
  });

  test("version 2 verifies and settles; verifying stores nothing", async () => {
    const bought = await purchase(lab);
    expect(await verify2(bought)).toMatchObject({ isValid: true, payer: bought.payer.address });
    const rows = await lab.sql`select id from payments where payer = ${bought.payer.address}`;
    expect(rows.length).toBe(0);
    const settled = await settle2(bought);
    expect(settled).toMatchObject({ success: true, network: "eip155:84532", payer: bought.payer.address });
    expect(settled.transaction).toMatch(/^0x[0-9a-f]{64}$/);
    expect(await balanceOf(bought)).toBe(bought.amount);
  });

  test("version 1 verifies and settles", async () => {
    const bought = await purchase(lab);
    const { payload, requirements } = inVersion1(bought);
    expect(await lab.v1.verify(payload, requirements)).toMatchObject({ isValid: true });
    const settled = await lab.v1.settle(payload, requirements);
    expect(settled).toMatchObject({ success: true, network: "base-sepolia", payer: bought.payer.address });
    expect(await balanceOf(bought)).toBe(bought.amount);
  });

  test("a standard resource server sells to a standard client through us", async () => {
    const server = new x402ResourceServer(lab.v2).register("eip155:84532", new ExactEvmScheme());
    await server.initialize();
    const bought = await purchase(lab);
    const [requirements] = await server.buildPaymentRequirements({
      scheme: "exact",
      network: "eip155:84532",
      payTo: bought.payTo,
      price: "$0.02",
    });
    if (!requirements) throw new Error("the server asks for nothing");
    const client = new x402Client();
    registerExactEvmScheme(client, { signer: privateKeyToAccount(bought.payer.privateKey) });
    const resource = { url: "https://shop.test/report" };
    const payload = await client.createPaymentPayload({ x402Version: 2, resource, accepts: [requirements] });
    expect(await server.verifyPayment(payload, requirements)).toMatchObject({ isValid: true });
    expect(await server.settlePayment(payload, requirements)).toMatchObject({ success: true });
    expect(await balanceOf(bought)).toBe(20_000n);
  });
});

describe("settling", () => {
  test("error: an authorization whose nonce names a payment link pays that link alone, and is neither verified nor settled", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    await lab.sql`update payment_links set tag = ${linkTag(linkId)} where id = ${linkId}`;
    const bought = await purchase(lab, { payTo: lab.merchant.address });
    const nonce: Hex = `${linkTag(linkId)}${"5a".repeat(16)}`;
    const payment = await signPayment(bought.payer, {
      ...{ to: bought.payTo, amountUnits: bought.amount, nonce },
    });
    const tagged = { ...bought, payment };
    const reason = "invalid_exact_evm_nonce_already_used";
    expect(await verify2(tagged)).toMatchObject({ isValid: false, invalidReason: reason });
    expect(await settle2(tagged)).toMatchObject({ success: false, errorReason: reason });
    expect(await lab.sql`select from payments where payer = ${bought.payer.address}`).toHaveLength(0);
  });

  test("behavior: a success is reported once; the same payload again is refused as used, with the hash", async () => {
    const bought = await purchase(lab);
    const first = await settle2(bought);
    expect(first).toMatchObject({ success: true });
    const refused = { success: false, errorReason: "invalid_exact_evm_nonce_already_used" };
    expect(await settle2(bought)).toMatchObject({ ...refused, transaction: first.transaction });
    const { payload, requirements } = inVersion1(bought);
    expect(await lab.v1.settle(payload, requirements)).toMatchObject({
      ...refused,
      transaction: first.transaction,
    });
    expect(await balanceOf(bought)).toBe(bought.amount);
    expect(await verify2(bought)).toMatchObject({
      isValid: false,
      invalidReason: "invalid_exact_evm_nonce_already_used",
    });
  });

  test("behavior: the same Idempotency-Key gets the success again, from the same API key only", async () => {
    const bought = await purchase(lab);
    const { payload, requirements } = inVersion2(bought);
    const body = { x402Version: 2, paymentPayload: payload, paymentRequirements: requirements };
    const settle = async (idempotencyKey: string, apiKey = lab.key) => {
      const headers = { authorization: `Bearer ${apiKey}`, "idempotency-key": idempotencyKey };
      const response = await post("settle", body, headers);
      return (await response.json()) as { success: boolean; transaction: string; errorReason?: string };
    };
    const answers = await Promise.all(Array.from({ length: 4 }, () => settle("order 7")));
    expect(answers.map(({ success }) => success)).toEqual([true, true, true, true]);
    expect(await settle("order 7")).toEqual(answers[0] ?? { success: false, transaction: "" });
    const other = await makeKey(lab.sql, (await seedMerchant(lab.sql)).userId, ["facilitator"]);
    for (const again of [await settle("order 8"), await settle("order 7", other)]) {
      expect(again).toMatchObject({ success: false, errorReason: "invalid_exact_evm_nonce_already_used" });
    }
    expect(await balanceOf(bought)).toBe(bought.amount);
  });

  test("behavior: a payload sent 16 times concurrently is one transfer and one success", async () => {
    const bought = await purchase(lab);
    const answers = await Promise.all(Array.from({ length: 16 }, () => settle2(bought)));
    expect(answers.filter((answer) => answer.success)).toHaveLength(1);
    expect(new Set(answers.map((answer) => answer.transaction)).size).toBe(1);
    expect(await balanceOf(bought)).toBe(bought.amount);
  });

  test("behavior: settlement_pending is not a success: a retry gets it", async () => {
    const bought = await purchase(lab);
    await lab.world.kill("worker");
    const pending = await settle2(bought).finally(() => lab.world.start("worker"));
    expect(pending).toMatchObject({ success: false, errorReason: "settlement_pending" });
    let retried = await settle2(bought);
    while ("errorReason" in retried && retried.errorReason === "settlement_pending")
      retried = await settle2(bought);
    expect(retried).toMatchObject({ success: true });
    expect(await balanceOf(bought)).toBe(bought.amount);
  }, 120_000);

  test("error: an authorization that another sender used before it was submitted fails, with the hash", async () => {
    const bought = await purchase(lab);
    const transaction = await broadcastAsStranger(lab.world.chain.rpcUrl, bought.payment);
    const refused = { success: false, errorReason: "invalid_exact_evm_nonce_already_used", transaction };
    expect(await settle2(bought)).toMatchObject(refused);
    expect(await settle2(bought)).toMatchObject(refused);
    const { payload, requirements } = inVersion1(bought);
    expect(await lab.v1.settle(payload, requirements)).toMatchObject(refused);
    expect(await balanceOf(bought)).toBe(bought.amount);
  }, 120_000);

  test("error: an authorization used before it was submitted fails even if the wallet's ledger has the transfer", async () => {
    const bought = await purchase(lab, { payTo: lab.merchant.address });
    const transaction = await broadcastAsStranger(lab.world.chain.rpcUrl, bought.payment);
    await waitFor("the transfer in the ledger", async () => {
      const rows = await lab.sql`select from transfers where tx_hash = ${transaction}`;
      return rows.length > 0;
    });
    expect(await settle2(bought)).toMatchObject({
      success: false,
      errorReason: "invalid_exact_evm_nonce_already_used",
      transaction,
    });
  }, 120_000);

  test("behavior: 64 concurrent payers are settled in fewer transactions than payers", async () => {
    const all = await Promise.all(Array.from({ length: 64 }, () => purchase(lab)));
    const answers = await Promise.all(all.map(settle2));
    expect(answers.filter((answer) => !answer.success)).toEqual([]);
    expect(new Set(answers.map((answer) => answer.transaction)).size).toBeLessThan(64);
    const reverted = await lab.sql`select id from relays where succeeded = false`;
    expect(reverted.length).toBe(0);
  }, 120_000);

  test("behavior: another sender's broadcast during the relay is reported as the settlement", async () => {
    for (let round = 0; round < 3; round++) {
      const bought = await purchase(lab);
      const [answer] = await Promise.all([
        settle2(bought),
        broadcastAsStranger(lab.world.chain.rpcUrl, bought.payment).catch(() => undefined),
      ]);
      const isTold = answer.success || answer.errorReason === "invalid_exact_evm_nonce_already_used";
      expect({ isTold, answer }).toMatchObject({ isTold: true });
      expect(await balanceOf(bought)).toBe(bought.amount);
    }
  }, 120_000);

  test("error: insufficient_funds, and the same payload settles after a top-up", async () => {
    const bought = await purchase(lab, { funds: 1n });
    const refused = await settle2(bought);
    expect(refused).toMatchObject({ success: false, errorReason: "insufficient_funds", transaction: "" });
    await fundUsdc(lab.world.chain.rpcUrl, bought.payer.address, bought.amount);
    expect(await settle2(bought)).toMatchObject({ success: true });
  }, 120_000);

  test("error: a cancelled authorization is refused as used", async () => {
    const bought = await purchase(lab);
    await cancelAuthorization(lab.world.chain.rpcUrl, bought.payer, bought.payment.nonce);
    const refused = await settle2(bought);
    expect(refused).toMatchObject({
      success: false,
      errorReason: "invalid_exact_evm_nonce_already_used",
      transaction: "",
    });
    expect(await balanceOf(bought)).toBe(0n);
  }, 120_000);

  test("error: a nonce copied from the chain, without a signature over it, does not pay", async () => {
    const bought = await purchase(lab);
    await settle2(bought);
    const forged = { ...bought.payment, signature: (await purchase(lab)).payment.signature };
    expect(await settle2({ ...bought, payment: forged })).toMatchObject({
      success: false,
      errorReason: "invalid_exact_evm_payload_signature",
    });
    const { nonce } = bought.payment;
    const terms = { to: bought.payTo, amountUnits: bought.amount + 1n, nonce };
    const other = await signPayment(bought.payer, terms);
    expect(await settle2({ ...bought, amount: bought.amount + 1n, payment: other })).toMatchObject({
      success: false,
      errorReason: "invalid_exact_evm_nonce_already_used",
    });
  });

  test("a facilitated payment to a user's wallet is in the history, and pays no link of the same amount", async () => {
    const bought = await purchase(lab, { payTo: lab.merchant.address });
    const linkId = await seedLink(lab.sql, lab.merchant, { amountUnits: bought.amount });
    const { transaction } = await settle2(bought);
    const [row] = await lab.sql<{ type: string; linkId: string | null }[]>`
      select type, link_id from transactions where tx_hash = ${transaction} and owner = owner_key(${lab.merchant.userId})`;
    expect(row).toEqual({ type: "RECEIVE", linkId: null });
    const [link] = await lab.sql<{ status: string }[]>`
      select status from payment_links where id = ${linkId}`;
    expect(link?.status).toBe("ACTIVE");
  });
});

describe("refusals of verify", () => {
  const nowS = Math.floor(Date.now() / 1000);
  const cases: [string, (bought: Purchase) => Purchase | Promise<Purchase>][] = [
    ["invalid_exact_evm_payload_authorization_value_mismatch", (b) => ({ ...b, amount: b.amount + 1n })],
    ["invalid_exact_evm_payload_authorization_value_mismatch", (b) => ({ ...b, amount: b.amount - 1n })],
    ["invalid_exact_evm_payload_recipient_mismatch", (b) => ({ ...b, payTo: b.payer.address })],
    [
      "invalid_exact_evm_payload_signature",
      (b) => ({ ...b, payment: { ...b.payment, nonce: `0x${"7".repeat(64)}` } }),
    ],
    [
      "invalid_exact_evm_payload_authorization_valid_before",
      async (b) => ({
        ...b,
        payment: await signPayment(b.payer, { to: b.payTo, amountUnits: b.amount, validBefore: nowS }),
      }),
    ],
  ];
  for (const [reason, change] of cases) {
    test(`error: ${reason}`, async () => {
      const bought = await change(await purchase(lab));
      expect(await verify2(bought)).toMatchObject({ isValid: false, invalidReason: reason });
      expect(await settle2(bought)).toMatchObject({ success: false, errorReason: reason });
    });
  }

  const broken: [string, (body: Record<string, unknown>) => unknown][] = [
    ["invalid_x402_version", (body) => ({ ...body, x402Version: 3 })],
    [
      "invalid_payload",
      (body) => ({ ...body, paymentPayload: { ...(body.paymentPayload as object), payload: {} } }),
    ],
    ["unsupported_scheme", (body) => ({ ...body, paymentRequirements: { scheme: "upto" } })],
    ["invalid_network", (body) => changeRequirements(body, { network: "eip155:8453" })],
    ["invalid_payment_requirements", (body) => changeRequirements(body, { asset: `0x${"1".repeat(40)}` })],
    ["invalid_payment_requirements", (body) => changeRequirements(body, { amount: "-1" })],
  ];
  for (const [reason, breakIt] of broken) {
    test(`error: 400 ${reason}`, async () => {
      const { payload: paymentPayload, requirements: paymentRequirements } = inVersion2(await purchase(lab));
      const body = breakIt({ x402Version: 2, paymentPayload, paymentRequirements });
      const response = await post("verify", body);
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ isValid: false, invalidReason: reason });
    });
  }

  function changeRequirements(body: Record<string, unknown>, change: Record<string, unknown>) {
    return { ...body, paymentRequirements: { ...(body.paymentRequirements as object), ...change } };
  }
});

describe("who may settle", () => {
  test("error: 401 without an API key and with one of other scopes", async () => {
    expect((await post("settle", {})).status).toBe(401);
    const key = await makeKey(lab.sql, lab.merchant.userId, ["links:read"]);
    expect((await post("settle", {}, { authorization: `Bearer ${key}` })).status).toBe(401);
    const own = await post("settle", {}, { authorization: `Bearer ${lab.key}` });
    expect(own.status).toBe(400);
    expect(await own.json()).toMatchObject({ success: false, errorReason: "invalid_x402_version" });
  });

  test("error: 404 on every route unless FACILITATOR is set", async () => {
    const world = await startWorld();
    const answers = await Promise.all(
      ["supported", "verify", "settle"].map((path) => fetch(`${world.baseUrl}/facilitator/${path}`)),
    );
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
    await world.stop();
  }, 120_000);
});
