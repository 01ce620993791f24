/** Only with TEST_MODE=1 outside production: a token for a user and the newest e-mail, for scripts that act as a person. */
import { Elysia } from "elysia";
import { z } from "zod";
import { notFound } from "../../core/domain/errors.ts";
import { openSealedOtp } from "../../core/domain/otp.ts";
import { renderOtpMail } from "../../core/domain/otp-mail.ts";
import { findReadableOtp } from "../../db/accounts/otps.ts";
import { findUserByEmail } from "../../db/accounts/users.ts";
import { emailSchema } from "../accounts/email-address.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime } from "../http/envelope.ts";
import { tokenOf } from "../http/session-cookie.ts";
import { userAgentOf } from "../http/user-agent.ts";
import { startSession } from "../sessions/start-session.ts";

const body = z.object({ email: emailSchema });
const tags = ["Test mode"];

export const testModeRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "test-mode-routes" })
    .use(access(deps))
    .post(
      "/v1/test/token",
      async ({ body: { email }, request, requestId, clientAddress }) => {
        const user = await findUserByEmail(deps.sql, email);
        if (!user) throw notFound("Account with this e-mail address");
        const trace = { requestId, clientAddress };
        const browser = { previousSessionId: undefined, userAgent: userAgentOf(request) };
        const session = await deps.sql.begin((tx) =>
          startSession(tx, { user, method: "test", browser, trace }),
        );
        return {
          success: true as const,
          token: await tokenOf(deps.config, session),
          tokenType: "Bearer" as const,
          userId: user.id,
          expiresAt: session.expiresAt.toISOString(),
        };
      },
      {
        limit: "testMode",
        body,
        response: {
          200: z.object({
            success: z.literal(true),
            token: z.string(),
            tokenType: z.literal("Bearer"),
            userId: z.string(),
            expiresAt: isoTime,
          }),
          ...errorResponses(400, 404, 413, 429),
        },
        detail: {
          operationId: "createTestToken",
          summary: "A session token for `Authorization: Bearer` with `X-Test-Mode: true`",
          tags,
        },
      },
    )
    .post(
      "/v1/test/outbox",
      async ({ body: { email } }) => {
        const user = await findUserByEmail(deps.sql, email);
        const otp = user && (await findReadableOtp(deps.sql, user.id));
        if (!otp) throw notFound("Mail for this address");
        const code = openSealedOtp(deps.config.otpPeppers, otp, otp.sealedCode);
        const { subject, text } = renderOtpMail({ code, baseUrl: deps.config.baseUrl });
        const sentAt = otp.sentAt?.toISOString() ?? null;
        return { success: true as const, mail: { to: email, subject, text, sentAt }, text };
      },
      {
        limit: "testMode",
        body,
        response: {
          200: z.object({
            success: z.literal(true),
            mail: z.object({
              to: z.string(),
              subject: z.string(),
              text: z.string(),
              sentAt: isoTime.nullable().describe("Null while it waits to be sent"),
            }),
            text: z.string(),
          }),
          ...errorResponses(400, 404, 413, 429),
        },
        detail: { operationId: "readTestOutbox", summary: "The newest mail to an address", tags },
      },
    );
