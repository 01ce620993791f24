/** A send's and a refund's states as a caller follows them: forwards, and back when their block is reorganised away. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { callRpc } from "../../local/chain/rpc.ts";
import { readUsdcBalance } from "../../local/chain/usdc.ts";
import type { Answer } from "../support/http-client.ts";
import { randomAddress, until } from "../support/indexer-lab.ts";
import { confirmSend, expectRefusal, prepareSend } from "../support/sends.ts";
import { startWorld, type World } from "../support/world.ts";
import { makeOwner, type Owner } from "./campaign-load.ts";

setDefaultTimeout(120_000);
const ENDED = ["CONFIRMED", "FAILED"];

let world: World;
let owner: Owner;

beforeAll(async () => {
  world = await startWorld({ blockTimeS: 1, env: { CONFIRMATIONS_BASE_SEPOLIA: "2" } });
  owner = await makeOwner({ ...world, baseUrl: () => world.baseUrl, random: Math.random });
});
afterAll(async () => {
  await world?.stop();
});

const get = (path: string) => owner.merchant.client.get(path);

/** Every status from `known` to the end, each from a request that waited for it, and told before the next one is asked for. */
async function follow(
  path: string,
  known: string,
  tell: (status: string) => Promise<void> = async () => {},
): Promise<Answer["body"][]> {
  const seen: Answer["body"][] = [];
  for (let status = known; !ENDED.includes(status); status = seen.at(-1)?.status ?? known) {
    const answer = await get(`${path}?known=${status}&wait=20`);
    expect(answer.status).toBe(200);
    // a busy machine may leave a status as it is for longer than one request waits
    if (answer.body.status === status) continue;
    seen.push(answer.body);
    await tell(answer.body.status);
  }
  return seen;
}

async function eventsOf(ids: readonly string[]): Promise<string[]> {
  const rows = await world.sql<{ type: string }[]>`
    select type from events where subject_id = any(${[...ids]}::text[]) order by id`;
  return rows.map(({ type }) => type);
}

async function refund(toAddress: string, amount: string) {
  const { client, passkey } = owner.merchant;
  const made = (await client.post(`/v1/payment-links/${owner.linkId}/refunds`, { toAddress, amount })).body;
  const answer = await client.post(`/v1/refunds/${made.refundId}/confirm`, {
    challengeId: made.challengeId,
    passkeyResponse: await passkey.authenticate(made.passkeyChallenge),
  });
  expect(answer.status).toBe(202);
  return { id: made.refundId as string, transactionId: answer.body.transaction.id as string };
}

test("a waiting request and the events follow a send through each state, in order", async () => {
  await until("the wallet is deployed", async () => {
    const rows = await world.sql`select from events where type = 'wallet.deployed'`;
    return rows.length > 0;
  });
  const prepared = await prepareSend(owner.merchant, { to: randomAddress(), amount: "1" });
  const { rpcUrl } = world.chain;
  // a block for each state that a block ends, or an answer that comes late would miss one
  await callRpc(rpcUrl, "evm_setIntervalMining", [0]);
  const mineFor = async (status: string) => {
    if (status === "BROADCAST" || status === "MINED") await callRpc(rpcUrl, "evm_mine");
  };
  const following = follow(`/v1/wallets/sends/${prepared.sendId}`, "AWAITING_SIGNATURE", mineFor);
  const answer = await confirmSend(owner.merchant, prepared);
  const seen = (await following).map(({ status }) => status);
  const order = ["QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED"];
  // what lasts for milliseconds may pass between two answers
  expect(seen).toEqual(order.filter((status) => seen.includes(status)));
  expect(seen.slice(-3)).toEqual(["BROADCAST", "MINED", "CONFIRMED"]);
  await callRpc(rpcUrl, "evm_setIntervalMining", [1]);
  expect(await eventsOf([prepared.sendId])).toEqual(["wallet.send_queued", "wallet.send_confirmed"]);
  expect(await eventsOf([answer.body.transaction.id])).toEqual([
    "transaction.detected",
    "transaction.confirmed",
  ]);
});

test("a request that times out returns the send unchanged", async () => {
  const prepared = await prepareSend(owner.merchant, { to: randomAddress(), amount: "1" });
  const path = `/v1/wallets/sends/${prepared.sendId}`;
  const startedMs = performance.now();
  const { body } = await get(`${path}?known=AWAITING_SIGNATURE&wait=1`);
  expect(body.status).toBe("AWAITING_SIGNATURE");
  expect(performance.now() - startedMs).toBeGreaterThanOrEqual(1_000);
  expect((await get(`${path}?known=QUEUED&wait=20`)).body.status).toBe("AWAITING_SIGNATURE");
  expectRefusal(await get(`${path}?known=DONE&wait=1`), 400, { field: "known" });
  expectRefusal(await get(`${path}?known=QUEUED&wait=21`), 400, { field: "wait" });
});

test("a reorganisation undoes a refund with an event; sent again, its money moves once", async () => {
  const to = randomAddress();
  const { id, transactionId } = await refund(to, "2.5");
  const path = `/v1/refunds/${id}`;
  const first = (await follow(path, "QUEUED")).at(-1);
  expect(first).toMatchObject({ status: "CONFIRMED", reason: null });
  const link = `/v1/payment-links/${owner.linkId}`;
  expect((await get(link)).body.refundedAmount).toBe(2.5);
  await world.kill("worker");
  const { rpcUrl } = world.chain;
  // a block mined after the height is read would make the reorganisation one block too short
  await callRpc(rpcUrl, "evm_setIntervalMining", [0]);
  const head = Number(await callRpc(rpcUrl, "eth_blockNumber"));
  await callRpc(rpcUrl, "anvil_reorg", [head - first.blockNumber + 1, []]);
  await callRpc(rpcUrl, "evm_setIntervalMining", [1]);
  let back = await get(`${path}?known=CONFIRMED&wait=20`);
  // a busy indexer may need longer than one request waits
  while (back.body.status === "CONFIRMED") back = await get(`${path}?known=CONFIRMED&wait=20`);
  expect(back.body).toMatchObject({ status: "BROADCAST", transactionHash: null, confirmedAt: null });
  expect((await get(link)).body.refundedAmount).toBe(0);
  const [row] = await world.sql`select status, transfer_id from transactions where id = ${transactionId}`;
  expect(row).toEqual({ status: "PENDING", transferId: null });
  // its part stays reserved
  const over = await owner.merchant.client.post(`${link}/refunds`, { amount: "997.500001" });
  expectRefusal(over, 409, { issue: "exceeds_refundable", refundable: 997.5 });
  await world.start("worker");
  const again = (await follow(path, "BROADCAST")).at(-1);
  expect(again.status).toBe("CONFIRMED");
  await until("the link shows it", async () => (await get(link)).body.refundedAmount === 2.5);
  expect(await readUsdcBalance(rpcUrl, to)).toBe(2_500_000n);
  expect(await eventsOf([id])).toEqual([
    "refund.created",
    "refund.confirmed",
    "refund.reorged",
    "refund.confirmed",
  ]);
});
