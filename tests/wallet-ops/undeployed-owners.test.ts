/** Owners of an account that is not deployed yet on the network where gas costs money, once its first passkey is lost. Three real processes, two chains. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { openClient } from "../support/http-client.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import {
  addressOwner,
  changeOwner,
  deployAccount,
  newPasskeyOwner,
  ownersOn,
  setUpOn,
} from "../support/owners.ts";
import { confirmSend, prepareSend, waitForSend } from "../support/sends.ts";
import { ageCodes, type Merchant, newPasskey, readCode, signIn, signUp } from "../support/sign-up.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
const ACCOUNT = 6;
const WAIT_MS = 60_000;

let world: World;
let baseRpcUrl: string;
beforeAll(async () => {
  world = await startWorld({ bothNetworks: true });
  baseRpcUrl = world.otherChain?.rpcUrl ?? "";
});
afterAll(() => world?.stop());

async function merchantOnBoth(): Promise<Merchant> {
  const merchant = await signUp(world.baseUrl);
  await setUpOn(merchant, "base");
  return merchant;
}

async function until(check: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + WAIT_MS;
  while (!(await check())) {
    if (Date.now() > deadline) throw new Error("the condition did not become true in time");
    await Bun.sleep(100);
  }
}

const deploymentsOf = async ({ userId }: Merchant): Promise<string[]> => {
  const rows = await world.sql<{ network: string }[]>`
    select data ->> 'network' as network from events where user_id = ${userId} and type = 'wallet.deployed'`;
  return rows.map(({ network }) => network).sort();
};

/** Up to the transactions that the address owner has to send for the passkey of the new phone. */
async function recoverOn({ email }: Merchant) {
  const client = openClient(world.baseUrl);
  const { address, signTypedData } = localAccount(ACCOUNT);
  await ageCodes(world.sql, email, 61);
  const { body: started } = await client.post("/v1/auth/recover/start", { email, address });
  const signature = await signTypedData(started.typedData);
  const proof = { email, address, challengeId: started.challengeId, signature };
  await client.post("/v1/auth/recover/code", proof);
  await client.post("/v1/auth/recover", { email, otp: await readCode(client, email), address, signature });
  const { body: creation } = await client.post("/v1/auth/recover/passkey/start");
  const passkey = await newPasskey(world.baseUrl);
  const done = await client.post("/v1/auth/recover/passkey/complete", {
    challengeId: creation.challengeId,
    passkeyResponse: await passkey.register(creation.passkeyChallenge),
  });
  return { passkey, transactions: done.body.transactions };
}

const isOwnerOnBase = async (wallet: string, owner: Hex): Promise<boolean> => {
  const data = `0xa2e1a8d8${owner.slice(2).padStart(64, "0")}`;
  const answer = String(await callRpc(baseRpcUrl, "eth_call", [{ to: wallet, data }, "latest"]));
  return answer !== "0x" && BigInt(answer) === 1n;
};

test("a recovery deploys the account that holds enough for a first send, so that its address owner can act there", async () => {
  const merchant = await merchantOnBoth();
  const { walletAddress } = merchant;
  const { add, address } = await addressOwner(merchant.client, ACCOUNT);
  await changeOwner(merchant, { add });
  await fundUsdc(baseRpcUrl, walletAddress as Hex, 1_000_000n);
  const { passkey, transactions } = await recoverOn(merchant);
  expect(transactions).toMatchObject([
    { network: "base-sepolia", waitsForOwner: false, to: walletAddress },
    { network: "base", chainId: 8453, waitsForOwner: true, to: walletAddress },
  ]);
  await until(() => isOwnerOnBase(walletAddress, address));
  const [, { to, data }] = transactions;
  const hash = await callRpc(baseRpcUrl, "eth_sendTransaction", [
    { from: address, to, data, gas: "0x7a120" },
  ]);
  expect((await waitForReceipt(baseRpcUrl, hash)).status).toBe("0x1");
  await until(async () => {
    const { body } = await openClient(world.baseUrl).post("/v1/auth/options", { email: merchant.email });
    return body.allowCredentials.some(({ id }: { id: string }) => id === passkey.credentialId);
  });
  const own = { client: await signIn({ ...merchant, passkey }), passkey };
  const recipient = randomAddress();
  const send = await prepareSend(own, { network: "base", to: recipient, amount: "1" });
  expect((await confirmSend(own, send)).status).toBe(202);
  await waitForSend(own, send.sendId);
  expect(await readUsdcBalance(baseRpcUrl, recipient)).toBe(1_000_000n);
  await until(async () => (await deploymentsOf(merchant)).length === 2);
  expect(await deploymentsOf(merchant)).toEqual(["base", "base-sepolia"]);
});

test("a recovery costs no gas for an account that holds next to nothing", async () => {
  const merchant = await merchantOnBoth();
  const { add } = await addressOwner(merchant.client, ACCOUNT);
  await changeOwner(merchant, { add });
  await fundUsdc(baseRpcUrl, merchant.walletAddress as Hex, 99_999n);
  await recoverOn(merchant);
  const jobs = await world.sql`
    select from graphile_worker.jobs job
    join wallets on job.key = 'deploy_wallet:' || wallets.id
    where wallets.user_id = ${merchant.userId} and wallets.network = 'base'`;
  expect(jobs).toHaveLength(0);
  expect(await callRpc(baseRpcUrl, "eth_getCode", [merchant.walletAddress, "latest"])).toBe("0x");
});

test("owners that wait for the account are added once anybody has deployed it", async () => {
  const merchant = await merchantOnBoth();
  const { passkey, add } = await newPasskeyOwner(merchant.client);
  await changeOwner(merchant, { add });
  expect((await ownersOn(merchant.client, "base")).waiting).toMatchObject([
    { credentialId: passkey.credentialId },
  ]);
  await deployAccount(baseRpcUrl, merchant.passkey);
  await until(async () => {
    const { owners } = await ownersOn(merchant.client, "base");
    return owners.some(({ credentialId }: { credentialId: string }) => credentialId === passkey.credentialId);
  });
  await until(async () => (await deploymentsOf(merchant)).length === 2);
  expect(await deploymentsOf(merchant)).toEqual(["base", "base-sepolia"]);
});
