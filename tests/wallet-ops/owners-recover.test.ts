/** Sign-in after a lost phone, through the three real processes: the address owner, the mailbox, a new passkey, a send with it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { encodeRemoveOwner, toOwner } from "../../core/chain/passkey-account.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { addressOwner, changeOwner, ownersOn } from "../support/owners.ts";
import { confirmSend, expectRefusal, prepareSend, waitForSend } from "../support/sends.ts";
import { ageCodes, type Merchant, newPasskey, readCode, signIn, signUp } from "../support/sign-up.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";
import { startWorld, type World } from "../support/world.ts";

const ACCOUNT = 6;
const STRANGER = 7;
const WAIT_MS = 90_000;

let world: World;
let merchant: Merchant;
beforeAll(async () => {
  world = await startWorld();
  merchant = await signUp(world.baseUrl);
  const { add } = await addressOwner(merchant.client, ACCOUNT);
  await changeOwner(merchant, { add });
}, 120_000);
afterAll(() => world?.stop());

/** What an account signs for a fresh challenge of this user. */
async function signed(client: Client, email: string, accountIndex: number) {
  const account = localAccount(accountIndex);
  const started = await client.post("/v1/auth/recover/start", { email, address: account.address });
  if (started.status !== 200) throw new Error(`recover/start: ${started.status} ${started.text}`);
  const { challengeId, typedData } = started.body;
  return { email, address: account.address, challengeId, signature: await account.signTypedData(typedData) };
}

/** Up to the mailed code. */
async function proven(client: Client, email: string): Promise<{ otp: string; address: Hex; signature: Hex }> {
  await ageCodes(world.sql, email, 61);
  const proof = await signed(client, email, ACCOUNT);
  const answer = await client.post("/v1/auth/recover/code", proof);
  if (answer.status !== 200) throw new Error(`recover/code: ${answer.status} ${answer.text}`);
  return { otp: await readCode(client, email), address: proof.address, signature: proof.signature };
}

async function until(check: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + WAIT_MS;
  while (!(await check())) {
    if (Date.now() > deadline) throw new Error("the condition did not become true in time");
    await Bun.sleep(50);
  }
}

describe("the proof", () => {
  const refused = (answer: Answer) =>
    expectRefusal(answer, 400, { field: "signature", issue: "not_verified" });

  test("error: an address that is not an owner, another's signature and a used challenge mail no code", async () => {
    const client = openClient(world.baseUrl);
    const count = async () => {
      const [row] = await world.sql<{ count: number }[]>`
        select count(*)::int as count from otps where user_id = ${merchant.userId}`;
      return row?.count;
    };
    const before = await count();
    refused(await client.post("/v1/auth/recover/code", await signed(client, merchant.email, STRANGER)));
    const proof = await signed(client, merchant.email, ACCOUNT);
    const { signature } = await signed(client, merchant.email, ACCOUNT);
    refused(await client.post("/v1/auth/recover/code", { ...proof, signature }));
    refused(await client.post("/v1/auth/recover/code", proof));
    refused(await client.post("/v1/auth/recover/code", await signed(client, "nobody@example.com", ACCOUNT)));
    expect(await count()).toBe(before);
  });

  test("error: a right code is worthless with another proof, and a right proof with another code", async () => {
    const client = openClient(world.baseUrl);
    const { email } = merchant;
    const { otp, address, signature } = await proven(client, email);
    const other = await signed(client, email, ACCOUNT);
    const invalid = { field: "otp", issue: "invalid_or_expired" };
    expectRefusal(await client.post("/v1/auth/recover", { ...other, otp }), 400, invalid);
    const wrong = otp === "000000" ? "111111" : "000000";
    expectRefusal(
      await client.post("/v1/auth/recover", { email, otp: wrong, address, signature }),
      400,
      invalid,
    );
    expectRefusal(
      await client.post("/v1/auth/recover", { email: "nobody@example.com", otp, address, signature }),
      400,
      invalid,
    );
    // whoever lacks the proof uses up none of the code's attempts
    for (let tries = 0; tries < 6; tries += 1)
      expectRefusal(await client.post("/v1/auth/recover", { ...other, otp: wrong }), 400, invalid);
    // the code does not verify an address that is verified, nor sign in
    expect((await client.post("/v1/email-verification/verify", { email, otp })).status).toBe(409);
    expect(client.cookies.size).toBe(0);
  });
});

test("a lost phone: address owner and mailbox open a session that only registers a passkey, which then works", async () => {
  const old = await signIn(merchant);
  const client = openClient(world.baseUrl);
  const { email } = merchant;
  const { otp, address, signature } = await proven(client, email);
  const recovered = await client.post("/v1/auth/recover", { email, otp, address, signature });
  expect(recovered.body).toMatchObject({ success: true, nextStep: "register-passkey" });
  // used up
  expectRefusal(
    await openClient(world.baseUrl).post("/v1/auth/recover", { email, otp, address, signature }),
    400,
    { field: "otp", issue: "invalid_or_expired" },
  );
  // all other sessions have ended
  for (const session of [old, merchant.client]) expect((await session.get("/v1/auth/me")).status).toBe(401);
  // and this one reads and changes nothing
  for (const path of ["/v1/payment-links", "/v1/wallets/owners", "/v1/transactions", "/v1/auth/sessions"])
    expectRefusal(await client.get(path), 403, { issue: "recovery_session" });
  expectRefusal(await client.post("/v1/wallets/owners/passkey/start"), 403, { issue: "recovery_session" });
  expect((await client.get("/v1/auth/me")).status).toBe(200);

  const started = await client.post("/v1/auth/recover/passkey/start");
  const passkey = await newPasskey(world.baseUrl);
  const done = await client.post("/v1/auth/recover/passkey/complete", {
    challengeId: started.body.challengeId,
    passkeyResponse: await passkey.register(started.body.passkeyChallenge),
    name: "New phone",
  });
  expect(done.body).toMatchObject({
    passkeyId: passkey.credentialId,
    transactions: [{ network: "base-sepolia", chainId: 84532, to: merchant.walletAddress }],
  });
  // registered is not enough
  const offered = async () => {
    const { body } = await openClient(world.baseUrl).post("/v1/auth/options", { email });
    return body.allowCredentials.map(({ id }: { id: string }) => id);
  };
  expect(await offered()).toEqual([merchant.passkey.credentialId]);
  const [{ to, data }] = done.body.transactions;
  const hash = await callRpc(world.chain.rpcUrl, "eth_sendTransaction", [
    { from: localAccount(ACCOUNT).address, to, data, gas: "0x7a120" },
  ]);
  expect((await waitForReceipt(world.chain.rpcUrl, hash)).status).toBe("0x1");
  await until(async () => (await offered()).includes(passkey.credentialId));

  const own = { client: await signIn({ ...merchant, passkey }), passkey };
  expect((await ownersOn(own.client)).owners).toMatchObject([
    { index: 0, credentialId: merchant.passkey.credentialId },
    { index: 1, address: localAccount(ACCOUNT).address.toLowerCase() },
    { index: 2, credentialId: passkey.credentialId, name: "New phone" },
  ]);
  await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, 1_000_000n);
  const send = await prepareSend(own, { to: randomAddress(), amount: "1" });
  expect((await confirmSend(own, send)).status).toBe(202);
  await waitForSend(own, send.sendId);
  await until(async () =>
    world.mailbox.messages(email).some(({ subject }) => subject.includes("Recovery of your account")),
  );
  const { body: trail } = await own.client.get("/v1/security-events?limit=100");
  expect(trail.data.map(({ type }: { type: string }) => type)).toContain("recovery_started");
}, 120_000);

test("a session of a lost phone ends when its passkey is removed from the wallet", async () => {
  const person = await signUp(world.baseUrl);
  const { add } = await addressOwner(person.client, STRANGER);
  await changeOwner(person, { add });
  const stolen = await signIn(person);
  expect((await stolen.get("/v1/auth/me")).status).toBe(200);
  const { owners } = await ownersOn(person.client);
  const data = encodeRemoveOwner(owners[0].index, toOwner(person.passkey.publicKey));
  await callRpc(world.chain.rpcUrl, "eth_sendTransaction", [
    { from: localAccount(STRANGER).address, to: person.walletAddress, data, gas: "0x7a120" },
  ]);
  await until(async () => (await stolen.get("/v1/auth/me")).status === 401);
  const options = await openClient(world.baseUrl).post("/v1/auth/options", { email: person.email });
  expect(options.body.allowCredentials).toEqual([]);
}, 120_000);
