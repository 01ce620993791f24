/** Sends in a pending transaction whose key was taken out of use: another key carries them too, and they move their money once. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { privateKeyToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { freeze } from "../support/freeze.ts";
import {
  countTransfers,
  type Lab,
  newOrder,
  pay,
  paymentOf,
  relaysOf,
  spendNonces,
  startLab,
  waitFor,
} from "../support/relay-lab.ts";
import { randomAddress } from "../support/seed.ts";
import { confirmSend, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

setDefaultTimeout(150_000);

const [OLD_KEY, NEW_KEY] = localRelayerKeys() as [Hex, Hex];
const NEW_RELAYER = privateKeyToAccount(NEW_KEY).address.toLowerCase();
const AMOUNT = 1_500_000n;

let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  await lab.rpc("evm_setAutomine", [true]);
  await lab.service.startMissing();
  await startWorkerWith(OLD_KEY);
});

async function startWorkerWith(keys: string): Promise<void> {
  if (lab.env.RELAYER_PRIVATE_KEYS === keys) return;
  lab.env.RELAYER_PRIVATE_KEYS = keys;
  await lab.service.kill("worker");
  await forgetWorkers();
  await lab.service.start("worker");
}

/** As ten minutes after a crash, or at once after a clean stop. */
const forgetWorkers = async () => {
  // a report that is still being stored would come after the deletion
  await waitFor("the killed worker's connections to end", async () => {
    const rows = await lab.sql`
      select from pg_stat_activity
      where datname = current_database() and application_name like 'worker%'`;
    return rows.length === 0;
  });
  await lab.sql`delete from processes where kind = 'worker'`;
};

type Stranded = { merchant: Merchant; sendId: string; to: Hex; txHash: Hex; raw: Hex; relayId: bigint };

/** A send of the old key that no node has; its worker is gone. `ageS`: of its attempt. `payNext`: sends more from the same key. */
async function strand({ ageS = 600, payNext = async (): Promise<Hex[]> => [] } = {}): Promise<Stranded> {
  const merchant = await signUp(lab.service.baseUrl);
  await fundUsdc(lab.chain.rpcUrl, merchant.walletAddress as Hex, AMOUNT);
  await waitFor("the wallet to be deployed", async () => {
    const rows = await lab.sql`
      select from wallets
      where user_id = ${merchant.userId} and deployed_at is not null and backfilled_at is not null`;
    return rows.length > 0;
  });
  const to = randomAddress();
  const prepared = await prepareSend(merchant, { to, amount: "1.5" });
  await lab.rpc("evm_setAutomine", [false]);
  expect((await confirmSend(merchant, prepared)).status).toBe(202);
  const { sendId } = prepared;
  const attempt = await waitFor("the send to be broadcast", async () => {
    const [row] = await lab.sql<{ relayId: bigint; txHash: Hex; raw: Hex }[]>`
      select attempt.relay_id, attempt.tx_hash, '0x' || encode(attempt.raw, 'hex') as raw
      from wallet_operations op
      join relays relay on relay.id = op.relay_id
      join relay_attempts attempt on attempt.relay_id = relay.id
      where op.id = ${sendId} and op.state = 'BROADCAST' and relay.state = 'BROADCAST'`;
    return row;
  });
  const next = await payNext();
  await lab.service.kill("worker");
  for (const txHash of [attempt.txHash, ...next]) await lab.rpc("anvil_dropTransaction", [txHash]);
  await forgetWorkers();
  await lab.sql`
    update relay_attempts
    set created_at = created_at - make_interval(secs => ${ageS}::int)
    where relay_id = ${attempt.relayId}`;
  lab.env.RELAYER_PRIVATE_KEYS = NEW_KEY;
  return { ...attempt, merchant, sendId, to };
}

const operationOf = async (sendId: string) => {
  const [row] = await lab.sql<
    {
      state: string;
      reason: string | null;
      refusals: number;
      relayer: string | null;
      txHash: Hex | null;
      newHash: Hex | null;
    }[]
  >`
    select op.state, op.reason, op.refusals, relay.relayer, op.tx_hash, attempt.tx_hash as new_hash
    from wallet_operations op
    left join relays relay on relay.id = op.relay_id
    left join relay_attempts attempt on attempt.relay_id = relay.id
    where op.id = ${sendId}`;
  if (!row) throw new Error("no operation");
  return row;
};

/** A worker may resend the old transaction before another key carries the send: the node would mine it, and the new key waits for that. */
async function waitForNewKey({ sendId, txHash }: Stranded): Promise<void> {
  await waitFor("the new key's transaction", async () => {
    await lab.rpc("anvil_dropTransaction", [txHash]);
    const { relayer, state } = await operationOf(sendId);
    return relayer === NEW_RELAYER && state === "BROADCAST";
  });
}

const relayOf = async ({ relayId }: Stranded) => (await relaysOf(lab)).find(({ id }) => id === relayId);

/** Without a transaction. */
const setBalance = ({ merchant }: Stranded, units: bigint) =>
  fundUsdc(lab.chain.rpcUrl, merchant.walletAddress as Hex, units);

/** `without`: a transaction that may be resent at any moment, and is in none of the blocks. */
async function mineUntil(what: string, isDone: () => Promise<boolean>, without?: Hex): Promise<void> {
  await waitFor(what, async () => {
    await Bun.sleep(300);
    if (await isDone()) return true;
    if (without) await lab.rpc("anvil_dropTransaction", [without]);
    await lab.rpc("evm_mine");
    return false;
  });
}

/** One block in which the old transaction is mined, whatever else waits. */
async function mineOld({ raw, txHash }: Stranded, status = "0x1"): Promise<void> {
  const worker = lab.service.pidOf("worker");
  // it would resend what is dropped here, perhaps before the block
  await freeze(worker);
  try {
    await lab.rpc("anvil_dropAllTransactions");
    await lab.rpc("eth_sendRawTransaction", [raw]);
    await lab.rpc("evm_mine");
  } finally {
    process.kill(worker, "SIGCONT");
  }
  expect(await lab.rpc("eth_getTransactionReceipt", [txHash])).toMatchObject({ status });
}

const paidTo = ({ to }: Stranded) => readUsdcBalance(lab.chain.rpcUrl, to);

async function waitUntilRefused({ sendId, txHash }: Stranded): Promise<void> {
  await waitFor("two refusals", async () => {
    // resent, it is about to be mined, which is not a refusal
    await lab.rpc("anvil_dropTransaction", [txHash]);
    return (await operationOf(sendId)).refusals >= 2;
  });
}

test("behavior: the new key's transaction is mined, then the old one's: the money has moved once", async () => {
  const send = await strand();
  await lab.service.start("worker");
  await waitForNewKey(send);
  await mineUntil("the send", async () => (await operationOf(send.sendId)).state === "CONFIRMED");
  const { newHash } = await operationOf(send.sendId);
  expect(await operationOf(send.sendId)).toMatchObject({ txHash: newHash });
  expect(await relayOf(send)).toMatchObject({ state: "BROADCAST" });
  await mineOld(send, "0x0");
  await mineUntil("the old relay to be final", async () => (await relayOf(send))?.state === "CONFIRMED");
  expect(await operationOf(send.sendId)).toMatchObject({ state: "CONFIRMED", txHash: newHash });
  expect(await paidTo(send)).toBe(AMOUNT);
});

test("behavior: a payment behind the old transaction is mined: that one is resent although another key has carried its send", async () => {
  const order = await newOrder(lab);
  const payNext = async () => {
    const answered = pay(lab, order);
    answered.catch(() => undefined);
    return waitFor("the payment to be broadcast", async () => {
      const rows = await lab.sql<{ txHash: Hex }[]>`
        select attempt.tx_hash
        from relays
        join relay_attempts attempt on attempt.relay_id = relays.id
        where relays.kind = 'PAYMENTS' and relays.state = 'BROADCAST'`;
      return rows.length > 0 ? rows.map(({ txHash }) => txHash) : undefined;
    });
  };
  const send = await strand({ payNext });
  await lab.service.start("worker");
  await waitForNewKey(send);
  await mineUntil("the send", async () => (await operationOf(send.sendId)).state === "CONFIRMED");
  await mineUntil("the payment", async () => (await paymentOf(lab, order.linkId))?.state === "CONFIRMED");
  expect(await paidTo(send)).toBe(AMOUNT);
  expect(await countTransfers(lab, order.linkId)).toBe(1);
});

test("behavior: the old key's transaction is mined before the new one's: the money has moved once", async () => {
  const send = await strand();
  await lab.service.start("worker");
  await waitForNewKey(send);
  await mineOld(send);
  await waitForSend(send.merchant, send.sendId);
  expect(await operationOf(send.sendId)).toMatchObject({ txHash: send.txHash });
  await mineUntil("both relays to be final", async () =>
    (await relaysOf(lab)).every(({ state }) => state === "CONFIRMED"),
  );
  expect(await operationOf(send.sendId)).toMatchObject({ state: "CONFIRMED", txHash: send.txHash });
  expect(await paidTo(send)).toBe(AMOUNT);
});

test("behavior: while the node is about to mine the old key's transaction, the new key signs none", async () => {
  const send = await strand();
  await lab.rpc("eth_sendRawTransaction", [send.raw]);
  await lab.service.start("worker");
  await waitFor(
    "the send to be queued again",
    async () => (await operationOf(send.sendId)).state === "QUEUED",
  );
  await Bun.sleep(2_000);
  expect(await operationOf(send.sendId)).toMatchObject({ state: "QUEUED", reason: null });
  await lab.rpc("evm_mine");
  await waitForSend(send.merchant, send.sendId);
  expect(await operationOf(send.sendId)).toMatchObject({ txHash: send.txHash, relayer: null });
  expect(await paidTo(send)).toBe(AMOUNT);
});

test("behavior: a send that the chain refuses now does not fail while the old key's transaction may be mined", async () => {
  const send = await strand();
  await setBalance(send, 0n);
  await lab.service.start("worker");
  await waitUntilRefused(send);
  // the third refusal is final, were it not for the old transaction
  await Bun.sleep(3_000);
  expect(await operationOf(send.sendId)).toMatchObject({ state: "QUEUED", reason: null });
  await setBalance(send, AMOUNT);
  await mineOld(send);
  await waitForSend(send.merchant, send.sendId);
  expect(await operationOf(send.sendId)).toMatchObject({ txHash: send.txHash });
  expect(await paidTo(send)).toBe(AMOUNT);
});

test("behavior: with its key configured again, the old transaction is replaced by none, and the refused send fails", async () => {
  const send = await strand();
  await setBalance(send, 0n);
  await lab.service.start("worker");
  await waitUntilRefused(send);
  await startWorkerWith(`${NEW_KEY},${OLD_KEY}`);
  const hasFailed = async () => (await operationOf(send.sendId)).state === "FAILED";
  await mineUntil("the send to fail", hasFailed, send.txHash);
  expect(await operationOf(send.sendId)).toMatchObject({ reason: "INSUFFICIENT_FUNDS", txHash: null });
  expect(await relayOf(send)).toMatchObject({ state: "CONFIRMED" });
  expect((await relayOf(send))?.txHash).not.toBe(send.txHash);
  await setBalance(send, AMOUNT);
  await expect(lab.rpc("eth_sendRawTransaction", [send.raw])).rejects.toThrow(/nonce too low/);
  expect(await paidTo(send)).toBe(0n);
});

test("behavior: nothing is taken from a key that another worker may have", async () => {
  const send = await strand();
  const report = (host: string, details: object) => lab.sql`
    insert into processes (id, kind, version, host, pid, details)
    values (${crypto.randomUUID()}, 'worker', '0', ${host}, 1, ${JSON.stringify(details)}::text::jsonb)`;
  await report("holder", { relayers: [`base-sepolia ${lab.relayer}`] });
  await lab.service.start("worker");
  const unchanged = async () => {
    await waitFor("the new worker's report", async () => {
      const rows = await lab.sql`
        select from processes where details -> 'relayers' = ${JSON.stringify([`base-sepolia ${NEW_RELAYER}`])}::text::jsonb`;
      return rows.length === 1;
    });
    await Bun.sleep(1_500);
    expect(await operationOf(send.sendId)).toMatchObject({ state: "BROADCAST", relayer: lab.relayer });
  };
  await unchanged();
  await report("earlier-version", {});
  await lab.sql`delete from processes where host = 'holder'`;
  await unchanged();
  await lab.sql`delete from processes where host = 'earlier-version'`;
  await waitFor(
    "the send to be queued again",
    async () => (await operationOf(send.sendId)).state === "QUEUED",
  );
  await waitForNewKey(send);
  await mineUntil("the send", async () => (await operationOf(send.sendId)).state === "CONFIRMED");
  expect(await paidTo(send)).toBe(AMOUNT);
  await mineOld(send, "0x0");
});

test("behavior: once the old key has used its nonce elsewhere, its transaction is lost and another key sends at once", async () => {
  const send = await strand({ ageS: 0 });
  await lab.rpc("evm_setAutomine", [true]);
  await spendNonces(lab, 1);
  await lab.service.start("worker");
  await mineUntil("the send", async () => (await operationOf(send.sendId)).state === "CONFIRMED");
  expect(await relayOf(send)).toMatchObject({ state: "LOST" });
  expect(await operationOf(send.sendId)).toMatchObject({ relayer: NEW_RELAYER });
  expect(await paidTo(send)).toBe(AMOUNT);
});
