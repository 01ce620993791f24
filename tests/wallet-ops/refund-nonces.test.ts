/** Which nonces the ledger must know as spent before a refund is confirmed: those of operations that may have moved the same money. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newRefundId } from "../../core/domain/ids.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { isBehindNonce } from "../../db/wallet-ops/refunds.ts";
import { recordOperationEvents } from "../../db/wallet-ops/settlement.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import {
  eventOf,
  type Made,
  type OperationLab,
  openOperationLab,
  randomHash,
} from "../support/operation-lab.ts";
import { seedLink } from "../support/seed.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;
let sql: Sql;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql } = lab);
});
afterAll(() => lab?.stop());

/** A prepared refund of this link's money, of the wallet of `owner` or of a new one. */
async function makeRefund(
  nonce: bigint,
  { owner, linkId, paidBy = randomHash() }: { owner?: Made; linkId?: string; paidBy?: string } = {},
) {
  const made = await lab.makeOperation(owner, nonce);
  const link = linkId ?? (await seedLink(sql, { ...made, network: NETWORK, email: "" }));
  const id = newRefundId(new Date());
  await sql`update wallet_operations set id = ${id}, kind = 'REFUND' where id = ${made.id}`;
  await sql`
    insert into refunds (
      id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units
    )
    values (${id}, ${made.userId}, ${link}, ${NETWORK}, ${paidBy}, 1, ${made.address}, 'given', 1)`;
  return { ...made, id, linkId: link };
}

const spend = (made: Made, nonce: bigint) =>
  recordOperationEvents(sql, NETWORK, [eventOf(made, { nonce, userOpHash: randomHash() })]);

test("if the ledger knows a wallet's operations, the nonce before a refund's must be among them", async () => {
  const refund = await makeRefund(5n);
  expect(await isBehindNonce(sql, refund.id)).toBe(false);
  await spend(refund, 3n);
  expect(await isBehindNonce(sql, refund.id)).toBe(true);
  await spend(refund, 4n);
  expect(await isBehindNonce(sql, refund.id)).toBe(false);
});

test("another wallet's operation, or a later one, is irrelevant to a refund's nonce", async () => {
  const refund = await makeRefund(5n);
  await spend(await makeRefund(0n), 3n);
  await spend(refund, 5n);
  expect(await isBehindNonce(sql, refund.id)).toBe(false);
});

test("the nonce of an earlier refund of the same link must be known as spent", async () => {
  const earlier = await makeRefund(2n);
  const refund = await makeRefund(5n, { owner: earlier, linkId: earlier.linkId });
  expect(await isBehindNonce(sql, earlier.id)).toBe(false);
  expect(await isBehindNonce(sql, refund.id)).toBe(true);
  await spend(earlier, 4n);
  expect(await isBehindNonce(sql, refund.id)).toBe(true);
  await spend(earlier, 2n);
  expect(await isBehindNonce(sql, refund.id)).toBe(false);
});

test("the nonce of an earlier refund of the same transfer must be known as spent, even for another link", async () => {
  const paidBy = randomHash();
  const earlier = await makeRefund(2n, { paidBy });
  const [same, other] = [
    await makeRefund(5n, { owner: earlier, paidBy }),
    await makeRefund(5n, { owner: earlier }),
  ];
  expect(await isBehindNonce(sql, same.id)).toBe(true);
  expect(await isBehindNonce(sql, other.id)).toBe(false);
});

test("a refund with the same nonce excludes the other, and needs no event", async () => {
  const earlier = await makeRefund(5n);
  const refund = await makeRefund(5n, { owner: earlier, linkId: earlier.linkId });
  expect(await isBehindNonce(sql, refund.id)).toBe(false);
});

test("a refund from another wallet of the link's money requires none of this wallet's nonces", async () => {
  const earlier = await makeRefund(2n);
  const refund = await makeRefund(5n, { linkId: earlier.linkId });
  expect(await isBehindNonce(sql, refund.id)).toBe(false);
});
