/** The search for owner changes continues after a log whose record the database refuses. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { encodeAbiParameters } from "viem";
import { ADD_OWNER_TOPIC } from "../../core/chain/account-logs.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { searchAccountLogs } from "../../indexer/audit/search-account-logs.ts";
import type { Term } from "../../indexer/leader-term.ts";
import { commitQuietBlocks } from "../../indexer/settle/commit-blocks.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import {
  type Lab,
  type Merchant,
  makeMerchant,
  makePayer,
  mine,
  openLab,
  openTerm,
  randomAddress,
  send,
  settled,
  startIndexer,
} from "../support/indexer-lab.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

setDefaultTimeout(120_000);
/** A wallet's code that logs `AddOwner` with the index and the data that it is called with. */
const LOGGING_CODE: Hex = `0x60203603806020600037600035${"7f"}${ADD_OWNER_TOPIC.slice(2)}826000a200`;
const OWNER: Hex = `0x${"00".repeat(12)}${randomAddress().slice(2)}`;

let lab: Lab;
let term: Term & { close: () => void };
let payer: Hex;
let refused: Merchant;
let sound: Merchant;
beforeAll(async () => {
  lab = await openLab();
  payer = await makePayer(lab);
  [refused, sound] = [await makeMerchant(lab), await makeMerchant(lab)];
  for (const { address } of [refused, sound])
    await callRpc(lab.chain.rpcUrl, "anvil_setCode", [address, LOGGING_CODE]);
  const indexer = startIndexer(lab);
  await settled(lab);
  await indexer.stop();
  term = await openTerm(lab);
});
afterAll(async () => {
  term?.close();
  await lab?.stop();
});

/** Moves the cursor to the head without reading what the blocks hold. */
async function skipToHead(): Promise<void> {
  const head = await readHeader(term.chain, "latest");
  if (!head) throw new Error("the node has no head");
  await commitQuietBlocks(term, head, performance.now());
}

test("after three attempts a refused account change is skipped, and another wallet's change is stored", async () => {
  await mine(lab);
  await skipToHead();
  await searchAccountLogs(term);
  await lab.sql`
    alter table account_changes
    add constraint account_changes_refused check (wallet_address <> ${lab.sql.unsafe(`'${refused.address}'`)})`;
  const data = encodeAbiParameters([{ type: "bytes" }], [OWNER]).slice(2);
  for (const { address } of [refused, sound])
    await waitForReceipt(
      lab.chain.rpcUrl,
      await send(lab, payer, address, `0x${"5".padStart(64, "0")}${data}`),
    );
  await skipToHead();
  for (let tried = 1; tried <= 3; tried++)
    await expect(searchAccountLogs(term)).rejects.toThrow("account_changes_refused");
  await searchAccountLogs(term);
  const rows = await lab.sql<{ walletAddress: Hex; subject: Hex }[]>`
    select wallet_address, subject from account_changes`;
  expect([...rows]).toEqual([{ walletAddress: sound.address, subject: OWNER }]);
});
