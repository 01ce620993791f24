/** A recovery whose node hangs: nobody who writes about the user waits for it. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { localAccount } from "../../local/chain/accounts.ts";
import { openClient } from "../support/http-client.ts";
import { addressOwner, changeOwner } from "../support/owners.ts";
import { ageCodes, readCode, signUp } from "../support/sign-up.ts";
import { type FaultyWorld, startFaultyWorld } from "../support/world.ts";

const ACCOUNT = 6;
let world: FaultyWorld;
beforeAll(async () => {
  world = await startFaultyWorld();
}, 120_000);
afterAll(() => world?.stop());

test("events of the user are written while the code's request waits for the node, which then opens the session", async () => {
  const merchant = await signUp(world.baseUrl);
  const { email, userId } = merchant;
  const { add } = await addressOwner(merchant.client, ACCOUNT);
  await changeOwner(merchant, { add });
  const client = openClient(world.baseUrl);
  const account = localAccount(ACCOUNT);
  await ageCodes(world.sql, email, 61);
  const { body } = await client.post("/v1/auth/recover/start", { email, address: account.address });
  const proof = { email, address: account.address, signature: await account.signTypedData(body.typedData) };
  const { challengeId } = body;
  expect((await client.post("/v1/auth/recover/code", { ...proof, challengeId })).status).toBe(200);
  const otp = await readCode(client, email);

  const me = await merchant.client.get("/v1/auth/me");
  const wallet = String(me.body.walletAddress).toLowerCase();
  const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  world.proxy.delay = (calls) => {
    // of all processes the API alone asks the wallet
    if (!JSON.stringify(calls).toLowerCase().includes(wallet)) return undefined;
    reached.resolve();
    return released.promise;
  };
  const recovering = client.post("/v1/auth/recover", { ...proof, otp });
  await reached.promise;
  // as the indexer does: the row refers to the user
  await world.sql.begin(async (tx) => {
    await tx`set local lock_timeout = '1s'`;
    await tx`select from users where id = ${userId} for update`;
    await tx`insert into events (user_id, type, subject_id, data) values (${userId}, 'wallet.created', 'any', '{}')`;
  });
  world.proxy.delay = () => undefined;
  released.resolve();
  const { status, body: answer } = await recovering;
  expect([status, answer.nextStep]).toEqual([200, "register-passkey"]);
}, 120_000);
