/** Lists the links that merchants chose to list for agents; reveals nothing about other links. */
import { Elysia } from "elysia";
import { z } from "zod";
import { notFound } from "../../core/domain/errors.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { documentedResponses } from "../http/documented-responses.ts";
import { errorResponses } from "../http/envelope.ts";
import { openOfferSigner } from "../x402/offers.ts";
import { describeOrigin, listingQuery, listResources, manifestSchema, resourcesSchema } from "./listing.ts";

const tags = ["x402"];
const CORS = { "access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin" };

const didDocument = z.looseObject({
  id: z.string(),
  verificationMethod: z.array(z.looseObject({ id: z.string(), publicKeyJwk: z.looseObject({}) })),
});

export const discoveryRoutes = (deps: ApiDeps) => {
  const manifest = {
    limit: "discovery",
    query: listingQuery,
    response: { 200: manifestSchema, ...errorResponses(400, 429) },
  } as const;
  const described = {
    operationId: "getDiscoveryManifest",
    summary: "Links that their merchants list for agents, newest first",
    tags,
  };
  const listed = new Elysia({ name: "discovery-routes" })
    .use(access(deps))
    .onTransform(({ set }) => void Object.assign(set.headers, CORS))
    .get("/.well-known/x402", ({ query }) => describeOrigin(deps, query), { ...manifest, detail: described })
    .get("/.well-known/x402.json", ({ query }) => describeOrigin(deps, query), {
      ...manifest,
      detail: { hide: true },
    });
  const signer = openOfferSigner(deps.config);
  listed.get(
    "/.well-known/did.json",
    () => {
      if (!signer) throw notFound("Signing key");
      return signer.document;
    },
    {
      limit: "discovery",
      detail: {
        operationId: "getSigningKeys",
        summary: "The public keys that sign x402 offers and receipts",
        description: "The DID document of `did:web` for this host; 404 when signing is not configured.",
        tags,
        responses: documentedResponses({ 200: didDocument, ...errorResponses(404, 429) }),
      },
    },
  );
  if (!deps.config.facilitator) return listed;
  return listed.get("/facilitator/discovery/resources", ({ query }) => listResources(deps, query), {
    limit: "discovery",
    query: listingQuery,
    response: { 200: resourcesSchema, ...errorResponses(400, 429) },
    detail: {
      operationId: "listDiscoveryResources",
      summary: "The same list in the format of the x402 Bazaar",
      tags,
    },
  });
};
