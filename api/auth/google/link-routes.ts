/** The Google accounts linked to the signed-in user: list, begin linking, unlink. */
import { createHash } from "node:crypto";
import { Elysia } from "elysia";
import { z } from "zod";
import { conflict, notFound } from "../../../core/domain/errors.ts";
import {
  deleteIdentity,
  IDENTITIES_MAX,
  type Identity,
  listIdentities,
} from "../../../db/accounts/identities.ts";
import { recordSecurityEvent } from "../../../db/accounts/security-events.ts";
import { lockUser } from "../../../db/accounts/users.ts";
import { deleteSessionsOf } from "../../../db/sessions/sessions.ts";
import { access } from "../../http/access.ts";
import type { ApiDeps } from "../../http/deps.ts";
import { errorResponses, isoTime, metaOf, pageSchema, withMeta } from "../../http/envelope.ts";
import { wholeList } from "../../http/list-pages.ts";
import { tokenOf } from "../../http/session-cookie.ts";
import { beginFlow, FLOW_LIFE_S, LINK_STATE, writeLinkCookie } from "./oauth-state.ts";
import type { Provider } from "./provider.ts";

const accountSchema = z
  .object({
    id: z.string(),
    email: z
      .string()
      .nullable()
      .describe(
        "The address Google reported at the latest sign-in or link; null: linked before this was recorded and not used since",
      ),
    linkedAt: isoTime,
  })
  .meta({ id: "GoogleAccount" });

const tags = ["Sessions"];
const auth = { allow: ["session"], needs: "self" } as const;
const changing = { ...auth, freshPasskey: true } as const;

export const googleLinkRoutes = (deps: ApiDeps, provider: () => Provider) =>
  new Elysia({ name: "google-link-routes" })
    .use(access(deps))
    .get(
      "/v1/auth/google/accounts",
      async ({ user, requestId }) => {
        const identities = await listIdentities(deps.sql, user.id);
        return { ...wholeList(identities.map(presentAccount)), meta: metaOf(requestId) };
      },
      {
        auth,
        response: {
          200: pageSchema(accountSchema),
          ...errorResponses(401, 403, 429),
        },
        detail: {
          operationId: "listGoogleAccounts",
          summary: `The Google accounts that sign the user in, oldest first; at most ${IDENTITIES_MAX}`,
          tags,
        },
      },
    )
    .post(
      "/v1/auth/google/link",
      async ({ set, caller, person, requestId }) => {
        const url = await beginFlow(deps, set, provider(), LINK_STATE);
        if (caller.kind !== "apiKey") {
          // lasts as long as the visit to Google; at the callback the session is checked again
          const expiresAt = new Date(Date.now() + FLOW_LIFE_S * 1_000);
          const token = { ...caller.session, userId: person.id, expiresAt };
          writeLinkCookie(deps, set, await tokenOf(deps.config, token));
        }
        return { data: { url: url.href }, meta: metaOf(requestId) };
      },
      {
        auth: { ...changing, limit: "googleAuthorize" },
        response: {
          200: withMeta(z.object({ url: z.url() })),
          ...errorResponses(400, 401, 403, 404, 429),
        },
        detail: {
          operationId: "beginGoogleLink",
          summary: "Begin linking a Google account: returns the URL to send the browser to",
          tags,
        },
      },
    )
    .delete(
      "/v1/auth/google/accounts/:id",
      async ({ params: { id }, user, trace, requestId }) => {
        await deps.sql.begin(async (tx) => {
          await lockUser(tx, user.id);
          const identity = (await listIdentities(tx, user.id)).find((one) => idOf(one) === id);
          if (!identity) throw notFound("Google account");
          const { rpId } = deps.config.passkey;
          if (!(await deleteIdentity(tx, identity, { userId: user.id, rpId })))
            throw conflict("This Google account is the only way into the account: add a passkey first", {
              field: "id",
              issue: "last_sign_in_method",
            });
          await deleteSessionsOf(tx, user.id, "google");
          await recordSecurityEvent(tx, { userId: user.id, type: "identity_unlinked", ...trace });
        });
        return { data: { id, unlinked: true as const }, meta: metaOf(requestId) };
      },
      {
        auth: changing,
        params: z.object({ id: z.string().regex(/^idn_[\w-]{22}$/, "must be a linked account's id") }),
        response: {
          200: withMeta(z.object({ id: z.string(), unlinked: z.literal(true) })),
          ...errorResponses(400, 401, 403, 404, 409, 429),
        },
        detail: {
          operationId: "unlinkGoogleAccount",
          summary: "Unlink a Google account and end the sessions that Google opened",
          tags,
        },
      },
    );

/** Hides the subject, which is the provider's identifier of the person. */
function idOf({ issuer, subject }: Identity): string {
  const digest = createHash("sha256").update(`${issuer} ${subject}`).digest();
  return `idn_${digest.subarray(0, 16).toString("base64url")}`;
}

function presentAccount(identity: Identity): z.infer<typeof accountSchema> {
  const { email, linkedAt } = identity;
  return { id: idOf(identity), email, linkedAt: linkedAt.toISOString() };
}
