import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { spawnBound } from "../../local/processes/bound-process.ts";
import {
  amounts,
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
  pay,
  type RunningIndexer,
  send,
  settled,
  startIndexer,
  USDC,
  until,
} from "../support/indexer-lab.ts";
import { acceptPayment, authorize, makeSigner, paymentOf } from "../support/indexer-lab-payments.ts";
import { makeSender, reorganise } from "../support/indexer-lab-reorgs.ts";
import { assertInvariants } from "../support/invariants.ts";

setDefaultTimeout(120_000);
const freshUnits = amounts();

let lab: Lab;
let indexer: RunningIndexer;
let merchant: Merchant;
let payer: Hex;
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  payer = await makePayer(lab);
  await mine(lab, 30);
  indexer = startIndexer(lab);
  await makeHistory();
});
afterAll(async () => {
  await indexer.stop();
  await lab.stop();
});

/** One of everything: paid, late, ambiguous, claimed in time and afterwards, relayed, revived, duplicate, reorganised, internal. */
async function makeHistory(): Promise<void> {
  const link = (units: bigint, times = {}) => makeLink(lab, merchant, { units, ...times });
  const [plain, late, twins, claimed, relayed, revived] = Array.from({ length: 6 }, freshUnits) as [
    bigint,
    bigint,
    bigint,
    bigint,
    bigint,
    bigint,
  ];
  await link(plain);
  await pay(lab, payer, merchant.address, plain);
  await link(late, { madeInS: -100, endsInS: -10 });
  await pay(lab, payer, merchant.address, late);
  await link(twins);
  const cancelledLater = await link(twins);
  await pay(lab, payer, merchant.address, twins);
  const named = await link(claimed);
  await link(claimed);
  const first = await pay(lab, payer, merchant.address, claimed);
  await pay(lab, payer, merchant.address, claimed);
  await settled(lab);
  await lab.sql`update payment_links set status = 'CANCELLED' where id = ${cancelledLater}`;
  // the test chain's clock runs ahead of ours: every block advances it by a second
  await lab.sql`update payment_links set cancelled_at = now() + interval '1 hour' where id = ${cancelledLater}`;
  await makeClaim(lab, { linkId: named, txHash: first, clientAddress: payer, proof: "EOA" });
  await until("the claim is matched", async () => (await linkOf(lab, named)).status === "PAID");

  const signer = await makeSigner(lab);
  const relayedLink = await link(relayed);
  const accepted = await authorize(signer, { to: merchant.address, value: relayed });
  await acceptPayment(lab, relayedLink, accepted.authorization);
  await send(lab, payer, USDC, accepted.data);
  const revivedLink = await link(revived);
  const failed = await authorize(signer, { to: merchant.address, value: revived });
  const failedId = await acceptPayment(lab, revivedLink, failed.authorization);
  await lab.sql`update payments set state = 'FAILED', reason = 'EXPIRED_TRANSFER' where id = ${failedId ?? ""}`;
  await lab.sql`update payment_links set status = 'ACTIVE' where id = ${revivedLink}`;
  await pay(lab, payer, merchant.address, revived);
  await send(lab, payer, USDC, failed.data);
  await settled(lab);
  expect(await paymentOf(lab, failedId)).toMatchObject({ state: "FAILED" });

  const other = await makeMerchant(lab, await makePayer(lab));
  await pay(lab, other.address, merchant.address, 77n);
  const sender = await makeSender(lab);
  await mine(lab, 30);
  await sender.pay(merchant.address, 78n);
  await sender.pay(merchant.address, 79n);
  await settled(lab);
  await reorganise(lab, 1, []);
  await settled(lab);
}

async function dump(): Promise<string> {
  const tables = {
    transactions: "to_jsonb(t) - 'transfer_id'",
    payment_links: "to_jsonb(t)",
    payments: "to_jsonb(t)",
    claims: "to_jsonb(t)",
    transfers: "to_jsonb(t) - 'id'",
    events: "to_jsonb(t)",
  };
  const parts = await Promise.all(
    Object.entries(tables).map(async ([table, columns]) => {
      const rows = await lab.sql.unsafe(`select (${columns})::text as row from ${table} t order by 1`);
      return rows.map((row) => `${table} ${row.row}`).join("\n");
    }),
  );
  return parts.join("\n");
}

async function rebuild({ confirmations = 1 } = {}): Promise<{ code: number | string; output: string }> {
  const { PATH, HOME } = process.env;
  let output = "";
  const child = await spawnBound({
    command: process.execPath,
    args: ["indexer/rebuild-main.ts"],
    cwd: `${import.meta.dir}/../..`,
    env: {
      ...{ PATH, HOME, NODE_ENV: "test", DATABASE_URL: lab.db.url, NETWORKS: NETWORK },
      ...{
        RPC_URL_BASE_SEPOLIA: lab.chain.rpcUrl,
        CONFIRMATIONS_BASE_SEPOLIA: `${confirmations}`,
        LOG_LEVEL: "warn",
      },
    },
    stopSignal: "SIGTERM",
    onOutput: (chunk) => {
      output += chunk.toString();
    },
  });
  return { code: await child.exited, output };
}

test("recreates exactly what was there, while an indexer runs", async () => {
  const before = await dump();
  expect(await rebuild()).toMatchObject({ code: 0, output: expect.stringContaining("identical") });
  expect(await dump()).toBe(before);
  await pay(lab, payer, merchant.address, 123n);
  await settled(lab);
  await assertInvariants(lab.sql, lab.chain);
});

test("repairs damaged rows, and reports which", async () => {
  const before = await dump();
  await lab.sql`delete from transfers where pays and log_index = 0 and block_number < 60`;
  await lab.sql`update payment_links set status = 'ACTIVE', paid_at = null where status = 'PAID'`;
  const { code, output } = await rebuild();
  expect(code).toBe(1);
  expect(output).toContain("payment_links: ");
  const [row] = await lab.sql`select count(*) from payment_links where status = 'PAID'`;
  expect(row?.count).toBeGreaterThan(4n);
  await assertInvariants(lab.sql, lab.chain);
  // the running indexer may have read a deleted transfer again first, which is an event each
  const rowsOf = (text: string) => text.split("\n").filter((line) => !line.startsWith("events "));
  expect(rowsOf(await dump())).toHaveLength(rowsOf(before).length);
});

test("what was confirmed stays so where blocks above it are missing or more are asked for, and is not reported a second time", async () => {
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  await pay(lab, payer, merchant.address, units);
  await settled(lab);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
  const before = await dump();
  expect(await rebuild({ confirmations: 40 })).toMatchObject({
    ...{ code: 0, output: expect.stringContaining("identical") },
  });
  expect(await dump()).toBe(before);
  await mine(lab, 2);
  await settled(lab);
  const paid = await lab.sql`
    select from events where subject_id = ${linkId} and type = 'payment_link.paid'`;
  expect(paid).toHaveLength(1);
});

test("refuses when the node is on another chain than the cursor, and changes nothing", async () => {
  await indexer.stop();
  await reorganise(lab, 3, []);
  const before = await dump();
  expect((await rebuild()).code).not.toBe(0);
  expect(await dump()).toBe(before);
  await callRpc(lab.chain.rpcUrl, "evm_mine");
  indexer = startIndexer(lab);
  await settled(lab);
  await assertInvariants(lab.sql, lab.chain);
});
