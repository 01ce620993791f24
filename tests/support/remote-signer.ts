/** A signer as Web3Signer is one: JSON-RPC over HTTP, `eth_signTransaction` and `eth_accounts`, the keys in its own memory. */
import { privateKeyToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";
import { findFreePort } from "../../local/free-port.ts";

export type SignRequest = {
  from: Hex;
  to: Hex;
  data: Hex;
  nonce: Hex;
  gas: Hex;
  chainId: Hex;
  maxFeePerGas: Hex;
  maxPriorityFeePerGas: Hex;
};

/** What the signer does with a request: its answer's body, or "honest". */
export type Behaviour = (
  request: SignRequest,
  sign: (changed?: Partial<SignRequest>) => Promise<Hex>,
) => Promise<object | "honest">;

export type RemoteSigner = {
  url: string;
  /** Every transaction that it was asked to sign, in order. */
  requests: readonly SignRequest[];
  behave(behaviour: Behaviour): void;
  /** From now on requests wait; the returned function answers them all and ends that. */
  hold(): () => void;
  stop(): Promise<void>;
};

const HONEST: Behaviour = async () => "honest";

export async function startRemoteSigner(keys: readonly Hex[]): Promise<RemoteSigner> {
  const accounts = new Map(
    keys.map((key) => {
      const account = privateKeyToAccount(key);
      return [account.address.toLowerCase(), account];
    }),
  );
  const requests: SignRequest[] = [];
  let behaviour = HONEST;
  let held: Promise<void> = Promise.resolve();

  async function sign(request: SignRequest): Promise<Hex> {
    const account = accounts.get(request.from.toLowerCase());
    if (!account) throw new Error(`no key of ${request.from}`);
    return account.signTransaction({
      ...{ type: "eip1559", to: request.to, data: request.data, value: 0n, chainId: Number(request.chainId) },
      ...{ nonce: Number(request.nonce), gas: BigInt(request.gas) },
      maxFeePerGas: BigInt(request.maxFeePerGas),
      maxPriorityFeePerGas: BigInt(request.maxPriorityFeePerGas),
    });
  }

  async function answer(method: string, params: readonly SignRequest[]): Promise<object> {
    if (method === "eth_accounts") return { result: [...accounts.keys()] };
    const [request] = params;
    if (method !== "eth_signTransaction" || !request)
      return { error: { code: -32601, message: "unknown method" } };
    requests.push(request);
    await held;
    const given = await behaviour(request, (changed) => sign({ ...request, ...changed }));
    return given === "honest" ? { result: await sign(request) } : given;
  }

  const server = Bun.serve({
    port: await findFreePort(),
    hostname: "127.0.0.1",
    idleTimeout: 120,
    async fetch(request) {
      const { id, method, params } = (await request.json()) as {
        id: number;
        method: string;
        params: SignRequest[];
      };
      return Response.json({ jsonrpc: "2.0", id, ...(await answer(method, params)) });
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    requests,
    behave(next) {
      behaviour = next;
    },
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      held = promise;
      return () => {
        held = Promise.resolve();
        resolve();
      };
    },
    stop: () => server.stop(true),
  };
}
