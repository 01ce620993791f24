/** What an owner among the members made for the merchant ends with the ownership: by the merchant's hand, and on the chain. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newWalletId } from "../../core/domain/ids.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { holdMember } from "../../db/members/members.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { reportWalletChanges } from "../../indexer/settle/report-wallet-changes.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { openClient } from "../support/http-client.ts";
import { actingFor, bookOwnerChange, newMember } from "../support/members.ts";
import { seedPasskey } from "../support/passkey-rows.ts";
import { type Merchant, newEmail, signUp } from "../support/sign-up.ts";
import { untilBlocked } from "../support/until-blocked.ts";

const NETWORK = "base-sepolia";

let world: ApiWorld;
let merchant: Merchant;

beforeAll(async () => {
  world = await startApiWorld();
  merchant = await signUp(world.baseUrl);
  const { status } = await merchant.client.post("/v1/webhook-endpoints", { url: "https://example.com/hook" });
  expect(status).toBe(201);
}, 120_000);
afterAll(() => world?.stop());

const added = { type: "OWNER_ADDED", isDeep: true } as const;
const removed = { type: "OWNER_REMOVED", isDeep: false } as const;

const keyOf = ({ passkey: { publicKey } }: Merchant): Hex =>
  `0x${publicKey.x.slice(2)}${publicKey.y.slice(2)}`;

async function newOwner(): Promise<Merchant> {
  const person = await newMember(merchant, "owner");
  await bookOwnerChange(world.sql, { merchant, person }, added);
  return person;
}

/** A key, an invitation and a scheduled export, made for the merchant. */
async function makeThings({ client }: Merchant, headers: Record<string, string> = actingFor(merchant)) {
  const make = async (path: string, body: object) => {
    const answer = await client.post(path, body, headers);
    if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${answer.text}`);
    return answer.body.data;
  };
  const { key, id: keyId } = await make("/v1/api-keys", {
    name: "exporter",
    scopes: ["exports", "webhooks"],
  });
  const { id: invitationId } = await make("/v1/members/invitations", { email: newEmail(), role: "operator" });
  const { id: profileId } = await make("/v1/export-profiles", { name: newEmail(), format: "csv" });
  const plan = { profileId, frequency: "weekly", delivery: "webhook" };
  const { id: scheduleId } = await make("/v1/export-schedules", plan);
  return { key, keyId, invitationId, scheduleId };
}
type Things = Awaited<ReturnType<typeof makeThings>>;

async function isLeft({ key, invitationId, scheduleId }: Things) {
  const [row] = await world.sql<{ invitation: boolean; schedule: boolean }[]>`
    select
      exists (select from member_invitations where id = ${invitationId} and outcome is null) as invitation,
      exists (select from export_schedules where id = ${scheduleId}) as schedule`;
  const { status } = await openClient(world.baseUrl).get("/v1/transactions/exports", {
    authorization: `Bearer ${key}`,
  });
  return { key: status === 200, ...row };
}

/** The merchant's wallet on a second network, where this person is an owner too. */
async function addWalletOnBase(person: Merchant): Promise<string> {
  const walletId = newWalletId();
  await world.sql`
    insert into wallets (id, user_id, network, address, passkey_id, factory, owners)
    select ${walletId}, user_id, 'base', address, passkey_id, factory, array_append(owners, ${keyOf(person)})
    from wallets
    where user_id = ${merchant.userId}`;
  return walletId;
}

const ALL = { key: true, invitation: true, schedule: true };
const NONE = { key: false, invitation: false, schedule: false };

const reportAll = (tx: Tx) => reportWalletChanges(tx, { network: NETWORK, after: 0, depthNumber: 1_000_000 });

async function endOnChain(person: Merchant): Promise<void> {
  await bookOwnerChange(world.sql, { merchant, person }, removed);
  await world.sql.begin(reportAll);
}

async function lowerRole(person: Merchant): Promise<void> {
  await bookOwnerChange(world.sql, { merchant, person }, { ...removed, isDeep: true });
  const lowered = await merchant.client.patch(`/v1/members/${person.userId}`, { role: "operator" });
  expect(lowered.status).toBe(200);
}

describe.each([
  ["is removed on the chain", endOnChain, "owner_removed"],
  ["gets another role", lowerRole, "member_role_changed"],
] as const)("when an owner among the members %s", (_how, end, entry) => {
  test("API keys, open invitations and scheduled exports of theirs end, and nobody else's", async () => {
    const [person, colleague] = [await newOwner(), await newOwner()];
    const made = await makeThings(person);
    const others = [await makeThings(colleague), await makeThings(merchant), await makeThings(person, {})];
    expect(await isLeft(made)).toEqual(ALL);
    await end(person);
    expect(await isLeft(made)).toEqual(NONE);
    for (const other of others) expect(await isLeft(other)).toEqual(ALL);
    expect((await person.client.get("/v1/payment-links", actingFor(merchant))).status).toBe(200);
  });

  test("the security trail names the keys and invitations, and how many webhook endpoints still send", async () => {
    const person = await newOwner();
    const { keyId, invitationId } = await makeThings(person);
    await end(person);
    const trail = await world.sql<{ type: string; details: Record<string, unknown> }[]>`
      select type, details
      from security_events
      where user_id = ${merchant.userId} and type in ('api_key_revoked', 'member_invitation_ended', ${entry})
      order by id desc
      limit 3`;
    const told = Object.fromEntries(trail.map(({ type, details }) => [type, details]));
    expect(told.api_key_revoked).toMatchObject({ keyId, name: "exporter" });
    expect(told.member_invitation_ended).toMatchObject({ invitationId, outcome: "REVOKED" });
    expect(told[entry]).toMatchObject({ memberId: person.userId, email: person.email, webhookEndpoints: 1 });
  });
});

test("what an owner made stays while another network still has them as an owner", async () => {
  const person = await newOwner();
  const made = await makeThings(person);
  const walletId = await addWalletOnBase(person);
  await endOnChain(person);
  expect(await isLeft(made)).toEqual(ALL);
  await world.sql`delete from wallets where id = ${walletId}`;
});

test("what a member in another role made stays, even with a credential of the removed owner's public key", async () => {
  const [person, accountant] = [await newOwner(), await newMember(merchant, "accountant")];
  await seedPasskey(world.sql, accountant.userId, { key: keyOf(person) });
  const profile = await accountant.client.post(
    "/v1/export-profiles",
    { name: newEmail(), format: "csv" },
    actingFor(merchant),
  );
  const plan = { profileId: profile.body.data.id, frequency: "weekly", delivery: "webhook" };
  const scheduled = await accountant.client.post("/v1/export-schedules", plan, actingFor(merchant));
  expect(scheduled.status).toBe(201);
  await endOnChain(person);
  const left = await world.sql`select from export_schedules where id = ${scheduled.body.data.id}`;
  expect(left).toHaveLength(1);
});

test("removals that two networks report at the same moment end what the owner made", async () => {
  const person = await newOwner();
  const made = await makeThings(person);
  const walletId = await addWalletOnBase(person);
  const remove = async (tx: Tx, network: NetworkId) => {
    await bookOwnerChange(tx, { merchant, person }, { ...removed, network });
    await reportWalletChanges(tx, { network, after: 0, depthNumber: 1_000_000 });
  };
  let other: Promise<unknown> | undefined;
  await world.sql.begin(async (tx) => {
    await remove(tx, NETWORK);
    other = world.sql.begin((second) => remove(second, "base"));
    await untilBlocked(world.sql, other);
  });
  await other;
  expect(await isLeft(made)).toEqual(NONE);
  await world.sql`delete from wallets where id = ${walletId}`;
});

test("a removal that is not deep yet ends nothing, and its report ends it once", async () => {
  const person = await newOwner();
  const made = await makeThings(person);
  await bookOwnerChange(world.sql, { merchant, person }, removed);
  expect(await isLeft(made)).toEqual(ALL);
  for (let count = 0; count < 2; count++) await world.sql.begin(reportAll);
  expect(await isLeft(made)).toEqual(NONE);
  const entries = await world.sql`
    select from security_events where type = 'api_key_revoked' and details ->> 'keyId' = ${made.keyId}`;
  expect(entries).toHaveLength(1);
});

test("a key that an owner was making while the removal is reported is revoked too", async () => {
  const person = await newOwner();
  await bookOwnerChange(world.sql, { merchant, person }, removed);
  let reporting: Promise<unknown> | undefined;
  await world.sql.begin(async (tx) => {
    await holdMember(tx, { merchantId: merchant.userId, userId: person.userId });
    reporting = world.sql.begin(reportAll);
    await untilBlocked(world.sql, reporting);
    await tx`
      insert into api_keys (id, user_id, name, prefix, key_hash, scopes, created_by)
      values (
        'key_late', ${merchant.userId}, 'late', 'sk_', ${Buffer.alloc(32, 1)}, array['exports'], ${person.userId}
      )`;
  });
  await reporting;
  const [late] = await world.sql<{ revokedAt: Date | null }[]>`
    select revoked_at from api_keys where id = 'key_late'`;
  expect(late?.revokedAt).toBeInstanceOf(Date);
});
