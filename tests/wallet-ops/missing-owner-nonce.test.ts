/**
 * Additions for every network whose predecessor a reorganisation has permanently removed: the next addition takes the nonce that is missing,
 * on every network or, where the networks have gone apart, on the one that is named.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { executeCancelled } from "../support/execute-cancelled.ts";
import type { Answer } from "../support/http-client.ts";
import { randomAddress, until } from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import {
  changeOwner,
  confirmChange,
  newPasskeyOwner,
  ownersOn,
  prepareChange,
  setUpOn,
  waitForChange,
} from "../support/owners.ts";
import { confirmSend, countGas, expectRefusal, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
const DAYS_GAS = 10n ** 12n;

let world: World;
let baseRpcUrl: string;
beforeAll(async () => {
  world = await startWorld({ bothNetworks: true });
  baseRpcUrl = world.otherChain?.rpcUrl ?? "";
});
afterAll(() => world?.stop());

/** Deployed on base-sepolia by its job. */
async function deployedMerchant(): Promise<Merchant> {
  const merchant = await signUp(world.baseUrl);
  await until("the wallet is deployed", async () => {
    const rows = await world.sql`
      select from wallets where user_id = ${merchant.userId} and deployed_at is not null`;
    return rows.length > 0;
  });
  return merchant;
}

const nonceOf = (prepared: Answer["body"]) => BigInt(prepared.userOperation.nonce);
const statusOn = (change: Answer["body"], network: string) =>
  change.networks.find((one: { network: string }) => one.network === network).status;

/** An addition that only strangers executed, one behind it, and a reorganisation of base-sepolia that takes both away. */
async function loseFirstAddition(merchant: Merchant, rpcUrls: readonly string[]) {
  const { client } = merchant;
  const before = Number(await callRpc(world.chain.rpcUrl, "eth_blockNumber"));
  const lost = await newPasskeyOwner(client);
  const first = await prepareChange(client, { add: lost.add });
  await executeCancelled(merchant, first, rpcUrls);
  await waitForChange(client, first.ownerChangeId);
  const waiting = await newPasskeyOwner(client);
  const second = await changeOwner(merchant, { add: waiting.add });
  const head = Number(await callRpc(world.chain.rpcUrl, "eth_blockNumber"));
  await callRpc(world.chain.rpcUrl, "anvil_reorg", [head - before, []]);
  await callRpc(world.chain.rpcUrl, "anvil_mine", ["0x2"]);
  await until("the addition behind waits again", async () => {
    const { body } = await client.get(`/v1/wallets/owners/changes/${second.ownerChangeId}`);
    return statusOn(body, "base-sepolia") === "QUEUED";
  });
  return { first, second, waiting: waiting.passkey };
}

test("the next addition takes a missing nonce, and the waiting one follows", async () => {
  const merchant = await deployedMerchant();
  const { client } = merchant;
  const { first, second, waiting } = await loseFirstAddition(merchant, [world.chain.rpcUrl]);
  expect((await client.get(`/v1/wallets/owners/changes/${first.ownerChangeId}`)).body.status).toBe(
    "CANCELLED",
  );
  // what waits behind a nonce that nobody spends is no coming owner, and may be added again
  expect((await ownersOn(client)).waiting).toEqual([]);
  const { passkey, add } = await newPasskeyOwner(client);
  // also when the day's gas is used up: it is the way out
  await countGas(world.sql, merchant.userId, DAYS_GAS);
  const third = await prepareChange(client, { add });
  expect(third.chainId).toBeNull();
  expect(nonceOf(third)).toBe(nonceOf(first));
  expect((await confirmChange(merchant, third)).status).toBe(202);
  for (const { ownerChangeId } of [third, second]) await waitForChange(client, ownerChangeId);
  const another = await newPasskeyOwner(client);
  expectRefusal(await client.post("/v1/wallets/owners/prepare", { add: another.add }), 429, {
    issue: "gas_budget",
  });
  await countGas(world.sql, merchant.userId, -DAYS_GAS);
  expect(
    (await ownersOn(client)).owners.map(({ credentialId }: { credentialId: string }) => credentialId),
  ).toEqual([merchant.passkey, passkey, waiting].map(({ credentialId }) => credentialId));
  await assertInvariants(world.sql, world.chain);
});

test("where other networks have executed it, an addition for one network takes the missing nonce", async () => {
  const merchant = await deployedMerchant();
  const { client } = merchant;
  await setUpOn(merchant, "base");
  await fundUsdc(baseRpcUrl, merchant.walletAddress as Hex, 3_000_000n);
  const send = await prepareSend(merchant, { network: "base", to: randomAddress(), amount: "1" });
  await confirmSend(merchant, send);
  await waitForSend(merchant, send.sendId);
  const { first, second, waiting } = await loseFirstAddition(merchant, [world.chain.rpcUrl, baseRpcUrl]);
  expect(statusOn(await waitForChange(client, second.ownerChangeId, "QUEUED"), "base")).toBe("CONFIRMED");

  const refused = await newPasskeyOwner(client);
  expectRefusal(await client.post("/v1/wallets/owners/prepare", { add: refused.add }), 409, {
    issue: "networks_out_of_step",
  });
  const { passkey, add } = await newPasskeyOwner(client);
  const third = await prepareChange(client, { network: "base-sepolia", add });
  expect(third).toMatchObject({ chainId: null, networks: [{ network: "base-sepolia" }] });
  expect(nonceOf(third)).toBe(nonceOf(first));
  expect((await confirmChange(merchant, third)).status).toBe(202);
  for (const { ownerChangeId } of [third, second]) await waitForChange(client, ownerChangeId);
  const credentials = async (network: "base" | "base-sepolia") =>
    (await ownersOn(client, network)).owners.map(
      ({ credentialId }: { credentialId: string }) => credentialId,
    );
  expect(await credentials("base-sepolia")).toEqual(
    [merchant.passkey, passkey, waiting].map(({ credentialId }) => credentialId),
  );
  expect(await credentials("base")).not.toContain(passkey.credentialId);
  // the networks are in step again; without a gap, one that is named has an operation of its own
  const next = await changeOwner(merchant, { add: (await newPasskeyOwner(client)).add });
  expect(next.networks).toMatchObject([{ status: "CONFIRMED" }, { status: "CONFIRMED" }]);
  const own = await prepareChange(client, {
    network: "base-sepolia",
    add: (await newPasskeyOwner(client)).add,
  });
  expect(own.chainId).toBe(84_532);
  await assertInvariants(world.sql, world.chain);
});

test("a passkey whose addition waits for a missing nonce signs no first send, which would not make it an owner", async () => {
  const merchant = await deployedMerchant();
  const { client } = merchant;
  await setUpOn(merchant, "base");
  await fundUsdc(baseRpcUrl, merchant.walletAddress as Hex, 3_000_000n);
  const { passkey, add } = await newPasskeyOwner(client);
  await changeOwner(merchant, { add });
  const signers = async () => {
    const send = await prepareSend(merchant, { network: "base", to: randomAddress(), amount: "1" });
    return send.passkeyChallenge.allowCredentials.map(({ id }: { id: string }) => id);
  };
  expect(await signers()).toEqual([merchant.passkey.credentialId, passkey.credentialId]);
  await world.sql`
    update wallet_operations
    set account_nonce = account_nonce + 1
    where user_id = ${merchant.userId} and network = 'base' and is_any_chain`;
  expect(await signers()).toEqual([merchant.passkey.credentialId]);
});

test("a nonce missing only on the chain, because the ledger is behind a reorganisation, is not taken again", async () => {
  const merchant = await deployedMerchant();
  const { client } = merchant;
  const before = Number(await callRpc(world.chain.rpcUrl, "eth_blockNumber"));
  const first = await changeOwner(merchant, { add: (await newPasskeyOwner(client)).add });
  for (const name of ["worker", "indexer"] as const) await world.kill(name);
  const second = await prepareChange(client, { add: (await newPasskeyOwner(client)).add });
  expect((await confirmChange(merchant, second)).status).toBe(202);
  const head = Number(await callRpc(world.chain.rpcUrl, "eth_blockNumber"));
  await callRpc(world.chain.rpcUrl, "anvil_reorg", [head - before, []]);
  const third = await prepareChange(client, { add: (await newPasskeyOwner(client)).add });
  expect(nonceOf(third)).toBe(nonceOf(second) + 1n);
  await world.startMissing();
  // ours is sent again
  for (const { ownerChangeId } of [first, second]) await waitForChange(client, ownerChangeId);
});
