/** Invitations, roles and the end of a membership, on two processes. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { deleteLeftovers } from "../../db/jobs/delete-old-rows.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { actingFor, addMember, bookOwnerChange, newMember } from "../support/members.ts";
import { type Merchant, newEmail, signIn, signUp } from "../support/sign-up.ts";

let world: ApiWorld;
let merchant: Merchant;

beforeAll(async () => {
  world = await startApiWorld({ processes: 2 });
  merchant = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

const INVITATIONS = "/v1/members/invitations";
const DEADLINE_MS = 45_000;

const invite = (email: string, role = "viewer", by = merchant) =>
  by.client.post(INVITATIONS, { email, role });
const newInvitation = async (): Promise<string> => (await invite(newEmail())).body.data.id;
const accept = ({ client }: Merchant, id: string) => client.post(`/v1/auth/invitations/${id}/accept`);
const remove = (userId: string, by = merchant) => by.client.delete(`/v1/members/${userId}`);

function expectIssue(answer: Answer, status: number, issue: string): void {
  expect({ status: answer.status, issue: answer.body?.error?.details?.issue }).toEqual({ status, issue });
}

/** The status of a request on each process, with the cookies of a client. */
async function onEach(client: Client, path: string, headers: Record<string, string>): Promise<number[]> {
  const cookie = [...client.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  return Promise.all(
    world.urls.map(async (url) => (await openClient(url).get(path, { cookie, ...headers })).status),
  );
}

const membersOf = async (by = merchant): Promise<{ userId: string; role: string; effectiveRole: string }[]> =>
  (await by.client.get("/v1/members")).body.data;

describe("an invitation", () => {
  test("to a user with an account creates a member, whose own account is unchanged", async () => {
    const person = await signUp(world.baseUrl);
    await person.client.post("/v1/payment-links", { amount: 2, description: "Own link" });
    const invited = await invite(person.email.toUpperCase(), "accountant");
    expect(invited.status).toBe(201);
    expect(invited.body.data).toMatchObject({ email: person.email, role: "accountant" });
    const received = await person.client.get("/v1/auth/invitations");
    expect(received.body.data).toMatchObject([
      { id: invited.body.data.id, merchantId: merchant.userId, role: "accountant" },
    ]);
    expect((await person.client.get("/v1/payment-links", actingFor(merchant))).status).toBe(403);
    const accepted = await accept(person, invited.body.data.id);
    expect(accepted.status).toBe(200);
    const { body: me } = await person.client.get("/v1/auth/me");
    expect(me.merchants).toMatchObject([{ merchantId: merchant.userId, role: "accountant" }]);
    expect(me.merchants[0].permissions).toContain("exports");
    expect(me.merchants[0].permissions).not.toContain("links:write");
    expect(me.permissions).toEqual(["CREATE_PAYMENT_LINK", "VIEW_TRANSACTIONS", "MANAGE_WALLET"]);
    expect((await person.client.get("/v1/payment-links")).body.links).toHaveLength(1);
    expect((await person.client.get("/v1/payment-links", actingFor(merchant))).body.links).toHaveLength(0);
    expect(await membersOf()).toContainEqual(
      expect.objectContaining({ userId: person.userId, role: "accountant", effectiveRole: "accountant" }),
    );
  });

  test("to an unknown address gets the same response as to a known one, and is accepted after registering", async () => {
    const email = newEmail();
    const { id: _, ...unknown } = (await invite(email)).body.data;
    const { id: __, ...known } = (await invite((await signUp(world.baseUrl)).email)).body.data;
    expect(Object.keys(unknown)).toEqual(Object.keys(known));
    const person = await signUp(world.baseUrl, email);
    const [received] = (await person.client.get("/v1/auth/invitations")).body.data;
    expect((await accept(person, received.id)).status).toBe(200);
  });

  test("is accepted once, even with twenty concurrent requests to two processes", async () => {
    const person = await signUp(world.baseUrl);
    const { id } = (await invite(person.email)).body.data;
    const cookie = `authToken=${person.client.cookies.get("authToken")}`;
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        openClient(world.urls[index % 2] ?? "").post(`/v1/auth/invitations/${id}/accept`, undefined, {
          cookie,
          "content-type": "application/json",
        }),
      ),
    );
    const statuses = answers.map(({ status }) => status).toSorted();
    expect(statuses).toEqual([200, ...Array<number>(19).fill(404)]);
    await remove(person.userId);
    expect((await accept(await asNewSession(person), id)).status).toBe(404);
  });

  test("error: 404 for another address, and after it was declined, revoked or replaced", async () => {
    const [person, other] = await Promise.all([signUp(world.baseUrl), signUp(world.baseUrl)]);
    const first = (await invite(person.email)).body.data.id;
    expect((await accept(other, first)).status).toBe(404);
    expect((await other.client.get("/v1/auth/invitations")).body.data).toEqual([]);
    const second = (await invite(person.email, "operator")).body.data.id;
    expect((await accept(person, first)).status).toBe(404);
    expect((await person.client.post(`/v1/auth/invitations/${second}/decline`)).status).toBe(200);
    expect((await accept(person, second)).status).toBe(404);
    const third = (await invite(person.email)).body.data.id;
    expect((await other.client.delete(`${INVITATIONS}/${third}`)).status).toBe(404);
    expect((await merchant.client.delete(`${INVITATIONS}/${third}`)).status).toBe(200);
    expect((await accept(person, third)).status).toBe(404);
    expect((await merchant.client.get(INVITATIONS)).body.data).not.toContainEqual(
      expect.objectContaining({ email: person.email }),
    );
  });

  test("ends after seven days: accepted just before, 404 just after", async () => {
    const [early, late] = await Promise.all([signUp(world.baseUrl), signUp(world.baseUrl)]);
    for (const [person, leftS, status] of [
      [early, 60, 200],
      [late, -1, 404],
    ] as const) {
      const { id, createdAt, expiresAt } = (await invite(person.email)).body.data;
      expect(new Date(expiresAt).getTime() - new Date(createdAt).getTime()).toBe(7 * 86_400_000);
      await world.sql`
        update member_invitations set expires_at = now() + make_interval(secs => ${leftS}) where id = ${id}`;
      expect((await accept(person, id)).status).toBe(status);
    }
  });

  test("error: 409 for the account's own address and for a member's", async () => {
    expectIssue(await invite(merchant.email), 409, "own_address");
    const person = await newMember(merchant, "viewer");
    expectIssue(await invite(person.email, "operator"), 409, "already_member");
  });

  test("error: 409 for the fifty-first open one; replacing an open one is possible", async () => {
    const busy = await signUp(world.baseUrl);
    await world.sql`
      insert into member_invitations (id, merchant_id, email, role, invited_by, expires_at)
      select 'inv_' || n || ${busy.userId}, ${busy.userId}, n || '@example.com', 'viewer', ${busy.userId}, now() + interval '1 day'
      from generate_series(1, 49) n`;
    expect((await invite("fifty@example.com", "viewer", busy)).status).toBe(201);
    expectIssue(await invite("one-more@example.com", "viewer", busy), 409, "too_many_invitations");
    expect((await invite("fifty@example.com", "operator", busy)).status).toBe(201);
  });

  test("two concurrent ones to one address leave one open", async () => {
    const email = newEmail();
    const cookie = `authToken=${merchant.client.cookies.get("authToken")}`;
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        openClient(world.urls[index % 2] ?? "").post(INVITATIONS, { email, role: "viewer" }, { cookie }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array<number>(8).fill(201));
    const { body } = await merchant.client.get(INVITATIONS);
    expect(body.data.filter((one: { email: string }) => one.email === email)).toHaveLength(1);
  });

  test("is deleted 30 days after it ended or expired, and not a minute earlier", async () => {
    const kept = [await newInvitation(), await newInvitation(), await newInvitation()];
    const over = [await newInvitation(), await newInvitation()];
    const month = 30 * 86_400;
    const age = (id: string | undefined, column: "expires_at" | "ended_at", seconds: number) =>
      world.sql`
        update member_invitations
        set ${world.sql(column)} = now() - make_interval(secs => ${seconds}),
          outcome = ${column === "ended_at" ? "REVOKED" : null}
        where id = ${id ?? ""}`;
    await age(kept[0], "expires_at", month - 60);
    await age(kept[1], "ended_at", month - 60);
    await age(over[0], "expires_at", month + 1);
    await age(over[1], "ended_at", month + 1);
    await deleteLeftovers(world.sql, "member_invitations", 100);
    const left = await world.sql<{ id: string }[]>`
      select id from member_invitations where id = any(${[...kept, ...over]})`;
    expect(left.map(({ id }) => id).toSorted()).toEqual(kept.toSorted());
  });

  test.each([{}, { email: "x" }, { email: "a@example.com", role: "king" }])(
    "error: 400 for %j",
    async (body) => {
      expect((await merchant.client.post(INVITATIONS, body)).status).toBe(400);
    },
  );
});

const asNewSession = async (person: Merchant): Promise<Merchant> => ({
  ...person,
  client: await signIn(person),
});

describe("a change of role", () => {
  test("takes effect immediately on every process, and keeps the session", async () => {
    const person = await newMember(merchant, "viewer");
    const exportsOf = () => onEach(person.client, "/v1/transactions/exports", actingFor(merchant));
    expect(await exportsOf()).toEqual([403, 403]);
    const path = `/v1/members/${person.userId}`;
    expect((await merchant.client.patch(path, { role: "accountant" })).status).toBe(200);
    expect(await exportsOf()).toEqual([200, 200]);
    expect((await merchant.client.patch(path, { role: "viewer" })).status).toBe(200);
    expect(await exportsOf()).toEqual([403, 403]);
    expect(await onEach(person.client, "/v1/transactions", actingFor(merchant))).toEqual([200, 200]);
  });

  test("error: 404 for another merchant's member and for the account itself", async () => {
    const person = await newMember(merchant, "viewer");
    const other = await signUp(world.baseUrl);
    expect((await other.client.patch(`/v1/members/${person.userId}`, { role: "owner" })).status).toBe(404);
    expect((await remove(person.userId, other)).status).toBe(404);
    expect((await remove(merchant.userId)).status).toBe(404);
  });
});

describe("a removal", () => {
  test("immediately ends the sessions that acted for the merchant on every process, and no others", async () => {
    const person = await newMember(merchant, "accountant");
    const own = await signIn(person);
    expect(await onEach(person.client, "/v1/transactions", actingFor(merchant))).toEqual([200, 200]);
    expect((await remove(person.userId)).status).toBe(200);
    expect(await onEach(person.client, "/v1/transactions", actingFor(merchant))).toEqual([401, 401]);
    expect(await onEach(own, "/v1/auth/me", {})).toEqual([200, 200]);
    expect(await onEach(own, "/v1/transactions", actingFor(merchant))).toEqual([403, 403]);
    expect((await remove(person.userId)).status).toBe(404);
  });

  test("ends an open event stream on another process, which shows no later events", async () => {
    const person = await newMember(merchant, "viewer");
    const cookie = `authToken=${person.client.cookies.get("authToken")}`;
    const answer = await fetch(`${world.urls[1]}/v1/events/stream?merchant=${merchant.userId}`, {
      headers: { cookie },
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
    expect(answer.status).toBe(200);
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    if (!reader) throw new Error("the stream has no body");
    let text = "";
    const readUntil = async (isEnough: () => boolean) => {
      while (!isEnough()) {
        const { value, done } = await reader.read();
        if (done) return true;
        text += value;
      }
      return false;
    };
    await merchant.client.post("/v1/payment-links", { amount: 1, description: "before" });
    await readUntil(() => text.includes("payment_link.created"));
    text = "";
    await remove(person.userId);
    await merchant.client.post("/v1/payment-links", { amount: 1, description: "after" });
    expect(await readUntil(() => false)).toBe(true);
    expect(text.replaceAll(": still here\n\n", "")).toBe("");
  });

  test("revokes the API keys that the member made, and no others", async () => {
    const person = await newMember(merchant, "owner");
    const owner = { merchant, person };
    await bookOwnerChange(world.sql, owner, { type: "OWNER_ADDED", isDeep: true });
    const body = { name: "of the member", scopes: ["links:read"] };
    const made = await person.client.post("/v1/api-keys", body, actingFor(merchant));
    const kept = await merchant.client.post("/v1/api-keys", body);
    const own = await person.client.post("/v1/api-keys", body);
    const statusOf = async ({ body: { data } }: Answer) =>
      (await openClient(world.baseUrl).get("/v1/payment-links", { authorization: `Bearer ${data.key}` }))
        .status;
    expect([await statusOf(made), await statusOf(kept), await statusOf(own)]).toEqual([200, 200, 200]);
    await bookOwnerChange(world.sql, owner, { type: "OWNER_REMOVED", isDeep: true });
    expect((await remove(person.userId)).status).toBe(200);
    expect([await statusOf(made), await statusOf(kept), await statusOf(own)]).toEqual([401, 200, 200]);
  });

  test("error: 409 owner_on_chain until the removal is confirmed on the chain, for a lesser role as well", async () => {
    const person = await newMember(merchant, "owner");
    const owner = { merchant, person };
    const tries = async () => {
      const lesser = await merchant.client.patch(`/v1/members/${person.userId}`, { role: "viewer" });
      return [lesser, await remove(person.userId)];
    };
    const expectRefused = async () => {
      for (const answer of await tries()) expectIssue(answer, 409, "owner_on_chain");
    };
    await bookOwnerChange(world.sql, owner, { type: "OWNER_ADDED", isDeep: false });
    await expectRefused();
    await bookOwnerChange(world.sql, owner, { type: "OWNER_ADDED", isDeep: true });
    await expectRefused();
    await bookOwnerChange(world.sql, owner, { type: "OWNER_REMOVED", isDeep: false });
    await expectRefused();
    await bookOwnerChange(world.sql, owner, { type: "OWNER_REMOVED", isDeep: true });
    expect((await tries()).map(({ status }) => status)).toEqual([200, 200]);
  });

  test("a passkey registered with the owner's public key makes nobody an owner, and prevents no removal", async () => {
    for (const role of ["viewer", "owner"] as const) {
      const person = await newMember(merchant, role);
      await world.sql`
        update passkeys set (public_key_x, public_key_y) = (
          select public_key_x, public_key_y from passkeys where user_id = ${merchant.userId}
        )
        where user_id = ${person.userId}`;
      const { body } = await person.client.get("/v1/auth/me");
      expect(body.merchants[0].role).toBe(role === "owner" ? "operator" : role);
      expect((await remove(person.userId)).status).toBe(200);
    }
  });

  test("a lesser role ends the API keys and invitations that the owner made", async () => {
    const person = await newMember(merchant, "owner");
    const owner = { merchant, person };
    await bookOwnerChange(world.sql, owner, { type: "OWNER_ADDED", isDeep: true });
    const body = { name: "of the member", scopes: ["links:read"] };
    const made = await person.client.post("/v1/api-keys", body, actingFor(merchant));
    const guest = await signUp(world.baseUrl);
    const invited = await person.client.post(
      "/v1/members/invitations",
      { email: guest.email, role: "operator" },
      actingFor(merchant),
    );
    expect([made.status, invited.status]).toEqual([201, 201]);
    await bookOwnerChange(world.sql, owner, { type: "OWNER_REMOVED", isDeep: true });
    const lesser = await merchant.client.patch(`/v1/members/${person.userId}`, { role: "viewer" });
    expect(lesser.status).toBe(200);
    const key = { authorization: `Bearer ${made.body.data.key}` };
    expect((await openClient(world.baseUrl).get("/v1/payment-links", key)).status).toBe(401);
    const path = `/v1/auth/invitations/${invited.body.data.id}/accept`;
    expect((await guest.client.post(path)).status).toBe(404);
  });

  test("is possible for an owner whose passkey was never on the chain", async () => {
    const person = await newMember(merchant, "owner");
    expect((await remove(person.userId)).status).toBe(200);
  });
});

describe("leaving", () => {
  test("ends one's own membership", async () => {
    const person = await newMember(merchant, "viewer");
    expect((await person.client.post("/v1/members/leave", undefined, actingFor(merchant))).status).toBe(200);
    expect((await membersOf()).map(({ userId }) => userId)).not.toContain(person.userId);
    expect((await person.client.get("/v1/auth/me")).status).toBe(401);
  });

  test("error: 409 for one's own account", async () => {
    expectIssue(await merchant.client.post("/v1/members/leave"), 409, "own_account");
  });
});

test("the security trail names who did it, in the merchant's trail and not in the member's", async () => {
  const founder = await signUp(world.baseUrl);
  const person = await newMember(founder, "owner");
  await bookOwnerChange(world.sql, { merchant: founder, person }, { type: "OWNER_ADDED", isDeep: true });
  const changed = await person.client.patch("/v1/settings", { matchByAmount: false }, actingFor(founder));
  expect(changed.status).toBe(200);
  const friend = await signUp(world.baseUrl);
  await addMember({ ...founder, client: actingClient(person.client, founder) }, friend, "viewer");
  const { body } = await founder.client.get("/v1/security-events");
  const member = { id: person.userId, email: person.email };
  const account = { id: founder.userId, email: founder.email };
  expect(
    body.data.map(({ type, actor }: { type: string; actor: unknown }) => ({ type, actor })).slice(0, 5),
  ).toEqual([
    { type: "member_joined", actor: { id: friend.userId, email: friend.email } },
    { type: "member_invited", actor: member },
    { type: "settings_changed", actor: member },
    { type: "member_joined", actor: member },
    { type: "member_invited", actor: account },
  ]);
  const own = await person.client.get("/v1/security-events");
  expect(own.body.data.map(({ type }: { type: string }) => type)).not.toContain("settings_changed");
});

/** The same browser, acting for a merchant in every request. */
function actingClient(client: Client, acted: Merchant): Client {
  return {
    ...client,
    get: (path, headers) => client.get(path, { ...actingFor(acted), ...headers }),
    post: (path, body, headers) => client.post(path, body, { ...actingFor(acted), ...headers }),
  };
}
