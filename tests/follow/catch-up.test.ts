import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  amounts,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeManyWallets,
  makeMerchant,
  makePayer,
  mine,
  openLab,
  pay,
  settled,
  startIndexer,
} from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { seededRandom } from "../support/seeded-random.ts";

setDefaultTimeout(120_000);
const random = seededRandom("catch-up");
/** More than are asked for by their addresses: the whole token is read then. */
const MANY_WALLETS = 1_500;

describe.each([0, MANY_WALLETS])("with %d other wallets", (others) => {
  let lab: Lab;
  let merchant: Merchant;
  let payer: `0x${string}`;
  const freshUnits = amounts();
  beforeAll(async () => {
    lab = await openLab();
    await makeManyWallets(lab, others);
    merchant = await makeMerchant(lab);
    payer = await makePayer(lab);
    const indexer = startIndexer(lab, { confirmations: 3 });
    await settled(lab);
    await indexer.stop();
  });
  afterAll(() => lab.stop());

  test("what happened in hundreds of blocks while no indexer ran is settled, and what waited for its depth too", async () => {
    const links: string[] = [];
    const payOne = async () => {
      const units = freshUnits();
      links.push(await makeLink(lab, merchant, { units, endsInS: 100_000 }));
      await pay(lab, payer, merchant.address, units);
    };
    let indexer = startIndexer(lab, { confirmations: 3 });
    await payOne();
    await settled(lab);
    await indexer.stop();
    expect(await linkOf(lab, links[0] ?? "")).toMatchObject({ status: "PENDING" });
    for (let round = 0; round < 10; round++) {
      await payOne();
      await mine(lab, Math.floor(random() * 200));
    }
    await mine(lab, 3);
    indexer = startIndexer(lab, { confirmations: 3 });
    await settled(lab);
    await indexer.stop();
    await assertInvariants(lab.sql, lab.chain);
    const rows = await Promise.all(links.map((id) => linkOf(lab, id)));
    expect(rows.filter((link) => link.status !== "PAID")).toEqual([]);
    const undeep = await lab.sql`select 1 from transactions where status <> 'CONFIRMED'`;
    expect(undeep).toHaveLength(0);
  });
});
