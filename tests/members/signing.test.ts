/** Money leaves by an owner's passkey alone, and what one person prepared no other person signs. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import type { Answer, Client } from "../support/http-client.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { actingFor, addMember, bookOwnerChange, newMember } from "../support/members.ts";
import {
  addPasskeyOnChain,
  confirmChange,
  deployAccount,
  newPasskeyOwner,
  ownersOn,
  prepareChange,
} from "../support/owners.ts";
import { confirmSend, expectRefusal, prepareSend } from "../support/sends.ts";
import { type Merchant, signIn, signUp } from "../support/sign-up.ts";

let world: ApiWorld;
beforeAll(async () => {
  world = await startApiWorld();
}, 120_000);
afterAll(() => world?.stop());

type Signer = Pick<Merchant, "client" | "passkey">;

/** The same person's browser, acting for a merchant in every request. */
function acting({ client, passkey }: Signer, merchant: Merchant): Signer {
  const headers = actingFor(merchant);
  const acted: Client = {
    ...client,
    get: (path, more) => client.get(path, { ...headers, ...more }),
    post: (path, body, more) => client.post(path, body, { ...headers, ...more }),
  };
  return { client: acted, passkey };
}

/** A merchant with money, and a member whose passkey is being added as an owner: the wallet's first operation makes it one. */
async function merchantWithOwner() {
  const merchant = await signUp(world.baseUrl);
  await fundUsdc(world.chainOf("base-sepolia").rpcUrl, merchant.walletAddress as Hex, 5_000_000n);
  const person = await newMember(merchant, "owner");
  const prepared = await prepareChange(merchant.client, { add: { type: "member", userId: person.userId } });
  expect((await confirmChange(merchant, prepared)).status).toBe(202);
  // as the indexer does once the account is deployed with it
  await bookOwnerChange(world.sql, { merchant, person }, { type: "OWNER_ADDED", isDeep: true });
  return { merchant, person, member: acting(person, merchant) };
}

/** As a hostile page asks an authenticator: for any passkey of the site. */
const forAnyPasskey = (prepared: Answer["body"]) => ({
  ...prepared,
  passkeyChallenge: { ...prepared.passkeyChallenge, allowCredentials: [] },
});

const send = () => ({ to: randomAddress(), amount: "1" });
const stateOf = async (id: string) =>
  (await world.sql<{ state: string }[]>`select state from wallet_operations where id = ${id}`)[0]?.state;

function expectNotSigned(answer: Answer): void {
  expect([answer.status, answer.body.error?.code]).toEqual([400, "VALIDATION_ERROR"]);
}

describe("a member with the role owner", () => {
  test("prepares and signs a send of the merchant with their own passkey", async () => {
    const { merchant, member, person } = await merchantWithOwner();
    const prepared = await prepareSend(member, send());
    expect(prepared.passkeyChallenge.allowCredentials.map(({ id }: { id: string }) => id)).toEqual([
      person.passkey.credentialId,
    ]);
    expect((await confirmSend(member, prepared)).status).toBe(202);
    const [row] = await world.sql<{ userId: string; passkeyId: string }[]>`
      select user_id, passkey_id from wallet_operations where id = ${prepared.sendId}`;
    expect({ ...row }).toEqual({ userId: merchant.userId, passkeyId: person.passkey.credentialId });
    expect((await person.client.get("/v1/wallets/sends")).body.sends).toEqual([]);
  });

  test("cannot sign what the account prepared, nor the account what the member prepared", async () => {
    const { merchant, member } = await merchantWithOwner();
    const ofAccount = forAnyPasskey(await prepareSend(merchant, send()));
    expectNotSigned(await confirmSend(member, ofAccount));
    expectNotSigned(await confirmSend({ ...member, passkey: merchant.passkey }, ofAccount));
    expectNotSigned(await confirmSend({ ...merchant, passkey: member.passkey }, ofAccount));
    // unsigned, and its challenge is used up by the account's own failed attempt
    expect(await stateOf(ofAccount.sendId)).toBe("EXPIRED");
    const ofMember = forAnyPasskey(await prepareSend(member, send()));
    expectNotSigned(await confirmSend(merchant, ofMember));
    expectNotSigned(await confirmSend({ ...merchant, passkey: member.passkey }, ofMember));
    expect((await confirmSend(member, ofMember)).status).toBe(202);
  });

  test("adds no passkey or address to the account, which would sign in as the account", async () => {
    const { member } = await merchantWithOwner();
    for (const path of ["passkey/start", "address/start"]) {
      const answer = await member.client.post(`/v1/wallets/owners/${path}`, { address: randomAddress() });
      expectRefusal(answer, 403, { issue: "role_not_allowed" });
    }
    const started = await member.client.post("/v1/wallets/owners/prepare", {
      add: {
        type: "address",
        challengeId: `ch_${crypto.randomUUID()}`,
        address: randomAddress(),
        proof: "0x11",
      },
    });
    expectRefusal(started, 403, { field: "add.type", issue: "role_not_allowed" });
  });
});

test("of a member with several passkeys the one last used is added: an older one may be lost", async () => {
  const [merchant, person] = [await signUp(world.baseUrl), await signUp(world.baseUrl)];
  await addMember(merchant, person, "owner");
  const { passkey, add } = await newPasskeyOwner(person.client);
  await prepareChange(person.client, { add });
  const withNewer = { ...person, passkey };
  await bookOwnerChange(
    world.sql,
    { merchant: person, person: withNewer },
    { type: "OWNER_ADDED", isDeep: true },
  );
  const added = async () => {
    const change = { add: { type: "member", userId: person.userId } };
    return (await prepareChange(merchant.client, change)).summary.owner;
  };
  await signIn(withNewer);
  expect(await added()).toMatchObject({ credentialId: passkey.credentialId });
  await signIn(person);
  expect(await added()).toMatchObject({ credentialId: person.passkey.credentialId });
});

describe("the account's own access", () => {
  const network = "base-sepolia";
  const removalBy = (by: Signer, ownerId: string) =>
    by.client.post("/v1/wallets/owners/prepare", { network, remove: { ownerId } });
  const ownerIdsOf = async ({ client }: Merchant) =>
    (await ownersOn(client)).owners.map(({ ownerId }: { ownerId: string }) => ownerId);

  test("a member who is an owner cannot remove the account's last passkey, but can remove one of two", async () => {
    const { merchant, member } = await merchantWithOwner();
    const [own = ""] = await ownerIdsOf(merchant);
    expectRefusal(await removalBy(member, own), 409, { field: "remove.ownerId", issue: "last_owner" });
    const second = await prepareChange(merchant.client, {
      add: (await newPasskeyOwner(merchant.client)).add,
    });
    expectRefusal(await removalBy(member, own), 409, { field: "remove.ownerId", issue: "last_owner" });
    expect((await confirmChange(merchant, second)).status).toBe(202);
    expect((await removalBy(member, own)).status).toBe(201);
  });

  test("on a deployed wallet, an account's passkey that is being added counts once it is an owner on the chain", async () => {
    const { merchant, member, person } = await merchantWithOwner();
    const [own = ""] = await ownerIdsOf(merchant);
    const rpcUrl = world.chainOf(network).rpcUrl;
    await deployAccount(rpcUrl, merchant.passkey);
    await addPasskeyOnChain(rpcUrl, merchant, person.passkey);
    const { passkey, add } = await newPasskeyOwner(merchant.client);
    const second = await prepareChange(merchant.client, { add });
    expect((await confirmChange(merchant, second)).status).toBe(202);
    expectRefusal(await removalBy(merchant, own), 409, { field: "remove.ownerId", issue: "last_owner" });
    expectRefusal(await removalBy(member, own), 409, { field: "remove.ownerId", issue: "last_owner" });
    await addPasskeyOnChain(rpcUrl, merchant, passkey);
    expect((await removalBy(member, own)).status).toBe(201);
  });

  test("an account without a passkey of its own can still remove one of two members", async () => {
    const { merchant, member } = await merchantWithOwner();
    const other = await newMember(merchant, "owner");
    const prepared = await prepareChange(merchant.client, { add: { type: "member", userId: other.userId } });
    expect((await confirmChange(merchant, prepared)).status).toBe(202);
    await bookOwnerChange(world.sql, { merchant, person: other }, { type: "OWNER_ADDED", isDeep: true });
    const [, { ownerId }] = (await ownersOn(merchant.client)).waiting;
    // as after a change of the service's host: the account's credential does not sign here any more
    await world.sql`update passkeys set rp_id = 'elsewhere.test' where user_id = ${merchant.userId}`;
    expect((await removalBy(member, ownerId)).status).toBe(201);
  });
});

describe("a member with a lesser role", () => {
  test.each(["operator", "accountant", "viewer"] as const)(
    "(%s) neither prepares nor confirms, and their passkey signs nothing that an owner prepared",
    async (role) => {
      const { merchant, member: owner } = await merchantWithOwner();
      const person = await newMember(merchant, role);
      const member = acting(person, merchant);
      const refused = { issue: "role_not_allowed", role };
      expectRefusal(await member.client.post("/v1/wallets/send/prepare", send()), 403, refused);
      const prepared = forAnyPasskey(await prepareSend(owner, send()));
      expectRefusal(await confirmSend(member, prepared), 403, refused);
      expectRefusal(await confirmSend({ ...member, passkey: owner.passkey }, prepared), 403, refused);
      // in the own account the merchant's send does not exist
      expect((await confirmSend(person, prepared)).status).toBe(404);
      expect(await stateOf(prepared.sendId)).toBe("AWAITING_SIGNATURE");
    },
  );

  test("an owner's passkey in another session of the same person signs; in a lesser member's it does not", async () => {
    const { merchant, person, member } = await merchantWithOwner();
    const prepared = await prepareSend(member, send());
    const viewer = acting(await newMember(merchant, "viewer"), merchant);
    expectRefusal(await confirmSend({ ...viewer, passkey: person.passkey }, prepared), 403, {
      issue: "role_not_allowed",
    });
    const again = acting({ ...person, client: await signIn(person) }, merchant);
    expect((await confirmSend(again, prepared)).status).toBe(202);
  });
});

describe("adding a member as an owner", () => {
  test("error: 404 for a member with a lesser role, for a non-member, and for another merchant's", async () => {
    const merchant = await signUp(world.baseUrl);
    const viewer = await newMember(merchant, "viewer");
    const foreign = await newMember(await signUp(world.baseUrl), "owner");
    for (const { userId } of [viewer, foreign, await signUp(world.baseUrl)]) {
      const answer = await merchant.client.post("/v1/wallets/owners/prepare", {
        add: { type: "member", userId },
      });
      expect(answer.status).toBe(404);
    }
  });

  test("error: 409 member_removed when the membership ended before the signature", async () => {
    const merchant = await signUp(world.baseUrl);
    const person = await newMember(merchant, "owner");
    const prepared = await prepareChange(merchant.client, { add: { type: "member", userId: person.userId } });
    expect((await merchant.client.delete(`/v1/members/${person.userId}`)).status).toBe(200);
    expectRefusal(await confirmChange(merchant, prepared), 409, { issue: "member_removed" });
    expect(await stateOf(prepared.ownerChangeId)).toBe("AWAITING_SIGNATURE");
  });

  test("error: the membership does not end once the addition is signed: 409 owner_on_chain", async () => {
    const merchant = await signUp(world.baseUrl);
    const person = await newMember(merchant, "owner");
    const prepared = await prepareChange(merchant.client, { add: { type: "member", userId: person.userId } });
    expect((await confirmChange(merchant, prepared)).status).toBe(202);
    expectRefusal(await merchant.client.delete(`/v1/members/${person.userId}`), 409, {
      issue: "owner_on_chain",
    });
  });

  test("error: the membership does not end while a relayed addition that failed could still be executed", async () => {
    const merchant = await signUp(world.baseUrl);
    const person = await newMember(merchant, "owner");
    const prepared = await prepareChange(merchant.client, { add: { type: "member", userId: person.userId } });
    expect((await confirmChange(merchant, prepared)).status).toBe(202);
    const remove = () => merchant.client.delete(`/v1/members/${person.userId}`);
    // as after three mined relays that did not run it: the bytes with the signature are in blocks
    const [failed] = await world.sql<{ network: string; accountNonce: bigint; address: Hex }[]>`
      update wallet_operations op
      set state = 'FAILED', reason = 'NOT_RUN', relayed_at = now()
      from wallets wallet
      where op.owner_change_id = ${prepared.ownerChangeId} and op.network = 'base-sepolia' and wallet.id = op.wallet_id
      returning op.network, op.account_nonce, wallet.address`;
    if (!failed) throw new Error("the addition has no operation");
    await world.sql`
      update wallet_operations
      set state = 'FAILED', reason = 'NOT_RUN', signature = null
      where owner_change_id = ${prepared.ownerChangeId} and network <> 'base-sepolia'`;
    expectRefusal(await remove(), 409, { issue: "owner_on_chain" });
    // another operation spends the nonce: the signature is worthless now
    await world.sql`
      insert into wallet_operation_events (
        network, block_number, block_hash, tx_hash, log_index, user_op_hash, sender, nonce, succeeded, gas_used
      )
      values (
        ${failed.network}, 1, ${`0x${"c".repeat(64)}`}, ${`0x${"d".repeat(64)}`}, 7, ${`0x${"e".repeat(64)}`},
        ${failed.address}, ${failed.accountNonce.toString()}::numeric, true, 1
      )`;
    expect((await remove()).status).toBe(200);
  });

  test("the membership ends if the addition failed before anything was sent", async () => {
    const merchant = await signUp(world.baseUrl);
    const person = await newMember(merchant, "owner");
    const prepared = await prepareChange(merchant.client, { add: { type: "member", userId: person.userId } });
    expect((await confirmChange(merchant, prepared)).status).toBe(202);
    await world.sql`
      update wallet_operations
      set state = 'FAILED', reason = 'REVERTED', signature = null
      where owner_change_id = ${prepared.ownerChangeId}`;
    expect((await merchant.client.delete(`/v1/members/${person.userId}`)).status).toBe(200);
  });

  test("and removing the member concurrently never both succeed", async () => {
    const merchant = await signUp(world.baseUrl);
    for (let round = 0; round < 5; round += 1) {
      const person = await newMember(merchant, "owner");
      const prepared = await prepareChange(merchant.client, {
        add: { type: "member", userId: person.userId },
      });
      const [confirmed, removed] = await Promise.all([
        confirmChange(merchant, prepared),
        merchant.client.delete(`/v1/members/${person.userId}`),
      ]);
      expect([
        [202, 409],
        [409, 200],
      ]).toContainEqual([confirmed.status, removed.status]);
    }
  });
});

test("an operator's request for a refund names the operator, and only an owner prepares it", async () => {
  const { merchant, member: owner } = await merchantWithOwner();
  const person = await newMember(merchant, "operator");
  const operator = acting(person, merchant);
  const { body: link } = await operator.client.post("/v1/payment-links", { amount: 1, description: "Tea" });
  await world.sql`
    insert into transfers (
      network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units, status,
      link_id, pays
    )
    values (
      'base-sepolia', 1, ${`0x${"1".repeat(64)}`}, now(), ${randomAddress().padEnd(66, "7")}, 0, ${randomAddress()},
      ${merchant.walletAddress.toLowerCase()}, 600000, 'CONFIRMED', ${link.id}, false
    )`;
  const asked = await operator.client.post(`/v1/payment-links/${link.id}/refund-requests`, { amount: "0.5" });
  expect(asked.status).toBe(201);
  expect(asked.body.requestedBy).toMatchObject({ type: "user", id: person.userId });
  const path = `/v1/refunds/${asked.body.refundId}/prepare`;
  expectRefusal(await operator.client.post(path), 403, { issue: "role_not_allowed" });
  expect((await owner.client.post(path)).status).toBe(201);
});
