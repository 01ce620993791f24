/** Two operations of one wallet and one nonce, of which one ends while the other is confirmed. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { NETWORK } from "../support/indexer-lab.ts";
import { type OperationLab, openOperationLab, randomHash } from "../support/operation-lab.ts";
import { untilBlocked } from "../support/until-blocked.ts";

setDefaultTimeout(120_000);
let lab: OperationLab;

beforeAll(async () => {
  lab = await openOperationLab();
});
afterAll(() => lab?.stop());

test("race: an operation is not queued if the end of another one, for which it waited, has spent its nonce", async () => {
  const first = await lab.queued(undefined, 5n);
  const second = await lab.makeOperation(first, 5n);
  let queued: Promise<unknown> | undefined;
  await lab.sql.begin(async (tx) => {
    await tx`
      insert into wallet_operation_events (
        network, block_number, block_hash, tx_hash, log_index, user_op_hash, sender, nonce, succeeded, gas_used
      )
      values (${NETWORK}, 1, ${randomHash()}, ${randomHash()}, 3, ${first.userOpHash}, ${first.address}, 5, true, 1)`;
    await tx`
      update wallet_operations
      set state = 'CONFIRMED', tx_hash = ${randomHash()}, succeeded = true
      where id = ${first.id}`;
    queued = lab.queue(second);
    await untilBlocked(lab.sql, queued);
  });
  expect(await queued).toBeUndefined();
});
