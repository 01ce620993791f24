/** What is told of a wallet whose owner writes any number of changes into a block: everything is recorded, and no flood of mails follows. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { CHAIN_MAILS_AN_HOUR } from "../../db/notices/notices.ts";
import type { NewAccountChange } from "../../db/wallet-ops/account-changes.ts";
import { reportWalletChanges, storeAccountChanges } from "../../indexer/settle/report-wallet-changes.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import { type BooksLab, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";
import { randomAddress, type SeededMerchant, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());

const CHANGES = CHAIN_MAILS_AN_HOUR + 40;
let height = 100;

/** Each adds an owner, in one transaction. */
async function report(changed: Readonly<Record<number, SeededMerchant>>): Promise<void> {
  const [blockNumber, blockHash, txHash] = [height++, randomHash(), randomHash()];
  const changes = Object.entries(changed).map(([index, { address: walletAddress }]): NewAccountChange => {
    const owner = randomAddress().slice(2).padStart(64, "0");
    return {
      ...{ blockNumber, blockHash, txHash, logIndex: Number(index), walletAddress },
      ...{ type: "OWNER_ADDED", ownerIndex: BigInt(index) + 1n, subject: `0x${owner}` },
    };
  });
  await lab.sql.begin(async (tx) => {
    await storeAccountChanges(tx, NETWORK, changes);
    await reportWalletChanges(tx, { network: NETWORK, after: blockNumber - 1, depthNumber: blockNumber });
  });
}

async function told({ userId }: SeededMerchant) {
  const [row] = await lab.sql<
    { events: number; trail: number; notices: number; mails: number; files: number }[]
  >`
    select
      (select count(*)::int from events where user_id = ${userId} and type = 'wallet.owner_added') as events,
      (select count(*)::int from security_events where user_id = ${userId} and type = 'owner_added') as trail,
      (select count(*)::int from notices where user_id = ${userId}) as notices,
      (
        select count(*)::int
        from notices
        join graphile_worker.jobs on jobs.key = 'send_notice:' || notices.id
        where user_id = ${userId}
      ) as mails,
      (select count(*)::int from graphile_worker.jobs where key = ${`send_wallet_file:${userId}`}) as files`;
  return row;
}

test("every change is an event and in the security trail, in order, and the first of each hour are mailed", async () => {
  const [flooding, other] = [await seedMerchant(lab.sql), await seedMerchant(lab.sql)];
  const all = Array.from({ length: CHANGES }, (_, index) => [index, flooding] as const);
  await report({ ...Object.fromEntries(all), [CHANGES]: other });
  const whole = { events: CHANGES, trail: CHANGES, notices: CHANGES, files: 1 };
  expect(await told(flooding)).toEqual({ ...whole, mails: CHAIN_MAILS_AN_HOUR });
  expect(await told(other)).toEqual({ events: 1, trail: 1, notices: 1, mails: 1, files: 1 });
  const places = await lab.sql<{ key: string }[]>`
    select split_part(key, ':', 4) as key from notices where user_id = ${flooding.userId} order by id`;
  expect(places.map(({ key }) => Number(key))).toEqual(all.map(([index]) => index));
});

test("changes of later blocks count with those of the last hour, but not with older ones", async () => {
  const merchant = await seedMerchant(lab.sql);
  const half = CHAIN_MAILS_AN_HOUR / 2 + 1;
  const changes = () => report(Object.fromEntries(Array.from({ length: half }, (_, at) => [at, merchant])));
  for (const mails of [half, CHAIN_MAILS_AN_HOUR, CHAIN_MAILS_AN_HOUR]) {
    await changes();
    expect((await told(merchant))?.mails).toBe(mails);
  }
  await lab.sql`
    update notices set created_at = now() - interval '61 minutes' where user_id = ${merchant.userId}`;
  await changes();
  expect((await told(merchant))?.mails).toBe(CHAIN_MAILS_AN_HOUR + half);
});

test("an added owner is mailed after any number of sends within the hour", async () => {
  const merchant = await seedMerchant(lab.sql);
  await lab.sql`
    insert into notices (user_id, kind, key, details)
    select ${merchant.userId}, 'money_sent', 'sent:' || number, '{}'
    from generate_series(1, ${CHAIN_MAILS_AN_HOUR}) as number`;
  await report({ 0: merchant });
  expect(await told(merchant)).toMatchObject({ trail: 1, mails: 1 });
});

test("money that was sent elsewhere is in the trail once, although a reorganisation above its block makes it deep enough again", async () => {
  const merchant = await seedMerchant(lab.sql);
  const { userId, address: from } = merchant;
  const sent = () => lab.sql`
    select details ->> 'txHash' as tx_hash
    from security_events
    where user_id = ${userId} and type = 'money_sent_elsewhere'
    order by id`;
  const [first, second] = [randomHash(), randomHash()];
  const reach = (depthNumber: number, after: number) =>
    lab.sql.begin((tx) => reportWalletChanges(tx, { network: NETWORK, after, depthNumber }));
  const given = { merchant, sql: lab.sql };
  await bookTransfer(given, { from, to: randomAddress(), txHash: first, blockNumber: 1_000 });
  await reach(1_000, 999);
  await bookTransfer(given, { from, to: randomAddress(), txHash: second, blockNumber: 1_001 });
  await reach(1_001, 999);
  expect([...(await sent())]).toEqual([{ txHash: first }, { txHash: second }]);
});
