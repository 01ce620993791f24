/** Who is a member, in which role, and whose invitation it is: the conditions of the statements, one by one. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newInvitationId } from "../../core/domain/ids.ts";
import type { MemberRole } from "../../core/domain/member.ts";
import {
  answerInvitation,
  findUnsentInvitation,
  insertInvitation,
  listInvitationsTo,
  listOpenInvitations,
  markInvitationSent,
  revokeInvitation,
  revokeInvitationsBy,
} from "../../db/members/invitations.ts";
import {
  countMembers,
  deleteMember,
  findMembership,
  holdMember,
  insertMember,
  listMembers,
  listMemberships,
  lockFormerOwners,
  lockMember,
  mayOwnOnChain,
  updateRole,
} from "../../db/members/members.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { logOwner, seedOwnerChange, seedPasskey, seedUser, seedWallet } from "../support/passkey-rows.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

let db: TestDatabase;
let sql: Sql;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
});
afterAll(async () => {
  await sql?.end();
  await db?.drop();
});

const idsOf = (rows: readonly { id: string }[]) => rows.map(({ id }) => id).sort();

describe("an invitation", () => {
  const EMAIL = "person@example.test";
  const OTHER_EMAIL = "other@example.test";

  const invite = (merchantId: string, { email = EMAIL, invitedBy = merchantId } = {}) =>
    insertInvitation(sql, { id: newInvitationId(), merchantId, email, role: "viewer", invitedBy });
  const expire = ({ id }: { id: string }) =>
    sql`update member_invitations set expires_at = now() where id = ${id}`;
  const answer = ({ id }: { id: string }, email = EMAIL) =>
    answerInvitation(sql, { id, email, outcome: "ACCEPTED" });
  const revoke = ({ id }: { id: string }, merchantId: string) => revokeInvitation(sql, { id, merchantId });
  const outcomes = async (...invitations: readonly { id: string }[]) => {
    const rows = await sql<{ id: string; outcome: string | null }[]>`
      select id, outcome from member_invitations where id = any(${idsOf(invitations)}::text[])`;
    return invitations.map(({ id }) => rows.find((row) => row.id === id)?.outcome);
  };

  test("replaces the open one for the same merchant and address, and no other", async () => {
    const [merchant, stranger] = [await seedUser(sql), await seedUser(sql)];
    const [first, declined] = [await invite(merchant), await invite(merchant, { email: OTHER_EMAIL })];
    await answerInvitation(sql, { id: declined.id, email: OTHER_EMAIL, outcome: "DECLINED" });
    const [other, foreign] = [
      await invite(merchant, { email: "third@example.test" }),
      await invite(stranger),
    ];
    await invite(merchant);
    await invite(merchant, { email: OTHER_EMAIL });
    expect(await outcomes(first, declined, other, foreign)).toEqual(["REVOKED", "DECLINED", null, null]);
  });

  test("is accepted once, at its own address, until it expires", async () => {
    const merchant = await seedUser(sql);
    const [invitation, other] = [await invite(merchant), await invite(merchant, { email: OTHER_EMAIL })];
    expect(await answer(invitation, OTHER_EMAIL)).toBeUndefined();
    expect(await answer({ id: newInvitationId() })).toBeUndefined();
    await expire(invitation);
    expect(await answer(invitation)).toBeUndefined();
    await sql`update member_invitations set expires_at = now() + interval '1 day' where id = ${invitation.id}`;
    expect(await answer(invitation)).toMatchObject({ id: invitation.id, outcome: "ACCEPTED" });
    expect(await answer(invitation)).toBeUndefined();
    expect(await outcomes(other)).toEqual([null]);
  });

  test("that was revoked is not accepted, and one that was accepted is not revoked", async () => {
    const merchant = await seedUser(sql);
    const [accepted, revoked] = [await invite(merchant), await invite(merchant, { email: OTHER_EMAIL })];
    await answer(accepted);
    expect(await revoke(accepted, merchant)).toBeUndefined();
    expect(await revoke(revoked, merchant)).toMatchObject({ outcome: "REVOKED" });
    expect(await answer(revoked, OTHER_EMAIL)).toBeUndefined();
    expect(await outcomes(accepted, revoked)).toEqual(["ACCEPTED", "REVOKED"]);
  });

  test("is revoked only by its own merchant", async () => {
    const [merchant, stranger] = [await seedUser(sql), await seedUser(sql)];
    const [invitation, other] = [await invite(merchant), await invite(merchant, { email: OTHER_EMAIL })];
    expect(await revoke(invitation, stranger)).toBeUndefined();
    await revoke(invitation, merchant);
    expect(await outcomes(invitation, other)).toEqual(["REVOKED", null]);
  });

  test("is listed to its merchant and to its address while it is open", async () => {
    const [merchant, stranger] = [await seedUser(sql), await seedUser(sql)];
    const email = "listed@example.test";
    const [open, ended, expired] = [
      await invite(merchant, { email }),
      await invite(merchant),
      await invite(merchant, { email: OTHER_EMAIL }),
    ];
    await answer(ended);
    await expire(expired);
    const foreign = await invite(stranger, { email });
    expect(idsOf(await listOpenInvitations(sql, merchant))).toEqual([open.id]);
    expect(idsOf(await listInvitationsTo(sql, email))).toEqual(idsOf([open, foreign]));
    await expire(open);
    await sql`update member_invitations set outcome = 'REVOKED', ended_at = now() where id = ${foreign.id}`;
    expect(await listInvitationsTo(sql, email)).toEqual([]);
  });

  test("of a member ends with the membership: only the open ones that this member created for this merchant", async () => {
    const [merchant, stranger, member] = [await seedUser(sql), await seedUser(sql), await seedUser(sql)];
    const byMember = (email: string, of = merchant) => invite(of, { email, invitedBy: member });
    const [open, accepted] = [await byMember(OTHER_EMAIL), await byMember(EMAIL)];
    await answer(accepted);
    const [elsewhere, own] = [
      await byMember(EMAIL, stranger),
      await invite(merchant, { email: "own@example.test" }),
    ];
    expect(idsOf(await revokeInvitationsBy(sql, { merchantId: merchant, invitedBy: member }))).toEqual([
      open.id,
    ]);
    expect(await outcomes(open, accepted, elsewhere, own)).toEqual(["REVOKED", "ACCEPTED", null, null]);
  });

  test("is mailed once, while it is open", async () => {
    const merchant = await seedUser(sql);
    const [sent, ended, expired, open] = [
      await invite(merchant),
      await invite(merchant, { email: OTHER_EMAIL }),
      await invite(merchant, { email: "third@example.test" }),
      await invite(merchant, { email: "fourth@example.test" }),
    ];
    await markInvitationSent(sql, sent.id);
    await revoke(ended, merchant);
    await expire(expired);
    for (const { id } of [sent, ended, expired]) expect(await findUnsentInvitation(sql, id)).toBeUndefined();
    expect(await findUnsentInvitation(sql, open.id)).toMatchObject({ id: open.id });
  });
});

async function join(merchantId: string, role: MemberRole, userId?: string): Promise<string> {
  const id = userId ?? (await seedUser(sql));
  await insertMember(sql, { merchantId, userId: id, role, invitedBy: merchantId });
  return id;
}

const roleOf = async (merchantId: string, userId: string) =>
  (await findMembership(sql, { merchantId, userId }))?.role;

describe("a membership", () => {
  test("belongs to one user and one merchant, and begins once", async () => {
    const [merchant, stranger] = [await seedUser(sql), await seedUser(sql)];
    const member = await join(merchant, "viewer");
    expect(
      await insertMember(sql, { merchantId: merchant, userId: member, role: "owner", invitedBy: merchant }),
    ).toBeUndefined();
    expect(await roleOf(merchant, member)).toBe("viewer");
    expect(await roleOf(stranger, member)).toBeUndefined();
    expect(await roleOf(merchant, stranger)).toBeUndefined();
    expect(await roleOf(member, merchant)).toBeUndefined();
  });

  test("is listed to its user and to its merchant, and counted", async () => {
    const [merchant, stranger] = [await seedUser(sql), await seedUser(sql)];
    const member = await join(merchant, "viewer");
    await join(stranger, "operator", member);
    const colleague = await join(merchant, "accountant");
    const merchants = (await listMemberships(sql, member)).map(({ merchant: { id }, role }) => [id, role]);
    expect(Object.fromEntries(merchants)).toEqual({ [merchant]: "viewer", [stranger]: "operator" });
    expect((await listMembers(sql, merchant)).map(({ userId }) => userId).sort()).toEqual(
      [member, colleague].sort(),
    );
    expect(await countMembers(sql, merchant)).toBe(2);
    expect(await countMembers(sql, member)).toBe(0);
  });

  test("is locked, changed and ended by itself: not with the merchant's others, nor the user's", async () => {
    const [merchant, stranger] = [await seedUser(sql), await seedUser(sql)];
    const member = await join(merchant, "viewer");
    await join(stranger, "viewer", member);
    const colleague = await join(merchant, "viewer");
    const roles = async () =>
      Promise.all([roleOf(merchant, member), roleOf(stranger, member), roleOf(merchant, colleague)]);
    const key = { merchantId: merchant, userId: member };
    expect(await lockMember(sql, key)).toMatchObject({ ...key, role: "viewer" });
    expect(await lockMember(sql, { merchantId: stranger, userId: colleague })).toBeUndefined();
    expect(await holdMember(sql, key)).toBe(true);
    for (const one of [
      { merchantId: stranger, userId: colleague },
      { merchantId: merchant, userId: stranger },
    ])
      expect(await holdMember(sql, one)).toBe(false);
    await updateRole(sql, { ...key, role: "operator" });
    expect(await roles()).toEqual(["operator", "viewer", "viewer"]);
    await deleteMember(sql, key);
    expect(await roles()).toEqual([undefined, "viewer", "viewer"]);
  });

  test("that is locked is not changed before the lock ends", async () => {
    const merchant = await seedUser(sql);
    const member = await join(merchant, "operator");
    const key = { merchantId: merchant, userId: member };
    let changed: Promise<void> | undefined;
    await sql.begin(async (tx) => {
      await lockMember(tx, key);
      changed = updateRole(sql, { ...key, role: "viewer" });
      await Promise.race([changed, Bun.sleep(100)]);
      expect((await lockMember(tx, key))?.role).toBe("operator");
    });
    await changed;
    expect(await roleOf(merchant, member)).toBe("viewer");
  });
});

describe("a member is an owner on the chain", () => {
  const isOwner = async (merchantId: string, userId: string) => {
    const membership = await findMembership(sql, { merchantId, userId });
    const listed = (await listMembers(sql, merchantId)).find((member) => member.userId === userId);
    expect(listed?.isOwnerOnChain).toBe(membership?.isOwnerOnChain);
    return membership?.isOwnerOnChain;
  };

  async function merchantWithWallet() {
    const userId = await seedUser(sql);
    return { userId, wallet: await seedWallet(sql, [await seedPasskey(sql, userId)]) };
  }

  test("with the role owner, and with their own passkey that the merchant added and the chain confirmed", async () => {
    const { userId: merchant, wallet } = await merchantWithWallet();
    const member = await join(merchant, "owner");
    const { owner } = await seedPasskey(sql, member);
    expect(await isOwner(merchant, member)).toBe(false);
    await seedOwnerChange(sql, merchant, { owner, member });
    expect(await isOwner(merchant, member)).toBe(false);
    await logOwner(sql, wallet, owner, { isDeep: false });
    expect(await isOwner(merchant, member)).toBe(false);
    await logOwner(sql, wallet, owner);
    expect(await isOwner(merchant, member)).toBe(true);
    await updateRole(sql, { merchantId: merchant, userId: member, role: "operator" });
    expect(await isOwner(merchant, member)).toBe(false);
    await updateRole(sql, { merchantId: merchant, userId: member, role: "owner" });
    await logOwner(sql, wallet, owner, { type: "OWNER_REMOVED", isDeep: false });
    expect(await isOwner(merchant, member)).toBe(false);
  });

  test("no more once the key is removed: only the member whose key it was is named", async () => {
    const { userId: merchant, wallet } = await merchantWithWallet();
    const [former, invited] = [await join(merchant, "owner"), await join(merchant, "owner")];
    const { owner } = await seedPasskey(sql, former);
    await seedPasskey(sql, invited);
    await seedOwnerChange(sql, merchant, { owner, member: former });
    await logOwner(sql, wallet, owner);
    const find = async () =>
      (await lockFormerOwners(sql, [{ merchantId: merchant, owner }])).map(({ userId }) => userId);
    expect(await find()).toEqual([]);
    await logOwner(sql, wallet, owner, { type: "OWNER_REMOVED" });
    expect(await find()).toEqual([former]);
  });

  test("not with another member's key: whoever saw it on the chain can register a credential with it", async () => {
    const { userId: merchant, wallet } = await merchantWithWallet();
    const [member, thief] = [await join(merchant, "owner"), await join(merchant, "owner")];
    const { owner } = await seedPasskey(sql, member);
    await seedPasskey(sql, thief, { key: owner });
    await seedOwnerChange(sql, merchant, { owner, member });
    await logOwner(sql, wallet, owner);
    expect(await isOwner(merchant, member)).toBe(true);
    expect(await isOwner(merchant, thief)).toBe(false);
  });

  test("not with a key that another user registered, whatever the addition says", async () => {
    const { userId: merchant, wallet } = await merchantWithWallet();
    const member = await join(merchant, "owner");
    const { owner } = await seedPasskey(sql, await seedUser(sql));
    await seedOwnerChange(sql, merchant, { owner, member });
    await logOwner(sql, wallet, owner);
    expect(await isOwner(merchant, member)).toBe(false);
    expect(await mayOwnOnChain(sql, { merchantId: merchant, userId: member })).toBe(false);
  });

  test("not by a change of another merchant, a removal, or a change of another key", async () => {
    const { userId: merchant, wallet } = await merchantWithWallet();
    const stranger = await seedUser(sql);
    const member = await join(merchant, "owner");
    const [{ owner }, other] = [await seedPasskey(sql, member), await seedPasskey(sql, member)];
    await logOwner(sql, wallet, owner);
    await seedOwnerChange(sql, stranger, { owner, member });
    await seedOwnerChange(sql, merchant, { owner, member, action: "REMOVE" });
    await seedOwnerChange(sql, merchant, { owner: other.owner, member });
    await seedOwnerChange(sql, merchant, { owner });
    expect(await isOwner(merchant, member)).toBe(false);
  });

  test("of the merchant's own wallet, not of another's", async () => {
    const [{ userId: merchant }, other] = [await merchantWithWallet(), await merchantWithWallet()];
    const member = await join(merchant, "owner");
    await join(other.userId, "owner", member);
    const { owner } = await seedPasskey(sql, member);
    for (const id of [merchant, other.userId]) await seedOwnerChange(sql, id, { owner, member });
    await logOwner(sql, other.wallet, owner);
    expect([await isOwner(merchant, member), await isOwner(other.userId, member)]).toEqual([false, true]);
  });
});
