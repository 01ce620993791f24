/** Sessions: sign in with a passkey, current user, sign out. */
import { Elysia } from "elysia";
import { z } from "zod";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { completedStepsOf, PERMISSIONS, permissionsOf, USER_STATUSES } from "../../core/domain/user.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { listMemberships } from "../../db/members/members.ts";
import type { User } from "../../db/schema.ts";
import { deleteSession } from "../../db/sessions/sessions.ts";
import { listWallets } from "../../db/wallets/wallets.ts";
import { emailSchema } from "../accounts/email-address.ts";
import { presentUser, userSchema } from "../accounts/present-user.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { clearSessionCookie, setSessionCookie } from "../http/session-cookie.ts";
import { merchantSchema, presentMerchant, presentWallets, walletsSchema } from "../members/wire.ts";
import { browserOf } from "../sessions/start-session.ts";
import { changeDisplayName } from "./change-display-name.ts";
import { assertionSchema, challengeIdSchema, credentialSchema } from "./passkey-wire.ts";
import { signIn } from "./sign-in.ts";
import { discoverableOptions, presentSignInChallenge, signInOptions } from "./sign-in-options.ts";

const ready = z
  .object({
    success: z.literal(true),
    requiresCompletion: z.literal(false),
    challengeId: z.string(),
    challenge: z.string(),
    timeout: z.int(),
    rp: z.object({ id: z.string(), name: z.string() }),
    rpId: z.string(),
    allowCredentials: z.array(credentialSchema),
    userVerification: z.literal("preferred"),
  })
  .meta({ id: "SignInChallenge" });

const emailNeeded = z.object({
  success: z.literal(false),
  reason: z.literal("EMAIL_VERIFICATION_REQUIRED"),
  userId: z.string(),
  userStatus: z.literal("REGISTERED"),
  redirectTo: z.literal("/email-verification"),
  emailVerificationSent: z.boolean(),
});

const walletNeeded = z.object({
  success: z.literal(false),
  reason: z.literal("WALLET_SETUP_REQUIRED"),
  userId: z.string(),
  userStatus: z.literal("WALLET_SETUP_PENDING"),
  redirectTo: z.literal("/wallet-setup"),
});

const me = userSchema
  .extend({
    displayName: z.string().nullable(),
    wallet: z.object({ address: z.string(), network: z.enum(NETWORK_IDS) }).optional(),
    wallets: walletsSchema,
    permissions: z.array(z.enum(PERMISSIONS)),
    merchants: z.array(merchantSchema).describe("Merchants you can act for as a member"),
  })
  .meta({ id: "CurrentUser" });

/** Who signs in: the user with an e-mail address, or whoever owns the passkey that responds. */
const named = {
  email: emailSchema.optional().describe("If omitted, any passkey registered for this site may answer"),
  discoverable: z
    .literal(true)
    .optional()
    .describe("For autofill, without `email`; its challenge is valid for longer (see `timeout`)"),
};

function refuseBoth(
  { email, discoverable }: { email?: string | undefined; discoverable?: true | undefined },
  context: z.RefinementCtx,
) {
  if (email === undefined || discoverable === undefined) return;
  context.addIssue({ code: "custom", path: ["email"], message: "must not be combined with `discoverable`" });
}

const anyStatus = { allow: ["session"], needs: "self", requireActive: false, session: "any" } as const;
const tags = ["Sessions"];

export const authRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "auth-routes" })
    .use(access(deps))
    .post(
      "/v1/auth/options",
      async ({ body, requestId, clientAddress }) => {
        const { email, discoverable: isForAutofill = false } = body;
        if (email === undefined)
          return presentSignInChallenge(deps, await discoverableOptions(deps, { isForAutofill }));
        const options = await signInOptions(deps, { email, trace: { requestId, clientAddress } });
        if (options.step === "passkey") return presentSignInChallenge(deps, options);
        const { id: userId } = options.user;
        if (options.step === "wallet") {
          return {
            success: false as const,
            reason: "WALLET_SETUP_REQUIRED" as const,
            userId,
            userStatus: "WALLET_SETUP_PENDING" as const,
            redirectTo: "/wallet-setup" as const,
          };
        }
        return {
          success: false as const,
          reason: "EMAIL_VERIFICATION_REQUIRED" as const,
          userId,
          userStatus: "REGISTERED" as const,
          redirectTo: "/email-verification" as const,
          emailVerificationSent: options.emailVerificationSent,
        };
      },
      {
        limit: "authentication",
        body: z.object(named).superRefine(refuseBoth),
        response: {
          200: z.union([ready, emailNeeded, walletNeeded]),
          ...errorResponses(400, 404, 413, 429),
        },
        detail: {
          operationId: "beginSignIn",
          summary: "Begin a sign-in: returns a passkey challenge, or the setup step that is missing",
          tags,
        },
      },
    )
    .post(
      "/v1/auth/verify",
      async ({ body, request, requestId, clientAddress, set, status }) => {
        const result = await signIn(deps, {
          email: body.email,
          challengeId: body.challengeId,
          response: body.authenticationResponse,
          browser: await browserOf(request, deps.config),
          trace: { requestId, clientAddress },
        });
        if (!result.ok) {
          return status(401, {
            verified: false as const,
            message: "The passkey could not be verified; start again",
          });
        }
        await setSessionCookie(set, deps.config, result.session);
        return {
          verified: true as const,
          user: presentUser(result.user, await listWallets(deps.sql, result.user.id)),
        };
      },
      {
        limit: "authentication",
        body: z
          .object({ challengeId: challengeIdSchema, ...named, authenticationResponse: assertionSchema })
          .superRefine(refuseBoth),
        response: {
          200: z.object({ verified: z.literal(true), user: userSchema }),
          ...errorResponses(400, 413, 429),
          401: z.object({ verified: z.literal(false), message: z.string() }),
        },
        detail: {
          operationId: "finishSignIn",
          summary: "Finish a sign-in with the passkey's response",
          tags,
        },
      },
    )
    .get("/v1/auth/me", ({ user }) => presentMe(deps, user), {
      auth: anyStatus,
      response: { 200: me, ...errorResponses(401, 403, 429) },
      detail: { operationId: "getCurrentUser", summary: "The signed-in user", tags },
    })
    .patch(
      "/v1/auth/me",
      async ({ body, user, trace }) => {
        const renamed = await changeDisplayName(deps, { user, ...body, trace });
        return presentMe(deps, renamed);
      },
      {
        auth: { allow: ["session"], needs: "self", requireActive: false },
        body: z.object({
          displayName: z
            .string()
            .trim()
            .min(1)
            .max(100)
            .regex(/^[^\p{Cc}\p{Cf}\p{Cs}]+$/u, "must not contain control characters")
            .nullable()
            .describe("The merchant name payers see; null removes it"),
        }),
        response: { 200: me, ...errorResponses(400, 401, 403, 413, 429) },
        detail: { operationId: "updateCurrentUser", summary: "Change the merchant name", tags },
      },
    )
    .get(
      "/v1/auth/status",
      ({ user }) => ({ status: user.status, completedSteps: [...completedStepsOf(user.status)] }),
      {
        auth: anyStatus,
        response: {
          200: z.object({ status: z.enum(USER_STATUSES), completedSteps: z.array(z.string()) }),
          ...errorResponses(401, 403, 429),
        },
        detail: { operationId: "getSetupStatus", summary: "Progress of the user's setup", tags },
      },
    )
    .post(
      "/v1/auth/logout",
      async ({ caller, user, trace, set }) => {
        if (caller.kind !== "apiKey") {
          await deps.sql.begin(async (tx) => {
            await deleteSession(tx, caller.session.id);
            await recordSecurityEvent(tx, { userId: user.id, type: "sign_out", ...trace });
          });
        }
        clearSessionCookie(set, deps.config);
        return { success: true, message: "Signed out" };
      },
      {
        auth: anyStatus,
        response: {
          200: z.object({ success: z.boolean(), message: z.string() }),
          ...errorResponses(400, 401, 403, 429),
        },
        detail: { operationId: "signOut", summary: "End the session, on every instance at once", tags },
      },
    );

async function presentMe(deps: ApiDeps, user: User): Promise<z.infer<typeof me>> {
  const wallets = await listWallets(deps.sql, user.id);
  const memberships = await listMemberships(deps.sql, user.id);
  const [first] = wallets;
  return {
    ...presentUser(user, wallets),
    displayName: user.displayName,
    ...(first ? { wallet: { address: first.address, network: first.network } } : {}),
    wallets: presentWallets(wallets),
    permissions: [...permissionsOf(user.status)],
    merchants: await Promise.all(
      memberships.map(async (one) => presentMerchant(one, await listWallets(deps.sql, one.merchant.id))),
    ),
  };
}
