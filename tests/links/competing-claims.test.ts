/** Claims whose transaction pays another link, or whose outcome changes with a reorganisation. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { openLog } from "../../core/runtime/log.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { checkClaim } from "../../worker/links/check-claims.ts";
import {
  type Lab,
  linkOf,
  type Merchant,
  makeClaim,
  makeLink,
  makeMerchant,
  mine,
  NETWORK,
  openLab,
  type RunningIndexer,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";
import { makeSender, reorganise } from "../support/indexer-lab-reorgs.ts";
import { randomAddress } from "../support/seed.ts";

let lab: Lab;
let indexer: RunningIndexer;
let merchant: Merchant;
let chain: Chain;
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  chain = openChain({ network: NETWORK, urls: [lab.chain.rpcUrl], timeoutMs: 10_000 });
  await mine(lab, 10);
  indexer = startIndexer(lab);
});
afterAll(async () => {
  chain.close();
  await indexer.stop();
  await lab.stop();
});

const look = (claimId: string, nodes = chain) =>
  checkClaim(
    { sql: lab.sql, log: openLog("test", "silent"), chains: new Map([[NETWORK, nodes]]) },
    { claimId },
  );

const historyOf = (txHash: string) =>
  lab.sql`select status, failure_reason from transactions where tx_hash = ${txHash}`;

test("behavior: a link whose claimed transfer pays another link is released immediately", async () => {
  const units = 2_000_000n;
  const sender = await makeSender(lab);
  const [paid, other] = [await makeLink(lab, merchant, { units }), await makeLink(lab, merchant, { units })];
  const sent = await sender.pay(merchant.address, units);
  const place = { txHash: sent.txHash, clientAddress: sender.address };
  await settled(lab);
  await makeClaim(lab, { ...place, linkId: paid, proof: "EOA" });
  await until("it is paid", async () => (await linkOf(lab, paid)).status === "PAID");
  const claimId = await makeClaim(lab, { ...place, linkId: other });
  expect(await linkOf(lab, other)).toMatchObject({ status: "PENDING" });
  await look(claimId);
  expect(await linkOf(lab, other)).toMatchObject({ status: "ACTIVE", exception: "NONE" });
  expect(await linkOf(lab, paid)).toMatchObject({ status: "PAID", exception: "NONE" });
});

test("behavior: a transaction that reverted in a reorganised block and succeeds in the next pays the claimed link", async () => {
  const units = 3_000_000n;
  const links = [await makeLink(lab, merchant, { units }), await makeLink(lab, merchant, { units })];
  const [linkId = ""] = links;
  const sender = await makeSender(lab);
  await sender.pay(randomAddress(), 10n ** 15n - 1n);
  await mine(lab, 5);
  const sent = await sender.pay(merchant.address, units);
  const place = { linkId, txHash: sent.txHash, clientAddress: sender.address };
  const claimId = await makeClaim(lab, { ...place, proof: "EOA" });
  await look(claimId);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  expect([...(await historyOf(sent.txHash))]).toEqual([{ status: "FAILED", failureReason: "reverted" }]);
  await settled(lab);
  await reorganise(lab, 1, []);
  await settled(lab);
  await fundUsdc(lab.chain.rpcUrl, sender.address, units);
  await sender.resend(sent);
  await settled(lab);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
  expect([...(await historyOf(sent.txHash))]).toEqual([{ status: "CONFIRMED", failureReason: null }]);
});

test("behavior: a proof for another amount is kept while the indexer is down", async () => {
  const sender = await makeSender(lab);
  const linkId = await makeLink(lab, merchant, { units: 4_000_000n });
  const { txHash } = await sender.pay(merchant.address, 3_999_999n);
  await settled(lab);
  await indexer.stop();
  const claimId = await makeClaim(lab, { linkId, txHash, clientAddress: sender.address, proof: "EOA" });
  await look(claimId);
  const [claim] = await lab.sql`select state from claims where id = ${claimId}`;
  expect(claim).toEqual({ state: "OPEN" });
  indexer = startIndexer(lab);
  await until("the exception", async () => (await linkOf(lab, linkId)).exception === "UNDERPAID");
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
});

test("behavior: a claim for another amount without a proof releases its link and sets no exception", async () => {
  const sender = await makeSender(lab);
  const linkId = await makeLink(lab, merchant, { units: 4_100_000n });
  const { txHash } = await sender.pay(merchant.address, 4_099_999n);
  await indexer.stop();
  const claimId = await makeClaim(lab, { linkId, txHash, clientAddress: sender.address });
  await look(claimId);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE", exception: "NONE" });
  indexer = startIndexer(lab);
  await settled(lab);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE", exception: "NONE" });
});

const nextChecks = () => lab.sql<{ inS: number }[]>`
  select extract(epoch from run_at - now())::float8 as in_s
  from graphile_worker.jobs where task_identifier = 'check_claim' and run_at > now()`;

test("behavior: a claim without a proof of a transaction in a block holds its link, and is checked again, while the indexer is down", async () => {
  const sender = await makeSender(lab);
  const units = 4_300_000n;
  const linkId = await makeLink(lab, merchant, { units });
  await settled(lab);
  await indexer.stop();
  const { txHash } = await sender.pay(merchant.address, units);
  const claimId = await makeClaim(lab, { linkId, txHash, clientAddress: sender.address });
  await lab.sql`delete from graphile_worker._private_jobs`;
  await look(claimId);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
  expect((await nextChecks()).map(({ inS }) => Math.round(inS / 10))).toEqual([3]);
  indexer = startIndexer(lab);
  await until("it is paid", async () => (await linkOf(lab, linkId)).status === "PAID");
});

test("behavior: a late claim without a proof, of a transfer that fits two links, releases its link and is checked no more", async () => {
  const sender = await makeSender(lab);
  const units = 4_400_000n;
  const [linkId] = [await makeLink(lab, merchant, { units }), await makeLink(lab, merchant, { units })];
  await settled(lab);
  const { txHash } = await sender.pay(merchant.address, units);
  await settled(lab);
  await indexer.stop();
  const claimId = await makeClaim(lab, { linkId, txHash, clientAddress: sender.address });
  await lab.sql`delete from graphile_worker._private_jobs`;
  await look(claimId);
  const [claim] = await lab.sql`select state from claims where id = ${claimId}`;
  expect(claim).toEqual({ state: "HINT" });
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  expect(await nextChecks()).toHaveLength(0);
  indexer = startIndexer(lab);
});

test("behavior: while no node answers, the check of a claim is repeated some seconds later, and the link is held", async () => {
  const sender = await makeSender(lab);
  const units = 4_200_000n;
  const linkId = await makeLink(lab, merchant, { units });
  const { txHash } = await sender.pay(randomAddress(), units);
  const claimId = await makeClaim(lab, { linkId, txHash, clientAddress: sender.address });
  await lab.sql`delete from graphile_worker._private_jobs`;
  const unavailable = openChain({ network: NETWORK, urls: ["http://127.0.0.1:1"], timeoutMs: 500 });
  await look(claimId, unavailable);
  unavailable.close();
  const [next, ...more] = await nextChecks();
  expect(next?.inS).toBeWithin(0, 6);
  expect(more).toEqual([]);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
});
