/** The public routes of a link, for payers without an account: its id is sufficient. Accessible to pages of any origin. */

import { Elysia } from "elysia";
import { z } from "zod";
import { notFound, ServiceError } from "../../core/domain/errors.ts";
import { LINK_ID } from "../../core/domain/ids.ts";
import { acceptedLanguage } from "../../core/domain/language.ts";
import { LINK_STATUSES } from "../../core/domain/link.ts";
import { toAmountNumber } from "../../core/domain/money.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { findPublicLink, type PublicLink } from "../../db/links/links.ts";
import { access } from "../http/access.ts";
import { addressGroup } from "../http/client-address.ts";
import type { ApiDeps } from "../http/deps.ts";
import { documentedResponses } from "../http/documented-responses.ts";
import { errorResponses, isoTime } from "../http/envelope.ts";
import { EVENT_STREAM } from "../http/event-stream.ts";
import { jsonBody } from "../http/json-body.ts";
import { takesHeaders } from "../http/openapi-headers.ts";
import { takeFromLimit } from "../http/rate-limits.ts";
import type { ResponseSet } from "../http/session-cookie.ts";
import { claimLink } from "./claim-link.ts";
import { openUseFor } from "./open-use.ts";
import { readAmountUnits } from "./parse-amount.ts";
import { streamLink } from "./stream-link-status.ts";
import { presentPublicLink, publicLinkSchema } from "./wire.ts";

const PREFIX = "/api/v1/public/payment-links/:linkId";
const tags = ["Public payment links"];

const CORS = {
  "access-control-allow-origin": "*",
  "access-control-allow-methods": "GET, POST, OPTIONS",
  "access-control-allow-headers": "content-type, x-request-id",
  "access-control-expose-headers": "X-Request-Id, Retry-After",
  "access-control-max-age": "600",
  "cross-origin-resource-policy": "cross-origin",
};

const hex = (bytes: number, what: string) =>
  z
    .string()
    .regex(new RegExp(`^0x[0-9a-fA-F]{${bytes * 2}}$`), `must be ${what}: 0x and ${bytes * 2} hex digits`)
    .transform((text) => text.toLowerCase() as Hex);

/** A contract's signature may be long (WebAuthn); valid ones are shorter than this. */
const SIGNATURE_MAX_DIGITS = 16_384;

const claimBody = z.object({
  transactionHash: hex(32, "a transaction hash"),
  clientWalletAddress: hex(20, "an address"),
  signature: z
    .string()
    .regex(/^0x(?:[0-9a-fA-F]{2})+$/, "must be hex bytes")
    .max(SIGNATURE_MAX_DIGITS)
    .transform((text) => text.toLowerCase() as Hex)
    .optional()
    .describe(
      "The EIP-712 signature of the claim's typedData by clientWalletAddress: proves which link the transfer pays",
    ),
});
const claimAnswer = z.object({
  success: z.literal(true),
  linkId: z.string(),
  status: z.enum(LINK_STATUSES),
  proofRequired: z
    .literal(true)
    .optional()
    .describe("Present when the transfer could also pay other links: send the claim again with a signature"),
  typedData: z.looseObject({}).optional().describe("What to sign (eth_signTypedData_v4)"),
});
const useBody = z
  .strictObject({
    amount: z.number().optional().describe("USDC; required when the payer chooses the amount"),
  })
  .optional();
const useSchema = z.object({
  linkId: z.string().describe("A separate link, with its own data, events, page and x402 resource"),
  parentId: z.string(),
  amount: z.number(),
  currency: z.literal("USDC"),
  url: z.string(),
  aiUrl: z.string(),
  expiresAt: isoTime,
});
const params = z.object({ linkId: z.string().max(100) });

export const publicLinkRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "public-link-routes" })
    .use(access(deps))
    .use(jsonBody)
    .onTransform(({ set }) => void Object.assign(set.headers, CORS))
    .get(
      `${PREFIX}/data`,
      async ({ params }) => presentPublicLink(await getPublicLink(deps, params.linkId), deps.config),
      {
        limit: "publicLinkData",
        params,
        response: { 200: publicLinkSchema, ...errorResponses(400, 404, 429) },
        detail: { operationId: "getPublicPaymentLink", summary: "Public data of a link", tags },
      },
    )
    .post(
      `${PREFIX}/complete`,
      async ({ params: { linkId }, body, request, set, clientAddress, requestId }) => {
        if (!LINK_ID.test(linkId)) throw notFound("Payment link");
        const { transactionHash: txHash, clientWalletAddress, signature } = body;
        const payerLanguage = acceptedLanguage(request.headers.get("accept-language"));
        const claimed = { linkId, txHash, clientAddress: clientWalletAddress, signature, payerLanguage };
        const takeTurn = () => takeLinkTurn(deps, set, linkId, clientAddress);
        const { status, typedData } = await claimLink(deps, claimed, { takeTurn, requestId });
        const proof = typedData ? { proofRequired: true as const, typedData } : {};
        return { success: true as const, linkId, status, ...proof };
      },
      {
        limit: "claims",
        params,
        body: claimBody,
        response: { 200: claimAnswer, ...errorResponses(400, 404, 409, 413, 429) },
        detail: {
          operationId: "claimPayment",
          summary: "Claim that a transaction paid a link",
          parameters: takesHeaders("Accept-Language"),
          tags,
        },
      },
    )
    .post(
      `${PREFIX}/uses`,
      async ({ params: { linkId }, body, bodyText, clientAddress, status }) => {
        if (!LINK_ID.test(linkId)) throw notFound("Reusable payment link");
        const amountUnits =
          body?.amount === undefined ? undefined : readAmountUnits(bodyText, "amount", body.amount);
        const use = await openUseFor(deps.sql, { linkId, amountUnits, opener: addressGroup(clientAddress) });
        const { baseUrl } = deps.config;
        return status(201, {
          linkId: use.id,
          parentId: linkId,
          amount: toAmountNumber(use.amountUnits),
          currency: "USDC" as const,
          url: `${baseUrl}/pay/${use.id}`,
          aiUrl: `${baseUrl}/v1/x402/${use.id}`,
          expiresAt: use.expiresAt.toISOString(),
        });
      },
      {
        limit: "claims",
        params,
        body: useBody,
        response: { 201: useSchema, ...errorResponses(400, 404, 409, 413, 429) },
        detail: { operationId: "openLinkUse", summary: "Open one payment of a reusable link", tags },
      },
    )
    .get(
      `${PREFIX}/events`,
      async ({ params: { linkId }, request, set, clientAddress }) => {
        const link = await getPublicLink(deps, linkId);
        const stream = streamLink(deps, { link, clientAddress }, request.signal);
        if (!stream)
          throw new ServiceError("RATE_LIMITED", "Too many open event streams; poll the resource instead", {
            headers: { "retry-after": "5" },
          });
        const headers = { ...(set.headers as Record<string, string>), ...CORS };
        return new Response(stream, { headers: { ...headers, ...EVENT_STREAM } });
      },
      {
        limit: "publicLinkData",
        params,
        detail: {
          operationId: "streamLinkStatus",
          summary: "A link's status as server-sent events",
          tags,
          responses: documentedResponses({
            200: {
              mediaTypes: ["text/event-stream"],
              description:
                "One event per change, until the link has ended. `seen: true`: the block being built contains a transfer that would pay it; only a hint",
            },
            ...errorResponses(404, 429),
          }),
        },
      },
    )
    .options(`${PREFIX}/data`, preflight, { detail: { hide: true } })
    .options(`${PREFIX}/complete`, preflight, { detail: { hide: true } })
    .options(`${PREFIX}/uses`, preflight, { detail: { hide: true } })
    .options(`${PREFIX}/events`, preflight, { detail: { hide: true } });

function preflight({ set }: { set: ResponseSet }) {
  return new Response(null, { status: 204, headers: set.headers as Record<string, string> });
}

async function getPublicLink(deps: ApiDeps, linkId: string): Promise<PublicLink> {
  const link = LINK_ID.test(linkId) ? await findPublicLink(deps.sql, linkId) : undefined;
  if (!link) throw notFound("Payment link");
  return link;
}

function takeLinkTurn(deps: ApiDeps, set: ResponseSet, linkId: string, clientAddress: string): Promise<void> {
  return takeFromLimit(deps, set, {
    limitName: "claimsOfLink",
    key: `${linkId}:${addressGroup(clientAddress)}`,
  });
}
