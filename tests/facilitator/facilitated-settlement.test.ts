/** Facilitated payments, which move money between third parties, in a ledger that was behind or is rebuilt. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { assignTransaction } from "../../api/transactions/assign-or-unassign.ts";
import type { Authorization } from "../../core/domain/authorization.ts";
import { newPaymentId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { insertFacilitatedPayments } from "../../db/payments/facilitated-payments.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import { recheckLogs } from "../../indexer/audit/recheck-logs.ts";
import {
  headOf,
  type Lab,
  linkOf,
  type Merchant,
  makeClaim,
  makeLink,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  openTerm,
  type RunningIndexer,
  randomAddress,
  send,
  settled,
  startIndexer,
  USDC,
  until,
} from "../support/indexer-lab.ts";
import { authorize, makeSigner, paymentOf, sendBatch } from "../support/indexer-lab-payments.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

setDefaultTimeout(120_000);
let lab: Lab;
let merchant: Merchant;
let payer: Hex;
let indexer: RunningIndexer | undefined;
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  payer = await makePayer(lab);
});
beforeEach(async () => {
  indexer = startIndexer(lab);
  await settled(lab);
});
afterEach(() => indexer?.stop());
afterAll(() => lab.stop());

async function accept(to: Hex = randomAddress()) {
  const signer = await makeSigner(lab);
  const { authorization, data } = await authorize(signer, { to, value: 1_000n });
  const id = await show(authorization);
  // a second ago: what is accepted within the second of its block counts as later
  await lab.sql`update payments set created_at = created_at - interval '1 second' where id = ${id}`;
  return { id, data, from: signer.lower };
}

/** Stores the facilitated payment of an authorization, as when it is settled here. */
async function show(authorization: Authorization): Promise<string> {
  const id = newPaymentId();
  await lab.sql.begin((tx) =>
    insertFacilitatedPayments(tx, [
      {
        ...{
          id,
          network: NETWORK,
          token: USDC,
          payer: authorization.from,
          payerKind: "EOA",
          signature: "0x",
        },
        ...{ recipient: authorization.to, amountUnits: authorization.value, nonce: authorization.nonce },
        ...{ validAfter: authorization.validAfter, validBefore: authorization.validBefore },
        ...{ idempotencyKey: null, requestId: null, facilitatorUserId: merchant.userId },
        facilitatorKeyId: "key_test",
      },
    ]),
  );
  return id;
}

test("behavior: a facilitated payment mined long before the indexer returned is settled, not FAILED", async () => {
  await indexer?.stop();
  const { id, data } = await accept();
  await send(lab, payer, USDC, data);
  await mine(lab, 500);
  indexer = startIndexer(lab);
  await settled(lab);
  expect(await paymentOf(lab, id)).toMatchObject({ state: "CONFIRMED", reason: null });
});

test("behavior: an authorization executed elsewhere while the ledger lagged, and shown to the facilitator afterwards, does not settle its payment", async () => {
  await indexer?.stop();
  const made = await Promise.all(
    [1, 2].map(async () => authorize(await makeSigner(lab), { to: randomAddress(), value: 1_000n })),
  );
  const calls = made.map(({ data }) => ({ target: USDC, callData: data }));
  await waitForReceipt(lab.chain.rpcUrl, await sendBatch(lab, payer, calls));
  const { timeS } = await headOf(lab);
  const [within = "", after = ""] = await Promise.all(made.map(({ authorization }) => show(authorization)));
  await lab.sql`
    update payments
    set created_at = to_timestamp(${timeS}::int + case id when ${after} then 1 else 0.999 end)
    where id in (${within}, ${after})`;
  indexer = startIndexer(lab);
  await settled(lab);
  expect(await paymentOf(lab, after)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
  expect(await paymentOf(lab, within)).toMatchObject({ state: "CONFIRMED", reason: null });
});

test("behavior: a rebuild leaves a facilitated payment settled, and finds no difference", async () => {
  const { id, data } = await accept();
  await send(lab, payer, USDC, data);
  await settled(lab);
  expect(await paymentOf(lab, id)).toMatchObject({ state: "CONFIRMED" });
  await indexer?.stop();
  indexer = undefined;
  const term = await openTerm(lab);
  const { differences } = await rebuildNetwork(term).finally(term.close);
  expect(differences).toEqual([]);
  expect(await paymentOf(lab, id)).toMatchObject({ state: "CONFIRMED" });
});

test("behavior: a facilitated payment to a merchant's wallet pays no link that its payer claims with a proof", async () => {
  const twins = (units: bigint) => Promise.all([1, 2].map(() => makeLink(lab, merchant, { units })));
  const [[claimed = ""], [own = ""]] = await Promise.all([twins(1_000n), twins(2_000n)]);
  const { data, from } = await accept(merchant.address);
  const signer = await makeSigner(lab);
  const plain = await authorize(signer, { to: merchant.address, value: 2_000n });
  const facilitated = await send(lab, payer, USDC, data);
  const txHash = await send(lab, payer, USDC, plain.data);
  await settled(lab);
  await makeClaim(lab, { linkId: claimed, txHash: facilitated, clientAddress: from, proof: "EOA" });
  await makeClaim(lab, { linkId: own, txHash, clientAddress: signer.lower, proof: "EOA" });
  // late transfers are matched together
  await until("it is paid", async () => (await linkOf(lab, own)).status === "PAID");
  expect(await linkOf(lab, own)).toMatchObject({ settledBy: "proof" });
  const [row] = await lab.sql`select link_id, pays from transfers where tx_hash = ${facilitated}`;
  expect(row).toEqual({ linkId: null, pays: false });
  expect(await linkOf(lab, claimed)).toMatchObject({ exception: "NONE", settledBy: null, paidAt: null });
});

test("error: a facilitated payment into the merchant's own wallet cannot be assigned to a link", async () => {
  const { data, from } = await accept(merchant.address);
  const linkId = await makeLink(lab, merchant, { units: 1_000_000n });
  const txHash = await send(lab, payer, USDC, data);
  await settled(lab);
  const [row] = await lab.sql<{ id: string }[]>`
    select id
    from transactions
    where tx_hash = ${txHash} and owner = owner_key(${merchant.userId}) and counterparty = ${from}`;
  const asked = {
    ...{ transactionId: row?.id ?? "", userId: merchant.userId, mismatchMinUnits: 0n },
    ...{ linkId, accept: true, trace: { requestId: "req_test", clientAddress: "127.0.0.1" } },
  };
  const refusal = await assignTransaction(lab.sql, asked).then(
    () => undefined,
    (error: { details: object }) => error.details,
  );
  expect(refusal).toMatchObject({ issue: "counted_elsewhere" });
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE", exception: "NONE" });
});

/** Executed in a block that is read again, because it also pays a wallet, and shown here afterwards; the worker has ended its payment. */
async function showAfterBlock(): Promise<string> {
  const [elsewhere, ours] = await Promise.all(
    [randomAddress(), merchant.address].map(async (to) =>
      authorize(await makeSigner(lab), { to, value: 7n }),
    ),
  );
  if (!elsewhere || !ours) throw new Error("nothing was signed");
  const calls = [elsewhere, ours].map(({ data }) => ({ target: USDC, callData: data }));
  await sendBatch(lab, payer, calls);
  await settled(lab);
  const id = await show(elsewhere.authorization);
  await failAsUsed(id);
  return id;
}

async function failAsUsed(id: string): Promise<void> {
  await lab.sql`
    update payments
    set state = 'FAILED', reason = 'NONCE_USED', tx_hash = null, log_index = null, block_number = null
    where id = ${id}`;
}

test("behavior: a rebuild does not settle a payment whose authorization was executed before it was shown here", async () => {
  const id = await showAfterBlock();
  await indexer?.stop();
  indexer = undefined;
  const term = await openTerm(lab);
  const { differences } = await rebuildNetwork(term).finally(term.close);
  expect(differences).toEqual([]);
  expect(await paymentOf(lab, id)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
});

test("behavior: a payment whose block was answered without its logs is settled when the block is read a second time", async () => {
  const { id, data } = await accept();
  const other = await accept();
  await send(lab, payer, USDC, data);
  const late = await showAfterBlock();
  await mine(lab, 40);
  await settled(lab);
  await indexer?.stop();
  indexer = undefined;
  // as if the log had never been reported: the worker has found the authorization used, and no transfer
  await failAsUsed(id);
  await lab.sql`update cursors set rechecked_number = 0`;
  const term = await openTerm(lab);
  await recheckLogs(term, { blocks: 2_000 }).finally(term.close);
  expect(await paymentOf(lab, id)).toMatchObject({ state: "CONFIRMED", reason: null });
  expect(await paymentOf(lab, late)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
  expect(await paymentOf(lab, other.id)).toMatchObject({ state: "QUEUED" });
  const [row] = await lab.sql`
    select differences, repaired from reconciliations where kind = 'LOGS' order by id desc limit 1`;
  expect(row).toEqual({ differences: 1, repaired: 1 });
});

/** Anybody can show an executed authorization: it is in the block. */
test("behavior: an authorization shown to the facilitator after its block pays its link, when the block is read and after a rebuild", async () => {
  const linkId = await makeLink(lab, merchant, { units: 3_000n });
  const signer = await makeSigner(lab);
  const { authorization, data } = await authorize(signer, { to: merchant.address, value: 3_000n });
  await indexer?.stop();
  await send(lab, payer, USDC, data);
  const id = await show(authorization);
  indexer = startIndexer(lab);
  await settled(lab);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", settledBy: "amount" });
  expect(await paymentOf(lab, id)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
  await indexer.stop();
  indexer = undefined;
  const term = await openTerm(lab);
  const { differences } = await rebuildNetwork(term).finally(term.close);
  expect(differences).toEqual([]);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", settledBy: "amount" });
});

test("behavior: a payment whose success was reported stays the facilitator's, wherever a reorganisation puts its transaction", async () => {
  const linkId = await makeLink(lab, merchant, { units: 5_000n });
  const signer = await makeSigner(lab);
  const { authorization, data } = await authorize(signer, { to: merchant.address, value: 5_000n });
  await indexer?.stop();
  await send(lab, payer, USDC, data);
  // reopened: its block is no later than its acceptance now
  const id = await show(authorization);
  await lab.sql`update payments set told_to = 'key_test', answer_state = 'SENT' where id = ${id}`;
  indexer = startIndexer(lab);
  await settled(lab);
  expect(await paymentOf(lab, id)).toMatchObject({ state: "CONFIRMED", reason: null });
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE", settledBy: null, paidAt: null });
});

test("behavior: an authorization shown to the facilitator after its block can be claimed with a proof, and assigned", async () => {
  const twins = await Promise.all([1, 2, 3].map(() => makeLink(lab, merchant, { units: 4_000n })));
  const [claimed = "", assigned = ""] = twins;
  const [first, second] = [await makeSigner(lab), await makeSigner(lab)];
  const shown = await Promise.all(
    [first, second].map((signer) => authorize(signer, { to: merchant.address, value: 4_000n })),
  );
  const hashes: Hex[] = [];
  for (const { authorization, data } of shown) {
    hashes.push(await send(lab, payer, USDC, data));
    await settled(lab);
    const id = await show(authorization);
    await lab.sql`update payments set state = 'FAILED', reason = 'NONCE_USED' where id = ${id}`;
  }
  const [ofClaim, ofAssignment = "0x"] = hashes;
  await makeClaim(lab, {
    ...{ linkId: claimed, txHash: ofClaim ?? "0x", clientAddress: first.lower, proof: "EOA" },
  });
  await until("it is paid", async () => (await linkOf(lab, claimed)).status === "PAID");
  const [row] = await lab.sql<{ id: string }[]>`
    select id
    from transactions
    where tx_hash = ${ofAssignment} and owner = owner_key(${merchant.userId})`;
  await assignTransaction(lab.sql, {
    ...{ transactionId: row?.id ?? "", userId: merchant.userId, mismatchMinUnits: 0n },
    ...{ linkId: assigned, accept: false, trace: { requestId: "req_test", clientAddress: "127.0.0.1" } },
  });
  expect(await linkOf(lab, assigned)).toMatchObject({ status: "PAID", settledBy: "merchant" });
});
