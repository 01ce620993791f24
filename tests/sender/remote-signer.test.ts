/**
 * A worker whose only relayer key is behind a remote signer, over real processes: payments are paid, nothing is stored or sent that the
 * signer did not sign exactly, and a killed worker or changed rows between choosing and storing cost a signature, never a payment.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { keccak256, parseTransaction } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { balanceOf, payByHand, waitForLedger, whileIndexerStands } from "../payments/second-payer.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { refundLab } from "../support/refund-lab.ts";
import {
  countTransfers,
  type Lab,
  linkStatus,
  newOrder,
  type Order,
  pay,
  paymentOf,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { type RemoteSigner, startRemoteSigner } from "../support/remote-signer.ts";
import { confirmSend, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

const [KEY = "0x", OTHER_KEY = "0x"] = localRelayerKeys() as Hex[];
let signer: RemoteSigner;
let lab: Lab;
/** Signed up while the signer was away. */
let owner: Merchant;

beforeAll(async () => {
  signer = await startRemoteSigner([KEY, OTHER_KEY]);
  const address = privateKeyToAccount(KEY).address;
  lab = await startLab({
    env: {
      RELAYER_SIGNER_URL: signer.url,
      RELAYER_SIGNER_ADDRESSES: address,
      RELAYER_PRIVATE_KEYS: "",
      RELAY_MAX_FEE_GWEI: "50",
    },
  });
}, 120_000);
afterAll(async () => {
  await lab?.stop();
  await signer?.stop();
});
afterEach(async () => {
  signer.behave(async () => "honest");
  lab.proxy.fault = () => undefined;
  await lab.service.startMissing();
});

const paymentState = async (order: Order) => (await paymentOf(lab, order.linkId))?.state;
const sentNonces = async () => (await relaysOf(lab)).map(({ nonce }) => nonce);
const waitForRequest = (before: number) =>
  waitFor("the signer to be asked", async () => signer.requests.length > before);

/** The stored bytes of a payment's relay are what the signer signed, and the chain mined. */
async function expectPaidOnce(order: Order): Promise<void> {
  await waitForLink(lab, order.linkId, "PAID");
  expect(await countTransfers(lab, order.linkId)).toBe(1);
}

test("pays a link with a key that only the signer holds", async () => {
  const order = await newOrder(lab);
  const asked = signer.requests.length;
  expect(await pay(lab, order)).toMatchObject({ status: 200, body: { success: true } });
  await expectPaidOnce(order);
  const [request] = signer.requests.slice(asked);
  const [row] = await lab.sql<{ raw: Hex }[]>`
    select '0x' || encode(attempt.raw, 'hex') as raw
    from payments
    join relay_attempts attempt on attempt.relay_id = payments.relay_id
    where payments.link_id = ${order.linkId}`;
  const stored = parseTransaction(row?.raw ?? "0x");
  expect(request?.from).toBe(lab.relayer);
  expect(stored).toMatchObject({
    nonce: Number(request?.nonce),
    data: request?.data,
    gas: BigInt(request?.gas ?? 0),
  });
}, 120_000);

test("behavior: a worker killed while the signer works leaves no row and no nonce; the payment is paid once", async () => {
  const order = await newOrder(lab);
  const [before, asked] = [await sentNonces(), signer.requests.length];
  const release = signer.hold();
  const paying = pay(lab, order);
  await waitForRequest(asked);
  await lab.service.kill("worker");
  expect(await sentNonces()).toEqual(before);
  expect(await paymentState(order)).toBe("QUEUED");
  release();
  await lab.service.start("worker");
  await expectPaidOnce(order);
  expect(await paying).toMatchObject({ status: 200 });
  const nonces = await sentNonces();
  expect(nonces).toHaveLength(before.length + 1);
  // the content that died with the worker had this nonce too: its bytes were nowhere but in the worker
  expect(BigInt(signer.requests[asked]?.nonce ?? -1)).toBe(nonces.at(-1) ?? -2n);
}, 120_000);

test("behavior: a link paid manually while the signer works: the signed relay is neither stored nor sent", async () => {
  const order = await newOrder(lab);
  const [before, asked] = [await sentNonces(), signer.requests.length];
  const release = signer.hold();
  const paying = pay(lab, order);
  await waitForRequest(asked);
  await payByHand(lab, BigInt(order.payment.value));
  await waitForLink(lab, order.linkId, "PAID");
  const balance = await balanceOf(lab, order);
  release();
  expect(await paying).toMatchObject({ body: { success: false } });
  await waitFor("the payment to end", async () => (await paymentState(order)) === "FAILED");
  expect(await sentNonces()).toEqual(before);
  expect(await balanceOf(lab, order)).toBe(balance);
}, 120_000);

test("error: a link paid manually while the signer works and the indexer is stopped is not paid twice", async () => {
  await waitForLedger(lab);
  const order = await newOrder(lab);
  const [before, balance] = [await sentNonces(), await balanceOf(lab, order)];
  const units = BigInt(order.payment.value);
  let hands = 0;
  const payOnce = async () => {
    if (hands++ === 0) await payByHand(lab, units);
  };
  await whileIndexerStands(lab, async () => {
    // the ledger is behind by a block that pays nothing, as the node can tell
    await lab.rpc("anvil_mine", ["0x1"]);
    signer.behave(async () => {
      await payOnce();
      return "honest";
    });
    expect(await pay(lab, order)).toMatchObject({ status: 500, body: { retryable: true } });
    expect(await sentNonces()).toEqual(before);
    await payOnce();
  });
  await waitForLink(lab, order.linkId, "PAID");
  expect(await countTransfers(lab, order.linkId)).toBe(1);
  expect(await balanceOf(lab, order)).toBe(balance);
}, 120_000);

test("error: a link paid while the signer works, in a block that the ledger has not read, is not paid twice", async () => {
  await waitForLedger(lab);
  const order = await newOrder(lab);
  await waitForLedger(lab);
  const [before, balance] = [await sentNonces(), await balanceOf(lab, order)];
  const asked = signer.requests.length;
  const release = signer.hold();
  const paying = pay(lab, order);
  await waitForRequest(asked);
  await whileIndexerStands(lab, async () => {
    await payByHand(lab, BigInt(order.payment.value));
    release();
    expect(await paying).toMatchObject({ status: 500, body: { retryable: true } });
    expect(await sentNonces()).toEqual(before);
  });
  await waitForLink(lab, order.linkId, "PAID");
  expect(await countTransfers(lab, order.linkId)).toBe(1);
  expect(await balanceOf(lab, order)).toBe(balance);
}, 120_000);

test("error: a signer that raises the fee or is down signs nothing for us; the payment is paid when it signs again", async () => {
  const order = await newOrder(lab);
  const [before, asked] = [await sentNonces(), signer.requests.length];
  signer.behave(async ({ maxFeePerGas }, sign) => ({
    result: await sign({ maxFeePerGas: `0x${(BigInt(maxFeePerGas) + 1n).toString(16)}` }),
  }));
  const paying = pay(lab, order);
  await waitForRequest(asked);
  await waitFor("the worker to report it", async () =>
    lab.service.logOf("worker").includes("is not this transaction signed by"),
  );
  expect(await sentNonces()).toEqual(before);
  signer.behave(async () => ({ error: { code: -32000, message: "the module is locked" } }));
  const refused = signer.requests.length;
  await waitForRequest(refused);
  expect(await sentNonces()).toEqual(before);
  signer.behave(async () => "honest");
  await paying;
  if ((await linkStatus(lab, order.linkId)) !== "PAID") await pay(lab, order);
  await expectPaidOnce(order);
  expect(await sentNonces()).toHaveLength(before.length + 1);
}, 120_000);

/** A node that says it took our bytes, and keeps them to itself. */
function swallowSends(): void {
  lab.proxy.fault = (calls) =>
    calls.some(({ method }) => method === "eth_sendRawTransaction")
      ? { kind: "reply", reply: ({ params }) => keccak256(params[0] as Hex) }
      : undefined;
}

const attemptsOf = ({ linkId }: Order) => lab.sql<{ isNoop: boolean; sends: number }[]>`
  select attempt.is_noop, attempt.sends
  from relay_attempts attempt
  join payments on payments.relay_id = attempt.relay_id
  where payments.link_id = ${linkId}
  order by attempt.created_at`;

test("error: a link paid while the signer signs a higher fee and the indexer is stopped: no replacement is stored", async () => {
  await waitForLedger(lab);
  const order = await newOrder(lab);
  const balance = await balanceOf(lab, order);
  swallowSends();
  pay(lab, order).catch(() => {});
  await waitFor("the first bytes to be sent", async () => ((await attemptsOf(order))[0]?.sends ?? 0) > 0);
  const asked = signer.requests.length;
  const release = signer.hold();
  await waitFor("the signer to be asked for a higher fee", async () => {
    if (signer.requests.length > asked) return true;
    await waitForLedger(lab);
    await lab.rpc("evm_mine");
    return false;
  });
  await waitForLedger(lab);
  await whileIndexerStands(lab, async () => {
    await payByHand(lab, BigInt(order.payment.value));
    const sends = (await attemptsOf(order))[0]?.sends ?? 0;
    release();
    await waitFor("the first bytes to be sent again, or new ones to be stored", async () => {
      const attempts = await attemptsOf(order);
      return attempts.length > 1 || (attempts[0]?.sends ?? 0) > sends;
    });
    expect(await attemptsOf(order)).toMatchObject([{ isNoop: false }]);
  });
  await waitForLink(lab, order.linkId, "PAID");
  await waitFor("a no-op to replace it", async () => {
    if ((await attemptsOf(order)).at(-1)?.isNoop) return true;
    await waitForLedger(lab);
    await lab.rpc("evm_mine");
    return false;
  });
  lab.proxy.fault = () => undefined;
  await waitFor("the payment to end", async () => (await paymentState(order)) === "FAILED");
  expect(await balanceOf(lab, order)).toBe(balance);
}, 120_000);

test("error: bytes that a node lost are not sent again once the link is paid, although the signer can't replace them", async () => {
  await waitForLedger(lab);
  const order = await newOrder(lab);
  const balance = await balanceOf(lab, order);
  swallowSends();
  pay(lab, order).catch(() => {});
  await waitFor("the first bytes to be sent", async () => ((await attemptsOf(order))[0]?.sends ?? 0) > 0);
  signer.behave(async () => ({ error: { code: -32000, message: "the module is locked" } }));
  await payByHand(lab, BigInt(order.payment.value));
  await waitForLink(lab, order.linkId, "PAID");
  // the second request is of a pass that knows the link to be paid
  await waitForRequest(signer.requests.length + 1);
  lab.proxy.fault = () => undefined;
  // at least a second each: bytes that may be sent again are due after two and a half
  const asked = signer.requests.length;
  await waitFor(
    "the signer to be asked six times, or the lost bytes to be mined",
    async () => signer.requests.length > asked + 5 || (await balanceOf(lab, order)) !== balance,
  );
  expect(await balanceOf(lab, order)).toBe(balance);
  expect(await attemptsOf(order)).toMatchObject([{ isNoop: false }]);
  signer.behave(async () => "honest");
  await waitFor("the payment to end", async () => (await paymentState(order)) === "FAILED");
  expect(await countTransfers(lab, order.linkId)).toBe(1);
  expect(await balanceOf(lab, order)).toBe(balance);
}, 120_000);

/** Until the signer was asked and signed nothing, with nothing stored for this kind of relay beyond `before`. */
async function whileSignerIsAway(kind: string, act: () => Promise<unknown>): Promise<void> {
  const before = await countRelays(kind);
  const asked = signer.requests.length;
  signer.behave(async () => ({ error: { code: -32000, message: "the module is locked" } }));
  try {
    await act();
    await waitForRequest(asked);
    expect(await countRelays(kind)).toBe(before);
  } finally {
    signer.behave(async () => "honest");
  }
}

const countRelays = async (kind: string) =>
  (await relaysOf(lab)).filter((relay) => relay.kind === kind).length;

test("error: a wallet created while the signer is unavailable is deployed by its key once it signs again", async () => {
  await whileSignerIsAway("DEPLOY", async () => {
    owner = await signUp(lab.service.baseUrl);
  });
  await waitFor("the wallet's code", async () => {
    return (await lab.rpc("eth_getCode", [owner.walletAddress, "latest"])) !== "0x";
  });
  expect(await countRelays("DEPLOY")).toBe(1);
  const deploy = (await relaysOf(lab)).find(({ kind }) => kind === "DEPLOY");
  expect(deploy?.relayer).toBe(lab.relayer);
}, 120_000);

test("error: a send confirmed while the signer is unavailable waits, and moves the money once when it signs again", async () => {
  await fundUsdc(lab.chain.rpcUrl, owner.walletAddress as Hex, 3_000_000n);
  const to = randomAddress();
  const prepared = await prepareSend(owner, { to, amount: "1.25" });
  await whileSignerIsAway("OPERATIONS", async () => {
    expect((await confirmSend(owner, prepared)).status).toBe(202);
  });
  await waitForSend(owner, prepared.sendId);
  expect(await readUsdcBalance(lab.chain.rpcUrl, to)).toBe(1_250_000n);
  expect(await readUsdcBalance(lab.chain.rpcUrl, owner.walletAddress as Hex)).toBe(1_750_000n);
  expect(await countRelays("OPERATIONS")).toBe(1);
}, 120_000);

test("error: a refund confirmed while the signer is unavailable waits, and is paid once when it signs again", async () => {
  const { paidByX402, refund, confirm, waitForRefund } = refundLab(() => ({
    ...{ world: lab, sql: lab.sql, merchant: owner },
  }));
  const { linkId, payer } = await paidByX402(1.5);
  const prepared = await refund(linkId);
  expect(prepared.status).toBe(201);
  await whileSignerIsAway("OPERATIONS", async () => {
    expect((await confirm(prepared.body)).status).toBe(202);
  });
  await waitForRefund(prepared.body.refundId);
  expect(await readUsdcBalance(lab.chain.rpcUrl, payer)).toBe(1_500_000n);
  expect(await countRelays("OPERATIONS")).toBe(2);
}, 120_000);
