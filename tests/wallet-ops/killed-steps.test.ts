/** Each step of a send, interrupted at that very step: kill -9 of the process that does it, its database connections cut, a failing node. */
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import type { ProxiedCall } from "../rpc/fault-proxy.ts";
import type { Answer } from "../support/http-client.ts";
import { randomAddress, until } from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { confirmSend, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { untilBlocked } from "../support/until-blocked.ts";
import { type FaultyWorld, startFaultyWorld } from "../support/world.ts";

setDefaultTimeout(120_000);
const CONFIRM = "/v1/wallets/send/confirm";
const UNITS = 1_250_000n;
/** `handleOps(UserOperation[],address)` of the EntryPoint. */
const HANDLE_OPS = "1fad948c";

let world: FaultyWorld;
let merchant: Merchant;
let to: Hex;
let sendId: string;

beforeAll(async () => {
  world = await startFaultyWorld({ env: { RATE_LIMITS: "0", SEND_GAS_PER_DAY: "1000000000" } });
  merchant = await signUp(world.baseUrl);
  await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, 100_000_000n);
});
afterAll(async () => {
  if (world) await assertInvariants(world.sql, world.chain);
  await world?.stop();
});
afterEach(async () => {
  world.proxy.fault = () => undefined;
  await makeBlocks();
  await world.startMissing();
  // one of a test that failed half-way would refuse the next one
  await until("no operation is on its way", async () => {
    const open = await world.sql`
      select from wallet_operations where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')`;
    return open.length === 0;
  });
});

async function makeBlocks(): Promise<void> {
  await callRpc(world.chain.rpcUrl, "evm_setAutomine", [true]);
  await callRpc(world.chain.rpcUrl, "evm_mine");
}

async function prepare(): Promise<Answer["body"]> {
  to = randomAddress();
  const prepared = await prepareSend(merchant, { to, amount: "1.25" });
  sendId = prepared.sendId;
  return prepared;
}

async function stateOf(id: string): Promise<string | undefined> {
  const [row] = await world.sql<{ state: string }[]>`select state from wallet_operations where id = ${id}`;
  return row?.state;
}

/** Ends CONFIRMED, with the money moved once, one history row, and each event once. */
async function expectMovedOnce(): Promise<void> {
  await waitForSend(merchant, sendId);
  expect(await readUsdcBalance(world.chain.rpcUrl, to)).toBe(UNITS);
  const history = await world.sql<{ status: string }[]>`
    select status from transactions where operation_id = ${sendId}`;
  expect(history.map(({ status }) => status)).toEqual(["CONFIRMED"]);
  const events = await world.sql<{ type: string }[]>`
    select type from events where subject_id = ${sendId} order by id`;
  expect(events.map(({ type }) => type)).toEqual(["wallet.send_queued", "wallet.send_confirmed"]);
}

/** Holds the operation's row while `work` runs: whoever is about to change its state waits, in an open transaction. */
async function whileHeld(work: () => Promise<void>): Promise<void> {
  const holder = await world.sql.reserve();
  try {
    await holder`begin`;
    await holder`select from wallet_operations where id = ${sendId} for update`;
    await work();
  } finally {
    await holder`rollback`;
    holder.release();
  }
}

/** Ends every connection of these processes, as a failing server or network does. */
async function cutConnections(kind: "worker" | "indexer"): Promise<void> {
  const rows = await world.sql`
    select pg_terminate_backend(pid)
    from pg_stat_activity
    where datname = current_database() and application_name ~ ${`^(usdc-)?${kind}`}`;
  expect(rows.length).toBeGreaterThan(0);
}

/** Requests with such a call get no answer. Resolves at the first one. */
function hangAt(
  isStep: (call: ProxiedCall) => boolean,
  onHang: (call: ProxiedCall) => unknown = () => undefined,
) {
  return new Promise<void>((resolve) => {
    let isHit = false;
    world.proxy.fault = (calls) => {
      const call = calls.find(isStep);
      if (!call) return undefined;
      if (!isHit) Promise.resolve(onHang(call)).then(() => resolve());
      isHit = true;
      return { kind: "hang" };
    };
  });
}

const isSimulation = ({ method, params }: ProxiedCall) =>
  method !== "eth_sendRawTransaction" && JSON.stringify(params).includes(HANDLE_OPS);
const isSend = ({ method }: ProxiedCall) => method === "eth_sendRawTransaction";
const forward = ({ params }: ProxiedCall) => callRpc(world.chain.rpcUrl, "eth_sendRawTransaction", params);

const WORKER_STEPS: [string, string, () => Promise<void>][] = [
  ["simulates", "QUEUED", () => hangAt(isSimulation)],
  ["has stored the signed bytes and sends them", "SIGNED", () => hangAt(isSend)],
  ["has sent them and waits for the answer", "SIGNED", () => hangAt(isSend, forward)],
];

for (const [step, state, reach] of WORKER_STEPS) {
  async function stopAtStep(): Promise<void> {
    await world.kill("worker", "SIGTERM");
    const answer = await confirmSend(merchant, await prepare());
    expect(answer.status).toBe(202);
    const reached = reach();
    // a block with it might be read before the state is
    await callRpc(world.chain.rpcUrl, "evm_setAutomine", [false]);
    await world.start("worker");
    await reached;
    expect(await stateOf(sendId)).toBe(state);
    await makeBlocks();
  }

  test(`the worker is killed while it ${step}`, async () => {
    await stopAtStep();
    await world.kill("worker");
    world.proxy.fault = () => undefined;
    await world.start("worker");
    await expectMovedOnce();
  });

  test(`the worker's connections to the database are cut while it ${step}`, async () => {
    await stopAtStep();
    await cutConnections("worker");
    world.proxy.fault = () => undefined;
    await expectMovedOnce();
  });

  test(`the node fails while the worker ${step}`, async () => {
    await stopAtStep();
    let failed = 0;
    world.proxy.fault = () => {
      failed += 1;
      return { kind: "status", status: 503 };
    };
    await until("requests failed", async () => failed > 0);
    world.proxy.fault = () => undefined;
    await expectMovedOnce();
  });
}

const INDEXER_BLOWS: [string, () => Promise<void>][] = [
  [
    "the indexer is killed",
    async () => {
      await world.kill("indexer");
    },
  ],
  ["the indexer's connections to the database are cut", () => cutConnections("indexer")],
];

for (const [blow, strike] of INDEXER_BLOWS)
  test(`${blow} while it commits the block with the operation`, async () => {
    await world.kill("indexer", "SIGTERM");
    expect((await confirmSend(merchant, await prepare())).status).toBe(202);
    await until("it is broadcast", async () => (await stateOf(sendId)) === "BROADCAST");
    await whileHeld(async () => {
      await world.start("indexer");
      await untilBlocked(world.sql, new Promise(() => undefined));
      await strike();
    });
    // one that only lost its connections may have read the block again by now
    if (blow.endsWith("killed")) {
      expect(await stateOf(sendId)).toBe("BROADCAST");
      await world.start("indexer");
    }
    await expectMovedOnce();
  });

test("the api is killed before it commits a confirmation: the challenge is unused, and confirming again works", async () => {
  const { challengeId, passkeyChallenge } = await prepare();
  const passkeyResponse = await merchant.passkey.authenticate(passkeyChallenge);
  const body = { sendId, challengeId, passkeyResponse };
  await whileHeld(async () => {
    const answer = merchant.client.post(CONFIRM, body).catch(() => undefined);
    await untilBlocked(world.sql, answer);
    await world.kill("api");
    expect(await answer).toBeUndefined();
  });
  expect(await stateOf(sendId)).toBe("AWAITING_SIGNATURE");
  await world.start("api");
  expect((await merchant.client.post(CONFIRM, body)).status).toBe(202);
  await expectMovedOnce();
});

test("the api is killed after it commits a confirmation: confirming again gets the same answer, and moves nothing", async () => {
  const prepared = await prepare();
  const passkeyResponse = await merchant.passkey.authenticate(prepared.passkeyChallenge);
  const body = { sendId, challengeId: prepared.challengeId, passkeyResponse };
  await world.kill("worker", "SIGTERM");
  const first = await merchant.client.post(CONFIRM, body);
  await world.kill("api");
  await world.start("api");
  const again = await merchant.client.post(CONFIRM, body);
  expect([first.status, again.status]).toEqual([202, 202]);
  expect(again.body.transaction.id).toBe(first.body.transaction.id);
  await world.start("worker");
  await expectMovedOnce();
});
