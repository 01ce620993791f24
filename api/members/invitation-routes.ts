/** Invitations from the invited person's side. Having an account with the verified address entitles a person to accept. */
import { Elysia } from "elysia";
import { z } from "zod";
import { listInvitationsTo } from "../../db/members/invitations.ts";
import { findMembership } from "../../db/members/members.ts";
import { listWallets } from "../../db/wallets/wallets.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, metaOf, pageSchema, withMeta } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { wholeList } from "../http/list-pages.ts";
import { acceptInvitation, declineInvitation } from "./invite.ts";
import { merchantSchema, presentMerchant, presentReceived, receivedInvitationSchema } from "./wire.ts";

const tags = ["Members"];
const auth = { allow: ["session"], needs: "self" } as const;
const params = z.object({ id: z.string().regex(/^inv_[\w-]{1,64}$/, "must be an invitation's id") });

export const invitationRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "invitation-routes" })
    .use(access(deps))
    .use(jsonBody)
    .get(
      "/v1/auth/invitations",
      async ({ user, requestId }) => ({
        ...wholeList((await listInvitationsTo(deps.sql, user.email)).map(presentReceived)),
        meta: metaOf(requestId),
      }),
      {
        auth,
        response: {
          200: pageSchema(receivedInvitationSchema),
          ...errorResponses(401, 403, 429),
        },
        detail: {
          operationId: "listInvitations",
          summary: "Open invitations to your address, newest first",
          tags,
        },
      },
    )
    .post(
      "/v1/auth/invitations/:id/accept",
      async ({ params: { id }, user, trace, requestId }) => {
        const { merchantId } = await acceptInvitation(deps, { person: user, id, trace });
        const membership = await findMembership(deps.sql, { merchantId, userId: user.id });
        const wallets = await listWallets(deps.sql, merchantId);
        return {
          data: membership ? presentMerchant(membership, wallets) : null,
          meta: metaOf(requestId),
        };
      },
      {
        auth: { ...auth, freshPasskey: true },
        params,
        response: {
          200: withMeta(merchantSchema.nullable().describe("null: removed again in the meantime")),
          ...errorResponses(400, 401, 403, 404, 409, 413, 429),
        },
        detail: {
          operationId: "acceptInvitation",
          summary: "Accept an invitation; it can be accepted once and does not change your own account",
          tags,
        },
      },
    )
    .post(
      "/v1/auth/invitations/:id/decline",
      async ({ params: { id }, user, trace, requestId }) => {
        await declineInvitation(deps, { person: user, id, trace });
        return { data: { id, declined: true as const }, meta: metaOf(requestId) };
      },
      {
        auth,
        params,
        response: {
          200: withMeta(z.object({ id: z.string(), declined: z.literal(true) })),
          ...errorResponses(400, 401, 403, 404, 413, 429),
        },
        detail: { operationId: "declineInvitation", summary: "Decline an invitation", tags },
      },
    );
