/** Linking and unlinking a Google account, in the world of google.test.ts. */
import { expect, test } from "bun:test";
import { deleteIdentity } from "../../db/accounts/identities.ts";
import { lockUser } from "../../db/accounts/users.ts";
import { deleteSessionsOf } from "../../db/sessions/sessions.ts";
import type { ApiWorld } from "../support/api-world.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { bookOwnerChange } from "../support/members.ts";
import { newEmail, signUp } from "../support/sign-up.ts";
import { untilBlocked } from "../support/until-blocked.ts";

export type Claims = Record<string, unknown>;

type Given = {
  world: () => ApiWorld;
  /** The next one who comes from the provider. */
  person: (email: string, more?: Claims) => void;
  claims: () => Claims;
  /** Changes each token before it is signed, until the end of the test. */
  tamper: (change: (token: { payload: Claims }) => void) => void;
  signInWithGoogle: () => Promise<{ client: Client; answer: Answer }>;
};

export function testLinking({ world, person, claims, tamper, signInWithGoogle }: Given): void {
  /** A signed-in owner goes to the provider; the callback's address. */
  async function visitToLink(client: Client): Promise<string> {
    const begun = await client.post("/v1/auth/google/link");
    expect(begun.status).toBe(200);
    const back = await fetch(begun.body.data.url, { redirect: "manual" });
    const callback = new URL(back.headers.get("location") ?? "");
    return callback.pathname + callback.search;
  }
  const outcomeOf = (answer: Answer) => {
    expect(answer.status).toBe(302);
    const url = new URL(answer.headers.get("location") ?? "");
    expect(url.origin + url.pathname).toBe(`${world().baseUrl}/security`);
    return url.searchParams.get("google");
  };
  const link = async (client: Client) => outcomeOf(await client.get(await visitToLink(client)));
  const accountsOf = async (
    client: Client,
  ): Promise<{ id: string; email: string | null; linkedAt: string }[]> =>
    (await client.get("/v1/auth/google/accounts")).body.data;
  const subjectsOf = async (userId: string) => {
    const rows = await world().sql<{ subject: unknown }[]>`
      select subject from identities where user_id = ${userId} order by created_at`;
    return rows.map(({ subject }) => subject);
  };
  const eventsOf = async (userId: string) => {
    const rows = await world().sql<{ type: string; details: unknown }[]>`
      select type, details from security_events where user_id = ${userId} and type like 'identity%' order by id`;
    return rows.map(({ type, details }) => [type, details]);
  };
  const issuerOf = async (userId: string) => {
    const [row] = await world().sql<{ issuer: string }[]>`
      select issuer from identities where user_id = ${userId}`;
    return row?.issuer ?? "";
  };
  const sessionsOf = async (userId: string) => {
    const rows = await world().sql<{ method: string }[]>`
      select method from sessions where user_id = ${userId} order by created_at`;
    return rows.map(({ method }) => method);
  };

  test("a signed-in owner links an account of another address, once, which then signs in", async () => {
    const owner = await signUp(world().baseUrl);
    expect(await accountsOf(owner.client)).toEqual([]);
    const begun = await owner.client.post("/v1/auth/google/link");
    const cookies = begun.headers.getSetCookie();
    expect(cookies.find((one) => one.startsWith("googleLink="))).toMatch(
      /; Max-Age=600; Path=\/v1\/auth\/google\/callback; HttpOnly; SameSite=Lax$/,
    );
    person(newEmail());
    expect(await link(owner.client)).toBe("linked");
    expect(owner.client.cookies.has("googleLink")).toBe(false);
    expect(await link(owner.client)).toBe("linked");
    const [account, ...others] = await accountsOf(owner.client);
    expect(others).toEqual([]);
    expect(account).toEqual({
      id: expect.stringMatching(/^idn_[\w-]{22}$/),
      email: String(claims().email),
      linkedAt: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T/),
    });
    expect(await eventsOf(owner.userId)).toEqual([["identity_linked", { email: claims().email }]]);
    expect(await sessionsOf(owner.userId)).toEqual(["wallet_setup"]);
    const { client } = await signInWithGoogle();
    expect((await client.get("/v1/auth/me")).body).toMatchObject({ id: owner.userId, email: owner.email });
  });

  test("a linked account shows the address that the provider last reported, at sign-in or when it is linked again", async () => {
    const owner = await signUp(world().baseUrl);
    const addressesOf = async () => (await accountsOf(owner.client)).map(({ email }) => email);
    const first = newEmail();
    person(first.toUpperCase());
    expect(await link(owner.client)).toBe("linked");
    expect(await addressesOf()).toEqual([first]);
    const second = newEmail();
    Object.assign(claims(), { email: second });
    await signInWithGoogle();
    expect(await addressesOf()).toEqual([second]);
    // linked before addresses were kept
    await world().sql`update identities set email = null where user_id = ${owner.userId}`;
    expect(await addressesOf()).toEqual([null]);
    expect(await link(owner.client)).toBe("linked");
    expect(await addressesOf()).toEqual([second]);
    expect((await owner.client.get("/v1/auth/me")).body.email).toBe(owner.email);
  });

  test("error: a linked account shows neither an unverified address nor that of a refused attempt by another account", async () => {
    const [owner, other] = [await signUp(world().baseUrl), await signUp(world().baseUrl)];
    const [own, others] = [newEmail(), newEmail()];
    person(own);
    expect(await link(owner.client)).toBe("linked");
    Object.assign(claims(), { email: newEmail(), email_verified: false });
    expect(await link(owner.client)).toBe("email_not_verified");
    await signInWithGoogle();
    Object.assign(claims(), { email: others, email_verified: true });
    expect(await link(other.client)).toBe("linked_elsewhere");
    person(others);
    expect(await link(other.client)).toBe("linked");
    expect((await accountsOf(owner.client)).map(({ email }) => email)).toEqual([own]);
    expect((await accountsOf(other.client)).map(({ email }) => email)).toEqual([others]);
  });

  test("an invalid or overlong address is not stored, and the account is linked without one", async () => {
    const owner = await signUp(world().baseUrl);
    for (const email of ["nobody", `${"a".repeat(64)}@${"b".repeat(190)}.example`]) {
      person(email);
      expect(await link(owner.client)).toBe("linked");
    }
    expect((await accountsOf(owner.client)).map(({ email }) => email)).toEqual([null, null]);
    for (const email of ["a@", `${"a".repeat(252)}@bb`, "Ann@example.com"])
      await expect(
        Promise.resolve(world().sql`update identities set email = ${email} where user_id = ${owner.userId}`),
      ).rejects.toThrow("identities_email_check");
  });

  test("the address is deleted with the link, and with the account", async () => {
    const owner = await signUp(world().baseUrl);
    const [first, second] = [newEmail(), newEmail()];
    for (const email of [first, second]) {
      person(email);
      expect(await link(owner.client)).toBe("linked");
    }
    const kept = async () => {
      const rows = await world().sql<{ email: string }[]>`
        select email from identities where email in (${first}, ${second}) order by created_at`;
      return rows.map(({ email }) => email);
    };
    expect(await kept()).toEqual([first, second]);
    const [account] = await accountsOf(owner.client);
    expect((await owner.client.delete(`/v1/auth/google/accounts/${account?.id}`)).status).toBe(200);
    expect(await kept()).toEqual([second]);
    await world().sql`delete from wallets where user_id = ${owner.userId}`;
    await world().sql`delete from users where id = ${owner.userId}`;
    expect(await kept()).toEqual([]);
  });

  test("error: it takes a fresh passkey to link and to unlink", async () => {
    const owner = await signUp(world().baseUrl);
    person(newEmail());
    expect(await link(owner.client)).toBe("linked");
    const [account] = await accountsOf(owner.client);
    await world().sql`
      update sessions set passkey_at = now() - interval '15 minutes' where user_id = ${owner.userId}`;
    for (const answer of [
      await owner.client.post("/v1/auth/google/link"),
      await owner.client.delete(`/v1/auth/google/accounts/${account?.id}`),
    ]) {
      expect(answer.status).toBe(403);
      expect(answer.body.error.details.issue).toBe("passkey_required");
    }
    expect(await subjectsOf(owner.userId)).toEqual([claims().sub]);
  });

  test("error: an account linked to another merchant, an unverified one and a cancelled choice are not linked", async () => {
    const [owner, other] = [await signUp(world().baseUrl), await signUp(world().baseUrl)];
    person(newEmail());
    expect(await link(other.client)).toBe("linked");
    expect(await link(owner.client)).toBe("linked_elsewhere");
    expect(await subjectsOf(other.userId)).toEqual([claims().sub]);
    person(newEmail(), { email_verified: false });
    expect(await link(owner.client)).toBe("email_not_verified");
    person(newEmail());
    const callback = new URL(await visitToLink(owner.client), world().baseUrl);
    callback.searchParams.delete("code");
    callback.searchParams.set("error", "access_denied");
    expect(outcomeOf(await owner.client.get(callback.pathname + callback.search))).toBe("access_denied");
    expect(await accountsOf(owner.client)).toEqual([]);
    expect(await eventsOf(owner.userId)).toEqual([["identity_refused", {}]]);
  });

  test("error: when the session ends midway, nothing is linked and no session is opened", async () => {
    const owner = await signUp(world().baseUrl);
    person(newEmail());
    const callback = await visitToLink(owner.client);
    await world().sql`update sessions set expires_at = now() where user_id = ${owner.userId}`;
    expect(outcomeOf(await owner.client.get(callback))).toBe("session_ended");
    const again = await signUp(world().baseUrl);
    const withoutToken = await visitToLink(again.client);
    again.client.cookies.delete("googleLink");
    const answer = await again.client.get(withoutToken);
    expect(outcomeOf(answer)).toBe("session_ended");
    expect(answer.headers.getSetCookie().some((line) => line.startsWith("authToken="))).toBe(false);
    expect(await subjectsOf(owner.userId)).toEqual([]);
    expect(await subjectsOf(again.userId)).toEqual([]);
    const users = await world().sql`select from users where email = ${String(claims().email)}`;
    expect(users).toHaveLength(0);
  });

  test("race: of three accounts linked concurrently in addition to three, two are accepted: at most five", async () => {
    const owner = await signUp(world().baseUrl);
    for (let n = 0; n < 3; n++) {
      person(newEmail());
      expect(await link(owner.client)).toBe("linked");
    }
    // a browser each, in the same session: the cookies of a visit are the last one's
    const visits = [];
    for (let n = 0; n < 3; n++) {
      const client = openClient(world().baseUrl);
      for (const [name, value] of owner.client.cookies) client.cookies.set(name, value);
      visits.push({ client, callback: await visitToLink(client) });
    }
    let subject = 0;
    tamper(({ payload }) => {
      subject += 1;
      Object.assign(payload, { sub: `${claims().sub}-${subject}` });
    });
    const answers = await Promise.all(visits.map(({ client, callback }) => client.get(callback)));
    expect(answers.map(outcomeOf).sort()).toEqual(["linked", "linked", "too_many"]);
    expect(await subjectsOf(owner.userId)).toHaveLength(5);
  });

  test("an unlinked account can no longer sign in, and the sessions it opened end", async () => {
    const [owner, other] = [await signUp(world().baseUrl), await signUp(world().baseUrl)];
    person(newEmail());
    expect(await link(owner.client)).toBe("linked");
    const { client } = await signInWithGoogle();
    const [account] = await accountsOf(owner.client);
    const path = `/v1/auth/google/accounts/${account?.id}`;
    expect((await other.client.delete(path)).status).toBe(404);
    expect((await other.client.delete("/v1/auth/google/accounts/idn_x")).status).toBe(400);
    expect((await client.get("/v1/auth/me")).status).toBe(200);
    const answer = await owner.client.delete(path);
    expect([answer.status, answer.body.data]).toEqual([200, { id: account?.id, unlinked: true }]);
    expect((await client.get("/v1/auth/me")).status).toBe(401);
    expect(await sessionsOf(owner.userId)).toEqual(["wallet_setup"]);
    expect((await eventsOf(owner.userId)).map(([type]) => type)).toEqual([
      "identity_linked",
      "identity_unlinked",
    ]);
    const stranger = await signInWithGoogle();
    expect((await stranger.client.get("/v1/auth/me")).body.id).not.toBe(owner.userId);
    expect((await owner.client.delete(path)).status).toBe(404);
  });

  test("an unlinked account is linked again only by its owner, not through a matching address", async () => {
    const email = newEmail().replace("@example.com", "@gmail.com");
    const owner = await signUp(world().baseUrl, email);
    person(email);
    await signInWithGoogle();
    const first = claims().sub;
    const [account] = await accountsOf(owner.client);
    expect((await owner.client.delete(`/v1/auth/google/accounts/${account?.id}`)).status).toBe(200);
    const refused = [await signInWithGoogle()];
    person(email);
    refused.push(await signInWithGoogle());
    for (const { client, answer } of refused) {
      expect(answer.headers.get("location")).toBe(`${world().baseUrl}/sign-in?error=link_required`);
      expect(client.cookies.has("authToken")).toBe(false);
    }
    expect(await subjectsOf(owner.userId)).toEqual([]);
    const issuers = await world().sql`select issuer from unlinked_issuers where user_id = ${owner.userId}`;
    expect(issuers).toHaveLength(1);
    expect(await link(owner.client)).toBe("linked");
    expect(claims().sub).not.toBe(first);
    const { client } = await signInWithGoogle();
    expect((await client.get("/v1/auth/me")).body.id).toBe(owner.userId);
    expect((await eventsOf(owner.userId)).map(([type]) => type)).toEqual([
      "identity_linked",
      "identity_unlinked",
      "identity_refused",
      "identity_refused",
      "identity_linked",
    ]);
  });

  test("race: an account that is unlinked while it signs in opens no session", async () => {
    const email = newEmail().replace("@example.com", "@gmail.com");
    const owner = await signUp(world().baseUrl, email);
    person(email);
    await signInWithGoogle();
    const issuer = await issuerOf(owner.userId);
    let signing: ReturnType<typeof signInWithGoogle> | undefined;
    await world().sql.begin(async (tx) => {
      await lockUser(tx, owner.userId);
      signing = signInWithGoogle();
      await untilBlocked(world().sql, signing);
      const key = { issuer, subject: String(claims().sub) };
      expect(await deleteIdentity(tx, key, { userId: owner.userId, rpId: "localhost" })).toBe(true);
      await deleteSessionsOf(tx, owner.userId, "google");
    });
    const signedIn = await signing;
    expect(signedIn?.answer.headers.get("location")).toBe(`${world().baseUrl}/sign-in?error=link_required`);
    expect(await sessionsOf(owner.userId)).toEqual(["wallet_setup"]);
  });

  test("race: without a passkey, of two accounts unlinked concurrently the last one stays", async () => {
    const owner = await signUp(world().baseUrl);
    for (let n = 0; n < 2; n++) {
      person(newEmail());
      expect(await link(owner.client)).toBe("linked");
    }
    // whoever lost the wallet signs in no more by passkey; the session is left from before
    await bookOwnerChange(
      world().sql,
      { merchant: owner, person: owner },
      { type: "OWNER_REMOVED", isDeep: false },
    );
    const ids = (await accountsOf(owner.client)).map(({ id }) => id);
    const answers = await Promise.all(ids.map((id) => owner.client.delete(`/v1/auth/google/accounts/${id}`)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect(answers.find(({ status }) => status === 409)?.body.error).toMatchObject({
      code: "CONFLICT",
      details: { field: "id", issue: "last_sign_in_method" },
    });
    expect(await subjectsOf(owner.userId)).toHaveLength(1);
  });
}
