/** Wallets: set one up with a passkey, read its balance. */
import { Elysia } from "elysia";
import { z } from "zod";
import { formatUnits, USDC_DECIMALS } from "../../core/domain/money.ts";
import { DEFAULT_NETWORK, NETWORK_IDS } from "../../core/domain/networks.ts";
import { PERMISSIONS, permissionsOf, USER_STATUSES } from "../../core/domain/user.ts";
import {
  assertionSchema,
  attestationSchema,
  challengeIdSchema,
  creationOptionsSchema,
  credentialSchema,
} from "../auth/passkey-wire.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { setSessionCookie } from "../http/session-cookie.ts";
import { walletSchema } from "../members/wire.ts";
import { browserOf } from "../sessions/start-session.ts";
import { readWalletBalance } from "./read-balance.ts";
import { completeSetup } from "./setup-complete.ts";
import { presentSetupStart, startSetup } from "./setup-start.ts";

const networkSchema = z.enum(NETWORK_IDS);

const started = z
  .object({
    userId: z.string(),
    challengeId: z.string(),
    passkeyChallenge: creationOptionsSchema,
    passkeyRequest: z
      .object({
        challenge: z.string(),
        rpId: z.string(),
        timeout: z.int(),
        userVerification: z.literal("required"),
        allowCredentials: z.array(credentialSchema),
      })
      .optional()
      .describe("For users with a passkey: request options for the same challenge"),
    nextStep: z.literal("complete-wallet-setup"),
    instructions: z.string(),
  })
  .meta({ id: "WalletSetupChallenge" });

const completed = z.object({
  user: z.object({
    id: z.string(),
    email: z.string(),
    status: z.enum(USER_STATUSES),
    permissions: z.array(z.enum(PERMISSIONS)),
  }),
  wallet: z.object({
    address: z.string(),
    isNewWallet: z.boolean(),
    network: networkSchema,
    deployed: z.boolean(),
  }),
  status: z.literal("wallet-setup-complete"),
  message: z.string(),
  autoSignedIn: z.boolean(),
});

const balance = z
  .object({
    wallet: walletSchema,
    balance: z.object({
      token: z.literal("USDC"),
      amount: z.string(),
      decimals: z.literal(USDC_DECIMALS),
      symbol: z.literal("$"),
    }),
  })
  .meta({ id: "Balance" });

const setup = { allow: ["session"], needs: "account", requireActive: false, limit: "walletSetup" } as const;
const tags = ["Wallets"];

export const walletRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "wallet-routes" })
    .use(access(deps))
    .post(
      "/v1/wallets/setup/start",
      async ({ body, user }) => {
        const network = body?.network ?? DEFAULT_NETWORK;
        return presentSetupStart(deps.config, user, await startSetup(deps, { user, network }));
      },
      {
        auth: setup,
        body: z.object({ network: networkSchema.optional() }).optional(),
        response: { 200: started, ...errorResponses(400, 401, 403, 409, 413, 429) },
        detail: {
          operationId: "beginWalletSetup",
          summary: "Begin a wallet setup: a passkey challenge",
          tags,
        },
      },
    )
    .post(
      "/v1/wallets/setup/complete",
      async ({ body, user, request, requestId, clientAddress, set }) => {
        const done = await completeSetup(deps, {
          user,
          challengeId: body.challengeId,
          network: body.network,
          response: body.passkeyResponse,
          browser: await browserOf(request, deps.config),
          trace: { requestId, clientAddress },
        });
        await setSessionCookie(set, deps.config, done.session);
        const { id, email, status } = done.user;
        const { address, network, deployedAt } = done.wallet;
        return {
          user: { id, email, status, permissions: [...permissionsOf(status)] },
          wallet: { address, isNewWallet: true, network, deployed: deployedAt !== null },
          status: "wallet-setup-complete" as const,
          message: "Your wallet is ready to receive USDC",
          autoSignedIn: true,
        };
      },
      {
        auth: setup,
        body: z.object({
          challengeId: challengeIdSchema,
          network: networkSchema.optional(),
          passkeyResponse: z.union([attestationSchema, assertionSchema]),
        }),
        response: { 200: completed, ...errorResponses(400, 401, 403, 409, 413, 429) },
        detail: {
          operationId: "finishWalletSetup",
          summary: "Finish a wallet setup with the passkey's response; signs in",
          tags,
        },
      },
    )
    .get(
      "/v1/wallets/balance",
      async ({ query, user }) => {
        const network = query.network ?? DEFAULT_NETWORK;
        const { wallet, units } = await readWalletBalance(deps, { userId: user.id, network });
        return {
          wallet: { address: wallet.address, network, deployed: wallet.deployedAt !== null },
          balance: {
            token: "USDC" as const,
            amount: formatUnits(units),
            decimals: USDC_DECIMALS,
            symbol: "$" as const,
          },
        };
      },
      {
        auth: {
          allow: ["session", "apiKey"],
          scope: "wallet:read",
          needs: "wallet:read",
          limit: "balance",
        },
        query: z.object({ network: networkSchema.optional() }),
        response: { 200: balance, ...errorResponses(400, 401, 403, 404, 429) },
        detail: { operationId: "getBalance", summary: "A wallet's USDC, read from the chain", tags },
      },
    );
