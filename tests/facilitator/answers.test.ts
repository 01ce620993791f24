/** A settlement's success is reported to the request it belongs to, once; again only when the first answer was lost. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { readUsdcBalance } from "../../local/chain/usdc.ts";
import { seedMerchant } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";
import {
  type FacilitatorWorld,
  inVersion1,
  inVersion2,
  makeKey,
  type Purchase,
  purchase,
  startFacilitatorWorld,
} from "./world.ts";

const USED = "invalid_exact_evm_nonce_already_used";
const IDENTIFIER = "order_2026-11-22_0001";
/** Documented: how long a lost answer can be repeated. */
const REPEAT_S = 60;
const DEADLINE_MS = 45_000;

let lab: FacilitatorWorld;
let sameUser: string;
let otherUser: string;

beforeAll(async () => {
  lab = await startFacilitatorWorld();
  sameUser = await makeKey(lab.sql, lab.merchant.userId, ["facilitator"]);
  otherUser = await makeKey(lab.sql, (await seedMerchant(lab.sql)).userId, ["facilitator"]);
}, 120_000);

afterEach(async () => {
  await lab.world.startMissing();
  process.kill(lab.world.pidOf("worker"), "SIGCONT");
});
afterAll(() => lab?.stop());

type Answer = {
  success: boolean;
  transaction: string;
  isValid: boolean;
  errorReason?: string;
  errorMessage?: string;
  invalidReason?: string;
};

function bodyOf(bought: Purchase, extensions?: object) {
  const { payload, requirements } = inVersion2(bought);
  const paymentPayload = extensions === undefined ? payload : { ...payload, extensions };
  return { x402Version: 2, paymentPayload, paymentRequirements: requirements };
}

const identified = (bought: Purchase, id = IDENTIFIER) =>
  bodyOf(bought, { "payment-identifier": { info: { required: false, id }, schema: {} } });

async function ask(
  route: "settle" | "verify",
  body: unknown,
  { key = lab.key, headers = {} }: { key?: string | null; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const authorization: Record<string, string> = key === null ? {} : { authorization: `Bearer ${key}` };
  const response = await fetch(`${lab.url}/${route}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...authorization, ...headers },
    body: JSON.stringify(body),
  });
  expect(response.status).toBe(200);
  return (await response.json()) as Answer;
}

const settle = (body: unknown, options?: Parameters<typeof ask>[2]) => ask("settle", body, options);
const verify = (body: unknown, options?: Parameters<typeof ask>[2]) => ask("verify", body, options);

/** Sends a request over its own socket; `cut` closes it before an answer was read. */
async function askOnSocket(body: unknown, headers: Record<string, string> = {}) {
  const { hostname, port } = new URL(lab.url);
  const text = JSON.stringify(body);
  const lines = Object.entries({
    host: hostname,
    authorization: `Bearer ${lab.key}`,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(text)),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const socket = connect(Number(port), hostname);
  let received = "";
  socket.on("data", (chunk) => (received += chunk.toString()));
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    socket.write(`POST /facilitator/settle HTTP/1.1\r\n${lines.join("")}\r\n${text}`, () => resolve());
  });
  const cut = () =>
    new Promise<void>((resolve) => {
      socket.once("close", () => resolve());
      socket.destroy();
    });
  return { cut, received: () => received };
}

type Row = { id: string; state: string; answerState: string | null };

async function rowOf({ payer }: Purchase): Promise<Row | undefined> {
  const [row] = await lab.sql<Row[]>`
    select id, state, answer_state from payments where payer = ${payer.address}`;
  return row;
}

async function waitForRow(bought: Purchase, isIt: (row: Row) => boolean): Promise<Row> {
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    const row = await rowOf(bought);
    if (row && isIt(row)) return row;
    if (Date.now() > deadline) throw new Error(`timed out; the payment is ${JSON.stringify(row)}`);
    await Bun.sleep(5);
  }
}

/** A payment whose settlement was requested on a connection that was closed while it waited. */
async function cutWhileWaiting(bought: Purchase, body: unknown, headers?: Record<string, string>) {
  const worker = lab.world.pidOf("worker");
  process.kill(worker, "SIGSTOP");
  try {
    const { cut, received } = await askOnSocket(body, headers);
    await waitForRow(bought, () => true);
    await cut();
    expect(received()).toBe("");
  } finally {
    process.kill(worker, "SIGCONT");
  }
  return waitForRow(bought, ({ answerState }) => answerState === "CUT");
}

async function moveBack({ id }: Row, seconds: number): Promise<void> {
  await lab.sql`
    update payments
    set answered_at = answered_at - make_interval(secs => ${seconds})
    where id = ${id}`;
}

const transfersTo = ({ payTo }: Purchase) => readUsdcBalance(lab.world.chain.rpcUrl, payTo);

describe("a connection that was closed before the answer", () => {
  test("behavior: a request cut after 4 ms leaves the success to the next request, and to no later one", async () => {
    const bought = await purchase(lab);
    const worker = lab.world.pidOf("worker");
    process.kill(worker, "SIGSTOP");
    try {
      const { cut } = await askOnSocket(bodyOf(bought));
      await Bun.sleep(4);
      await cut();
    } finally {
      process.kill(worker, "SIGCONT");
    }
    const second = await settle(bodyOf(bought));
    expect(second).toMatchObject({ success: true });
    const third = await settle(bodyOf(bought));
    expect(third).toMatchObject({ success: false, errorReason: USED, transaction: second.transaction });
    expect(await transfersTo(bought)).toBe(bought.amount);
  });

  test("behavior: the same request of the same API key gets the success once, also long after the settlement", async () => {
    const bought = await purchase(lab);
    await cutWhileWaiting(bought, bodyOf(bought));
    expect(await settle(bodyOf(bought))).toMatchObject({ success: true });
    expect(await settle(bodyOf(bought))).toMatchObject({ success: false, errorReason: USED });
    expect(await transfersTo(bought)).toBe(bought.amount);
  });

  test("behavior: one of 16 concurrent requests after a cut gets the success", async () => {
    const bought = await purchase(lab);
    await cutWhileWaiting(bought, bodyOf(bought));
    const answers = await Promise.all(Array.from({ length: 16 }, () => settle(bodyOf(bought))));
    expect(answers.filter(({ success }) => success)).toHaveLength(1);
    expect(answers.filter(({ errorReason }) => errorReason === USED)).toHaveLength(15);
  });

  test("behavior: a second cut releases the success again", async () => {
    const bought = await purchase(lab);
    const { id } = await cutWhileWaiting(bought, bodyOf(bought));
    await lab.sql.begin(async (tx) => {
      // the claim of the second request waits for this lock, so that no answer is written before the cut
      await tx`select from payments where id = ${id} for update`;
      const { cut, received } = await askOnSocket(bodyOf(bought));
      await untilBlocked(lab.sql);
      await cut();
      expect(received()).toBe("");
    });
    expect(await settle(bodyOf(bought))).toMatchObject({ success: true });
  });

  test("error: other API keys get no success, of the same user or another", async () => {
    const bought = await purchase(lab);
    await cutWhileWaiting(bought, bodyOf(bought));
    for (const key of [sameUser, otherUser]) {
      expect(await settle(bodyOf(bought), { key })).toMatchObject({ success: false, errorReason: USED });
      expect(await verify(bodyOf(bought), { key })).toMatchObject({ isValid: false, invalidReason: USED });
    }
    expect(await verify(bodyOf(bought), { key: null })).toMatchObject({ isValid: false });
    expect(await settle(bodyOf(bought))).toMatchObject({ success: true });
  });

  test("error: another API key gets no success before the first retries, nor before any answer was attempted", async () => {
    const bought = await purchase(lab);
    await lab.world.kill("worker");
    const pending = await settle(bodyOf(bought)).finally(() => lab.world.start("worker"));
    expect(pending).toMatchObject({ success: false, errorReason: "settlement_pending" });
    await waitForRow(bought, ({ state }) => state === "MINED" || state === "CONFIRMED");
    for (const key of [sameUser, otherUser]) {
      expect(await settle(bodyOf(bought), { key })).toMatchObject({ success: false, errorReason: USED });
    }
    expect(await settle(bodyOf(bought))).toMatchObject({ success: true });
  }, 120_000);

  test("error: another request with the same payment gets no success", async () => {
    const bought = await purchase(lab);
    await cutWhileWaiting(bought, bodyOf(bought));
    const body = bodyOf(bought);
    const resource = { ...body.paymentPayload.resource, url: "https://shop.test/another-report" };
    const other = { ...body, paymentPayload: { ...body.paymentPayload, resource } };
    expect(await settle(other)).toMatchObject({ success: false, errorReason: USED });
    const { payload, requirements } = inVersion1(bought);
    expect(await lab.v1.settle(payload, requirements)).toMatchObject({ success: false, errorReason: USED });
    expect(await settle(body)).toMatchObject({ success: true });
  });

  for (const [name, agoS, isReported] of [
    ["inside", REPEAT_S - 20, true],
    ["just outside", REPEAT_S + 1, false],
  ] as const) {
    test(`behavior: ${name} of 60 s the success is ${isReported ? "" : "not "}reported again`, async () => {
      const bought = await purchase(lab);
      await moveBack(await cutWhileWaiting(bought, bodyOf(bought)), agoS);
      expect(await verify(bodyOf(bought))).toMatchObject({ isValid: isReported });
      const again = await settle(bodyOf(bought));
      expect(again).toMatchObject(isReported ? { success: true } : { success: false, errorReason: USED });
    });
  }

  test("verify answers valid to the caller a success is due to, and invalid once it was reported", async () => {
    const bought = await purchase(lab);
    await cutWhileWaiting(bought, bodyOf(bought));
    expect(await verify(bodyOf(bought))).toMatchObject({ isValid: true, payer: bought.payer.address });
    expect(await settle(bodyOf(bought))).toMatchObject({ success: true });
    expect(await verify(bodyOf(bought))).toMatchObject({ isValid: false, invalidReason: USED });
  });

  test("standard clients of both versions recover by verifying, then settling", async () => {
    const one = await purchase(lab);
    const first = inVersion1(one);
    await cutWhileWaiting(one, {
      ...{ x402Version: 1, paymentPayload: first.payload, paymentRequirements: first.requirements },
    });
    expect(await lab.v1.verify(first.payload, first.requirements)).toMatchObject({ isValid: true });
    expect(await lab.v1.settle(first.payload, first.requirements)).toMatchObject({ success: true });
    const two = await purchase(lab);
    await cutWhileWaiting(two, bodyOf(two));
    const second = inVersion2(two);
    expect(await lab.v2.verify(second.payload, second.requirements)).toMatchObject({ isValid: true });
    expect(await lab.v2.settle(second.payload, second.requirements)).toMatchObject({ success: true });
  });

  test("behavior: an answer that was received counts, even if its connection closes right after it", async () => {
    const bought = await purchase(lab);
    const { cut, received } = await askOnSocket(bodyOf(bought));
    await waitForRow(bought, ({ answerState }) => answerState === "SENT");
    const deadline = Date.now() + DEADLINE_MS;
    while (!received().includes('"success":true') && Date.now() < deadline) await Bun.sleep(1);
    expect(received()).toContain('"success":true');
    await cut();
    expect(await settle(bodyOf(bought))).toMatchObject({ success: false, errorReason: USED });
    expect((await rowOf(bought))?.answerState).toBe("SENT");
  });
});

describe("a process that is killed", () => {
  test("behavior: a process killed while a settlement waits leaves the success to the next request", async () => {
    const bought = await purchase(lab);
    const worker = lab.world.pidOf("worker");
    process.kill(worker, "SIGSTOP");
    const asking = settle(bodyOf(bought)).catch(() => "cut");
    await waitForRow(bought, () => true);
    await lab.world.kill("api");
    process.kill(worker, "SIGCONT");
    expect(await asking).toBe("cut");
    await lab.world.start("api");
    expect(await settle(bodyOf(bought))).toMatchObject({ success: true });
    expect(await settle(bodyOf(bought))).toMatchObject({ success: false, errorReason: USED });
  }, 120_000);

  test("behavior: the claim of a killed process holds until its lease ends, then the same request gets the success", async () => {
    const bought = await purchase(lab);
    const row = await cutWhileWaiting(bought, bodyOf(bought));
    const startedMs = Date.now();
    // the row of a process that died between its claim and the answer
    await lab.sql`update payments set answer_state = 'SENDING', answered_at = now() where id = ${row.id}`;
    expect(await verify(bodyOf(bought))).toMatchObject({ isValid: false });
    expect(await settle(bodyOf(bought))).toMatchObject({ success: true });
    expect(Date.now() - startedMs).toBeGreaterThan(4_000);
    expect(await settle(bodyOf(bought))).toMatchObject({ success: false, errorReason: USED });
  }, 120_000);

  test("error: a claim that a killed process left more than 60 s ago is not answered again", async () => {
    const bought = await purchase(lab);
    const row = await cutWhileWaiting(bought, bodyOf(bought));
    await lab.sql`update payments set answer_state = 'SENDING' where id = ${row.id}`;
    await moveBack(row, REPEAT_S + 1);
    expect(await settle(bodyOf(bought))).toMatchObject({ success: false, errorReason: USED });
  });
});

describe("payment-identifier", () => {
  test("supported kinds advertise the payment-identifier extension", async () => {
    expect((await lab.v2.getSupported()).extensions).toEqual(["payment-identifier"]);
  });

  test("behavior: the same identified payload gets the same success again, whatever happened to the first answer", async () => {
    const bought = await purchase(lab);
    const first = await settle(identified(bought));
    expect(first).toMatchObject({ success: true });
    const answers = await Promise.all(Array.from({ length: 4 }, () => settle(identified(bought))));
    for (const again of answers) expect(again).toEqual(first);
    const row = await rowOf(bought);
    if (!row) throw new Error("there is no payment");
    await moveBack(row, 10 * REPEAT_S);
    expect(await verify(identified(bought))).toMatchObject({ isValid: true });
    expect(await settle(identified(bought))).toEqual(first);
    expect(await transfersTo(bought)).toBe(bought.amount);
  });

  test("behavior: an identified payload sent 16 times concurrently is one transfer and one response for all", async () => {
    const bought = await purchase(lab);
    const answers = await Promise.all(Array.from({ length: 16 }, () => settle(identified(bought))));
    expect(new Set(answers.map(({ success, transaction }) => `${success} ${transaction}`)).size).toBe(1);
    expect(answers[0]).toMatchObject({ success: true });
    expect(await transfersTo(bought)).toBe(bought.amount);
  });

  test("error: no repeated success to another API key, nor for the same payment with another identifier or none", async () => {
    const bought = await purchase(lab);
    expect(await settle(identified(bought))).toMatchObject({ success: true });
    const refused = { success: false, errorReason: USED };
    expect(await settle(identified(bought), { key: sameUser })).toMatchObject(refused);
    expect(await settle(identified(bought), { key: otherUser })).toMatchObject(refused);
    expect(await settle(identified(bought, "order_2026-11-22_0002"))).toMatchObject(refused);
    expect(await settle(bodyOf(bought))).toMatchObject(refused);
    for (const key of [sameUser, otherUser, null]) {
      expect(await verify(identified(bought), { key })).toMatchObject({
        isValid: false,
        invalidReason: USED,
      });
    }
    expect(await settle(identified(bought))).toMatchObject({ success: true });
  });

  test("error: another signer's signature for a known payment is refused, identified or not", async () => {
    const bought = await purchase(lab);
    expect(await settle(identified(bought))).toMatchObject({ success: true });
    const forged = { ...bought.payment, signature: (await purchase(lab)).payment.signature };
    const body = identified({ ...bought, payment: forged });
    expect(await settle(body)).toMatchObject({
      success: false,
      errorReason: "invalid_exact_evm_payload_signature",
    });
    expect(await verify(body)).toMatchObject({ isValid: false });
  });
});

describe("Idempotency-Key", () => {
  test("behavior: the same Idempotency-Key gets a cut answer again, even after 60 s", async () => {
    const bought = await purchase(lab);
    const headers = { "idempotency-key": "order 9" };
    await moveBack(await cutWhileWaiting(bought, bodyOf(bought), headers), 10 * REPEAT_S);
    expect(await settle(bodyOf(bought))).toMatchObject({ success: false, errorReason: USED });
    for (let round = 0; round < 2; round++) {
      expect(await settle(bodyOf(bought), { headers })).toMatchObject({ success: true });
    }
    const refused = { success: false, errorReason: USED };
    expect(await settle(bodyOf(bought), { headers, key: sameUser })).toMatchObject(refused);
  });
});

describe("the API key", () => {
  test("error: 401 names the scope without an API key and with one that lacks it", async () => {
    const weak = await makeKey(lab.sql, lab.merchant.userId, ["links:read"]);
    for (const authorization of ["", "Bearer sk_unknown_unknown_unknown", `Bearer ${weak}`]) {
      const response = await fetch(`${lab.url}/settle`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization },
        body: JSON.stringify(bodyOf(await purchase(lab))),
      });
      expect(response.status).toBe(401);
      expect(response.headers.get("www-authenticate")).toContain('scope="facilitator"');
      const { error } = (await response.json()) as { error: { code: string; message: string } };
      expect(error.code).toBe("UNAUTHORIZED");
      expect(error.message).toContain("scope facilitator");
      expect(error.message.startsWith("This API key is unknown")).toBe(authorization.includes("unknown"));
    }
  });
});
