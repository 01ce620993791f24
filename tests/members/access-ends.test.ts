/** Requests that were admitted before a membership or a session ended, and go on after it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { deleteMember, updateRole } from "../../db/members/members.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, openClient } from "../support/http-client.ts";
import { actingFor, bookOwnerChange, newMember } from "../support/members.ts";
import { type Merchant, newEmail, signUp } from "../support/sign-up.ts";
import { untilBlocked } from "../support/until-blocked.ts";

let world: ApiWorld;
let merchant: Merchant;

beforeAll(async () => {
  // no worker renders exports: each request waits until this timeout
  world = await startApiWorld({ env: { EXPORT_WAIT_MS: "2000" } });
  merchant = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

/** Enough for a removal that waits for nothing; one that waits for the request is given up waiting for. */
const ENDS_WITHIN_MS = 500;
const remove = (userId: string) => merchant.client.delete(`/v1/members/${userId}`);

describe("the effects of a request that was admitted before the access ended", () => {
  /** Holds back what waits for `lock` until `work` is over or waits too. */
  async function whileHeld(
    lock: (tx: Tx) => Promise<unknown>,
    ask: () => Promise<Answer>,
    end: () => Promise<Answer>,
  ) {
    const locked = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const holding = world.sql.begin(async (tx) => {
      await lock(tx);
      locked.resolve();
      await go.promise;
    });
    await locked.promise;
    const asking = ask();
    await untilBlocked(world.sql, asking);
    const ending = end();
    await Promise.race([ending, Bun.sleep(ENDS_WITHIN_MS)]);
    go.resolve();
    await holding;
    const [asked, ended] = await Promise.all([asking, ending]);
    return { asked: asked.status, ended: ended.status };
  }
  const lockMerchant = (tx: Tx) => tx`select from users where id = ${merchant.userId} for no key update`;
  const lockSchedules = (tx: Tx) =>
    tx`select pg_advisory_xact_lock(hashtext('export schedules of user'), hashtext(${merchant.userId}))`;
  const keyBody = { name: "late", scopes: ["links:read"] };

  async function newOwner(): Promise<{ person: Merchant; end: () => Promise<Answer> }> {
    const person = await newMember(merchant, "owner");
    const owner = { merchant, person };
    await bookOwnerChange(world.sql, owner, { type: "OWNER_ADDED", isDeep: true });
    const end = async () => {
      await bookOwnerChange(world.sql, owner, { type: "OWNER_REMOVED", isDeep: true });
      return remove(person.userId);
    };
    return { person, end };
  }

  test("an API key that a removed owner requests is revoked with the membership", async () => {
    const { person, end } = await newOwner();
    const ask = () => person.client.post("/v1/api-keys", keyBody, actingFor(merchant));
    expect(await whileHeld(lockMerchant, ask, end)).toEqual({ asked: 201, ended: 200 });
    const keys = await world.sql`select revoked_at from api_keys where created_by = ${person.userId}`;
    expect(keys.map(({ revokedAt }) => revokedAt !== null)).toEqual([true]);
  });

  test("an invitation of a removed owner is revoked with the membership", async () => {
    const { person, end } = await newOwner();
    const ask = () =>
      person.client.post(
        "/v1/members/invitations",
        { email: newEmail(), role: "operator" },
        actingFor(merchant),
      );
    expect(await whileHeld(lockMerchant, ask, end)).toEqual({ asked: 201, ended: 200 });
    const made = await world.sql`select outcome from member_invitations where invited_by = ${person.userId}`;
    expect(made.map(({ outcome }) => outcome)).toEqual(["REVOKED"]);
  });

  test("a schedule of a removed accountant is deleted with the membership", async () => {
    const person = await newMember(merchant, "accountant");
    const definition = { name: newEmail(), format: "csv" };
    const profile = await merchant.client.post("/v1/export-profiles", definition);
    expect(profile.status).toBe(201);
    const body = { profileId: profile.body.data.id, frequency: "weekly", delivery: "webhook" };
    const ask = () => person.client.post("/v1/export-schedules", body, actingFor(merchant));
    const end = () => remove(person.userId);
    expect(await whileHeld(lockSchedules, ask, end)).toEqual({ asked: 201, ended: 200 });
    const left = await world.sql`select from export_schedules where created_by = ${person.userId}`;
    expect(left.length).toBe(0);
  });

  test("error: 403 for a key when the membership ended first, and when the role became a lesser one", async () => {
    for (const change of ["removed", "lesser role"]) {
      const { person, end } = await newOwner();
      const lockMember = (tx: Tx) => tx`
        select from members where merchant_id = ${merchant.userId} and user_id = ${person.userId} for update`;
      const ended = Promise.withResolvers<void>();
      const holding = world.sql.begin(async (tx) => {
        await lockMember(tx);
        ended.resolve();
        await untilBlocked(world.sql);
        if (change === "removed")
          await deleteMember(tx, { merchantId: merchant.userId, userId: person.userId });
        else await updateRole(tx, { merchantId: merchant.userId, userId: person.userId, role: "viewer" });
      });
      await ended.promise;
      const asked = await person.client.post("/v1/api-keys", keyBody, actingFor(merchant));
      await holding;
      expect({ status: asked.status, issue: asked.body.error.details.issue }).toEqual({
        status: 403,
        issue: change === "removed" ? "not_a_member" : "role_not_allowed",
      });
      if (change !== "removed") expect((await end()).status).toBe(200);
    }
  });

  const ENDPOINT = ["/v1/webhook-endpoints", { url: "https://example.com/hook" }] as const;

  test("error: 403 for a webhook endpoint when the membership ended first", async () => {
    const { person } = await newOwner();
    const locked = Promise.withResolvers<void>();
    const ending = world.sql.begin(async (tx) => {
      await deleteMember(tx, { merchantId: merchant.userId, userId: person.userId });
      locked.resolve();
      await untilBlocked(world.sql);
    });
    await locked.promise;
    const asked = await person.client.post(...ENDPOINT, actingFor(merchant));
    await ending;
    expect({ status: asked.status, issue: asked.body.error.details.issue }).toEqual({
      status: 403,
      issue: "not_a_member",
    });
  });

  test("error: 401 for a webhook endpoint when the API key was revoked first", async () => {
    const made = await merchant.client.post("/v1/api-keys", { name: "late", scopes: ["webhooks"] });
    const { id, key } = made.body.data;
    const locked = Promise.withResolvers<void>();
    const ending = world.sql.begin(async (tx) => {
      await tx`update api_keys set revoked_at = now() where id = ${id}`;
      locked.resolve();
      await untilBlocked(world.sql);
    });
    await locked.promise;
    const asked = await openClient(world.baseUrl).post(...ENDPOINT, { authorization: `Bearer ${key}` });
    await ending;
    expect(asked.status).toBe(401);
    expect(await world.sql`select from webhook_endpoints where user_id = ${merchant.userId}`).toHaveLength(0);
  });

  test("error: 401 for a key while all sessions are ended, as in a recovery, which locks the user first", async () => {
    const person = await signUp(world.baseUrl);
    const locked = Promise.withResolvers<void>();
    const ending = world.sql.begin(async (tx) => {
      await tx`select from users where id = ${person.userId} for update`;
      locked.resolve();
      await untilBlocked(world.sql);
      await tx`delete from sessions where user_id = ${person.userId}`;
    });
    await locked.promise;
    const asked = await person.client.post("/v1/api-keys", keyBody);
    await ending;
    expect(asked.status).toBe(401);
  });

  test("error: 401 for a key when the session was ended first", async () => {
    const person = await signUp(world.baseUrl);
    const locked = Promise.withResolvers<void>();
    const holding = world.sql.begin(async (tx) => {
      await tx`delete from sessions where user_id = ${person.userId}`;
      locked.resolve();
      await untilBlocked(world.sql);
    });
    await locked.promise;
    const asked = await person.client.post("/v1/api-keys", keyBody);
    await holding;
    expect(asked.status).toBe(401);
    expect(await world.sql`select from api_keys where user_id = ${person.userId}`).toHaveLength(0);
  });
});

const DEADLINE_MS = 45_000;

describe("a request that waits while the access ends", () => {
  /** Requests an export, which no worker renders, and ends the access during the wait. */
  async function askDuring(ask: () => Promise<Answer>, end: () => Promise<unknown>): Promise<Answer> {
    const count = async () =>
      (await world.sql`select from exports where user_id = ${merchant.userId} and status = 'QUEUED'`).length;
    const before = await count();
    const asking = ask();
    const deadlineMs = Date.now() + DEADLINE_MS;
    while ((await count()) === before) {
      if (Date.now() > deadlineMs) throw new Error("the request does not wait");
      await Bun.sleep(10);
    }
    await end();
    return asking;
  }
  const EXPORT = ["/v1/transactions/export", { format: "json" }] as const;

  test("error: 401 for a member who was removed, instead of the requested export", async () => {
    const person = await newMember(merchant, "accountant");
    const asked = await askDuring(
      () => person.client.post(...EXPORT, actingFor(merchant)),
      () => remove(person.userId),
    );
    expect(asked.status).toBe(401);
    expect(asked.text).not.toContain("exp_");
  });

  test("error: 403 for a member whose lesser role may not export", async () => {
    const person = await newMember(merchant, "accountant");
    const asked = await askDuring(
      () => person.client.post(...EXPORT, actingFor(merchant)),
      () => merchant.client.patch(`/v1/members/${person.userId}`, { role: "viewer" }),
    );
    expect({ status: asked.status, issue: asked.body.error.details.issue }).toEqual({
      status: 403,
      issue: "role_not_allowed",
    });
  });

  test("error: 401 for an API key that was revoked; 202 for one that was not", async () => {
    const made = (await merchant.client.post("/v1/api-keys", { name: "exports", scopes: ["exports"] })).body
      .data;
    const ask = () => openClient(world.baseUrl).post(...EXPORT, { authorization: `Bearer ${made.key}` });
    expect((await askDuring(ask, async () => {})).status).toBe(202);
    expect((await askDuring(ask, () => merchant.client.delete(`/v1/api-keys/${made.id}`))).status).toBe(401);
  });
});

test("the security trail records how many webhook endpoints still send after an owner is removed or demoted", async () => {
  const endpoint = { url: "https://example.com/hook" };
  for (const enabled of [true, false]) {
    const { status, body } = await merchant.client.post("/v1/webhook-endpoints", endpoint);
    expect(status).toBe(201);
    const path = `/v1/webhook-endpoints/${body.data.id}`;
    expect((await merchant.client.patch(path, { enabled })).status).toBe(200);
  }
  const [removed, demoted, viewer] = [
    await newMember(merchant, "owner"),
    await newMember(merchant, "owner"),
    await newMember(merchant, "viewer"),
  ];
  await remove(removed.userId);
  await merchant.client.patch(`/v1/members/${demoted.userId}`, { role: "viewer" });
  await remove(viewer.userId);
  const trail = await world.sql<{ details: Record<string, unknown> }[]>`
    select details
    from security_events
    where user_id = ${merchant.userId} and type in ('member_removed', 'member_role_changed')
    order by id desc
    limit 3`;
  const told = trail.map(({ details }) => [details.memberId, details.webhookEndpoints]).reverse();
  expect(told).toEqual([
    [removed.userId, 1],
    [demoted.userId, 1],
    [viewer.userId, undefined],
  ]);
});
