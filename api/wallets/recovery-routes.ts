/** The wallet file of the signed-in user: with it and the passkey the money can be moved without this service. */
import { Elysia } from "elysia";
import { z } from "zod";
import { notFound } from "../../core/domain/errors.ts";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import {
  buildWalletFiles,
  formatWalletFile,
  WALLET_FILE_VERSION,
  walletFileName,
} from "../../core/domain/wallet-file.ts";
import { listPasskeysOfFile, listWalletsOfFile } from "../../db/wallets/wallet-files.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";

const networkSchema = z.enum(NETWORK_IDS);
const hex = z.string().regex(/^0x[0-9a-f]+$/);

const walletFile = z
  .object({
    version: z.literal(WALLET_FILE_VERSION),
    rpId: z
      .string()
      .describe("The domain on which browsers allow the passkeys to sign, including its subdomains"),
    credentials: z.array(z.object({ id: z.string(), x: hex, y: hex, transports: z.array(z.string()) })),
    factory: hex,
    implementation: hex,
    owners: z.array(hex).describe("The initial owners, which determine the address"),
    saltNonce: z.string(),
    address: hex,
    networks: z.array(
      z.object({
        network: networkSchema,
        chainId: z.int(),
        entryPoint: hex,
        usdc: hex,
        rpcUrl: z.string().describe("The network's public node"),
      }),
    ),
  })
  .meta({ id: "WalletFile" });

export const recoveryRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "recovery-routes" }).use(access(deps)).get(
    "/v1/wallets/recovery",
    async ({ query, user }) => {
      const wallets = await listWalletsOfFile(deps.sql, user.id);
      const files = buildWalletFiles(wallets, await listPasskeysOfFile(deps.sql, user.id));
      const file = files.find(
        ({ networks }) => !query.network || networks.some(({ network }) => network === query.network),
      );
      if (!file) throw notFound(query.network ? `Wallet on ${query.network}` : "Wallet");
      return new Response(formatWalletFile(file), {
        headers: {
          "content-type": "application/json; charset=utf-8",
          "content-disposition": `attachment; filename="${walletFileName(file)}"`,
        },
      });
    },
    {
      auth: { allow: ["session"], needs: "owners:manage" },
      query: z.object({ network: networkSchema.optional() }),
      response: { 200: walletFile, ...errorResponses(400, 401, 403, 404, 429) },
      detail: {
        operationId: "getWalletFile",
        summary:
          "The wallet file: everything needed to move the money without this service, except the passkey",
        tags: ["Wallets"],
      },
    },
  );
