/** Wallets with more owners than anybody needs: they can still be used. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { OWNER_INDEX_MAX } from "../../core/chain/passkey-account.ts";
import { OWNER_INDEXES_READ_MAX } from "../../core/chain/read-owners.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import {
  addOwnersOnChain,
  confirmChange,
  newPasskeyOwner,
  ownersOn,
  placeAddressOwner,
  prepareChange,
} from "../support/owners.ts";
import { openPauses } from "../support/poll.ts";
import { confirmSend, expectRefusal, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

/** More than fit in one transaction. */
const WAITING = 26;

let world: World;

beforeAll(async () => {
  world = await startWorld({ env: { WALLET_DEPLOYMENT: "lazy", SEND_GAS_PER_DAY: "100000000" } });
}, 120_000);
afterAll(() => world?.stop());

/** Signed; they wait for the wallet's deployment. */
async function addPasskeys(merchant: Merchant, count: number): Promise<void> {
  for (let made = 0; made < count; made += 1) {
    const { add } = await newPasskeyOwner(merchant.client);
    const confirmed = await confirmChange(merchant, await prepareChange(merchant.client, { add }));
    expect(confirmed.status).toBe(202);
  }
}

test("a first send includes as many waiting owners as fit into its transaction; the others follow", async () => {
  const merchant = await signUp(world.baseUrl);
  await addPasskeys(merchant, WAITING);
  expect((await ownersOn(merchant.client)).waiting).toHaveLength(WAITING);
  await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, 1_000_000n);
  const to = randomAddress();
  const send = await prepareSend(merchant, { to, amount: "1" });
  expect((await confirmSend(merchant, send)).status).toBe(202);
  await waitForSend(merchant, send.sendId);
  expect(await readUsdcBalance(world.chain.rpcUrl, to)).toBe(1_000_000n);
  const pause = openPauses();
  while ((await ownersOn(merchant.client)).owners.length < 1 + WAITING) await pause();
  expect((await ownersOn(merchant.client)).waiting).toEqual([]);
}, 180_000);

test("error: 409 too_many_owners for one more than an owner's index is searched for", async () => {
  const merchant = await signUp(world.baseUrl);
  await addPasskeys(merchant, OWNER_INDEX_MAX - 1);
  const { add } = await newPasskeyOwner(merchant.client);
  const answer = await merchant.client.post("/v1/wallets/owners/prepare", { add });
  expectRefusal(answer, 409, { field: "add", issue: "too_many_owners" });
}, 180_000);

test("a wallet whose owner has added a hundred others outside the service is read, and sends", async () => {
  const merchant = await signUp(world.baseUrl);
  const { rpcUrl } = world.chain;
  await placeAddressOwner(rpcUrl, merchant.passkey);
  await addOwnersOnChain(rpcUrl, merchant.walletAddress as Hex, 100);
  await fundUsdc(rpcUrl, merchant.walletAddress as Hex, 1_000_000n);
  const { owners } = await ownersOn(merchant.client);
  expect(owners.map(({ index }: { index: number }) => index)).toEqual(
    Array.from({ length: 102 }, (_, i) => i),
  );
  const { add } = await newPasskeyOwner(merchant.client);
  const answer = await merchant.client.post("/v1/wallets/owners/prepare", { add });
  expectRefusal(answer, 409, { field: "add", issue: "too_many_owners" });
  const send = await prepareSend(merchant, { to: randomAddress(), amount: "1" });
  expect((await confirmSend(merchant, send)).status).toBe(202);
  await waitForSend(merchant, send.sendId);
}, 180_000);

test("error: 409 too_many_owners for a wallet that has had more owners than are read", async () => {
  const merchant = await signUp(world.baseUrl);
  const { rpcUrl } = world.chain;
  await placeAddressOwner(rpcUrl, merchant.passkey);
  await addOwnersOnChain(rpcUrl, merchant.walletAddress as Hex, OWNER_INDEXES_READ_MAX - 1);
  const answers = [
    await merchant.client.get("/v1/wallets/owners"),
    await merchant.client.post("/v1/wallets/send/prepare", { to: randomAddress(), amount: "1" }),
  ];
  for (const answer of answers) expectRefusal(answer, 409, { issue: "too_many_owners" });
}, 180_000);
