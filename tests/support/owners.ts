/** A merchant's owner changes as their browser makes them. */
import {
  accountAddress,
  accountOriginOf,
  encodeAddOwner,
  encodeCreateAccount,
} from "../../core/chain/passkey-account.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc, callRpcBatch } from "../../local/chain/rpc.ts";
import type { PasskeyQuirks, SoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import type { Answer, Client } from "./http-client.ts";
import { openPauses } from "./poll.ts";
import { randomAddress } from "./seed.ts";
import { ageCodes, newPasskey, readCode } from "./sign-up.ts";
import { waitForReceipt } from "./wait-for-receipt.ts";

const WAIT_MS = 90_000;

type Signer = { client: Client; passkey: SoftwarePasskey };

/** A new passkey's answer to fresh creation options, as `add`. */
export async function newPasskeyOwner(client: Client, quirks?: PasskeyQuirks) {
  const started = await client.post("/v1/wallets/owners/passkey/start");
  if (started.status !== 200) throw new Error(`passkey/start: ${started.status} ${started.text}`);
  const passkey = await newPasskey(client.baseUrl);
  const passkeyResponse = await passkey.register(started.body.passkeyChallenge, quirks);
  return { passkey, add: { type: "passkey", challengeId: started.body.challengeId, passkeyResponse } };
}

/** A local account that signs what `address/start` asks of it, as `add`. */
export async function addressOwner(client: Client, accountIndex: number) {
  const account = localAccount(accountIndex);
  const address = account.address.toLowerCase() as Hex;
  const started = await client.post("/v1/wallets/owners/address/start", { address });
  if (started.status !== 200) throw new Error(`address/start: ${started.status} ${started.text}`);
  const { challengeId, typedData } = started.body;
  const proof = await account.signTypedData(typedData);
  return { account, address, add: { type: "address", challengeId, address, proof } };
}

/** Prepares; throws unless it is 201. */
export async function prepareChange(client: Client, body: object): Promise<Answer["body"]> {
  const answer = await client.post("/v1/wallets/owners/prepare", body);
  if (answer.status !== 201) throw new Error(`prepare: ${answer.status} ${answer.text}`);
  return answer.body;
}

/** Signs what was prepared, as the browser's prompt does. */
export async function confirmChange(
  { client, passkey }: Signer,
  prepared: Answer["body"],
  quirks?: PasskeyQuirks,
): Promise<Answer> {
  return client.post("/v1/wallets/owners/confirm", {
    ownerChangeId: prepared.ownerChangeId,
    challengeId: prepared.challengeId,
    passkeyResponse: await passkey.authenticate(prepared.passkeyChallenge, quirks),
  });
}

/** Polls until the change has this status; throws with what it has instead. */
export async function waitForChange(
  client: Client,
  id: string,
  status = "CONFIRMED",
): Promise<Answer["body"]> {
  const deadline = Date.now() + WAIT_MS;
  const pause = openPauses(50);
  for (;;) {
    const { body } = await client.get(`/v1/wallets/owners/changes/${id}`);
    if (body.status === status) return body;
    if (Date.now() > deadline) throw new Error(`${id} is not ${status}: ${JSON.stringify(body)}`);
    await pause();
  }
}

/** Prepares, signs and waits until the change is CONFIRMED. */
export async function changeOwner(signer: Signer, body: object): Promise<Answer["body"]> {
  const prepared = await prepareChange(signer.client, body);
  const confirmed = await confirmChange(signer, prepared);
  if (confirmed.status !== 202) throw new Error(`confirm: ${confirmed.status} ${confirmed.text}`);
  return waitForChange(signer.client, prepared.ownerChangeId);
}

export async function ownersOn(client: Client, network: NetworkId = "base-sepolia"): Promise<Answer["body"]> {
  const answer = await client.get(`/v1/wallets/owners?network=${network}`);
  if (answer.status !== 200) throw new Error(`owners: ${answer.status} ${answer.text}`);
  return answer.body;
}

/** Sets the wallet up on a further network with the passkey that is there. */
export async function setUpOn({ client, passkey }: Signer, network: NetworkId): Promise<Answer> {
  const started = await client.post("/v1/wallets/setup/start", { network });
  return client.post("/v1/wallets/setup/complete", {
    challengeId: started.body.challengeId,
    passkeyResponse: await passkey.authenticate(started.body.passkeyRequest),
  });
}

/** A person's owner changes as far as they go without worker and indexer, for the recorded session of the OpenAPI tests. */
export async function haveOwners(signer: Signer): Promise<void> {
  const { client } = signer;
  const { body: own } = await client.get("/v1/wallets/owners");
  await client.get("/v1/wallets/owners?network=base");
  const [{ ownerId }] = own.owners;
  await client.post("/v1/wallets/owners/prepare", { network: "base-sepolia", remove: { ownerId } });
  await client.post("/v1/wallets/owners/prepare", {});
  await client.post("/v1/wallets/owners/address/start", { address: "nonsense" });
  const { add } = await addressOwner(client, 6);
  await client.post("/v1/wallets/owners/prepare", { add: { ...add, proof: `0x${"11".repeat(65)}` } });
  const cancelled = await prepareChange(client, await newAddition(client));
  await client.post(`/v1/wallets/owners/changes/${cancelled.ownerChangeId}/cancel`);
  await client.post(`/v1/wallets/owners/changes/${cancelled.ownerChangeId}/cancel`);
  await confirmChange(signer, cancelled);
  const prepared = await prepareChange(client, { add: (await addressOwner(client, 6)).add });
  await confirmChange(signer, prepared);
  await confirmChange(signer, { ...prepared, ownerChangeId: "nonsense" });
  await client.get(`/v1/wallets/owners/changes/${prepared.ownerChangeId}`);
  await client.get("/v1/wallets/owners/changes/nonsense");
}

async function newAddition(client: Client): Promise<object> {
  return { add: (await newPasskeyOwner(client)).add };
}

const OWNER_ACCOUNT = 6;

/** Deploys a passkey's account on a chain without worker. */
export async function deployAccount(rpcUrl: string, passkey: SoftwarePasskey): Promise<Hex> {
  const origin = accountOriginOf(passkey.publicKey);
  const from = localAccount(OWNER_ACCOUNT).address;
  await send(rpcUrl, {
    from,
    to: origin.factory,
    data: encodeCreateAccount(origin.owners, origin.saltNonce),
  });
  const wallet = accountAddress(origin);
  await callRpc(rpcUrl, "anvil_setBalance", [wallet, "0xde0b6b3a7640000"]);
  await callRpc(rpcUrl, "anvil_impersonateAccount", [wallet]);
  return wallet;
}

/** The same, and makes a local account its owner. */
export async function placeAddressOwner(rpcUrl: string, passkey: SoftwarePasskey): Promise<Hex> {
  const owner = localAccount(OWNER_ACCOUNT).address;
  const wallet = await deployAccount(rpcUrl, passkey);
  await addOnChain(rpcUrl, wallet, encodeAddOwner(owner.toLowerCase() as Hex));
  return owner;
}

/** Makes a passkey an owner without the service, after `deployAccount`. */
export async function addPasskeyOnChain(
  rpcUrl: string,
  { walletAddress }: { walletAddress: string },
  { publicKey }: SoftwarePasskey,
): Promise<void> {
  await addOnChain(rpcUrl, walletAddress as Hex, encodeAddOwner(publicKey));
}

const addOnChain = (rpcUrl: string, wallet: Hex, data: Hex) =>
  send(rpcUrl, { from: wallet, to: wallet, data, gas: "0x7a120" });

async function send(rpcUrl: string, transaction: object): Promise<void> {
  const { status } = await waitForReceipt(
    rpcUrl,
    await callRpc(rpcUrl, "eth_sendTransaction", [transaction]),
  );
  if (status !== "0x1") throw new Error("a transaction reverted");
}

/** Further owners that the wallet is given without the service, after `placeAddressOwner`. */
export async function addOwnersOnChain(rpcUrl: string, wallet: Hex, count: number): Promise<void> {
  const first = Number(await callRpc(rpcUrl, "eth_getTransactionCount", [wallet, "pending"]));
  const calls = Array.from({ length: count }, (_, index) => {
    const call = { from: wallet, to: wallet, data: encodeAddOwner(randomAddress()), gas: "0x7a120" };
    return {
      method: "eth_sendTransaction",
      params: [{ ...call, nonce: `0x${(first + index).toString(16)}` }],
    };
  });
  const hashes = await callRpcBatch(rpcUrl, calls);
  for (const hash of hashes) await mineUntilTaken(rpcUrl, hash);
}

/** A busy node leaves some of many transactions that came at once until it is asked for another block. */
async function mineUntilTaken(rpcUrl: string, hash: unknown): Promise<void> {
  const deadlineMs = Date.now() + WAIT_MS;
  const pause = openPauses();
  while (!(await callRpc(rpcUrl, "eth_getTransactionReceipt", [hash]))) {
    if (Date.now() > deadlineMs) throw new Error(`no block took ${hash} within ${WAIT_MS} ms`);
    await callRpc(rpcUrl, "evm_mine", []);
    await pause();
  }
}

/** A recovery as far as it goes without worker and indexer, for the same session. */
export async function haveRecovery(
  given: Signer & { email: string; sql: Sql; rpcUrl: string },
): Promise<void> {
  const { client, email, passkey, sql, rpcUrl } = given;
  const address = await placeAddressOwner(rpcUrl, passkey);
  await ageCodes(sql, email, 61);
  const { body: started } = await client.post("/v1/auth/recover/start", { email, address });
  await client.post("/v1/auth/recover/start", { email, address: "nonsense" });
  const signature = await localAccount(OWNER_ACCOUNT).signTypedData(started.typedData);
  const proof = { email, address, challengeId: started.challengeId, signature };
  await client.post("/v1/auth/recover/code", proof);
  await client.post("/v1/auth/recover/code", proof);
  await client.post("/v1/auth/recover", { email, otp: "000000", address, signature });
  const otp = await readCode(client, email);
  await client.post("/v1/auth/recover", { email, otp, address, signature });
  await client.get("/v1/wallets/owners");
  const { body: creation } = await client.post("/v1/auth/recover/passkey/start");
  const added = await newPasskey(client.baseUrl);
  const answer = {
    challengeId: creation.challengeId,
    passkeyResponse: await added.register(creation.passkeyChallenge),
  };
  await client.post("/v1/auth/recover/passkey/complete", answer);
  await client.post("/v1/auth/recover/passkey/complete", answer);
}
