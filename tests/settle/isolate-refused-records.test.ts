/** Records that the database refuses: their network continues without them, and no payment is left out. */
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import { Registry } from "prom-client";
import { newSendId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { FencedError, type Term, watchOf } from "../../indexer/leader-term.ts";
import { openIndexerMetrics } from "../../indexer/metrics.ts";
import { applyAfter, applySpan, NOTHING_BEFORE, toSpan } from "../../indexer/settle/apply-span.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { readRange } from "../../indexer/source/block-logs.ts";
import type { BlockContent, SeenAccountLog, SeenOperation } from "../../indexer/source/decode-logs.ts";
import {
  amounts,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeMerchant,
  makePayer,
  NETWORK,
  openLab,
  openTerm,
  pay,
  randomAddress,
  settled,
  startIndexer,
} from "../support/indexer-lab.ts";
import { randomHash } from "../support/ledger-lab.ts";
import { seedMerchant } from "../support/seed.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

setDefaultTimeout(120_000);
const freshUnits = amounts();
/** Tries that are made whole before records are left out. */
const TRIES = 3;
/** No bigint and no int holds it. */
const TOO_LARGE = 10n ** 20n;

let lab: Lab;
let merchant: Merchant;
let payer: Hex;
let term: Term & { close: () => void };
let registry: Registry;
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  payer = await makePayer(lab);
  const indexer = startIndexer(lab);
  await settled(lab);
  await indexer.stop();
});
beforeEach(async () => {
  registry = new Registry();
  term = Object.assign(await openTerm(lab), { metrics: openIndexerMetrics(registry) });
});
afterEach(() => term?.close());
afterAll(() => lab?.stop());

/** A payment of a link, in a block that holds these records too. */
async function readPaid(records: (content: BlockContent) => Partial<BlockContent>) {
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  await waitForReceipt(lab.chain.rpcUrl, await pay(lab, payer, merchant.address, units));
  const head = await readHeader(term.chain, "latest");
  if (!head) throw new Error("the node has no head");
  const blocks = await readRange(
    term.chain,
    { from: term.cursor.number + 1, to: head.number },
    watchOf(term.watched),
  );
  const span = toSpan(
    term,
    blocks.map((content) =>
      content.block.number === head.number ? { ...content, ...records(content) } : content,
    ),
    head,
  );
  if (!span) throw new Error("no block was read");
  return { linkId, span, head };
}

const accountLog = (ownerIndex = 1n): SeenAccountLog => ({
  ...{ type: "OWNER_ADDED", ownerIndex, subject: `0x${"00".repeat(12)}${randomAddress().slice(2)}` },
  ...{ txHash: randomHash(), logIndex: 900, walletAddress: merchant.address },
});
/** In the payment's transaction. */
const operation = (
  { block, transfers }: BlockContent,
  fields: Partial<SeenOperation> = {},
): SeenOperation => ({
  ...{
    block,
    txHash: transfers[0]?.txHash ?? "0x",
    logIndex: 901,
    previousLogIndex: 900,
    userOpHash: randomHash(),
  },
  ...{ sender: merchant.address, nonce: 1n, succeeded: true, gasUsed: 1n, revertData: undefined },
  ...fields,
});
const changes = async () =>
  (await lab.sql<{ txHash: Hex }[]>`select tx_hash from account_changes`).map(({ txHash }) => txHash);
const operations = async () =>
  (await lab.sql<{ userOpHash: Hex }[]>`select user_op_hash from wallet_operation_events`).map(
    ({ userOpHash }) => userOpHash,
  );
const refused = async (kind: string) =>
  (await registry.getSingleMetric("indexer_refused_records_total")?.get())?.values.find(
    ({ labels }) => labels.kind === kind,
  )?.value;

test("a refused account log is skipped after three attempts, the valid one next to it and the payment are not", async () => {
  const sound = accountLog();
  const unsound = accountLog(TOO_LARGE);
  const { linkId, span, head } = await readPaid(() => ({ accountLogs: [unsound, sound] }));
  for (let tried = 1; tried <= TRIES; tried++) {
    await expect(applySpan(term, span)).rejects.toThrow("out of range");
    expect(term.cursor.number).toBeLessThan(head.number);
    expect((await linkOf(lab, linkId)).status).toBe("ACTIVE");
  }
  await applySpan(term, span);
  expect(term.cursor).toEqual({ number: head.number, hash: head.hash });
  expect((await linkOf(lab, linkId)).status).toBe("PAID");
  expect(await changes()).toContain(sound.txHash);
  expect(await changes()).not.toContain(unsound.txHash);
  expect(await refused("account_change")).toBe(1);
});

test("only a refused user operation is skipped, even during a catch-up", async () => {
  const records = (content: BlockContent) => ({
    operations: [operation(content, { logIndex: 2 ** 40 }), operation(content)],
    accountLogs: [accountLog(TOO_LARGE)],
  });
  const { linkId, span, head } = await readPaid(records);
  term.isCatchingUp = true;
  for (let tried = 1; tried <= TRIES; tried++)
    await expect(applyAfter(term, span, NOTHING_BEFORE).applied).rejects.toThrow("out of range");
  await applyAfter(term, span, NOTHING_BEFORE).applied;
  expect(term.cursor.number).toBe(head.number);
  expect((await linkOf(lab, linkId)).status).toBe("PAID");
  const [unsound, sound] = span.blocks.at(-1)?.operations ?? [];
  const hashes = await operations();
  expect(hashes).toContain(sound?.userOpHash ?? "0x");
  expect(hashes).not.toContain(unsound?.userOpHash ?? "0x");
  expect([await refused("operation"), await refused("account_change")]).toEqual([1, 1]);
});

test("a refused account log in a range without other records is skipped during a catch-up", async () => {
  const { span, head } = await readPaid(() => ({
    transfers: [],
    accountLogs: [accountLog(TOO_LARGE)],
  }));
  term.isCatchingUp = true;
  for (let tried = 1; tried <= TRIES; tried++)
    await expect(applyAfter(term, span, NOTHING_BEFORE).applied).rejects.toThrow("out of range");
  await applyAfter(term, span, NOTHING_BEFORE).applied;
  expect(term.cursor.number).toBe(head.number);
});

test("a transfer is never skipped, however often it is refused", async () => {
  const { span, head } = await readPaid(({ transfers }) => ({
    transfers: transfers.map((transfer) => ({ ...transfer, logIndex: 2 ** 40 })),
  }));
  for (let tried = 1; tried <= TRIES + 2; tried++)
    await expect(applySpan(term, span)).rejects.toThrow("out of range");
  expect(term.cursor.number).toBeLessThan(head.number);
});

test("attempts that fail for another reason do not count", async () => {
  const { span } = await readPaid(() => ({ accountLogs: [accountLog(TOO_LARGE)] }));
  await lab.sql`update cursors set epoch = epoch + 1 where network = ${NETWORK}`;
  for (let tried = 1; tried <= TRIES; tried++)
    await expect(applySpan(term, span)).rejects.toBeInstanceOf(FencedError);
  await lab.sql`update cursors set epoch = epoch - 1 where network = ${NETWORK}`;
  await expect(applySpan(term, span)).rejects.toThrow("out of range");
});

describe("confirmations and reports", () => {
  /** An operation of a merchant of its own whose event is deep enough at the next block. */
  async function makeMined(): Promise<{ id: string; walletAddress: Hex }> {
    const { userId, address: walletAddress } = await seedMerchant(lab.sql);
    const [wallet] = await lab.sql<{ id: string }[]>`select id from wallets where user_id = ${userId}`;
    const id = newSendId(new Date());
    await lab.sql`
      insert into wallet_operations (
        id, user_id, wallet_id, network, kind, state, user_op_hash, account_nonce, call_data, call_gas, verification_gas,
        terms, challenge_id, expires_at, tx_hash, log_index, block_number, succeeded
      )
      values (
        ${id}, ${userId}, ${wallet?.id ?? ""}, ${NETWORK}, 'SEND', 'MINED', ${randomHash()}, 0, '0x', 1, 1, '{}', '',
        now(), ${randomHash()}, 1, 0, true
      )`;
    return { id, walletAddress };
  }
  const stateOf = async ({ id }: { id: string }) => {
    const [row] = await lab.sql<{ state: string }[]>`select state from wallet_operations where id = ${id}`;
    return row?.state;
  };

  test("continue for everybody else, and later blocks are not retried because of a refused one", async () => {
    const [sound, unsound] = [await makeMined(), await makeMined()];
    await lab.sql.unsafe(
      `alter table wallet_operations add constraint refused check (id <> '${unsound.id}' or state = 'MINED')`,
    );
    try {
      const { span } = await readPaid(() => ({}));
      for (let tried = 1; tried <= TRIES; tried++)
        await expect(applySpan(term, span)).rejects.toThrow("refused");
      await applySpan(term, span);
      expect([await stateOf(sound), await stateOf(unsound)]).toEqual(["CONFIRMED", "MINED"]);
      expect(await refused("conclusion")).toBe(1);
      const { linkId, span: next } = await readPaid(() => ({}));
      await applySpan(term, next);
      expect((await linkOf(lab, linkId)).status).toBe("PAID");
    } finally {
      await lab.sql`alter table wallet_operations drop constraint refused`;
    }
    const { span } = await readPaid(() => ({}));
    await applySpan(term, span);
    expect(await stateOf(unsound)).toBe("CONFIRMED");
  });

  test("include one owner's change when another's is refused", async () => {
    const owners = [await seedMerchant(lab.sql), await seedMerchant(lab.sql)] as const;
    const [unsound, sound] = owners;
    const constraint = `check (user_id <> '${unsound.userId}' or type <> 'wallet.owner_added')`;
    await lab.sql.unsafe(`alter table events add constraint refused ${constraint} not valid`);
    try {
      const { linkId, span } = await readPaid(() => ({
        accountLogs: owners.map(({ address }, index) => ({
          ...accountLog(),
          ...{ walletAddress: address, logIndex: 900 + index },
        })),
      }));
      for (let tried = 1; tried <= TRIES; tried++)
        await expect(applySpan(term, span)).rejects.toThrow("refused");
      await applySpan(term, span);
      expect((await linkOf(lab, linkId)).status).toBe("PAID");
    } finally {
      await lab.sql`alter table events drop constraint refused`;
    }
    const reported = await lab.sql<{ userId: string }[]>`
      select user_id from events
      where type = 'wallet.owner_added' and user_id in (${sound.userId}, ${unsound.userId})`;
    expect([...reported]).toEqual([{ userId: sound.userId }]);
    expect(await refused("report")).toBe(1);
  });
});
