/** Payer and nonce of a payment are public: without the payer's own signature they are no success for any caller, whether a node answers or not. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makeKey } from "../facilitator/world.ts";
import {
  makePayer,
  type SignedPayment,
  shapeA,
  shapeB,
  signPayment,
  standardV1,
  standardV2,
} from "../support/payer.ts";
import {
  type Lab,
  newOrder,
  type Order,
  pay,
  paymentOf,
  payWithRetries,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { randomAddress } from "../support/seed.ts";
import { broadcastAsStranger } from "../support/stranger.ts";
import { settle } from "./second-payer.ts";

const AMOUNT = 40_000n;
let lab: Lab;
let key: string;

beforeAll(async () => {
  lab = await startLab({ env: { FACILITATOR: "1" } });
  key = await makeKey(lab.sql, lab.merchant.userId, ["facilitator"]);
  expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
}, 120_000);

afterAll(() => lab?.stop());

/** Code that answers ERC-1271's magic value to whoever asks. */
const YES_SAYER = "0x631626ba7e60e01b60005260206000f3";
const garbage = `0x5a${randomBytes(63).toString("hex")}1b` as Hex;
const long = `0x${randomBytes(300).toString("hex")}` as Hex;

/** What a third party can make of it who saw the payment on the chain and has no key of the payer. */
async function forgeries({ payment }: Order): Promise<SignedPayment[]> {
  const foreign = await signPayment(makePayer(), { to: payment.to, amountUnits: BigInt(payment.value) });
  return [
    { ...payment, signature: garbage },
    { ...payment, signature: garbage, validBefore: payment.validBefore + 60 },
    { ...payment, signature: foreign.signature },
    { ...payment, validBefore: payment.validBefore + 1 },
    { ...payment, validAfter: payment.validAfter + 1 },
  ];
}

type Answer = { status: number; success: unknown; error: unknown; txHash: unknown; header: string | null };

async function show(linkId: string, init: RequestInit, path: string): Promise<Answer> {
  const response = await fetch(`${lab.service.baseUrl}/v1/x402/${linkId}${path}`, init);
  const body = (await response.json()) as Record<string, unknown>;
  const header = response.headers.get("x-payment-response") ?? response.headers.get("payment-response");
  return { status: response.status, success: body.success, error: body.error, txHash: body.txHash, header };
}

const inBody = (body: unknown) => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});
const encode = (payload: unknown) => Buffer.from(JSON.stringify(payload)).toString("base64");

const WIRES: [string, (linkId: string, payment: SignedPayment) => Promise<Answer>][] = [
  ["JSON shape A", (linkId, payment) => show(linkId, inBody(shapeA(payment)), "/pay")],
  ["JSON shape B", (linkId, payment) => show(linkId, inBody(shapeB(payment)), "/pay")],
  [
    "header version 1",
    (linkId, payment) => show(linkId, { headers: { "x-payment": encode(standardV1(payment)) } }, ""),
  ],
  [
    "header version 2",
    (linkId, payment) => show(linkId, { headers: { "payment-signature": encode(standardV2(payment)) } }, ""),
  ],
];

function successOf(header: string | null): unknown {
  return header === null ? false : (JSON.parse(Buffer.from(header, "base64").toString()) as Answer).success;
}

function takeNodeAway(): void {
  lab.proxy.fault = () => ({ kind: "status", status: 503 });
}

function bringNodeBack(): void {
  lab.proxy.fault = () => undefined;
}

describe.each([
  ["answers", () => {}],
  ["answers 503", takeNodeAway],
])("the node %s", (_, setNode) => {
  test.each(WIRES)(
    "error: NONCE_USED for forged copies of a settled payment; %s",
    async (_name, wire) => {
      const order = await newOrder(lab);
      expect(await pay(lab, order)).toMatchObject({ status: 200 });
      setNode();
      try {
        for (const forged of await forgeries(order)) {
          const answer = await wire(order.linkId, forged);
          expect({ ...answer, header: successOf(answer.header) }).toMatchObject({ header: false });
          expect(answer.success).not.toBe(true);
          expect([402, 409]).toContain(answer.status);
          if (answer.status === 409) expect(answer).toMatchObject({ error: "NONCE_USED", txHash: null });
        }
        // the payer's own bytes are known without asking anybody
        const own = await wire(order.linkId, order.payment);
        expect(own.txHash).toMatch(/^0x[0-9a-f]{64}$/);
      } finally {
        bringNodeBack();
      }
    },
    120_000,
  );

  test("error: a forged copy of a payment in progress is refused immediately", async () => {
    const order = await newOrder(lab);
    await lab.service.kill("worker");
    const paying = pay(lab, order);
    try {
      await waitFor("the payment to be stored", async () => await paymentOf(lab, order.linkId));
      setNode();
      for (const [, wire] of WIRES) {
        for (const forged of await forgeries(order)) {
          const answer = await wire(order.linkId, forged);
          expect(answer.success).not.toBe(true);
          expect([402, 409]).toContain(answer.status);
        }
      }
    } finally {
      bringNodeBack();
      await lab.service.start("worker");
    }
    expect(await paying).toMatchObject({ status: 200 });
  }, 120_000);

  test("error: the facilitator refuses forged copies of a payment it settled", async () => {
    const payment = await facilitated();
    expect(await settle(lab, key, payment)).toMatchObject({ success: true });
    setNode();
    try {
      for (const forged of [
        { ...payment, signature: garbage },
        { ...payment, validBefore: payment.validBefore + 1 },
      ]) {
        expect(await settle(lab, key, forged)).toMatchObject({
          success: false,
          errorReason: "invalid_exact_evm_payload_signature",
        });
      }
    } finally {
      bringNodeBack();
    }
  }, 120_000);
});

describe("a signature of another form, and no node available", () => {
  test("error: INTERNAL_ERROR, retryable, for a link that an external transaction paid, refused once the node is back", async () => {
    const order = await newOrder(lab);
    const txHash = await broadcastAsStranger(lab.chain.rpcUrl, order.payment);
    await waitForLink(lab, order.linkId, "PAID");
    const forged = { ...order.payment, signature: long };
    takeNodeAway();
    try {
      for (const [name, wire] of WIRES) {
        // v, r and s are always 65 bytes
        if (name === "JSON shape B") continue;
        const answer = await wire(order.linkId, forged);
        expect({ name, ...answer }).toMatchObject({ status: 500, success: false, error: "INTERNAL_ERROR" });
        expect(successOf(answer.header)).toBe(false);
        // a key's signature needs no node
        expect((await wire(order.linkId, order.payment)).txHash).toBe(txHash);
      }
    } finally {
      bringNodeBack();
    }
    for (const [name, wire] of WIRES) {
      if (name === "JSON shape B") continue;
      const answer = await wire(order.linkId, forged);
      expect([402, 409]).toContain(answer.status);
    }
  }, 120_000);
});

describe("a payer with code, and no node available", () => {
  test("behavior: its stored bytes are the same payment; error: retryable INTERNAL_ERROR for other bytes", async () => {
    const { linkId, payment } = await newOrder(lab);
    const order = { linkId, payment: { ...payment, from: randomAddress(), signature: long } };
    await lab.rpc("anvil_setCode", [order.payment.from, YES_SAYER]);
    await fundUsdc(lab.chain.rpcUrl, order.payment.from, BigInt(payment.value));
    const { status, body } = await pay(lab, order);
    expect({ status, ...body }).toMatchObject({ status: 200, success: true });
    takeNodeAway();
    try {
      const again = await pay(lab, order);
      expect(again).toMatchObject({ status: 409, body: { error: "NONCE_USED", txHash: body.txHash } });
      const others = [{ signature: garbage }, { validBefore: payment.validBefore + 1 }];
      for (const other of others) {
        const unverified = await pay(lab, { linkId, payment: { ...order.payment, ...other } });
        expect(unverified).toMatchObject({
          status: 500,
          body: { success: false, error: "INTERNAL_ERROR", retryable: true, txHash: null },
        });
      }
    } finally {
      bringNodeBack();
    }
  }, 120_000);
});

/** A funded payer's authorization for a facilitated payment. */
async function facilitated(): Promise<SignedPayment> {
  const payer = makePayer();
  await fundUsdc(lab.chain.rpcUrl, payer.address, AMOUNT);
  return signPayment(payer, { to: randomAddress(), amountUnits: AMOUNT });
}
