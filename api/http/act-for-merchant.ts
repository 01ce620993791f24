/**
 * `X-Merchant: user_…` makes a request act for a merchant of which the signed-in person is a member. The role is read for every request, so a
 * removal or change of role takes effect immediately on every process. Event streams and downloads in browsers cannot set headers, so a GET also
 * accepts the query parameter `merchant`.
 */

import { invalid, ServiceError } from "../../core/domain/errors.ts";
import { USER_ID } from "../../core/domain/ids.ts";
import { effectiveRole, type MemberRole, mayRole, type Need } from "../../core/domain/member.ts";
import { holdUsers } from "../../db/accounts/users.ts";
import { holdApiKey } from "../../db/api-keys/api-keys.ts";
import { findMembership, holdMember } from "../../db/members/members.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { holdSession, noteActedFor } from "../../db/sessions/sessions.ts";
import { unauthorized } from "./authenticate.ts";
import type { Caller, PersonCaller } from "./caller.ts";
import type { ApiDeps } from "./deps.ts";

export const MERCHANT_HEADER = "x-merchant";
export const MERCHANT_QUERY = "merchant";

/**
 * The caller with `user` and `role` of the merchant. Throws FORBIDDEN when the caller is not a member of the merchant, or the role lacks the
 * capability.
 */
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
 * Call in the transaction that creates something that outlasts the session or API key, such as another key or a webhook endpoint, before taking
 * other locks: membership, session and key cannot end until it commits, so whatever ends them finds what was created. Users are locked before
 * sessions, as by a recovery or a verified address, which end all sessions. Throws FORBIDDEN or UNAUTHORIZED when they have ended since the
 * request was admitted.
 */
export async function holdAccess(tx: Tx, caller: Caller, need: Need): Promise<void> {
  if (caller.kind === "apiKey") {
    if (!(await holdApiKey(tx, caller.apiKey.id))) throw unauthorized();
    return;
  }
  const { person, user, session } = caller;
  if (person.id !== user.id) {
    const key = { merchantId: user.id, userId: person.id };
    // a separate statement reads the role, so that it sees what was committed during the wait for the lock
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

/** Throws VALIDATION_ERROR unless it is a user id, and when header and query differ. */
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

/** The same error as for a merchant that does not exist. */
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
