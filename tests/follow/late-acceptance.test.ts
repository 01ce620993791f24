/** A payment whose insert is uncommitted while a reorganisation undoes the block it was accepted after. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { lockLinks } from "../../db/links/lock-links.ts";
import { insertPayments } from "../../db/payments/accept-payments.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import {
  amounts,
  type Lab,
  type Merchant,
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
import { authorize, makeSigner, toAuthorizedPayment } from "../support/indexer-lab-payments.ts";

setDefaultTimeout(120_000);

let lab: Lab;
let indexer: RunningIndexer;
let merchant: Merchant;
const freshUnits = amounts();
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  await mine(lab, 30);
  indexer = startIndexer(lab, { confirmations: 1 });
  await settled(lab);
});
afterAll(async () => {
  await indexer?.stop();
  await lab?.stop();
});

async function cursor(): Promise<number> {
  const [row] = await lab.sql<{ number: bigint }[]>`select number from cursors where network = ${NETWORK}`;
  return Number(row?.number);
}

/** Replaces the newest blocks by a lower branch, and waits until it is read. */
async function leaveFor(ancestor: number): Promise<void> {
  const { rpcUrl } = lab.chain;
  await callRpc(rpcUrl, "anvil_rollback", [(await cursor()) - ancestor]);
  await callRpc(rpcUrl, "evm_setTime", [Math.floor(Date.now() / 1_000)]);
  await mine(lab, 1);
  await until(`the cursor is at ${ancestor + 1}`, async () => (await cursor()) === ancestor + 1);
}

/** Returns the payment's id; `meanwhile` happens after its statement and before its commit. */
async function acceptDuring(meanwhile: () => Promise<void>): Promise<string> {
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  const { authorization } = await authorize(await makeSigner(lab), { to: merchant.address, value: units });
  await settled(lab);
  const payment = toAuthorizedPayment(`pay_${linkId.slice(-32)}`, authorization);
  await lab.sql.begin(async (tx) => {
    await lockLinks(tx, [linkId]);
    const accepted = await insertPayments(tx, [{ ...payment, linkId, network: NETWORK }]);
    expect(accepted.size).toBe(1);
    const [row] = await tx<{ acceptedBlock: bigint }[]>`
      select accepted_block from payments where id = ${payment.id}`;
    expect(Number(row?.acceptedBlock)).toBe(await cursor());
    await meanwhile();
  });
  return payment.id;
}

async function acceptedBlockOf(id: string): Promise<number> {
  const [row] = await lab.sql<
    { acceptedBlock: bigint }[]
  >`select accepted_block from payments where id = ${id}`;
  return Number(row?.acceptedBlock);
}

const untilAcceptedAt = (id: string, number: number) =>
  until(`${id} is accepted at ${number}`, async () => (await acceptedBlockOf(id)) === number);

test("it counts as accepted before the blocks of the new branch that are read after its commit", async () => {
  await mine(lab, 10);
  await settled(lab);
  const ancestor = (await cursor()) - 6;
  const id = await acceptDuring(() => leaveFor(ancestor));
  await untilAcceptedAt(id, ancestor + 1);
  // one that is accepted on the new branch keeps its block
  await mine(lab, 1);
  const next = await acceptDuring(async () => undefined);
  const height = await cursor();
  await mine(lab, 1);
  await settled(lab);
  expect(await acceptedBlockOf(next)).toBe(height);
  await mine(lab, 10);
  await settled(lab);
  expect([await acceptedBlockOf(id), await acceptedBlockOf(next)]).toEqual([ancestor + 1, height]);
});

test("so it does when another indexer leads by then", async () => {
  await mine(lab, 10);
  await settled(lab);
  const ancestor = (await cursor()) - 6;
  const id = await acceptDuring(async () => {
    await leaveFor(ancestor);
    await indexer.stop();
  });
  indexer = startIndexer(lab, { confirmations: 1 });
  await untilAcceptedAt(id, ancestor + 1);
});
