/** The parts of the two libraries that the page uses: they are not installed where the sources are only checked. */
declare module "@walletconnect/ethereum-provider" {
  type Core = { relayer: { transportClose: () => Promise<void> } };
  export type EthereumProvider = {
    readonly session?: unknown;
    readonly signer: { client?: { core: Core }; abortPairingAttempt?: () => void };
    connect: () => Promise<void>;
    request: (call: { method: string; params?: unknown[] }) => Promise<unknown>;
    on: (event: "display_uri", listener: (uri: string) => void) => unknown;
  };
  export const EthereumProvider: { init: (options: Record<string, unknown>) => Promise<EthereumProvider> };
}

declare module "@base-org/account" {
  type Provider = { request: (call: { method: string; params?: unknown[] }) => Promise<unknown> };
  export function createBaseAccountSDK(options: {
    appName: string;
    appChainIds: number[];
    preference: { telemetry: boolean };
  }): { getProvider: () => Provider };
}
