/** The past of a new wallet on a chain whose clock is behind the database's, as far as it was read before the wallet was followed. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { watchOf } from "../../indexer/leader-term.ts";
import { commitBlocks } from "../../indexer/settle/commit-blocks.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { readBlocks } from "../../indexer/source/block-logs.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import {
  followAll,
  type Lab,
  linkOf,
  makeLink,
  makeMerchant,
  makePayer,
  mine,
  openLab,
  openTerm,
  pay,
} from "../support/indexer-lab.ts";

setDefaultTimeout(120_000);
const UNITS = 5_000_000n;
const LAG_S = 600;
let lab: Lab;
let payer: Hex;

beforeAll(async () => {
  lab = await openLab();
  await makeMerchant(lab);
  payer = await makePayer(lab);
  await callRpc(lab.chain.rpcUrl, "anvil_setTime", [Math.floor(Date.now() / 1_000) - LAG_S]);
  await mine(lab);
  await followAll(lab);
});
afterAll(() => lab?.stop());

test("a transfer after the wallet's creation pays its link although its block's time is ten minutes before", async () => {
  const term = await openTerm(lab);
  const merchant = await makeMerchant(lab);
  const linkId = await makeLink(lab, merchant, { units: UNITS });
  await lab.sql`update payment_links set created_block = (select number from cursors) where id = ${linkId}`;
  await pay(lab, payer, merchant.address, UNITS);
  const head = await readHeader(term.chain, "latest");
  if (!head) throw new Error("there is no head");
  expect(Date.now() / 1_000 - head.timeS).toBeGreaterThan(LAG_S - 60);
  await commitBlocks(term, await readBlocks(term.chain, [head], watchOf(term.watched)), head, 0);
  term.close();
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  await followAll(lab);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
});
