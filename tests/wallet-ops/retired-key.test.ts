/** Operations whose relay was signed by a key that is in no worker's hands any more. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { NetworkId } from "../../core/domain/networks.ts";
import { requeueFromRetiredKeys } from "../../db/wallet-ops/queue.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { type Made, type OperationLab, openOperationLab } from "../support/operation-lab.ts";
import { randomAddress } from "../support/seed.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;
beforeAll(async () => {
  lab = await openOperationLab();
});
afterAll(() => lab?.stop());

test("an operation is taken from a relay whose key is retired, once it waited for its block for long enough", async () => {
  const [own, retired] = [randomAddress(), randomAddress()];
  const [stranded, young, mined, kept] = [
    await lab.relayed("BROADCAST"),
    await lab.relayed("BROADCAST"),
    await lab.relayed("MINED", 98),
    await lab.relayed("BROADCAST"),
  ];
  const age = (made: Made, seconds: number, relayer: string) => lab.sql`
    with lane as (
      insert into relayers (network, address, next_nonce)
      values (${NETWORK}, ${relayer}, 1000000)
      on conflict do nothing
    )
    update relays
    set created_at = now() - make_interval(secs => ${seconds}::int), relayer = ${relayer}
    where id = (select relay_id from wallet_operations where id = ${made.id})`;
  await age(stranded, 121, retired);
  await age(young, 60, retired);
  await age(mined, 121, retired);
  await age(kept, 121, own);
  const requeue = (network: NetworkId) =>
    requeueFromRetiredKeys(lab.sql, network, { relayers: [own], afterS: 120 });
  expect(await requeue("base")).toEqual([]);
  const ids = await requeue(NETWORK);
  expect([stranded, young, mined, kept].map(({ id }) => ids.includes(id))).toEqual([
    true,
    false,
    false,
    false,
  ]);
  expect(await lab.rowOf(stranded)).toMatchObject({ state: "QUEUED", relayId: null });
});
