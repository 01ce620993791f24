/** Only with TEST_WALLET, so only with a local chain: requests of a payment page's test wallet, executed by the node that holds its key. */
import { Elysia } from "elysia";
import { z } from "zod";
import { invalid, notFound } from "../../core/domain/errors.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { RpcResponseError } from "../../core/rpc/errors.ts";
import { findPublicLink } from "../../db/links/links.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";

/** EIP-1193: the provider does not support the method. */
const UNSUPPORTED = 4200;
/** EIP-1474: the node refused the call. */
const REFUSED = -32000;

const body = z.object({
  linkId: z.string().max(100),
  method: z.string().max(100),
  params: z.array(z.unknown()).max(10),
});

/** The call that each method makes to the node; nothing else reaches it. The account is always the wallet's own. */
const CALLS: Readonly<Record<string, (account: Hex, params: readonly unknown[]) => [string, unknown[]]>> = {
  eth_chainId: () => ["eth_chainId", []],
  eth_call: (_account, params) => ["eth_call", [...params]],
  eth_signTypedData_v4: (account, [, typedData]) => [
    "eth_signTypedData_v4",
    [account, parseTypedData(typedData)],
  ],
  eth_sendTransaction: (account, [transaction]) => [
    "eth_sendTransaction",
    [{ ...(transaction as object), from: account }],
  ],
};

export const testWalletRoutes = (deps: ApiDeps, account: Hex) =>
  new Elysia({ name: "test-wallet-routes" }).use(access(deps)).post(
    "/v1/test/wallet",
    async ({ body: { linkId, method, params } }) => {
      if (method === "eth_requestAccounts") return { result: [account] };
      const toCall = Object.hasOwn(CALLS, method) ? CALLS[method] : undefined;
      if (!toCall) return { error: { code: UNSUPPORTED, message: `${method} is not supported` } };
      const link = await findPublicLink(deps.sql, linkId);
      const chain = link && deps.chains.get(link.network);
      if (!chain) throw notFound("Payment link");
      try {
        return { result: await chain.request(...toCall(account, params)) };
      } catch (error) {
        if (error instanceof RpcResponseError) return { error: { code: REFUSED, message: error.message } };
        throw error;
      }
    },
    { limit: "testMode", body, detail: { hide: true } },
  );

/** Wallets take typed data as text, the node as an object. */
function parseTypedData(given: unknown): unknown {
  try {
    return typeof given === "string" ? JSON.parse(given) : given;
  } catch {
    throw invalid("params", "must hold typed data as JSON");
  }
}
