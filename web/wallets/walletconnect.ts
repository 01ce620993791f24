/** WalletConnect's library behind one function; loaded when a payer chooses it. */
import { EthereumProvider } from "@walletconnect/ethereum-provider";
import { encode } from "uqr";
import type { Provider } from "../checkout/wallets.ts";

export type PairingCode = { uri: string; rows: readonly (readonly boolean[])[] };

export type WalletConnectOptions = {
  projectId: string;
  chainId: number;
  rpcUrl: string;
  /** How the wallet presents the page. */
  name: string;
  url: string;
};

export type WalletConnect = Provider & {
  /** Resolves when a wallet has approved, immediately if one already has. The caller shows the code to the payer. */
  pair: (onCode: (code: PairingCode) => void, cancelled: AbortSignal) => Promise<void>;
};

/** The relay responds within a second; without a code by then it counts as unreachable. */
const CODE_WAIT_MS = 15_000;
const METHODS = [
  "eth_signTypedData_v4",
  "eth_sendTransaction",
  "wallet_switchEthereumChain",
  "wallet_addEthereumChain",
];

/** EIP-1193 error codes, which the page handles. */
const DECLINED = 4001;
const NOT_SUPPORTED = 4200;
const DISCONNECTED = 4900;

export async function openWalletConnect(options: WalletConnectOptions): Promise<WalletConnect> {
  const { projectId, chainId, rpcUrl, name, url } = options;
  const provider = await EthereumProvider.init({
    projectId,
    optionalChains: [chainId],
    optionalMethods: METHODS,
    rpcMap: { [chainId]: rpcUrl },
    metadata: { name, description: name, url, icons: [] },
    showQrModal: false,
    disableProviderPing: true,
    telemetryEnabled: false,
    storage: memoryStorage(),
    logger: "silent",
  });
  let onCode: ((code: PairingCode) => void) | undefined;
  provider.on("display_uri", (uri) => onCode?.({ uri, rows: encode(uri, { ecc: "L", border: 4 }).data }));

  async function pair(showCode: (code: PairingCode) => void, cancelled: AbortSignal): Promise<void> {
    if (provider.session) return;
    const stopped = Promise.withResolvers<never>();
    const timer = setTimeout(() => stopped.reject(codedError(DISCONNECTED, "no answer")), CODE_WAIT_MS);
    cancelled.addEventListener("abort", () => stopped.reject(codedError(DECLINED, "cancelled")));
    onCode = (code) => {
      clearTimeout(timer);
      showCode(code);
    };
    try {
      await Promise.race([provider.connect(), stopped.promise]);
    } catch (error) {
      // otherwise the library keeps trying to reach the relay
      provider.signer.abortPairingAttempt?.();
      provider.signer.client?.core.relayer.transportClose().catch(() => {});
      throw pairingError(error);
    } finally {
      onCode = undefined;
      clearTimeout(timer);
    }
  }

  return {
    pair,
    request: (call) =>
      provider.request(call).catch((error) => {
        throw requestError(error);
      }),
  };
}

/** No session is kept in the browser: the next payer may be somebody else. */
function memoryStorage() {
  const kept = new Map<string, unknown>();
  return {
    getKeys: async () => [...kept.keys()],
    getEntries: async () => [...kept.entries()],
    getItem: async (key: string) => kept.get(key),
    setItem: async (key: string, value: unknown) => void kept.set(key, value),
    removeItem: async (key: string) => void kept.delete(key),
  };
}

function pairingError(error: unknown): Error {
  const { code, message = "" } = error as { code?: unknown; message?: string };
  if (code === DECLINED || code === DISCONNECTED) return error as Error;
  return codedError(/reject|declin/i.test(message) ? DECLINED : DISCONNECTED, message);
}

/** Maps WalletConnect's own codes to those of EIP-1193. Errors that leave open whether a transaction was sent stay unchanged. */
function requestError(error: unknown): unknown {
  const { code, message = "" } = (error ?? {}) as { code?: unknown; message?: string };
  if (code === 5000) return codedError(DECLINED, message);
  // the session does not include the method, so the library has sent no request
  if (code === 5101 || message.startsWith("Missing or invalid. request() method"))
    return codedError(NOT_SUPPORTED, message);
  return error;
}

function codedError(code: number, message: string): Error {
  return Object.assign(new Error(message), { code });
}
