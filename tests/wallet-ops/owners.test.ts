/** Adding owners by one signature for both networks, through the three real processes and two chains. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { openClient } from "../support/http-client.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import {
  addressOwner,
  changeOwner,
  confirmChange,
  newPasskeyOwner,
  ownersOn,
  prepareChange,
  setUpOn,
  waitForChange,
} from "../support/owners.ts";
import { confirmSend, expectRefusal, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signIn, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;
let baseRpcUrl: string;
beforeAll(async () => {
  world = await startWorld({ bothNetworks: true });
  baseRpcUrl = world.otherChain?.rpcUrl ?? "";
}, 120_000);
afterAll(() => world?.stop());

/** Wallets on both networks; deployed on base-sepolia alone. */
async function merchantOnBoth(): Promise<Merchant> {
  const merchant = await signUp(world.baseUrl);
  const second = await setUpOn(merchant, "base");
  expect(second.body.wallet?.address).toBe(merchant.walletAddress);
  return merchant;
}

describe("a second passkey", () => {
  test("is added with one signature, immediately where the wallet is deployed, elsewhere with the first send", async () => {
    const merchant = await merchantOnBoth();
    const { client } = merchant;
    expect((await ownersOn(client)).warnings).toMatchObject([{ code: "single_owner" }]);
    const { passkey, add } = await newPasskeyOwner(client);
    const prepared = await prepareChange(client, { add });
    expect(prepared).toMatchObject({
      success: true,
      status: "AWAITING_SIGNATURE",
      chainId: null,
      passkeyChallenge: {
        challenge: Buffer.from(prepared.userOpHash.slice(2), "hex").toString("base64url"),
        allowCredentials: [{ id: merchant.passkey.credentialId }],
      },
      summary: { action: "ADD", owner: { type: "passkey", credentialId: passkey.credentialId } },
      warnings: [],
    });
    expect(prepared.networks.map(({ network }: { network: string }) => network).sort()).toEqual([
      "base",
      "base-sepolia",
    ]);
    // before it is an owner it is not offered for sign-in, and does not sign in
    const early = await client.post("/v1/auth/options", { email: merchant.email });
    expect(early.body.allowCredentials.map(({ id }: { id: string }) => id)).toEqual([
      merchant.passkey.credentialId,
    ]);
    const tooEarly = await openClient(world.baseUrl).post("/v1/auth/verify", {
      ...{ challengeId: early.body.challengeId, email: merchant.email },
      authenticationResponse: await passkey.authenticate({ challenge: early.body.challenge }),
    });
    expect(tooEarly.status).toBe(401);

    expect((await confirmChange(merchant, prepared)).status).toBe(202);
    const done = await waitForChange(client, prepared.ownerChangeId);
    const onNetwork = (network: string) =>
      done.networks.find((one: { network: string }) => one.network === network);
    expect(onNetwork("base-sepolia")).toMatchObject({ status: "CONFIRMED", waitsForDeployment: false });
    expect(onNetwork("base")).toMatchObject({ status: "QUEUED", waitsForDeployment: true });

    const after = await ownersOn(client);
    expect(after).toMatchObject({
      deployed: true,
      warnings: [],
      owners: [
        { index: 0, type: "passkey", credentialId: merchant.passkey.credentialId },
        { index: 1, type: "passkey", credentialId: passkey.credentialId },
      ],
    });
    expect(await ownersOn(client, "base")).toMatchObject({
      deployed: false,
      owners: [{ index: 0, credentialId: merchant.passkey.credentialId }],
      waiting: [{ credentialId: passkey.credentialId }],
      warnings: [],
    });

    // it signs in, and the first send on base, which it signs, deploys the wallet and adds it before it runs
    const own = await signIn({ ...merchant, passkey });
    await fundUsdc(baseRpcUrl, merchant.walletAddress as Hex, 3_000_000n);
    const to = randomAddress();
    const send = await prepareSend({ client: own }, { network: "base", to, amount: "1" });
    expect(send.summary.deploysWallet).toBe(true);
    expect((await confirmSend({ client: own, passkey }, send)).status).toBe(202);
    await waitForSend({ client: own }, send.sendId);
    expect(await readUsdcBalance(baseRpcUrl, to)).toBe(1_000_000n);
    expect((await ownersOn(own, "base")).owners).toMatchObject([
      { index: 0, credentialId: merchant.passkey.credentialId },
      { index: 1, credentialId: passkey.credentialId },
    ]);
    const both = (await own.get(`/v1/wallets/owners/changes/${prepared.ownerChangeId}`)).body;
    expect(both.networks).toMatchObject([{ status: "CONFIRMED" }, { status: "CONFIRMED" }]);
  }, 120_000);

  test("removes the first one, which then can neither send nor sign in", async () => {
    const merchant = await merchantOnBoth();
    const { passkey, add } = await newPasskeyOwner(merchant.client);
    await changeOwner(merchant, { add });
    const second = { ...merchant, passkey, client: await signIn({ ...merchant, passkey }) };
    const { owners } = await ownersOn(second.client);
    const [{ ownerId }] = owners;
    await changeOwner(second, { network: "base-sepolia", remove: { ownerId } });
    const left = await ownersOn(second.client);
    expect(left.owners).toMatchObject([{ index: 1, credentialId: passkey.credentialId }]);
    // on base it still counts, until it is removed there, too; that deploys the wallet
    expect(left.warnings.map(({ code }: { code: string }) => code)).toEqual([
      "single_owner",
      "owner_on_other_network",
    ]);
    const done = await changeOwner(second, { network: "base", remove: { ownerId } });
    expect(done.networks).toMatchObject([{ network: "base", status: "CONFIRMED" }]);
    expect((await ownersOn(second.client, "base")).owners).toMatchObject([
      { index: 1, credentialId: passkey.credentialId },
    ]);
    const options = await openClient(world.baseUrl).post("/v1/auth/options", { email: merchant.email });
    expect(options.body.allowCredentials.map(({ id }: { id: string }) => id)).toEqual([passkey.credentialId]);
    await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, 1_000_000n);
    const send = await prepareSend(second, { to: randomAddress(), amount: "1" });
    expect(send.passkeyChallenge.allowCredentials).toMatchObject([{ id: passkey.credentialId }]);
    const { challenge } = send.passkeyChallenge;
    const refused = await second.client.post("/v1/wallets/send/confirm", {
      ...{ sendId: send.sendId, challengeId: send.challengeId },
      passkeyResponse: await merchant.passkey.authenticate({ challenge }),
    });
    expectRefusal(refused, 400, { field: "passkeyResponse", issue: "not_verified" });
  }, 120_000);
});

test("error: no further network once an owner who was added for every network has been removed: removed_owner", async () => {
  const merchant = await signUp(world.baseUrl);
  const { passkey, add } = await newPasskeyOwner(merchant.client);
  await changeOwner(merchant, { add });
  const added = (await ownersOn(merchant.client)).owners.find(
    ({ credentialId }: { credentialId?: string }) => credentialId === passkey.credentialId,
  );
  await changeOwner(merchant, { network: "base-sepolia", remove: { ownerId: added.ownerId } });
  expectRefusal(await setUpOn(merchant, "base"), 409, { field: "network", issue: "removed_owner" });
  const { body } = await merchant.client.get("/v1/auth/me");
  expect(body.wallets.map(({ network }: { network: string }) => network)).toEqual(["base-sepolia"]);
}, 120_000);

test("error: removed_owner: no further network once the first passkey is removed, which would own the wallet there", async () => {
  const merchant = await signUp(world.baseUrl);
  const { passkey, add } = await newPasskeyOwner(merchant.client);
  await changeOwner(merchant, { add });
  const second = { ...merchant, passkey, client: await signIn({ ...merchant, passkey }) };
  const [{ ownerId }] = (await ownersOn(second.client)).owners;
  await changeOwner(second, { network: "base-sepolia", remove: { ownerId } });
  expectRefusal(await setUpOn(second, "base"), 409, { field: "network", issue: "removed_owner" });
  // nor does it sign in again
  const options = await openClient(world.baseUrl).post("/v1/auth/options", { email: merchant.email });
  expect(options.body.allowCredentials.map(({ id }: { id: string }) => id)).toEqual([passkey.credentialId]);
}, 120_000);

test("a network that is set up later has the same address and the owners that were added before", async () => {
  const merchant = await signUp(world.baseUrl);
  const { passkey, add } = await newPasskeyOwner(merchant.client);
  await changeOwner(merchant, { add });
  const second = { ...merchant, passkey, client: await signIn({ ...merchant, passkey }) };
  const set = await setUpOn(second, "base");
  expect(set.body.wallet?.address).toBe(merchant.walletAddress);
  expect(await ownersOn(second.client, "base")).toMatchObject({
    deployed: false,
    owners: [{ index: 0, credentialId: merchant.passkey.credentialId }],
    waiting: [{ credentialId: passkey.credentialId }],
  });
  await fundUsdc(baseRpcUrl, merchant.walletAddress as Hex, 1_000_000n);
  const send = await prepareSend(second, { network: "base", to: randomAddress(), amount: "1" });
  expect((await confirmSend(second, send)).status).toBe(202);
  await waitForSend(second, send.sendId);
  expect((await ownersOn(second.client, "base")).owners).toMatchObject([
    { index: 0, credentialId: merchant.passkey.credentialId },
    { index: 1, credentialId: passkey.credentialId },
  ]);
}, 120_000);

describe("an address", () => {
  test("that signed for it becomes an owner in addition to the passkey, and is named", async () => {
    const merchant = await signUp(world.baseUrl);
    const { address, add } = await addressOwner(merchant.client, 6);
    await changeOwner(merchant, { add: { ...add, name: "Ledger" } });
    const { owners, warnings } = await ownersOn(merchant.client);
    expect(owners).toMatchObject([
      { index: 0, type: "passkey" },
      { index: 1, type: "address", address, credentialId: null, name: "Ledger" },
    ]);
    expect(warnings).toEqual([]);
  }, 120_000);
});
