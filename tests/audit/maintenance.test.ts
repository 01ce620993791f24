import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { countDifferences } from "../../db/ledger/reconciliation.ts";
import { recheckLogs } from "../../indexer/audit/recheck-logs.ts";
import { reconcileBalances } from "../../indexer/audit/reconcile-balances.ts";
import type { Term } from "../../indexer/leader-term.ts";
import { fundEth } from "../../local/chain/usdc.ts";
import { startFaultProxy } from "../support/fault-proxy.ts";
import {
  amounts,
  findHistory,
  type Lab,
  linkOf,
  makeLink,
  makeManyWallets,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  openTerm,
  pay,
  type RunningIndexer,
  randomAddress,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { seededRandom } from "../support/seeded-random.ts";

setDefaultTimeout(120_000);
const random = seededRandom("upkeep");
const freshUnits = amounts();
/** Above the depth anvil calls final. */
const FINAL_BLOCKS = 70;

let lab: Lab;
let indexer: RunningIndexer;
let payer: Hex;
beforeAll(async () => {
  lab = await openLab();
  payer = await makePayer(lab);
  indexer = startIndexer(lab);
});
afterAll(async () => {
  await indexer.stop();
  await lab.stop();
});

/** A merchant with USDC that came by a transfer, as the books want it, and ETH to send it. */
async function makeRichMerchant(units: bigint) {
  const merchant = await makeMerchant(lab);
  await fundEth(lab.chain.rpcUrl, merchant.address, 10n ** 21n);
  await pay(lab, payer, merchant.address, units);
  return merchant;
}

/** Takes the lead from the running indexer for as long as `work` takes. */
async function withTerm(work: (term: Term) => Promise<void>, urls = [lab.chain.rpcUrl]): Promise<void> {
  await indexer.stop();
  const term = await openTerm(lab, urls);
  try {
    await work(term);
  } finally {
    term.close();
    indexer = startIndexer(lab);
  }
}

const isRead = (address: Hex) => async () =>
  (await lab.sql`select 1 from wallets where address = ${address} and backfilled_at is not null`).length ===
  1;

describe("a wallet that is added later", () => {
  test("gets its transfers since its creation from the chain, attributed to its links", async () => {
    const address = randomAddress();
    const other = await makeRichMerchant(1_000n);
    const units = freshUnits();
    const hashes = [
      await pay(lab, payer, address, 11n),
      await pay(lab, other.address, address, 12n),
      await pay(lab, payer, address, units),
    ];
    await mine(lab, 5);
    await settled(lab);
    const merchant = await makeMerchant(lab, address, -30);
    const linkId = await makeLink(lab, merchant, { units, madeInS: -30 });
    await until("it is read", isRead(address));
    const rows = await Promise.all(hashes.map((hash) => findHistory(lab, hash, merchant.userId)));
    expect(rows.flat()).toMatchObject([
      { type: "RECEIVE", amountUnits: 11n, status: "CONFIRMED" },
      { type: "RECEIVE", amountUnits: 12n, counterparty: other.address },
      { type: "PAYMENT_LINK", linkId, status: "CONFIRMED" },
    ]);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "NONE" });
    expect(await findHistory(lab, hashes[1] ?? "0x", other.userId)).toMatchObject([{ type: "SEND" }]);
  });

  test("is read once: nothing is reported twice when it is read again", async () => {
    const merchant = await makeMerchant(lab);
    await pay(lab, payer, merchant.address, 5n);
    await until("it is read", isRead(merchant.address));
    await settled(lab);
    const before =
      await lab.sql`select id, status, transfer_id from transactions where owner = owner_key(${merchant.userId})`;
    await lab.sql`update wallets set backfilled_at = null where address = ${merchant.address}`;
    await until("it is read again", isRead(merchant.address));
    const after =
      await lab.sql`select id, status, transfer_id from transactions where owner = owner_key(${merchant.userId})`;
    expect([...after]).toEqual([...before]);
    expect(after).toHaveLength(1);
  });

  test("is read completely although a node omits logs, with the help of another node", async () => {
    await indexer.stop();
    const proxy = await startFaultProxy(lab.chain.rpcUrl, { random, faults: { emptiedLogs: 1 } });
    indexer = startIndexer(lab, { urls: [proxy.url, lab.chain.rpcUrl] });
    const address = randomAddress();
    for (let count = 1n; count <= 5n; count++) await pay(lab, payer, address, count);
    await settled(lab);
    const merchant = await makeMerchant(lab, address, -30);
    await until("it is read", isRead(address));
    const [row] =
      await lab.sql`select count(*), sum(amount_units) from transactions where owner = owner_key(${merchant.userId})`;
    expect(row).toEqual({ count: 5n, sum: 15n });
    await indexer.stop();
    await proxy.stop();
    indexer = startIndexer(lab);
    await settled(lab);
  });
});

describe("reconciliation", () => {
  const newest = async (kind: string) => {
    const [row] = await lab.sql`
      select differences, repaired, checked from reconciliations
      where network = ${NETWORK} and kind = ${kind} order by id desc limit 1`;
    return row;
  };

  test("finds no difference after payments in and out, and reports that", async () => {
    const merchant = await makeRichMerchant(1_000n);
    await until("it is read", isRead(merchant.address));
    await pay(lab, payer, merchant.address, 500n);
    await pay(lab, merchant.address, randomAddress(), 300n);
    await mine(lab, FINAL_BLOCKS);
    await settled(lab);
    await withTerm(async (term) => {
      await lab.sql`update wallets set reconciled_at = null where address = ${merchant.address}`;
      expect(await reconcileBalances(term)).toBe(0);
      while (await recheckLogs(term, { blocks: 500 }));
      expect(await newest("LOGS")).toMatchObject({ differences: 0, repaired: 0 });
      expect(await newest("BALANCES")).toMatchObject({ differences: 0 });
    });
  });

  test("records a missed transfer, and reports it", async () => {
    const merchant = await makeMerchant(lab);
    await until("it is read", isRead(merchant.address));
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const txHash = await pay(lab, payer, merchant.address, units);
    await mine(lab, FINAL_BLOCKS);
    await settled(lab);
    await withTerm(async (term) => {
      // as if the log had never been reported; a running indexer would find it at its next recheck
      await lab.sql`delete from transactions where tx_hash = ${txHash}`;
      await lab.sql`delete from transfers where tx_hash = ${txHash}`;
      await lab.sql`update payment_links set status = 'ACTIVE', paid_at = null where id = ${linkId}`;
      await lab.sql`update cursors set rechecked_number = 0`;
      await lab.sql`update wallets set reconciled_at = now() where address <> ${merchant.address}`;
      await lab.sql`update wallets set reconciled_at = null where address = ${merchant.address}`;
      expect(await reconcileBalances(term)).toBe(1);
      await recheckLogs(term, { blocks: 2_000 });
      expect(await newest("LOGS")).toMatchObject({ differences: 1, repaired: 1 });
      expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
      expect(await findHistory(lab, txHash, merchant.userId)).toMatchObject([
        { type: "PAYMENT_LINK", linkId },
      ]);
      // the wallet's whole ledger is summed anew, without waiting
      expect(await reconcileBalances(term)).toBe(0);
    });
  });

  test("does not count blocks as reread through a node that omits logs of recorded transfers", async () => {
    const merchant = await makeMerchant(lab);
    await until("it is read", isRead(merchant.address));
    await pay(lab, payer, merchant.address, 11n);
    const txHash = await pay(lab, payer, merchant.address, 12n);
    await mine(lab, FINAL_BLOCKS);
    await settled(lab);
    const proxy = await startFaultProxy(lab.chain.rpcUrl, {
      random: Math.random,
      faults: { emptiedLogs: 1 },
    });
    await withTerm(
      async (term) => {
        // a running indexer would find it at its next recheck
        await lab.sql`delete from transactions where tx_hash = ${txHash}`;
        const [lost] = await lab.sql<{ blockNumber: bigint }[]>`
          delete from transfers where tx_hash = ${txHash} returning block_number`;
        await lab.sql`update cursors set rechecked_number = ${Number(lost?.blockNumber) - 5}`;
        const pace = { blocks: 500 };
        await recheckLogs(term, pace);
        await recheckLogs(term, pace);
        expect(await newest("LOGS")).toMatchObject({ differences: 1, repaired: 1 });
        expect(await findHistory(lab, txHash, merchant.userId)).toHaveLength(1);
      },
      [proxy.url],
    );
    await proxy.stop();
  });

  test("compares a wallet that differed in every round, however many others are waiting", async () => {
    const merchant = await makeMerchant(lab);
    await until("it is read", isRead(merchant.address));
    await makeManyWallets(lab, 1_000);
    await until("all are read", async () => {
      const rows = await lab.sql`select id from wallets where backfilled_at is null`;
      return rows.length === 0;
    });
    await mine(lab, FINAL_BLOCKS);
    await settled(lab);
    await withTerm(async (term) => {
      await lab.sql`update wallets set reconciled_at = null`;
      // its books were put right since
      await lab.sql`update wallets set reconciled_at = now(), difference_units = 7 where address = ${merchant.address}`;
      expect(await countDifferences(lab.sql, NETWORK)).toBeGreaterThan(0);
      expect(await reconcileBalances(term)).toBe(0);
      const [row] = await lab.sql`select difference_units from wallets where address = ${merchant.address}`;
      expect(row).toEqual({ differenceUnits: 0n });
    });
  });

  test("reports a recorded transfer that no block contains", async () => {
    const merchant = await makeMerchant(lab);
    await settled(lab);
    await pay(lab, payer, merchant.address, 9n);
    await mine(lab, 20);
    await settled(lab);
    await withTerm(async (term) => {
      await lab.sql`
      insert into transfers (network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units)
      select network, block_number, block_hash, block_time, ${`0x${"cd".repeat(32)}`}, 99, from_address, to_address, 1
      from transfers where to_address = ${merchant.address}`;
      await lab.sql`update cursors set rechecked_number = 0`;
      await recheckLogs(term, { blocks: 2_000 });
      expect(await newest("LOGS")).toMatchObject({ differences: 1, repaired: 0 });
      await lab.sql`delete from transfers where log_index = 99`;
    });
  });

  test("keeps the invariants", async () => {
    await settled(lab);
    await assertInvariants(lab.sql, lab.chain);
  });
});
