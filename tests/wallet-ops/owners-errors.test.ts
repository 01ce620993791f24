/** Whom the owner routes refuse, and with what: proofs, signatures, repeats, foreign users. API and chains only: nothing is relayed. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { encodeFunctionData, parseAbi } from "viem";
import { ANY_CHAIN_NONCE_KEY } from "../../core/chain/owner-operation.ts";
import { encodeRemoveOwner, toOwner } from "../../core/chain/passkey-account.ts";
import { anyChainHash } from "../../core/chain/user-operation-hash.ts";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { YES_SAYER } from "../payments/contract-orders.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { openClient } from "../support/http-client.ts";
import {
  addressOwner,
  confirmChange,
  newPasskeyOwner,
  ownersOn,
  placeAddressOwner,
  prepareChange,
  setUpOn,
} from "../support/owners.ts";
import { expectRefusal } from "../support/sends.ts";
import { type Merchant, newPasskey, signUp } from "../support/sign-up.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

const PREPARE = "/v1/wallets/owners/prepare";
const CONFIRM = "/v1/wallets/owners/confirm";

let world: ApiWorld;
let merchant: Merchant;
let stranger: Merchant;
beforeAll(async () => {
  world = await startApiWorld({ networks: ["base-sepolia", "base"] });
  merchant = await signUp(world.baseUrl);
  stranger = await signUp(world.baseUrl);
  await setUpOn(merchant, "base");
}, 120_000);
afterAll(() => world?.stop());

async function statesOf(changeId: string): Promise<string[]> {
  const rows = await world.sql<{ state: string }[]>`
    select state from wallet_operations where owner_change_id = ${changeId} order by id`;
  return rows.map(({ state }) => state);
}

const age = (changeId: string, seconds: number) => world.sql`
  with op as (
    update wallet_operations set expires_at = expires_at - make_interval(secs => ${seconds})
    where owner_change_id = ${changeId} returning challenge_id
  )
  update challenges set expires_at = expires_at - make_interval(secs => ${seconds})
  where id in (select challenge_id from op)`;

describe("a new passkey", () => {
  const quirks: [string, Parameters<typeof newPasskeyOwner>[1]][] = [
    ["another origin", { origin: "http://evil.example" }],
    ["another RP id", { rpId: "evil.example" }],
    ["no user verification", { userVerified: false }],
    ["another challenge", { challenge: Buffer.alloc(48, 7).toString("base64url") }],
    ["a frame of another site", { crossOrigin: true }],
  ];
  test.each(quirks)("error: %s is not_verified", async (_, quirk) => {
    const { add } = await newPasskeyOwner(merchant.client, quirk);
    const answer = await merchant.client.post(PREPARE, { add });
    expectRefusal(answer, 400, { field: "add.passkeyResponse", issue: "not_verified" });
  });

  test("error: a challenge is used once, and belongs to its user", async () => {
    const { add } = await newPasskeyOwner(merchant.client);
    const invalid = { field: "add.challengeId", issue: "invalid_or_expired" };
    expectRefusal(await stranger.client.post(PREPARE, { add }), 400, invalid);
    const { ownerChangeId } = await prepareChange(merchant.client, { add });
    expectRefusal(await merchant.client.post(PREPARE, { add }), 400, invalid);
    await merchant.client.post(`/v1/wallets/owners/changes/${ownerChangeId}/cancel`);
  });

  test("error: another user's registered passkey, and one that is already an owner", async () => {
    const started = await stranger.client.post("/v1/wallets/owners/passkey/start");
    const { challengeId, passkeyChallenge } = started.body;
    const { excludeCredentials: _, ...creation } = passkeyChallenge;
    const passkeyResponse = await merchant.passkey.register(creation);
    const add = { type: "passkey", challengeId, passkeyResponse };
    expectRefusal(await stranger.client.post(PREPARE, { add }), 400, { issue: "credential_in_use" });
    const again = await merchant.client.post("/v1/wallets/owners/passkey/start");
    const own = {
      ...{ type: "passkey", challengeId: again.body.challengeId },
      passkeyResponse: await merchant.passkey.register({
        ...again.body.passkeyChallenge,
        excludeCredentials: [],
      }),
    };
    expectRefusal(await merchant.client.post(PREPARE, { add: own }), 409, { issue: "already_owner" });
  });
});

describe("a new address", () => {
  test("error: a signature by another key, for another wallet or for another challenge is not valid", async () => {
    const { add } = await addressOwner(merchant.client, 6);
    const { add: foreign } = await addressOwner(stranger.client, 6);
    const { add: other } = await addressOwner(merchant.client, 6);
    const refused = { field: "add.proof", issue: "not_verified" };
    const address = localAccount(7).address;
    expectRefusal(await merchant.client.post(PREPARE, { add: { ...add, address } }), 400, refused);
    expectRefusal(
      await merchant.client.post(PREPARE, { add: { ...other, proof: foreign.proof } }),
      400,
      refused,
    );
    const { add: third } = await addressOwner(merchant.client, 6);
    expectRefusal(await merchant.client.post(PREPARE, { add: { ...third, proof: add.proof } }), 400, refused);
  });

  test.each([
    ["nonsense", "invalid"],
    ["0x52908400098527886E0F7030069857D2E4169Ee7", "bad_checksum"],
    [`0x${"0".repeat(40)}`, "zero_address"],
    ["0x5ff137d4b0fdcd49dca30c7cf57e578a026d2789", "not_a_recipient"],
  ])("error: %s is %s", async (address, issue) => {
    const answer = await merchant.client.post("/v1/wallets/owners/address/start", { address });
    expectRefusal(answer, 400, { field: "add.address", issue });
  });

  test("error: the wallet itself", async () => {
    const answer = await merchant.client.post("/v1/wallets/owners/address/start", {
      address: merchant.walletAddress,
    });
    expectRefusal(answer, 400, { field: "add.address", issue: "own_wallet" });
  });
});

describe("a new address with code (ERC-1271)", () => {
  const CONTRACT = `0x${"c0de".repeat(10)}` as const;
  const place = (network: "base" | "base-sepolia", code: Hex) =>
    callRpc(world.chainOf(network).rpcUrl, "anvil_setCode", [CONTRACT, code]);

  async function prove(): Promise<object> {
    const started = await merchant.client.post("/v1/wallets/owners/address/start", { address: CONTRACT });
    expect(started.status).toBe(200);
    const proof = `0x${"5a".repeat(97)}`;
    return { type: "address", challengeId: started.body.challengeId, address: CONTRACT, proof };
  }

  test("is added when the contract agrees on every network", async () => {
    await place("base-sepolia", YES_SAYER);
    await place("base", YES_SAYER);
    const { ownerChangeId } = await prepareChange(merchant.client, { add: await prove() });
    await merchant.client.post(`/v1/wallets/owners/changes/${ownerChangeId}/cancel`);
  });

  test("error: a contract on only one network, or one that accepts nothing, is not_verified", async () => {
    await place("base-sepolia", YES_SAYER);
    for (const code of ["0x", "0x60006000fd"] as const) {
      await place("base", code);
      const answer = await merchant.client.post(PREPARE, { add: await prove() });
      expectRefusal(answer, 400, { field: "add.proof", issue: "not_verified" });
    }
  });
});

describe("networks that differ", () => {
  /** A transaction of the wallet's own, as if its owners had signed it elsewhere. */
  async function actAsWallet(person: Merchant, { to, data }: { to: string; data: Hex }): Promise<void> {
    const { rpcUrl } = world.chainOf("base");
    const from = person.walletAddress;
    await callRpc(rpcUrl, "anvil_setBalance", [from, "0xde0b6b3a7640000"]);
    await callRpc(rpcUrl, "anvil_impersonateAccount", [from]);
    const hash = await callRpc(rpcUrl, "eth_sendTransaction", [{ from, to, data, gas: "0x7a120" }]);
    expect((await waitForReceipt(rpcUrl, hash)).status).toBe("0x1");
  }

  test("error: an owner is not added on one network if the wallet is not deployed there", async () => {
    const { add } = await newPasskeyOwner(merchant.client);
    const answer = await merchant.client.post(PREPARE, { network: "base", add });
    expectRefusal(answer, 409, { field: "network", issue: "not_deployed" });
  });

  test("error: one signature needs the same nonce everywhere: networks_out_of_step", async () => {
    const person = await signUp(world.baseUrl);
    await setUpOn(person, "base");
    const abi = parseAbi(["function incrementNonce(uint192 key)"]);
    const data = encodeFunctionData({ abi, args: [ANY_CHAIN_NONCE_KEY] });
    await placeAddressOwner(world.chainOf("base").rpcUrl, person.passkey);
    await actAsWallet(person, { to: CONTRACTS.entryPointV06, data });
    const { add } = await newPasskeyOwner(person.client);
    expectRefusal(await person.client.post(PREPARE, { add }), 409, {
      field: "network",
      issue: "networks_out_of_step",
    });
    const { add: named } = await newPasskeyOwner(person.client);
    expect((await person.client.post(PREPARE, { network: "base", add: named })).status).toBe(201);
  });

  test("error: one signature needs a passkey that is an owner everywhere: no_common_owner", async () => {
    const person = await signUp(world.baseUrl);
    await setUpOn(person, "base");
    await placeAddressOwner(world.chainOf("base").rpcUrl, person.passkey);
    const data = encodeRemoveOwner(0, toOwner(person.passkey.publicKey));
    await actAsWallet(person, { to: person.walletAddress, data });
    const { add } = await newPasskeyOwner(person.client);
    expectRefusal(await person.client.post(PREPARE, { add }), 409, {
      field: "network",
      issue: "no_common_owner",
    });
  });
});

describe("a session", () => {
  test("error: whose passkey was used more than 15 minutes ago adds nothing; just under 15 minutes is accepted", async () => {
    const person = await signUp(world.baseUrl);
    const { add } = await newPasskeyOwner(person.client);
    const passkeyAt = (seconds: number) =>
      world.sql`update sessions set passkey_at = now() - make_interval(secs => ${seconds}) where user_id = ${person.userId}`;
    await passkeyAt(901);
    const required = { issue: "passkey_required" };
    for (const path of ["passkey/start", "address/start"])
      expectRefusal(await person.client.post(`/v1/wallets/owners/${path}`, { address: "0x" }), 403, required);
    expectRefusal(await person.client.post(PREPARE, { add }), 403, required);
    await passkeyAt(890);
    expect((await person.client.post(PREPARE, { add })).status).toBe(201);
  });

  test("error: an API key and no session at all are refused on every route", async () => {
    const { body } = await merchant.client.post("/v1/api-keys", { name: "Shop", scopes: ["links:read"] });
    const headers = { authorization: `Bearer ${body.data.key}` };
    const client = openClient(world.baseUrl);
    for (const [given, status] of [
      [headers, 403],
      [undefined, 401],
    ] as const) {
      expect((await client.get("/v1/wallets/owners", given)).status).toBe(status);
      for (const path of ["passkey/start", "address/start", "prepare", "confirm"])
        expect((await client.post(`/v1/wallets/owners/${path}`, {}, given)).status).toBe(status);
    }
  });
});

describe("a removal", () => {
  test("error: the last usable owner stays, an unknown one is 404, and a network is required", async () => {
    const [{ ownerId }] = (await ownersOn(merchant.client)).owners;
    const network = "base-sepolia";
    const last = await merchant.client.post(PREPARE, { network, remove: { ownerId } });
    expectRefusal(last, 409, { field: "remove.ownerId", issue: "last_owner" });
    const unknown = await merchant.client.post(PREPARE, { network, remove: { ownerId: "owner_00" } });
    expect(unknown.status).toBe(404);
    const [{ ownerId: foreign }] = (await ownersOn(stranger.client)).owners;
    expect((await merchant.client.post(PREPARE, { network, remove: { ownerId: foreign } })).status).toBe(404);
    expectRefusal(await merchant.client.post(PREPARE, { remove: { ownerId } }), 400, { field: "network" });
    expectRefusal(await merchant.client.post(PREPARE, {}), 400, { field: "add" });
  });
});

describe("a confirmation", () => {
  async function prepared() {
    return prepareChange(merchant.client, { add: (await newPasskeyOwner(merchant.client)).add });
  }

  test("error: another passkey, another origin and missing user verification use up the challenge", async () => {
    const notVerified = { field: "passkeyResponse", issue: "not_verified" };
    for (const quirk of [{ origin: "http://evil.example" }, { userVerified: false }]) {
      const change = await prepared();
      expectRefusal(await confirmChange(merchant, change, quirk), 400, notVerified);
      expectRefusal(await confirmChange(merchant, change), 400, { field: "challengeId" });
      expect(await statesOf(change.ownerChangeId)).toEqual(["EXPIRED", "EXPIRED"]);
    }
    const change = await prepared();
    const passkey = await newPasskey(world.baseUrl);
    const { challenge } = change.passkeyChallenge;
    const answer = await merchant.client.post(CONFIRM, {
      ...{ ownerChangeId: change.ownerChangeId, challengeId: change.challengeId },
      passkeyResponse: await passkey.authenticate({ challenge }),
    });
    expectRefusal(answer, 400, notVerified);
  });

  test("error: another user's change is 404 on every route, and unchanged", async () => {
    const change = await prepared();
    const { ownerChangeId } = change;
    expect((await confirmChange({ client: stranger.client, passkey: merchant.passkey }, change)).status).toBe(
      404,
    );
    expect((await stranger.client.get(`/v1/wallets/owners/changes/${ownerChangeId}`)).status).toBe(404);
    expect((await stranger.client.post(`/v1/wallets/owners/changes/${ownerChangeId}/cancel`)).status).toBe(
      404,
    );
    expect(await statesOf(ownerChangeId)).toEqual(["AWAITING_SIGNATURE", "AWAITING_SIGNATURE"]);
  });

  test("error: a row that was changed after preparation does not match its hash: nothing is queued", async () => {
    const change = await prepared();
    await world.sql`
      update wallet_operations set call_data = call_data || 'ff'
      where owner_change_id = ${change.ownerChangeId} and network = 'base'`;
    expect((await confirmChange(merchant, change)).status).toBe(500);
    expect(await statesOf(change.ownerChangeId)).toEqual(["AWAITING_SIGNATURE", "AWAITING_SIGNATURE"]);
  });

  test("error: is EXPIRED after ten minutes, and 409 once cancelled", async () => {
    const late = await prepared();
    await age(late.ownerChangeId, 600);
    expectRefusal(await confirmChange(merchant, late), 400, { field: "challengeId" });
    const { body } = await merchant.client.get(`/v1/wallets/owners/changes/${late.ownerChangeId}`);
    expect(body.status).toBe("EXPIRED");
    const cancelled = await prepared();
    await merchant.client.post(`/v1/wallets/owners/changes/${cancelled.ownerChangeId}/cancel`);
    expectRefusal(await confirmChange(merchant, cancelled), 409, { issue: "cancelled" });
  });

  test("error: is not cancelled on one network if it was executed on the other", async () => {
    const person = await signUp(world.baseUrl);
    await setUpOn(person, "base");
    const { ownerChangeId: id } = await prepareChange(person.client, {
      add: (await newPasskeyOwner(person.client)).add,
    });
    await world.sql`
      update wallet_operations
      set state = 'MINED', tx_hash = user_op_hash, succeeded = true
      where id = (select max(id) from wallet_operations where owner_change_id = ${id})`;
    const cancelled = await person.client.post(`/v1/wallets/owners/changes/${id}/cancel`);
    expectRefusal(cancelled, 409, { field: "status" });
    expect(await statesOf(id)).toEqual(["AWAITING_SIGNATURE", "MINED"]);
  });

  test("gets the same answer for the same assertion, 409 for another one, and for a second change of its nonce", async () => {
    const person = await signUp(world.baseUrl);
    await setUpOn(person, "base");
    const [first, second] = [
      await prepareChange(person.client, { add: (await newPasskeyOwner(person.client)).add }),
      await prepareChange(person.client, { add: (await addressOwner(person.client, 6)).add }),
    ];
    // the client can compute what it signs
    const { userOperation: op } = first;
    const unsigned = { ...op, nonce: BigInt(op.nonce), signature: "0x" as Hex };
    for (const name of [
      "callGasLimit",
      "verificationGasLimit",
      "preVerificationGas",
      "maxFeePerGas",
    ] as const)
      unsigned[name] = BigInt(op[name]);
    unsigned.maxPriorityFeePerGas = BigInt(op.maxPriorityFeePerGas);
    expect(anyChainHash(unsigned)).toBe(first.userOpHash);
    const passkeyResponse = await person.passkey.authenticate(first.passkeyChallenge);
    const body = { ownerChangeId: first.ownerChangeId, challengeId: first.challengeId, passkeyResponse };
    const answers = await Promise.all([1, 2, 3].map(() => person.client.post(CONFIRM, body)));
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 202]);
    expect(await statesOf(first.ownerChangeId)).toEqual(["QUEUED", "QUEUED"]);
    const other = await person.passkey.authenticate(first.passkeyChallenge);
    expectRefusal(await person.client.post(CONFIRM, { ...body, passkeyResponse: other }), 409, {
      issue: "already_confirmed",
    });
    expectRefusal(await confirmChange(person, second), 409, { issue: "nonce_taken" });
    expect(await statesOf(second.ownerChangeId)).toEqual(["AWAITING_SIGNATURE", "AWAITING_SIGNATURE"]);
    // the next one takes the next nonce, and counts the waiting owner
    const third = await prepareChange(person.client, { add: (await addressOwner(person.client, 6)).add });
    expect(BigInt(third.userOperation.nonce)).toBe(BigInt(op.nonce) + 1n);
  });

  test("an Idempotency-Key prepares once; with another request it is 409", async () => {
    const { add } = await newPasskeyOwner(merchant.client);
    const headers = { "idempotency-key": "owner-1" };
    const made = await merchant.client.post(PREPARE, { add }, headers);
    const again = await merchant.client.post(PREPARE, { add }, headers);
    expect([made.status, again.status]).toEqual([201, 201]);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(again.body.ownerChangeId).toBe(made.body.ownerChangeId);
    const other = await merchant.client.post(PREPARE, { network: "base", add }, headers);
    expectRefusal(other, 409, { field: "Idempotency-Key", issue: "other_request" });
  });
});
