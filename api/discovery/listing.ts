/** The public listing of links for agents: in the format of a facilitator's resource list, and as the origin's manifest. */
import { z } from "zod";
import { type Hex, type NetworkId, parseNetwork } from "../../core/domain/networks.ts";
import { type ListedLink, listDiscoverable } from "../../db/links/discoverable-links.ts";
import type { ApiDeps } from "../http/deps.ts";
import { isoTime } from "../http/envelope.ts";
import { pageLimit } from "../http/list-pages.ts";
import { queryNumber } from "../http/query.ts";
import { describeCall } from "../x402/bazaar.ts";
import { MIME_TYPE, resourceUrl, versionTwoItem } from "../x402/payment-required.ts";

export const LISTING_OFFSET_MAX = 10_000;

const ADDRESS = /^0x[0-9a-f]{40}$/i;

const text = z.string().max(200).optional();

export const listingQuery = z.object({
  limit: pageLimit(20),
  offset: queryNumber({ min: 0, max: LISTING_OFFSET_MAX, fallback: 0 }),
  type: text.describe("Only `http` has entries"),
  payTo: text.describe("Only entries that pay this address"),
  scheme: text.describe("Only `exact` has entries"),
  network: text.describe("`eip155:8453` or `base`"),
  extensions: text.describe("Only `bazaar` has entries"),
});
type ListingQuery = z.infer<typeof listingQuery>;

const terms = z
  .looseObject({ scheme: z.string(), network: z.string(), amount: z.string(), payTo: z.string() })
  .meta({ id: "DiscoveryTerms" });
const pagination = z
  .object({ limit: z.int(), offset: z.int(), total: z.int() })
  .meta({ id: "DiscoveryPagination" });

export const resourcesSchema = z
  .object({
    x402Version: z.literal(2),
    items: z.array(
      z.object({
        resource: z.string().describe("The URL at which it is paid"),
        type: z.literal("http"),
        x402Version: z.literal(2),
        accepts: z.array(terms).describe("A snapshot; the resource's own 402 response is authoritative"),
        lastUpdated: isoTime,
        description: z.string(),
        mimeType: z.string(),
        serviceName: z.string().optional(),
        extensions: z.looseObject({}),
      }),
    ),
    pagination,
  })
  .meta({ id: "DiscoveryResources" });

export const manifestSchema = z
  .object({
    version: z.literal(1),
    x402Version: z.literal(2),
    lastUpdated: z.int().describe("Unix seconds"),
    resources: z.array(z.string()),
    items: z.array(
      z.object({
        resource: z.object({
          url: z.string(),
          description: z.string(),
          mimeType: z.string(),
          serviceName: z.string().optional(),
        }),
        type: z.literal("http"),
        accepts: z.array(terms),
        input: z.looseObject({ method: z.string() }),
        output: z.looseObject({ mimeType: z.string() }),
      }),
    ),
    pagination,
  })
  .meta({ id: "DiscoveryManifest" });

/** As a facilitator answers `GET /discovery/resources` (x402's Bazaar). */
export async function listResources(
  deps: ApiDeps,
  query: ListingQuery,
): Promise<z.infer<typeof resourcesSchema>> {
  const { links, total, now } = await readListing(deps, query);
  const items = links.map((link) => {
    const { url, accepts, ...resource } = presentResource(link, deps, now);
    return {
      resource: url,
      type: "http" as const,
      x402Version: 2 as const,
      accepts,
      lastUpdated: link.updatedAt.toISOString(),
      ...resource,
      extensions: describeCall(link),
    };
  });
  return { x402Version: 2, items, pagination: { limit: query.limit, offset: query.offset, total } };
}

/** `/.well-known/x402`: there is no standard yet, so it has the fields of both drafts: `version, resources` and `x402Version, items`. */
export async function describeOrigin(
  deps: ApiDeps,
  query: ListingQuery,
): Promise<z.infer<typeof manifestSchema>> {
  const { links, total, now } = await readListing(deps, query);
  const items = links.map((link) => {
    const { accepts, ...resource } = presentResource(link, deps, now);
    const { input, output } = describeCall(link).bazaar.info;
    const { method, queryParams } = input;
    return {
      resource,
      type: "http" as const,
      accepts,
      input: { method, queryParams },
      output: { mimeType: MIME_TYPE, example: output.example },
    };
  });
  const newestMs = Math.max(0, ...links.map(({ updatedAt }) => updatedAt.getTime()));
  return {
    version: 1,
    x402Version: 2,
    lastUpdated: Math.floor(newestMs / 1_000),
    resources: items.map(({ resource }) => resource.url),
    items,
    pagination: { limit: query.limit, offset: query.offset, total },
  };
}

async function readListing(
  deps: ApiDeps,
  query: ListingQuery,
): Promise<{ links: ListedLink[]; total: number; now: Date }> {
  const now = new Date();
  const networks = networksOf(deps, query);
  if (networks.length === 0) return { links: [], total: 0, now };
  const { relayMinUnits } = deps.config;
  // compared with lower-case addresses
  const recipient = query.payTo?.toLowerCase() as Hex | undefined;
  const filter = { networks, recipient, relayMinUnits };
  const found = await deps.reader.read((tx) => listDiscoverable(tx, filter, query));
  return { ...found, now };
}

/** Empty when a filter excludes everything: every entry is `http`, `exact` and has `bazaar`. */
function networksOf(
  { chains }: ApiDeps,
  { type, scheme, extensions, network, payTo }: ListingQuery,
): NetworkId[] {
  const isOther =
    (payTo !== undefined && !ADDRESS.test(payTo)) ||
    (type ?? "http") !== "http" ||
    (scheme ?? "exact") !== "exact" ||
    (extensions ?? "bazaar") !== "bazaar";
  if (isOther) return [];
  const enabled = [...chains.keys()];
  return network === undefined ? enabled : enabled.filter((id) => id === parseNetwork(network));
}

/** When the payer chooses, the amount is the minimum that is relayed. */
function presentResource(link: ListedLink, { config }: ApiDeps, now: Date) {
  const { relayMinUnits, baseUrl } = config;
  const isTooSmall = link.amountUnits < relayMinUnits;
  const amountUnits = isTooSmall ? relayMinUnits : link.amountUnits;
  return {
    url: resourceUrl(link.id, baseUrl),
    description: link.description,
    mimeType: MIME_TYPE,
    ...serviceNameOf(link),
    accepts: [versionTwoItem({ ...link, amountUnits }, now)],
  };
}

/** The merchant's own name if it fits the field: at most 32 characters of printable ASCII. Never one derived from an e-mail address. */
function serviceNameOf({ displayName }: ListedLink): { serviceName?: string } {
  return displayName !== null && /^[\x20-\x7e]{1,32}$/.test(displayName) ? { serviceName: displayName } : {};
}
