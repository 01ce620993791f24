/**
 * `X-Merchant: user_…` acts for the merchant whose member the signed-in person is. The role is read for every request, so a removal or a
 * change of role counts at once on every process. Browsers' event streams and downloads cannot set a header: a GET takes it as query `merchant`.
 */

import { invalid, ServiceError } from "../../core/domain/errors.ts";
import { USER_ID } from "../../core/domain/ids.ts";
import { effectiveRole, type MemberRole, mayRole, type Need } from "../../core/domain/member.ts";
import { holdUsers } from "../../db/accounts/users.ts";
import { findMembership, holdMember } from "../../db/members/members.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { holdSession, noteActedFor } from "../../db/sessions/sessions.ts";
import { unauthorized } from "./authenticate.ts";
import type { Caller, PersonCaller } from "./caller.ts";
import type { ApiDeps } from "./deps.ts";

export const MERCHANT_HEADER = "x-merchant";
export const MERCHANT_QUERY = "merchant";

/** The caller with `user` and `role` of the merchant. Throws FORBIDDEN for a merchant whose member the caller is not, or when the role lacks what is needed. */
export async function actForMerchant(
  deps: Pick<ApiDeps, "sql">,
  request: Request,
  { caller, need }: { caller: Caller; need: Need },
): Promise<Caller> {
  const merchantId = readMerchant(request);
  if (merchantId === undefined || need === "self" || merchantId === caller.user.id) return caller;
  if (caller.kind === "apiKey") throw notMember();
  const acting = await asMember(deps, caller, merchantId);
  if (!mayRole(acting.role, need)) throw roleRefused(acting.role);
  return acting;
}

/**
 * In the transaction that makes what outlasts the session, such as an API key, and before its other locks: membership and session do not end
 * until it does, so whatever ends them finds what was made. Users are locked before sessions, as by a recovery or a verified address, which end all
 * sessions. Throws FORBIDDEN or UNAUTHORIZED when they have ended since the request was admitted.
 */
export async function holdAccess(tx: Tx, caller: Caller, need: Need): Promise<void> {
  if (caller.kind === "apiKey") throw new Error("an API key cannot create anything that outlasts a session");
  const { person, user, session } = caller;
  if (person.id !== user.id) {
    const key = { merchantId: user.id, userId: person.id };
    // the role is read by a statement of its own, which sees what was committed while the lock was waited for
    const membership = (await holdMember(tx, key)) ? await findMembership(tx, key) : undefined;
    if (!membership) throw notMember();
    const role = effectiveRole(membership.role, membership);
    if (!mayRole(role, need)) throw roleRefused(role);
  }
  await holdUsers(tx, [person.id, user.id]);
  if (!(await holdSession(tx, session.id))) throw unauthorized();
}

async function asMember(
  { sql }: Pick<ApiDeps, "sql">,
  caller: PersonCaller,
  merchantId: string,
): Promise<PersonCaller> {
  const { person, session } = caller;
  const membership = await findMembership(sql, { merchantId, userId: person.id });
  if (!membership) throw notMember();
  if (!session.actedFor.includes(merchantId)) await noteActedFor(sql, session.id, merchantId);
  return { ...caller, user: membership.merchant, role: effectiveRole(membership.role, membership) };
}

/** Throws VALIDATION_ERROR for what is no user's id, and for a header and a query that differ. */
function readMerchant(request: Request): string | undefined {
  const header = request.headers.get(MERCHANT_HEADER) ?? undefined;
  const isRead = request.method === "GET" || request.method === "HEAD";
  const search =
    isRead && request.url.includes(`${MERCHANT_QUERY}=`) ? new URL(request.url).searchParams : undefined;
  const given = [...(header === undefined ? [] : [header]), ...(search?.getAll(MERCHANT_QUERY) ?? [])];
  const [merchantId, ...others] = new Set(given);
  if (merchantId === undefined) return undefined;
  if (others.length === 0 && USER_ID.test(merchantId)) return merchantId;
  throw invalid("X-Merchant", "must be one merchant's user id");
}

/** The same for a merchant that does not exist. */
function notMember(): ServiceError {
  return new ServiceError("FORBIDDEN", "You are not a member of this merchant", {
    details: { field: "X-Merchant", issue: "not_a_member" },
  });
}

function roleRefused(role: MemberRole): ServiceError {
  return new ServiceError("FORBIDDEN", `Your role at this merchant (${role}) does not allow this`, {
    details: { field: "role", issue: "role_not_allowed", role },
  });
}
