/** Sign-in after a lost phone: an address owner's signature and the mailbox open a session that may only register a passkey. */
import { Elysia } from "elysia";
import { z } from "zod";
import { OWNER_PROOF_LIFE_MS } from "../../core/domain/challenge-lifetime.ts";
import { invalid } from "../../core/domain/errors.ts";
import { type Hex, NETWORK_IDS } from "../../core/domain/networks.ts";
import { renamePasskey } from "../../db/auth/passkeys.ts";
import { emailSchema } from "../accounts/email-address.ts";
import { attestationSchema, challengeIdSchema } from "../auth/passkey-wire.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime } from "../http/envelope.ts";
import { setSessionCookie } from "../http/session-cookie.ts";
import { startPasskey } from "../owners/new-owner.ts";
import { ownerName, passkeyStartedSchema, typedDataSchema } from "../owners/wire.ts";
import { browserOf } from "../sessions/start-session.ts";
import { recover, registerPasskey } from "./complete-recovery.ts";
import { proveOwner, startRecovery } from "./prove-owner.ts";

const PROOF_MAX_CHARS = 20_000;

const address = z
  .string()
  .regex(/^0x[0-9a-fA-F]{40}$/, "must be an address: 0x and 40 hex digits")
  .transform((text) => text.toLowerCase() as Hex);
const signature = z
  .string()
  .max(PROOF_MAX_CHARS)
  .regex(/^0x(?:[0-9a-fA-F]{2})+$/, "must be hex bytes")
  .transform((text) => text as Hex);

const tags = ["Recovery"];
const recovery = { allow: ["session"], needs: "self", session: "recovery" } as const;

export const recoverRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "recover-routes" })
    .use(access(deps))
    .post("/v1/auth/recover/start", ({ body }) => startRecovery(deps, body), {
      limit: "authentication",
      body: z.object({ email: emailSchema, address }),
      response: {
        200: z.object({
          challengeId: z.string(),
          typedData: typedDataSchema.describe("For eth_signTypedData_v4: what the address owner signs"),
          timeout: z.literal(OWNER_PROOF_LIFE_MS),
        }),
        ...errorResponses(400, 413, 429),
      },
      detail: {
        operationId: "beginRecovery",
        summary: "Begin a recovery: returns what an address owner of the wallet has to sign",
        tags,
      },
    })
    .post(
      "/v1/auth/recover/code",
      async ({ body, requestId, clientAddress }) => {
        await proveOwner(deps, body, { requestId, clientAddress });
        return { success: true as const, emailVerificationSent: true as const };
      },
      {
        limit: "authentication",
        body: z.object({ email: emailSchema, address, challengeId: challengeIdSchema, signature }),
        response: {
          200: z.object({ success: z.literal(true), emailVerificationSent: z.literal(true) }),
          ...errorResponses(400, 413, 429),
        },
        detail: {
          operationId: "sendRecoveryCode",
          summary: "Prove the address owner with its signature; a code is e-mailed",
          tags,
        },
      },
    )
    .post(
      "/v1/auth/recover",
      async ({ body, request, requestId, clientAddress, set }) => {
        const code = body.otp ?? body.code;
        if (code === undefined) throw invalid("otp", "is required");
        const done = await recover(deps, {
          email: body.email,
          code,
          address: body.address,
          signature: body.signature,
          browser: await browserOf(request, deps.config),
          trace: { requestId, clientAddress },
        });
        await setSessionCookie(set, deps.config, done.session);
        return {
          success: true as const,
          userId: done.user.id,
          nextStep: "register-passkey" as const,
          expiresAt: done.session.expiresAt.toISOString(),
        };
      },
      {
        limit: "authentication",
        body: z.object({
          email: emailSchema,
          otp: z.string().max(20).optional(),
          code: z.string().max(20).optional(),
          address,
          signature,
        }),
        response: {
          200: z.object({
            success: z.literal(true),
            userId: z.string(),
            nextStep: z.literal("register-passkey"),
            expiresAt: isoTime,
          }),
          ...errorResponses(400, 413, 429),
        },
        detail: {
          operationId: "finishRecovery",
          summary:
            "Finish with the e-mailed code and the same signature: opens a session that may only register a passkey",
          tags,
        },
      },
    )
    .post("/v1/auth/recover/passkey/start", ({ user }) => startPasskey(deps, user), {
      auth: recovery,
      response: { 200: passkeyStartedSchema, ...errorResponses(400, 401, 403, 413, 429) },
      detail: {
        operationId: "beginRecoveryPasskey",
        summary: "Creation options for the new passkey, on any device",
        tags,
      },
    })
    .post(
      "/v1/auth/recover/passkey/complete",
      async ({ body, user, requestId, clientAddress }) => {
        const { passkeyId, transactions } = await registerPasskey(deps, {
          user,
          answer: { challengeId: body.challengeId, response: body.passkeyResponse },
          trace: { requestId, clientAddress },
        });
        const { rpId } = deps.config.passkey;
        if (body.name) await renamePasskey(deps.sql, { id: passkeyId, userId: user.id, rpId }, body.name);
        return { success: true as const, passkeyId, nextStep: "send-transactions" as const, transactions };
      },
      {
        auth: recovery,
        body: z.object({
          challengeId: challengeIdSchema,
          passkeyResponse: attestationSchema,
          name: ownerName.optional(),
        }),
        response: {
          200: z.object({
            success: z.literal(true),
            passkeyId: z.string(),
            nextStep: z.literal("send-transactions"),
            transactions: z
              .array(
                z.object({
                  network: z.enum(NETWORK_IDS),
                  chainId: z.int(),
                  to: z.string(),
                  data: z.string(),
                  waitsForOwner: z
                    .boolean()
                    .describe(
                      "true: the address is not an owner on this network yet, because the account is not deployed there; sent before it is one, the transaction has no effect",
                    ),
                }),
              )
              .describe("The address owner's own wallet sends these; then the new passkey can sign in"),
          }),
          ...errorResponses(400, 401, 403, 404, 413, 429),
        },
        detail: {
          operationId: "finishRecoveryPasskey",
          summary: "Register the new passkey; returns what the address owner has to send",
          tags,
        },
      },
    );
