/** The leader asks the database for something, it is done, and the answer is lost on the way. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type DatabaseWay, startDatabaseWay } from "../support/database-way.ts";
import {
  amounts,
  findHistory,
  type Lab,
  linkOf,
  makeLink,
  makeMerchant,
  makePayer,
  mine,
  openLab,
  pay,
  type RunningIndexer,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";

setDefaultTimeout(120_000);

const WALLETS = 5;
const nextAmount = amounts();
let lab: Lab;
let way: DatabaseWay;
let indexer: RunningIndexer;

beforeAll(async () => {
  lab = await openLab();
  way = startDatabaseWay(lab.db.url);
  indexer = startIndexer(lab, { databaseUrl: way.url, silenceTimeoutS: 2 });
  await makeMerchant(lab);
  await mine(lab);
  await settled(lab);
});
afterAll(async () => {
  await indexer?.stop();
  way?.stop();
  await lab?.stop();
});

test("a wallet whose joining was committed without a response is followed from then on", async () => {
  const payer = await makePayer(lab);
  for (let n = 0; n < WALLETS; n++) {
    const before = way.cuts();
    const merchant = await makeMerchant(lab);
    const hasJoined = async () => {
      const [row] = await lab.sql<{ indexedFrom: bigint | null }[]>`
        select indexed_from from wallets where address = ${merchant.address}`;
      return row?.indexedFrom != null;
    };
    way.cutWhen(hasJoined);
    await until("its joining is cut", async () => way.cuts() > before);
    const units = nextAmount();
    const linkId = await makeLink(lab, merchant, { units });
    const txHash = await pay(lab, payer, merchant.address, units);
    await settled(lab);
    expect(await findHistory(lab, txHash, merchant.userId)).toMatchObject([{ type: "PAYMENT_LINK", linkId }]);
    expect((await linkOf(lab, linkId)).status).toBe("PAID");
  }
});

test("a server that vanishes silently is queried again within seconds", async () => {
  const payer = await makePayer(lab);
  const merchant = await makeMerchant(lab);
  await mine(lab);
  await settled(lab);
  // the leader's lock, and what it reads and writes by
  expect(way.freeze()).toBeGreaterThan(1);
  // the server notices before long that nobody is there, and gives the lock free
  await lab.sql`
    select pg_terminate_backend(pid)
    from pg_stat_activity
    where datname = current_database() and application_name like 'indexer%'`;
  const units = nextAmount();
  const linkId = await makeLink(lab, merchant, { units });
  await pay(lab, payer, merchant.address, units);
  await until("it leads again", async () => (await linkOf(lab, linkId)).status === "PAID");
});
