/** A rebuild takes long. Being the first to write after a start of Postgres, it would have all others wait for the epoch that it opens. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import {
  type Lab,
  makeLink,
  makeMerchant,
  makePayer,
  openLab,
  openTerm,
  pay,
  settled,
  startIndexer,
} from "../support/indexer-lab.ts";

setDefaultTimeout(120_000);
let lab: Lab;
beforeAll(async () => {
  lab = await openLab();
});
afterAll(() => lab.stop());

test("behavior: a rebuild stores its epoch before its transaction begins", async () => {
  const merchant = await makeMerchant(lab);
  const payer = await makePayer(lab);
  const indexer = startIndexer(lab);
  await makeLink(lab, merchant, { units: 1_000n });
  await pay(lab, payer, merchant.address, 1_000n);
  await settled(lab);
  await indexer.stop();
  await lab.sql`update event_epochs set cluster = 'an earlier run'`;
  const term = await openTerm(lab);
  const { differences } = await rebuildNetwork(term);
  term.close();
  expect(differences).toEqual([]);
  const rows = await lab.sql<{ isOfRebuild: boolean }[]>`
    select epoch.xmin::text in (select xmin::text from transfers) as is_of_rebuild
    from event_epochs epoch
    where epoch.cluster = event_cluster()`;
  expect(rows).toEqual([{ isOfRebuild: false }] as never);
});
