/** A wallet as an extension would put it into the page: announced by EIP-6963, with a key of its own on the local chain. */
import type { Page } from "playwright-core";
import { keccak256 } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc, callRpcText } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../../local/chain/usdc.ts";
import { signCancel } from "../support/payer.ts";

export type TestWallet = {
  address: Hex;
  /** Every method that the page asked for. */
  calls: string[];
  /** Of the transactions it sent. */
  hashes: Hex[];
  /** May be changed while it is used. */
  options: WalletOptions;
  install: (page: Page) => Promise<void>;
};

export type WalletOptions = {
  name?: string;
  fundsUnits?: bigint;
  /** The person says no to so many of these. */
  declines?: { method: string; times: number };
  /** Error codes by method; such a call does nothing. */
  fails?: Readonly<Record<string, number>>;
  /** Signs with a key that is not the account's, as a wallet with its own signature scheme does. */
  signsForeign?: boolean;
  /** Uses up what it signed, by a transaction of its own, before it answers. */
  usesUpSigned?: boolean;
  /** Sends, and then answers as if it had not. */
  losesAnswer?: boolean;
  /** Sends, and waits before it answers. */
  answersAfter?: Promise<unknown> | undefined;
  /** The network the wallet is on until it is switched. */
  chainId?: number;
  /** The person changes its network while it asks. */
  movesWhileAsking?: boolean;
  /** Waits before it connects. */
  connectsAfter?: Promise<unknown>;
  /** What it gives a transaction; too little, and the transaction is reverted. */
  gas?: bigint;
  /** Answers with the hash of a transaction that it never sends. */
  neverSends?: boolean;
  /** Waits before it signs or sends, as a person does. */
  holdUntil?: Promise<unknown>;
};

const ONE_ETH = 10n ** 18n;
const DEFAULT_FUNDS_UNITS = 1_000_000_000n;

let counter = 0;

export async function makeTestWallet(rpcUrl: string, given: WalletOptions = {}): Promise<TestWallet> {
  const options = { ...given };
  const account = privateKeyToAccount(generatePrivateKey());
  const address = account.address.toLowerCase() as Hex;
  await fundEth(rpcUrl, address, ONE_ETH);
  const funds = options.fundsUnits ?? DEFAULT_FUNDS_UNITS;
  if (funds > 0n) await fundUsdc(rpcUrl, address, funds);
  const calls: string[] = [];
  const hashes: Hex[] = [];
  let chainId = options.chainId ?? 84532;
  let declinesLeft = options.declines?.times ?? 0;

  async function answer(method: string, params: unknown[]): Promise<unknown> {
    calls.push(method);
    if (method === options.declines?.method && declinesLeft-- > 0)
      throw new WalletError(4001, "User rejected");
    const code = options.fails?.[method];
    if (code !== undefined) throw new WalletError(code, "Not possible");
    switch (method) {
      case "eth_requestAccounts":
        await options.connectsAfter;
        return [account.address];
      case "eth_chainId":
        return `0x${chainId.toString(16)}`;
      case "wallet_switchEthereumChain":
        chainId = Number((params[0] as { chainId: string }).chainId);
        return null;
      case "eth_signTypedData_v4": {
        await options.holdUntil;
        if (options.movesWhileAsking) chainId = 1;
        const { types, ...typed } = JSON.parse(params[1] as string);
        if (typed.domain.chainId !== undefined && typed.domain.chainId !== chainId)
          throw new WalletError(-32603, "The typed data is of another network than the wallet");
        const { EIP712Domain: _domain, ...own } = types;
        const signer = options.signsForeign ? privateKeyToAccount(generatePrivateKey()) : account;
        const signature = await signer.signTypedData({ ...typed, types: own });
        if (options.usesUpSigned)
          await send({
            to: typed.domain.verifyingContract,
            data: await signCancel(account, typed.message.nonce),
          });
        return signature;
      }
      case "eth_sendTransaction":
        await options.holdUntil;
        if (options.movesWhileAsking) chainId = 1;
        if (Number((params[0] as { chainId?: Hex }).chainId ?? chainId) !== chainId)
          throw new WalletError(-32602, "The wallet is on another network");
        hashes.push(await send(params[0] as { to: Hex; data: Hex; gas?: Hex }));
        await options.answersAfter;
        if (options.losesAnswer) throw new WalletError(-32603, "Internal error");
        return hashes.at(-1);
      case "eth_call":
        return callRpc(rpcUrl, method, params);
      default:
        throw new WalletError(4200, `${method} is not supported`);
    }
  }

  /** Signed with the key: the indexer trusts only a transaction whose hash recomputes. */
  async function send({ to, data, gas }: { to: Hex; data: Hex; gas?: Hex }): Promise<Hex> {
    const nonce = Number(await callRpc(rpcUrl, "eth_getTransactionCount", [address, "latest"]));
    const fees = {
      gas: options.gas ?? BigInt(gas ?? 200_000),
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 10n ** 9n,
    };
    const transaction = { to, data, nonce, chainId, ...fees, type: "eip1559" } as const;
    const signed = await account.signTransaction(transaction);
    if (options.neverSends) return keccak256(signed);
    return callRpcText(rpcUrl, "eth_sendRawTransaction", [signed]) as Promise<Hex>;
  }

  const name = options.name ?? "Test Wallet";
  const binding = `wallet${++counter}`;
  async function install(page: Page): Promise<void> {
    await page.exposeFunction(binding, async (method: string, params: unknown[]) => {
      try {
        return { result: await answer(method, params) };
      } catch (error) {
        const code = error instanceof WalletError ? error.code : -32603;
        return { code, message: error instanceof Error ? error.message : String(error) };
      }
    });
    await page.addInitScript(
      `(${ANNOUNCE})(${[binding, name, `test.${binding}`, ICON].map((text) => JSON.stringify(text)).join(", ")})`,
    );
  }
  return { address, calls, hashes, options, install };
}

class WalletError extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Crect width='8' height='8' fill='%23f60'/%3E%3C/svg%3E";

/** Runs in the page, before its own scripts. */
const ANNOUNCE = `(binding, name, rdns, icon) => {
  const provider = {
    request: async ({ method, params = [] }) => {
      const said = await globalThis[binding](method, params);
      if (said.code !== undefined) throw Object.assign(new Error(said.message), { code: said.code });
      return said.result;
    },
  };
  const detail = Object.freeze({ info: { uuid: binding, name, icon, rdns }, provider });
  const announce = () => dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail }));
  addEventListener("eip6963:requestProvider", announce);
  announce();
}`;
