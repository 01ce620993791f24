/** A user's live sessions: list them, end one, end all others. Ending a session takes effect on every process at once. */
import { Elysia } from "elysia";
import { z } from "zod";
import { notFound } from "../../core/domain/errors.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import type { Session } from "../../db/schema.ts";
import { deleteOtherSessions, deleteSessionOf, listLiveSessions } from "../../db/sessions/sessions.ts";
import { access } from "../http/access.ts";
import type { Caller } from "../http/caller.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime, metaOf, pageSchema, withMeta } from "../http/envelope.ts";
import { wholeList } from "../http/list-pages.ts";
import { clearSessionCookie } from "../http/session-cookie.ts";
import { describeUserAgent } from "../http/user-agent.ts";

const LISTED_MAX = 100;

const sessionSchema = z
  .object({
    id: z.string(),
    method: z
      .enum(["otp", "passkey", "wallet_setup", "google", "test", "recovery"])
      .describe("How the user signed in"),
    createdAt: isoTime,
    lastSeenAt: isoTime.describe("Accurate to the minute"),
    expiresAt: isoTime,
    userAgent: z.string().nullable().describe("Short description of the browser that last used it"),
    ip: z.string().nullable().describe("The IP address that last used it"),
    current: z.boolean().describe("Whether it is the session of this request"),
  })
  .meta({ id: "Session" });

const tags = ["Sessions"];
const auth = { allow: ["session"], needs: "self" } as const;

export const sessionRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "session-routes" })
    .use(access(deps))
    .get(
      "/v1/auth/sessions",
      async ({ caller, user, requestId }) => {
        const currentId = sessionIdOf(caller);
        const sessions = await listLiveSessions(deps.sql, user.id, { currentId, limit: LISTED_MAX });
        const shown = sessions.map((row) => presentSession(row, currentId));
        return { ...wholeList(shown), meta: metaOf(requestId) };
      },
      {
        auth,
        response: {
          200: pageSchema(sessionSchema),
          ...errorResponses(401, 403, 429),
        },
        detail: {
          operationId: "listSessions",
          summary: `The user's live sessions, this one first; at most ${LISTED_MAX}`,
          tags,
        },
      },
    )
    .delete(
      "/v1/auth/sessions/:id",
      async ({ params: { id }, caller, user, trace, requestId, set }) => {
        await deps.sql.begin(async (tx) => {
          if (!(await deleteSessionOf(tx, user.id, id))) throw notFound("Session");
          await recordSecurityEvent(tx, { userId: user.id, type: "session_ended", ...trace });
        });
        if (caller.kind === "session" && caller.session.id === id) clearSessionCookie(set, deps.config);
        return { data: { id, ended: true as const }, meta: metaOf(requestId) };
      },
      {
        auth,
        params: z.object({ id: z.string().regex(/^ses_[\w-]{1,64}$/, "must be a session's id") }),
        response: {
          200: withMeta(z.object({ id: z.string(), ended: z.literal(true) })),
          ...errorResponses(400, 401, 403, 404, 429),
        },
        detail: { operationId: "endSession", summary: "End a session, on every instance at once", tags },
      },
    )
    .post(
      "/v1/auth/sessions/revoke-others",
      async ({ caller, user, trace, requestId }) => {
        const ended = await deps.sql.begin(async (tx) => {
          const count = await deleteOtherSessions(tx, user.id, sessionIdOf(caller));
          const details = { count };
          await recordSecurityEvent(tx, { userId: user.id, type: "other_sessions_ended", ...trace, details });
          return count;
        });
        return { data: { ended }, meta: metaOf(requestId) };
      },
      {
        auth,
        response: {
          200: withMeta(z.object({ ended: z.int() })),
          ...errorResponses(400, 401, 403, 429),
        },
        detail: {
          operationId: "endOtherSessions",
          summary: "End all of the user's sessions but this one",
          tags,
        },
      },
    );

function sessionIdOf(caller: Caller): string {
  if (caller.kind === "apiKey") throw new Error("an API key has no session");
  return caller.session.id;
}

function presentSession(session: Session, currentId: string): z.infer<typeof sessionSchema> {
  return {
    id: session.id,
    method: session.method,
    createdAt: session.createdAt.toISOString(),
    lastSeenAt: session.lastSeenAt.toISOString(),
    expiresAt: session.expiresAt.toISOString(),
    userAgent: describeUserAgent(session.userAgent),
    ip: session.clientAddress,
    current: session.id === currentId,
  };
}
