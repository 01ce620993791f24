/** A browser wallet (EIP-1193) sends the transaction and pays its gas; for an address owner it is that owner's own. */

import { chooseNetwork } from "../chain/choose-network.ts";
import type { Hex } from "../chain/networks.ts";
import type { Wallet } from "../checkout/wallets.ts";
import type { Account } from "./account.ts";
import { Fault } from "./user-error.ts";
import type { Transaction } from "./user-operation.ts";

/** EIP-1193. */
const DECLINED = 4001;

/** Connects on the account's network, and returns the address that pays. */
export async function connect(wallet: Wallet, { network, rpc }: Account): Promise<Hex> {
  const accounts = (await ask(wallet, "eth_requestAccounts")) as Hex[];
  const [payer] = accounts;
  if (!payer) throw new Fault(`${wallet.name} gave no account.`);
  const isThere = await chooseNetwork(wallet.provider, network, rpc.url).catch((error: unknown) => {
    throw toFault(wallet, error);
  });
  if (!isThere)
    throw new Fault(`${wallet.name} is on another network. Switch it to ${network.name} and try again.`);
  return payer;
}

export type Sending =
  | { readonly isSent: true; readonly txHash: Hex }
  /** The wallet's response leaves open whether it sent the transaction. */
  | { readonly isSent: "unknown"; readonly reason: string };

/** Throws Fault when nothing was sent. The gas limit is ours: a wallet's estimate would be too low for the call inside. */
export async function send(wallet: Wallet, from: Hex, { to, data, gas }: Transaction): Promise<Sending> {
  const params = [{ from, to, data, value: "0x0", gas: `0x${gas.toString(16)}` }];
  try {
    return {
      isSent: true,
      txHash: (await wallet.provider.request({ method: "eth_sendTransaction", params })) as Hex,
    };
  } catch (error) {
    const fault = toFault(wallet, error);
    if (fault.code === DECLINED) throw fault;
    return { isSent: "unknown", reason: fault.message };
  }
}

async function ask(wallet: Wallet, method: string, params: unknown[] = []): Promise<unknown> {
  try {
    return await wallet.provider.request({ method, params });
  } catch (error) {
    throw toFault(wallet, error);
  }
}

function toFault({ name }: Wallet, error: unknown): Fault {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  const known = typeof code === "number" ? { code } : {};
  if (code === DECLINED)
    return new Fault(`You declined in ${name}. Nothing was sent.`, { ...known, cause: error });
  return new Fault(`${name} reports a problem: ${String(message ?? error)}`, { ...known, cause: error });
}
