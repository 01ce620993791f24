/** Requests to the payer's wallet: account, network, balance, a signature (ERC-3009) or a transfer. */
import {
  formatAmount,
  type Hex,
  type Link,
  type Messages,
  page,
  say,
  serverNowMs,
  unitsOf,
} from "./page-data.ts";
import type { Wallet } from "./wallets.ts";

/** Why a payment stopped before anything was sent; the message is what the payer reads. */
export class Stop extends Error {
  readonly key: keyof Messages;
  /** A plain transfer may still work. */
  readonly offersTransfer: boolean;
  constructor(key: keyof Messages, values: Record<string, string> = {}, offersTransfer = false) {
    super(say(key, values));
    this.key = key;
    this.offersTransfer = offersTransfer;
  }
}

/** Codes of EIP-1193 and EIP-1474. */
const DECLINED = 4001;
const UNKNOWN_CHAIN = 4902;
const DISCONNECTED = 4900;
const NOT_SUPPORTED: readonly unknown[] = [4200, -32601, -32004];
/** The wallet refused before it could send anything. */
const SURELY_NOT_SENT: readonly unknown[] = [DECLINED, 4100, 4200, 4900, 4901, -32601, -32602, -32004];

const VALID_S = 600;
const TRANSFER = "0xa9059cbb";
const BALANCE_OF = "0x70a08231";

const word = (value: bigint | Hex) => BigInt(value).toString(16).padStart(64, "0");
const chainIdOf = (link: Link) => `0x${link.chainId.toString(16)}`;
const codeOf = (error: unknown) => (error as { code?: unknown } | null)?.code;
const reasonOf = (error: unknown) => String((error as { message?: unknown } | null)?.message ?? error);
const stopOf = (error: unknown, { name }: Wallet, offersTransfer?: boolean) =>
  codeOf(error) === DECLINED
    ? new Stop("declined", { wallet: name }, offersTransfer)
    : new Stop("walletProblem", { reason: reasonOf(error) }, offersTransfer);

/** Connects, switches the network and reads the balance. `onStep` gets the step to show meanwhile. */
export async function connect(
  wallet: Wallet,
  link: Link,
  onStep: (key: "switching" | "checkingBalance") => void,
): Promise<Hex> {
  const accounts = await ask(wallet, "eth_requestAccounts");
  const payer = (accounts as Hex[] | null)?.[0];
  if (!payer) throw new Stop("declined", { wallet: wallet.name });
  await chooseNetwork(wallet, onStep);
  onStep("checkingBalance");
  const balance = await readBalance(wallet, link, payer);
  return balance !== undefined && balance < unitsOf(link.amount) ? tooLittle(balance, link) : payer;
}

/** Connects to sign for a known account: wallets refuse typed data for a network other than the selected one. */
export async function connectToSign(wallet: Wallet): Promise<void> {
  await ask(wallet, "eth_requestAccounts");
  await chooseNetwork(wallet);
}

/** Undefined on the link's network. */
const findOther = async (wallet: Wallet): Promise<Stop | undefined> =>
  Number(await ask(wallet, "eth_chainId")) === page.link.chainId
    ? undefined
    : new Stop("wrongNetwork", { network: page.network.name });

async function chooseNetwork(wallet: Wallet, onStep?: (key: "switching") => void): Promise<void> {
  const { link, network } = page;
  const chainId = chainIdOf(link);
  if (!(await findOther(wallet))) return;
  onStep?.("switching");
  await wallet.provider
    .request({ method: "wallet_switchEthereumChain", params: [{ chainId }] })
    .catch((error) => {
      if (codeOf(error) === DECLINED) throw stopOf(error, wallet);
      if (codeOf(error) !== UNKNOWN_CHAIN) return;
      return ask(wallet, "wallet_addEthereumChain", [
        {
          chainId,
          chainName: network.name,
          rpcUrls: [network.rpcUrl],
          nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
          blockExplorerUrls: [network.explorer],
        },
      ]);
    });
  const other = await findOther(wallet);
  if (other) throw other;
}

function tooLittle(balance: bigint, link: Link): never {
  throw new Stop("tooLittle", {
    balance: formatAmount(Number(balance) / 1e6),
    amount: formatAmount(link.amount),
  });
}

/** Undefined when the wallet does not return it: then the service checks. */
async function readBalance({ provider }: Wallet, link: Link, payer: Hex): Promise<bigint | undefined> {
  try {
    const call = { to: link.token.address, data: BALANCE_OF + word(payer) };
    return BigInt((await provider.request({ method: "eth_call", params: [call, "latest"] })) as Hex);
  } catch {
    return undefined;
  }
}

/** `key`: of this payment alone. */
export type SignedPayment = { body: string; validBefore: number; key: string };

/** The body of `POST /v1/x402/{linkId}/pay`. Its nonce begins with the link's tag, so it can pay no other link. */
export async function signPayment(wallet: Wallet, link: Link, payer: Hex): Promise<SignedPayment> {
  const validBefore = Math.floor(serverNowMs() / 1000) + VALID_S;
  const random = [...crypto.getRandomValues(new Uint8Array(32))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
  const tag = (link.tag ?? "0x").slice(2);
  const authorization = {
    from: payer,
    to: link.recipientAddress,
    value: unitsOf(link.amount).toString(),
    validAfter: "0",
    validBefore: String(validBefore),
    nonce: `0x${tag}${random.slice(tag.length)}`,
  };
  const typedData = {
    types: { EIP712Domain: DOMAIN, TransferWithAuthorization: AUTHORIZATION },
    primaryType: "TransferWithAuthorization",
    domain: {
      name: link.token.name,
      version: link.token.version,
      chainId: link.chainId,
      verifyingContract: link.token.address,
    },
    message: authorization,
  };
  const signature = await signTypedData(wallet, payer, typedData);
  const payload = { authorization, signature };
  return {
    body: JSON.stringify({ x402Version: 1, scheme: "exact", network: link.network, payload }),
    validBefore,
    key: random,
  };
}

export async function signTypedData(wallet: Wallet, signer: Hex, typedData: unknown): Promise<Hex> {
  try {
    const params = [signer, JSON.stringify(typedData)];
    return (await wallet.provider.request({ method: "eth_signTypedData_v4", params })) as Hex;
  } catch (error) {
    if (NOT_SUPPORTED.includes(codeOf(error))) throw new Stop("cannotSign", {}, true);
    return explain(error, wallet);
  }
}

/** Sends USDC with the link's tag appended to the call. Undefined when the wallet's response leaves open whether it was sent. */
export async function sendTransfer(wallet: Wallet, link: Link, payer: Hex): Promise<Hex | undefined> {
  const data = `${TRANSFER}${word(link.recipientAddress)}${word(unitsOf(link.amount))}${(link.tag ?? "0x").slice(2)}`;
  // explicit, since the person may have switched the wallet's network meanwhile
  const chainId = chainIdOf(link);
  const transaction = { from: payer, to: link.token.address, data, value: "0x0", chainId };
  try {
    return (await wallet.provider.request({ method: "eth_sendTransaction", params: [transaction] })) as Hex;
  } catch (error) {
    if (SURELY_NOT_SENT.includes(codeOf(error))) return explain(error, wallet);
    return undefined;
  }
}

/** A wallet that the person moved to another network refuses in its own language. */
async function explain(error: unknown, wallet: Wallet): Promise<never> {
  throw (await findOther(wallet)) ?? stopOf(error, wallet, true);
}

/** For calls that move no money: whatever goes wrong, nothing was sent. */
async function ask(wallet: Wallet, method: string, params: unknown[] = []): Promise<unknown> {
  try {
    return await wallet.provider.request({ method, params });
  } catch (error) {
    if (codeOf(error) === DISCONNECTED) throw new Stop("unreachable", { wallet: wallet.name });
    throw stopOf(error, wallet);
  }
}

/** As in EIP-712's encoding of a type. */
const fieldsOf = (text: string) =>
  text.split(",").map((field) => {
    const [type, name] = field.split(" ");
    return { name, type };
  });

const DOMAIN = fieldsOf("string name,string version,uint256 chainId,address verifyingContract");
const AUTHORIZATION = fieldsOf(
  "address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce",
);
