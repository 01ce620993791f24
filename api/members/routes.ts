/** Members of a merchant: who they are, their roles, and invitations. */
import { Elysia } from "elysia";
import { z } from "zod";
import { conflict } from "../../core/domain/errors.ts";
import { listOpenInvitations } from "../../db/members/invitations.ts";
import { listMembers } from "../../db/members/members.ts";
import { emailSchema } from "../accounts/email-address.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, metaOf, pageSchema, withMeta } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { wholeList } from "../http/list-pages.ts";
import { changeRole, endMembership } from "./change-member.ts";
import { endInvitation, inviteMember } from "./invite.ts";
import {
  invitationSchema,
  memberSchema,
  presentAccount,
  presentInvitation,
  presentMember,
  roleSchema,
} from "./wire.ts";

const tags = ["Members"];
const managing = { allow: ["session"], needs: "members:manage" } as const;
const fresh = { ...managing, freshPasskey: true } as const;
const invitationParams = z.object({
  id: z.string().regex(/^inv_[\w-]{1,64}$/, "must be an invitation's id"),
});
const memberParams = z.object({ userId: z.string().regex(/^user_[\w-]{1,64}$/, "must be a user's id") });
const removed = withMeta(z.object({ userId: z.string(), removed: z.literal(true) }));

export const memberRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "member-routes" })
    .use(access(deps))
    .use(jsonBody)
    .get(
      "/v1/members",
      async ({ user, requestId }) => ({
        ...wholeList([presentAccount(user), ...(await listMembers(deps.sql, user.id)).map(presentMember)]),
        meta: metaOf(requestId),
      }),
      {
        auth: { allow: ["session"], needs: "members:read" },
        response: {
          200: pageSchema(memberSchema),
          ...errorResponses(400, 401, 403, 429),
        },
        detail: { operationId: "listMembers", summary: "The account and its members, oldest first", tags },
      },
    )
    .get(
      "/v1/members/invitations",
      async ({ user, requestId }) => ({
        ...wholeList((await listOpenInvitations(deps.sql, user.id)).map(presentInvitation)),
        meta: metaOf(requestId),
      }),
      {
        auth: managing,
        response: {
          200: pageSchema(invitationSchema),
          ...errorResponses(400, 401, 403, 429),
        },
        detail: { operationId: "listSentInvitations", summary: "Open invitations, newest first", tags },
      },
    )
    .post(
      "/v1/members/invitations",
      async ({ body, caller, trace, requestId, status }) => {
        const invitation = await inviteMember(deps, { ...body, trace, caller });
        return status(201, { data: presentInvitation(invitation), meta: metaOf(requestId) });
      },
      {
        auth: { ...fresh, limit: "invitations" },
        body: z.strictObject({ email: emailSchema, role: roleSchema }),
        response: {
          201: withMeta(invitationSchema),
          ...errorResponses(400, 401, 403, 409, 413, 429),
        },
        detail: {
          operationId: "inviteMember",
          summary: "Invite a person by e-mail; replaces an open invitation to the same address",
          description: "The response is the same whether or not the address has an account.",
          tags,
        },
      },
    )
    .delete(
      "/v1/members/invitations/:id",
      async ({ params, user, trace, requestId }) => ({
        data: presentInvitation(await endInvitation(deps, { merchant: user, id: params.id, trace })),
        meta: metaOf(requestId),
      }),
      {
        auth: managing,
        params: invitationParams,
        response: {
          200: withMeta(invitationSchema),
          ...errorResponses(400, 401, 403, 404, 429),
        },
        detail: { operationId: "revokeInvitation", summary: "Revoke an open invitation", tags },
      },
    )
    .patch(
      "/v1/members/:userId",
      async ({ params, body, user, trace, requestId }) => {
        await changeRole(deps, { merchantId: user.id, userId: params.userId, role: body.role, trace });
        return {
          data: (await listMembers(deps.sql, user.id)).map(presentMember),
          meta: metaOf(requestId),
        };
      },
      {
        auth: fresh,
        params: memberParams,
        body: z.strictObject({ role: roleSchema }),
        response: {
          200: withMeta(z.array(memberSchema)),
          ...errorResponses(400, 401, 403, 404, 409, 413, 429),
        },
        detail: {
          operationId: "changeMemberRole",
          summary: "Change a member's role, effective immediately on every instance",
          description:
            "An owner of the wallet must be removed from the wallet first (/v1/wallets/owners): 409 until then.",
          tags,
        },
      },
    )
    .delete(
      "/v1/members/:userId",
      async ({ params: { userId }, user, trace, requestId }) => {
        await endMembership(deps, { merchantId: user.id, userId, trace });
        return { data: { userId, removed: true as const }, meta: metaOf(requestId) };
      },
      {
        auth: fresh,
        params: memberParams,
        response: { 200: removed, ...errorResponses(400, 401, 403, 404, 409, 429) },
        detail: {
          operationId: "removeMember",
          summary:
            "Remove a member and end the sessions and API keys they used for this merchant, effective immediately",
          description:
            "An owner of the wallet must be removed from the wallet first (/v1/wallets/owners): 409 until then.",
          tags,
        },
      },
    )
    .post(
      "/v1/members/leave",
      async ({ user, caller, trace, requestId }) => {
        if (caller.actorId === user.id)
          throw conflict("An account cannot leave itself; name the merchant in X-Merchant", {
            field: "X-Merchant",
            issue: "own_account",
          });
        await endMembership(deps, { merchantId: user.id, userId: caller.actorId, trace });
        return { data: { userId: caller.actorId, removed: true as const }, meta: metaOf(requestId) };
      },
      {
        auth: { allow: ["session"], needs: "members:read" },
        response: { 200: removed, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: { operationId: "leaveMerchant", summary: "Leave the merchant named in X-Merchant", tags },
      },
    );
