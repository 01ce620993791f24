/** Public: the enabled networks and the supported currencies. */
import { Elysia } from "elysia";
import { z } from "zod";
import { USDC_DECIMALS } from "../../core/domain/money.ts";
import { NETWORK_IDS, NETWORKS } from "../../core/domain/networks.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, success, successSchema } from "../http/envelope.ts";

const networkSchema = z
  .object({
    id: z.enum(NETWORK_IDS),
    name: z.enum(NETWORK_IDS),
    chainId: z.int(),
    enabled: z.boolean(),
    displayName: z.string(),
    color: z.string(),
    icon: z.string(),
    explorerUrl: z.string(),
    description: z.string(),
  })
  .meta({ id: "NetworkInfo" });

const currencySchema = z
  .object({
    code: z.literal("USDC"),
    name: z.string(),
    symbol: z.string(),
    decimals: z.int(),
    icon: z.string(),
    description: z.string(),
  })
  .meta({ id: "Currency" });

const USDC = {
  code: "USDC" as const,
  name: "USD Coin",
  symbol: "$",
  decimals: USDC_DECIMALS,
  icon: "usdc",
  description: "A digital dollar issued by Circle, redeemable one to one",
};

export const networkRoutes = (deps: ApiDeps) => {
  const networks = [...deps.chains.keys()].map((id) => {
    const { chainId, displayName, color, icon, explorerUrl, description } = NETWORKS[id];
    return { id, name: id, chainId, enabled: true, displayName, color, icon, explorerUrl, description };
  });
  return new Elysia({ name: "network-routes" })
    .use(access(deps))
    .get("/v1/networks", () => success({ networks }, "Networks retrieved"), {
      limit: "general",
      response: {
        200: successSchema(z.object({ networks: z.array(networkSchema) })),
        ...errorResponses(429),
      },
      detail: { operationId: "listNetworks", summary: "Enabled networks", tags: ["Networks"] },
    })
    .get("/v1/networks/currencies", () => success({ currencies: [USDC] }, "Currencies retrieved"), {
      limit: "general",
      response: {
        200: successSchema(z.object({ currencies: z.array(currencySchema) })),
        ...errorResponses(429),
      },
      detail: { operationId: "listCurrencies", summary: "Supported currencies", tags: ["Networks"] },
    });
};
