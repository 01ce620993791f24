/** A wallet in this browser (EIP-1193): its account, its signatures, and its transactions as an owner of the merchant's account. */
import { chooseNetwork } from "../../chain/choose-network.ts";
import { type Hex, networkOf } from "../../chain/networks.ts";
import type { Wallet } from "../../checkout/wallets.ts";
import type { Answer } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { ForeignOperation, word } from "../send/check-signed-operation.ts";

/** EIP-1193. */
const DECLINED = 4001;
/** EIP-1474: of wallets that show one request at a time. */
const PENDING = -32002;
const IS_OWNER_ADDRESS = "0xa2e1a8d8";
const IS_OWNER_PUBLIC_KEY = "0x066a1eb7";
const SELECTOR_END = 10;

/** Why the wallet did nothing; the message is for the person. */
export class WalletFault extends Error {}

/** The wallet's selected account. */
export async function connect(wallet: Wallet): Promise<Hex> {
  const [account] = (await ask(wallet, "eth_requestAccounts")) as Hex[];
  if (!account) throw new WalletFault(say("{wallet} shared no account.", { wallet: wallet.name }));
  return account;
}

type Statement = {
  signer: Hex;
  /** EIP-712, as the API returns it. */
  typedData: Answer<"POST /v1/auth/recover/start">["typedData"];
  /** What the person is about to state. */
  expected: { primaryType: "AddOwner" | "Recover"; message: Readonly<Record<string, string>> };
};

/**
 * Signs a statement to this service. Throws ForeignOperation for any other: the wallet may hold money of its own, and a signature for a token
 * or another contract, which its domain would name, could move it.
 */
export async function signStatement(
  wallet: Wallet,
  { signer, typedData, expected }: Statement,
): Promise<Hex> {
  const { types, primaryType, domain, message } = typedData;
  if (primaryType !== expected.primaryType) throw new ForeignOperation("primaryType");
  if (Object.keys(domain).join() !== "name,version") throw new ForeignOperation("domain");
  for (const [name, value] of Object.entries({ ...expected.message, owner: signer }))
    if (message[name]?.toLowerCase() !== value.toLowerCase()) throw new ForeignOperation(name);
  const statement = JSON.stringify({ types, primaryType, domain, message });
  return (await ask(wallet, "eth_signTypedData_v4", [signer, statement])) as Hex;
}

export type OwnerCall = { chainId: number; to: string; data: string };

/**
 * Sends the call of the merchant's account that adds a passkey, for which the wallet pays the gas. Returns the transaction's hash; undefined when
 * the passkey is an owner already, for example by a transaction that the wallet denied. `onAsk`: from now on the wallet may have sent it.
 */
export async function sendAsOwner(
  wallet: Wallet,
  { chainId, to, data }: OwnerCall,
  onAsk: () => void,
): Promise<Hex | undefined> {
  const from = await connect(wallet);
  const network = networkOf(chainId);
  if (!network) throw new WalletFault(say("This page does not know the network {chainId}.", { chainId }));
  const isThere = await chooseNetwork(wallet.provider, network).catch((error: unknown) => {
    throw faultOf(wallet, error);
  });
  if (!isThere)
    throw new WalletFault(
      say("{wallet} is on another network. Switch it to {network} and try again.", {
        ...{ wallet: wallet.name, network: network.name },
      }),
    );
  const holds = async (question: string) => {
    const answer = (await ask(wallet, "eth_call", [{ to, data: question }, "latest"])) as Hex;
    return answer !== "0x" && BigInt(answer) === 1n;
  };
  // from anybody else it would fail, or have no effect where the account is not deployed yet
  if (!(await holds(`${IS_OWNER_ADDRESS}${word(BigInt(from))}`)))
    throw new WalletFault(
      say("{address} is not an owner on {network} yet. Choose the right account, or try again in a minute.", {
        ...{ address: from, network: network.name },
      }),
    );
  if (await holds(`${IS_OWNER_PUBLIC_KEY}${data.slice(SELECTOR_END)}`)) return undefined;
  onAsk();
  // with the network, which may be changed while the wallet asks
  const transaction = { from, to, data, value: "0x0", chainId: `0x${chainId.toString(16)}` };
  return (await ask(wallet, "eth_sendTransaction", [transaction])) as Hex;
}

async function ask(wallet: Wallet, method: string, params: unknown[] = []): Promise<unknown> {
  try {
    return await wallet.provider.request({ method, params });
  } catch (error) {
    throw faultOf(wallet, error);
  }
}

function faultOf({ name }: Wallet, error: unknown): WalletFault {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  if (code === DECLINED) return new WalletFault(say("You declined in {wallet}.", { wallet: name }));
  if (code === PENDING)
    return new WalletFault(say("Answer the open request in {wallet} first.", { wallet: name }));
  const reason = String(message ?? error);
  return new WalletFault(
    /insufficient funds/i.test(reason)
      ? say("The account in {wallet} has too little ETH for the network's fee.", { wallet: name })
      : say("{wallet} reports: “{reason}”", { wallet: name, reason }),
    { cause: error },
  );
}
