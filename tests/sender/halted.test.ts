/** What relays do while something that they need is missing: money, a signer, a node that follows the chain. They wait, and go on. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { privateKeyToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { contractOrder, YES_SAYER } from "../payments/contract-orders.ts";
import {
  balanceOf,
  countRelays,
  payByHand,
  readCursor,
  readHead,
  waitForLedger,
  waitUntilPutOff,
} from "../payments/second-payer.ts";
import type { ProxiedCall } from "../rpc/fault-proxy.ts";
import { stuckAt } from "../rpc/stuck-node.ts";
import {
  countTransfers,
  type Lab,
  newOrder,
  type Order,
  paymentOf,
  payWithRetries,
  queueAll,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
  waitUntilSigned,
} from "../support/relay-lab.ts";
import { type RemoteSigner, startRemoteSigner } from "../support/remote-signer.ts";

const [KEY = "0x"] = localRelayerKeys() as Hex[];
const TEN_ETH = "0x8ac7230489e80000";
/** More than make a relay LOST. */
const POLLS = 9;
/** Enough for each caller of a pass. */
const OLD_ANSWERS = 5;
const HEAD_MAX_AGE_S = 2;
/** More than nodes may be apart. */
const BLOCKS_BEHIND = "0x8";
let signer: RemoteSigner;
let lab: Lab;

beforeAll(async () => {
  signer = await startRemoteSigner([KEY]);
  lab = await startLab({
    hasMetrics: true,
    env: {
      RELAYER_SIGNER_URL: signer.url,
      RELAYER_SIGNER_ADDRESSES: privateKeyToAccount(KEY).address,
      RELAYER_PRIVATE_KEYS: "",
      RELAY_MAX_FEE_GWEI: "50",
    },
  });
  expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
}, 120_000);

afterEach(async () => {
  signer.behave(async () => "honest");
  lab.proxy.fault = () => undefined;
  await lab.rpc("anvil_setBalance", [lab.relayer, TEN_ETH]);
  process.kill(lab.service.pidOf("indexer"), "SIGCONT");
  await lab.service.startMissing();
  process.kill(lab.service.pidOf("worker"), "SIGCONT");
});

afterAll(async () => {
  await lab?.stop();
  await signer?.stop();
});

const isSend = ({ method }: ProxiedCall) => method === "eth_sendRawTransaction";
const stateOf = async ({ linkId }: Order) => (await paymentOf(lab, linkId))?.state;

function refuseSends(): void {
  lab.proxy.fault = (calls) =>
    calls.some(isSend) ? { kind: "error", code: -32000, message: "the pool is full" } : undefined;
}

/** A relay whose bytes no node has taken. */
async function signUnsent(): Promise<Order> {
  const order = await newOrder(lab);
  await waitForLedger(lab);
  refuseSends();
  await queueAll(lab, [order]);
  await waitUntilSigned(lab, [order]);
  return order;
}

async function payLinkByHand(order: Order): Promise<void> {
  await payByHand(lab, BigInt(order.payment.value));
}

/** NaN before the worker has said anything of it. */
async function metricOf(name: string): Promise<number> {
  const response = await fetch(`http://${lab.service.metricsOf("worker")}/metrics`).catch(() => undefined);
  const lines = (await response?.text())?.split("\n") ?? [];
  const line = lines.find((one) => one.startsWith(`${name}{`));
  return Number(line?.split(" ").at(-1) ?? Number.NaN);
}

/** The link was paid by another: the payer keeps the money, and the nonce is used for nothing. */
async function expectNotCharged(order: Order, funds: bigint): Promise<void> {
  await waitForLink(lab, order.linkId, "PAID");
  await waitFor("the payment to end", async () => (await stateOf(order)) === "FAILED");
  // the second where it waited for longer than a payer does
  expect((await paymentOf(lab, order.linkId))?.reason).toBeOneOf([
    "LINK_ALREADY_PAID",
    "RELAYER_UNAVAILABLE",
  ]);
  expect(await balanceOf(lab, order)).toBe(funds);
  expect(await countTransfers(lab, order.linkId)).toBe(1);
}

test("behavior: with an unfunded relayer, payments of links paid by others end; once funded, payments continue", async () => {
  const signed = await signUnsent();
  const funds = await balanceOf(lab, signed);
  await lab.rpc("anvil_setBalance", [lab.relayer, "0x0"]);
  await waitFor("the worker to notice", async () => (await metricOf("relayer_balance_wei")) === 0);
  lab.proxy.fault = () => undefined;
  const queued = await newOrder(lab);
  const queuedFunds = await balanceOf(lab, queued);
  await queueAll(lab, [queued]);
  await waitUntilPutOff(lab, queued);
  await payLinkByHand(queued);
  await payLinkByHand(signed);
  await expectNotCharged(queued, queuedFunds);
  expect(await stateOf(signed)).toBe("SIGNED");
  await lab.rpc("anvil_setBalance", [lab.relayer, TEN_ETH]);
  await expectNotCharged(signed, funds);
  expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
}, 120_000);

test("behavior: while the signer is down, a refused contract payer gets its own reason, even if another one waits", async () => {
  await waitForLedger(lab);
  const [waiting, refused] = [await contractOrder(lab, YES_SAYER), await contractOrder(lab, YES_SAYER)];
  signer.behave(async () => ({ error: { code: -32000, message: "the key store is away" } }));
  process.kill(lab.service.pidOf("worker"), "SIGSTOP");
  await queueAll(lab, [waiting, refused]);
  // it says no to every signature from now on
  await lab.rpc("anvil_setCode", [refused.payment.from, "0x5f5ffd"]);
  process.kill(lab.service.pidOf("worker"), "SIGCONT");
  await waitFor("the refusal", async () => (await stateOf(refused)) === "FAILED");
  expect(await paymentOf(lab, refused.linkId)).toMatchObject({ reason: "INVALID_SIGNATURE" });
  signer.behave(async () => "honest");
  expect(await payWithRetries(lab, waiting)).toMatchObject({ body: { success: true } });
}, 120_000);

test("behavior: a relay mined just after the head that a node reported is not LOST while its receipt is missing", async () => {
  // what has its receipt needs it again until it is final
  await waitFor("earlier relays to be CONFIRMED", async () =>
    (await relaysOf(lab)).every(({ state }) => state === "CONFIRMED"),
  );
  const before = await countRelays(lab);
  const order = await newOrder(lab);
  await waitForLedger(lab);
  const head = `0x${(await readHead(lab)).toString(16)}`;
  process.kill(lab.service.pidOf("indexer"), "SIGSTOP");
  const nonce = BigInt((await lab.rpc("eth_getTransactionCount", [lab.relayer, "latest"])) as string);
  let answers = 0;
  lab.proxy.fault = (calls) => {
    if (calls.every(({ method }) => method === "eth_getTransactionReceipt"))
      return { kind: "reply", reply: () => null };
    const asked = calls.findIndex(({ method }) => method === "eth_getTransactionCount");
    if (asked < 0 || calls[0]?.method !== "eth_getBlockByNumber") return undefined;
    return {
      kind: "edit",
      edit: (answer) => {
        const [header, ...others] = answer as { result: { number: string } }[];
        const isUsed = BigInt(String(others[asked - 1]?.result)) > nonce;
        if (!header || !isUsed || answers++ >= OLD_ANSWERS) return answer;
        return [{ ...header, result: { ...header.result, number: head } }, ...others];
      },
    };
  };
  await queueAll(lab, [order]);
  await waitUntilSigned(lab, [order]);
  await waitFor("a poll that finds no receipt", async () => {
    const counted = await lab.sql`
      update relays set misses = ${POLLS - 2} where block_number is null and misses > 0 returning 1`;
    return counted.length > 0;
  });
  await waitFor("enough polls to call it lost", async () => {
    const [row] = await lab.sql<{ isOver: boolean }[]>`
      select coalesce(bool_or(misses >= ${POLLS} or state = 'LOST'), false) as is_over
      from relays
      where block_number is null`;
    return row?.isOver;
  });
  lab.proxy.fault = () => undefined;
  process.kill(lab.service.pidOf("indexer"), "SIGCONT");
  await waitForLink(lab, order.linkId, "PAID");
  const relays = (await relaysOf(lab)).slice(before);
  expect(relays.map(({ state }) => state)).not.toContain("LOST");
  expect(relays).toHaveLength(1);
}, 120_000);

test("behavior: a simulation by a node that lags far behind relays nothing that later blocks have paid", async () => {
  Object.assign(lab.env, { RELAYER_PRIVATE_KEYS: KEY });
  await lab.service.restart("worker");
  const order = await newOrder(lab);
  const funds = await balanceOf(lab, order);
  await waitForLedger(lab);
  const number = await readHead(lab);
  process.kill(lab.service.pidOf("indexer"), "SIGSTOP");
  await payLinkByHand(order);
  await lab.rpc("anvil_mine", [BLOCKS_BEHIND]);
  lab.proxy.fault = (calls) =>
    calls[0]?.method === "eth_getBlockByNumber" && calls[1]?.method === "eth_call"
      ? stuckAt(number, calls)
      : undefined;
  const before = await countRelays(lab);
  await queueAll(lab, [order]);
  await waitUntilPutOff(lab, order);
  expect(await countRelays(lab)).toBe(before);
  lab.proxy.fault = () => undefined;
  process.kill(lab.service.pidOf("indexer"), "SIGCONT");
  await expectNotCharged(order, funds);
}, 120_000);

test("behavior: with an exhausted fee budget signed relays are resent and confirmed; a new budget is used immediately", async () => {
  const signed = await signUnsent();
  Object.assign(lab.env, { RELAY_DAILY_FEE_MAX_WEI: "1" });
  await lab.service.restart("worker");
  const queued = await newOrder(lab);
  await queueAll(lab, [queued]);
  await waitUntilPutOff(lab, queued);
  lab.proxy.fault = () => undefined;
  await waitForLink(lab, signed.linkId, "PAID");
  await waitFor("its relay to be CONFIRMED", async () =>
    (await relaysOf(lab)).every(({ state }) => state === "CONFIRMED"),
  );
  expect((await paymentOf(lab, queued.linkId))?.relayId).toBeNull();
  delete lab.env.RELAY_DAILY_FEE_MAX_WEI;
  await lab.service.restart("worker");
  expect(await payWithRetries(lab, queued)).toMatchObject({ body: { success: true } });
}, 120_000);

test("behavior: a node that stops following the chain pays no link twice, and everything continues when it recovers", async () => {
  Object.assign(lab.env, { RELAY_HEAD_MAX_AGE_S: String(HEAD_MAX_AGE_S) });
  const [signed, queued] = [await signUnsent(), await newOrder(lab)];
  const funds = [await balanceOf(lab, signed), await balanceOf(lab, queued)] as const;
  await lab.service.kill("worker");
  await lab.rpc("evm_setIntervalMining", [1]);
  const number = await readHead(lab);
  await waitFor("the ledger to be there", async () => (await readCursor(lab)) >= number);
  lab.proxy.fault = (calls) => stuckAt(number, calls);
  await lab.service.start("worker");
  await waitFor(
    "the worker to see that the head is old",
    async () => (await metricOf("relay_head_age_seconds")) > HEAD_MAX_AGE_S,
  );
  const before = await countRelays(lab);
  await payLinkByHand(signed);
  await payLinkByHand(queued);
  await queueAll(lab, [queued]);
  await waitUntilPutOff(lab, queued);
  await waitFor(
    "the resend to be deferred",
    async () => (await metricOf("relay_resends_deferred_total")) > 0,
  );
  expect(await countRelays(lab)).toBe(before);
  expect([await balanceOf(lab, signed), await balanceOf(lab, queued)]).toEqual([...funds]);
  lab.proxy.fault = () => undefined;
  await expectNotCharged(signed, funds[0]);
  await expectNotCharged(queued, funds[1]);
  expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
}, 120_000);
