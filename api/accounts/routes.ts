/** Accounts before their first sign-in: register, verify the address, request another code. */
import { Elysia } from "elysia";
import { z } from "zod";
import { invalid } from "../../core/domain/errors.ts";
import { OTP_COOL_DOWN_S, OTP_PATTERN } from "../../core/domain/otp.ts";
import { listWallets } from "../../db/wallets/wallets.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { setSessionCookie } from "../http/session-cookie.ts";
import { browserOf } from "../sessions/start-session.ts";
import { emailSchema, userIdSchema } from "./email-address.ts";
import { presentUser, userSchema } from "./present-user.ts";
import { register } from "./register.ts";
import { type ResendTarget, resendCode } from "./resend-code.ts";
import { verifyEmail } from "./verify-email.ts";

const registered = z
  .object({
    success: z.literal(true),
    userId: z.string(),
    email: z.string(),
    status: z.literal("REGISTERED"),
    user: userSchema,
    emailVerificationSent: z.boolean(),
    redirectTo: z.literal("/email-verification"),
    message: z.string(),
  })
  .meta({ id: "Registered" });

const whoSchema = {
  email: emailSchema.optional(),
  userId: userIdSchema.optional(),
};

const verifyBody = z.object({
  ...whoSchema,
  otp: z.string().regex(OTP_PATTERN, "must be 6 digits").optional(),
  code: z.string().regex(OTP_PATTERN, "must be 6 digits").optional().describe("Alias of `otp`"),
});

const verified = z
  .object({
    success: z.literal(true),
    verified: z.literal(true),
    user: userSchema,
    redirectTo: z.literal("/wallet-setup"),
    message: z.string(),
  })
  .meta({ id: "EmailVerified" });

const resent = z.object({
  success: z.literal(true),
  emailVerificationSent: z.literal(true),
  retryAfterSeconds: z.int(),
  message: z.string(),
});

const tags = ["Accounts"];

export const identityRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "identity-routes" })
    .use(access(deps))
    .post(
      "/v1/identity/register",
      async ({ body, requestId, clientAddress, set }) => {
        const trace = { requestId, clientAddress };
        const { user, isNew, emailVerificationSent } = await register(deps, { email: body.email, trace });
        set.status = isNew ? 201 : 200;
        return {
          success: true as const,
          userId: user.id,
          email: user.email,
          status: "REGISTERED" as const,
          user: presentUser(user, []),
          emailVerificationSent,
          redirectTo: "/email-verification" as const,
          message: emailVerificationSent
            ? "We sent a code to your e-mail address"
            : "A code was sent recently; check your mailbox",
        };
      },
      {
        limit: "authentication",
        body: z.object({ email: emailSchema }),
        response: { 200: registered, 201: registered, ...errorResponses(400, 409, 413, 429) },
        detail: { operationId: "registerUser", summary: "Register with an e-mail address", tags },
      },
    )
    .post(
      "/v1/email-verification/verify",
      async ({ body, request, requestId, clientAddress, set }) => {
        const code = body.otp ?? body.code;
        if (!code) throw invalid("otp", "required", "otp: the 6-digit code from the e-mail is required");
        const { user, session } = await verifyEmail(deps, {
          target: targetOf(body),
          code,
          browser: await browserOf(request, deps.config),
          trace: { requestId, clientAddress },
        });
        await setSessionCookie(set, deps.config, session);
        return {
          success: true as const,
          verified: true as const,
          user: presentUser(user, await listWallets(deps.sql, user.id)),
          redirectTo: "/wallet-setup" as const,
          message: "Your e-mail address is verified",
        };
      },
      {
        limit: "authentication",
        body: verifyBody,
        response: { 200: verified, ...errorResponses(400, 409, 413, 429) },
        detail: {
          operationId: "verifyEmail",
          summary: "Verify the address with the code from the mail; signs in",
          tags,
        },
      },
    )
    .post(
      "/v1/email-verification/resend",
      async ({ body, requestId, clientAddress }) => {
        await resendCode(deps, { target: targetOf(body), trace: { requestId, clientAddress } });
        return {
          success: true as const,
          emailVerificationSent: true as const,
          retryAfterSeconds: OTP_COOL_DOWN_S,
          message: "If this address is awaiting verification, a new code has been sent",
        };
      },
      {
        limit: "authentication",
        body: z.object(whoSchema),
        response: { 200: resent, ...errorResponses(400, 413, 429) },
        detail: { operationId: "resendEmailCode", summary: "Send another code", tags },
      },
    );

function targetOf(body: { email?: string | undefined; userId?: string | undefined }): ResendTarget {
  if (body.email) return { email: body.email };
  if (body.userId) return { userId: body.userId };
  throw invalid("email", "required", "email: pass the address that the code was sent to");
}
