/** A device whose passkey never became an owner, or is none any more, can be added again: its browser must not be told to refuse. API and chain only. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { localAccount } from "../../local/chain/accounts.ts";
import type { SoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { confirmChange, placeAddressOwner, prepareChange } from "../support/owners.ts";
import { ageCodes, type Merchant, newPasskey, readCode, signUp } from "../support/sign-up.ts";

let world: ApiWorld;
let merchant: Merchant;
beforeAll(async () => {
  world = await startApiWorld();
  merchant = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

/** What the device's browser answers to fresh creation options; InvalidStateError when they exclude its passkey. */
async function register(
  client: Client,
  device: SoftwarePasskey,
  path = "/v1/wallets/owners/passkey/start",
): Promise<object> {
  const { body } = await client.post(path);
  return { challengeId: body.challengeId, passkeyResponse: await device.register(body.passkeyChallenge) };
}

async function listed(client: Client): Promise<Record<string, boolean>> {
  const { body } = await client.get("/v1/auth/passkeys");
  return Object.fromEntries(
    body.data.map(({ id, signsIn }: { id: string; signsIn: boolean }) => [id, signsIn]),
  );
}

test("a device whose addition was not signed can be added again, and its passkey is not listed", async () => {
  const { client, passkey } = merchant;
  const device = await newPasskey(world.baseUrl);
  const add = { type: "passkey", ...(await register(client, device)) };
  const { ownerChangeId } = await prepareChange(client, { add });
  // it can still be signed: another passkey would overwrite it on the device
  await expect(register(client, device)).rejects.toThrow("InvalidStateError");
  expect(await listed(client)).toEqual({ [passkey.credentialId]: true, [device.credentialId]: false });
  await client.post(`/v1/wallets/owners/changes/${ownerChangeId}/cancel`);
  expect(await listed(client)).toEqual({ [passkey.credentialId]: true });
  const again = { type: "passkey", ...(await register(client, device)) };
  const prepared = await prepareChange(client, { add: again });
  expect((await confirmChange(merchant, prepared)).status).toBe(202);
  await expect(register(client, device)).rejects.toThrow("InvalidStateError");
  expect(await listed(client)).toEqual({ [passkey.credentialId]: true, [device.credentialId]: false });
});

test("a recovery that was interrupted after its passkey was registered can be repeated on the same device", async () => {
  const person = await signUp(world.baseUrl);
  const { email, passkey } = person;
  const address = await placeAddressOwner(world.chainOf("base-sepolia").rpcUrl, passkey);
  const device = await newPasskey(world.baseUrl);
  for (let round = 0; round < 2; round += 1) {
    const client = openClient(world.baseUrl);
    await ageCodes(world.sql, email, 61);
    const { body: started } = await client.post("/v1/auth/recover/start", { email, address });
    const signature = await localAccount(6).signTypedData(started.typedData);
    const proof = { email, address, challengeId: started.challengeId, signature };
    await client.post("/v1/auth/recover/code", proof);
    const otp = await readCode(client, email);
    await client.post("/v1/auth/recover", { email, otp, address, signature });
    const answer = await register(client, device, "/v1/auth/recover/passkey/start");
    const done = await client.post("/v1/auth/recover/passkey/complete", answer);
    expect(done.body).toMatchObject({ passkeyId: device.credentialId, nextStep: "send-transactions" });
  }
});
