/** What a commit of blocks makes deep enough, whether it was stored by an earlier one or comes with these blocks: nothing of it is left behind. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newestConfirmedBlock } from "../../core/domain/confirmations.ts";
import { newLinkId, newRefundId, newSendId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { saveAssignment } from "../../db/ledger/assignments.ts";
import type { Term } from "../../indexer/leader-term.ts";
import { applySpan } from "../../indexer/settle/apply-span.ts";
import type { BlockHeader } from "../../indexer/source/block-header.ts";
import type { BlockContent } from "../../indexer/source/decode-logs.ts";
import {
  acceptFacilitated,
  type BooksLab,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  randomHash,
  UNITS,
  undoAbove,
} from "../support/ledger-lab.ts";
import { seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
let term: Term;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  term = Object.assign(lab.term, { watched: new Map([[lab.merchant.address, {}]]) });
});

type Given = (block: BlockHeader) => Partial<BlockContent>;

/** The next block. `isTimed`: the block that makes it deep enough is at hand. */
async function commit(given: Given, { confirmations = 1, isTimed = true } = {}): Promise<BlockHeader> {
  const block = makeBlock(term.cursor.number + 1);
  const content = { block, transfers: [], spent: [], operations: [], accountLogs: [], logCount: 0 };
  const depthNumber = newestConfirmedBlock(block.number, confirmations);
  await applySpan(Object.assign(term, { confirmations }), {
    blocks: [{ ...content, ...given(block) }],
    ...{ to: block, head: block, kept: [block], depthNumber },
    confirmedAtS: (number) => (isTimed && number <= depthNumber ? block.timeS : undefined),
  });
  return block;
}

/** In one block that is deep at once, or in one that the next block makes deep. */
const WAYS = [
  ["with its own block", (given: Given) => commit(given, { isTimed: false })],
  [
    "with the next block",
    async (given: Given) => {
      await commit(given, { confirmations: 2 });
      await commit(() => ({}), { confirmations: 2 });
    },
  ],
] as const;

async function walletId(): Promise<string> {
  const [wallet] = await lab.sql<{ id: string }[]>`
    select id from wallets where user_id = ${lab.merchant.userId} and network = ${NETWORK}`;
  return wallet?.id ?? "";
}

describe.each(WAYS)("is confirmed %s", (_, commitDeep) => {
  test("a transfer", async () => {
    const { txHash, ...transfer } = makeTransfer(lab, 0);
    await commitDeep((block) => ({ transfers: [{ ...transfer, txHash, block }] }));
    const rows = await lab.sql<{ status: string }[]>`select status from transfers where tx_hash = ${txHash}`;
    expect([...rows]).toEqual([{ status: "CONFIRMED" }]);
  });

  test("a facilitated payment", async () => {
    const { id, payer, nonce } = await acceptFacilitated(lab);
    const transfer = makeTransfer(lab, 0, { from: payer, authorizationNonce: nonce });
    await commitDeep((block) => ({
      transfers: [{ ...transfer, block }],
      spent: [
        {
          ...{ payer, nonce, blockNumber: block.number },
          transfer: { ...transfer, blockNumber: block.number, blockTimeS: block.timeS },
        },
      ],
    }));
    const rows = await lab.sql<{ state: string }[]>`select state from payments where id = ${id}`;
    expect([...rows]).toEqual([{ state: "CONFIRMED" }]);
  });

  test("a wallet's operation", async () => {
    const [id, userOpHash] = [newSendId(new Date()), randomHash()];
    await lab.sql`
      insert into wallet_operations (
        id, user_id, wallet_id, network, kind, state, user_op_hash, account_nonce, call_data, call_gas, verification_gas,
        terms, challenge_id, expires_at, signature
      )
      values (
        ${id}, ${lab.merchant.userId}, ${await walletId()}, ${NETWORK}, 'SEND', 'QUEUED', ${userOpHash}, 0, '0x', 1, 1,
        '{}', '', now(), '0x'
      )`;
    await commitDeep((block) => ({
      operations: [
        {
          ...{ block, txHash: randomHash(), logIndex: 1, previousLogIndex: -1, userOpHash, nonce: 0n },
          ...{ sender: lab.merchant.address, succeeded: true, gasUsed: 1n, revertData: undefined },
        },
      ],
    }));
    const rows = await lab.sql<{ state: string }[]>`select state from wallet_operations where id = ${id}`;
    expect([...rows]).toEqual([{ state: "CONFIRMED" }]);
  });

  test("a new owner of a wallet", async () => {
    const walletAddress = lab.merchant.address;
    const subject: Hex = `0x${"ab".repeat(20).padStart(64, "0")}`;
    const log = { ...{ txHash: randomHash(), logIndex: 1, walletAddress }, ...{ ownerIndex: 1n, subject } };
    await commitDeep(() => ({ accountLogs: [{ ...log, type: "OWNER_ADDED" }] }));
    const rows = await lab.sql`
      select from events where user_id = ${lab.merchant.userId} and type = 'wallet.owner_added'`;
    expect(rows).toHaveLength(1);
  });

  test("an outgoing transfer, and its user is notified", async () => {
    const stranger = randomHash().slice(0, 42) as Hex;
    const transfer = makeTransfer(lab, 0, { from: lab.merchant.address, to: stranger });
    await commitDeep((block) => ({ transfers: [{ ...transfer, block }] }));
    const rows = await lab.sql`
      select from notices where user_id = ${lab.merchant.userId} and kind = 'money_sent'`;
    expect(rows).toHaveLength(1);
  });
});

describe("what waits for a transfer that a reorganisation has removed", () => {
  /** A transfer of the merchant's in a block that was undone, with what `decide` wrote about it. */
  async function takeAway(decide: (txHash: Hex, from: Hex) => Promise<unknown>) {
    const transfer = makeTransfer(lab, 0, { logIndex: 3 });
    const before = { ...term.cursor };
    await commit((block) => ({ transfers: [{ ...transfer, block }] }));
    await decide(transfer.txHash, transfer.from);
    await undoAbove(lab, before.number);
    await lab.sql`update cursors set number = ${before.number}, hash = ${before.hash} where network = ${NETWORK}`;
    term.cursor = before;
    return transfer;
  }

  test("a refund moves with it to its new position", async () => {
    const id = newRefundId(new Date());
    const transfer = await takeAway((txHash, from) =>
      lab.sql.begin(async (tx) => {
        // the refund's operation and link are not looked at
        await tx`set local session_replication_role = replica`;
        await tx`
          insert into refunds (
            id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units
          )
          values (
            ${id}, ${lab.merchant.userId}, ${newLinkId()}, ${NETWORK}, ${txHash}, 3, ${from}, 'transfer_sender', ${UNITS}
          )`;
      }),
    );
    await commit((block) => ({ transfers: [{ ...transfer, block, logIndex: 8 }] }));
    const rows = await lab.sql<{ at: number }[]>`
      select paid_log_index as at from refunds where id = ${id} and orphaned_transfer_id is null`;
    expect([...rows]).toEqual([{ at: 8 }]);
  });

  test("a merchant's decision moves with it to its new position", async () => {
    const { userId } = lab.merchant;
    const transfer = await takeAway((txHash) =>
      saveAssignment(lab.sql, {
        ...{ network: NETWORK, txHash, logIndex: 3, userId, linkId: undefined, accept: false },
      }),
    );
    await commit((block) => ({ transfers: [{ ...transfer, block, logIndex: 8 }] }));
    const rows = await lab.sql<{ at: number }[]>`
      select log_index as at from assignments where user_id = ${userId} and orphaned_transfer_id is null`;
    expect([...rows]).toEqual([{ at: 8 }]);
  });
});
