/**
 * Pays a link by x402 with an account that signs EIP-712, such as one of viem. The payer needs USDC and no ETH.
 * One authorization is signed for a call, and every retry sends that one again, so a lost answer never pays twice.
 */
import { ConnectionError, PaymentError } from "./errors.ts";
import { pause } from "./request.ts";

type Hex = `0x${string}`;
export type Signer = {
  address: Hex;
  // biome-ignore lint/suspicious/noExplicitAny: viem's accounts infer their parameter from the data
  signTypedData: (typedData: any) => Promise<Hex>;
};
export type Payment = { txHash: string; paymentId: string | undefined; amountUnits: bigint };

type Item = {
  amount: string;
  chainId: number;
  network: string;
  payTo: Hex;
  asset: Hex;
  maxTimeoutSeconds: number;
  extra: { name: string; version: string };
};
type Outcome = {
  success?: boolean;
  txHash?: string | null;
  error?: unknown;
  message?: string;
  paymentId?: string;
  statusUrl?: string;
  retryable?: boolean;
};

const TYPES = {
  TransferWithAuthorization: [
    { name: "from", type: "address" },
    { name: "to", type: "address" },
    { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" },
    { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
};
/** Whatever a link says, nothing else is signed for. */
const USDC: Readonly<Record<number, Hex>> = {
  8453: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
  84532: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
};
const PAUSE_MS = 500;

/** `aiUrl` is the link's; `maxAmount` in USDC is what may be paid at most. Throws PaymentError, or ConnectionError when the outcome is unknown. */
export async function payLink(
  aiUrl: string,
  account: Signer,
  { maxAmount, fetch: fetchWith = fetch }: { maxAmount: number; fetch?: typeof fetch },
): Promise<Payment> {
  const item = await readRequirements(aiUrl, fetchWith);
  if (USDC[item.chainId]?.toLowerCase() !== item.asset.toLowerCase())
    throw refused(`The link asks for a token that is not USDC on Base: ${item.asset}`, "UNKNOWN_TOKEN");
  const amountUnits = BigInt(item.amount);
  if (amountUnits > BigInt(Math.round(maxAmount * 1e6)))
    throw refused(
      `The link asks for ${Number(amountUnits) / 1e6} USDC; at most ${maxAmount} may be paid`,
      "OVER_LIMIT",
    );
  const validBefore = Math.floor(Date.now() / 1_000) + item.maxTimeoutSeconds;
  const payload = await sign(item, account, { amountUnits, validBefore });
  const body = JSON.stringify({ network: item.network, payload });
  for (;;) {
    const outcome = await post(aiUrl, { body, key: payload.nonce }, fetchWith);
    if (outcome?.success && outcome.txHash)
      return { txHash: outcome.txHash, paymentId: outcome.paymentId, amountUnits };
    const isOver = Date.now() / 1_000 > validBefore;
    if (outcome && !isUndecided(outcome))
      throw refused(outcome.message ?? `The payment was refused: ${outcome.error}`, String(outcome.error));
    if (isOver)
      throw new ConnectionError(
        "The outcome of the payment is unknown; look at the link before paying again",
      );
    await pause(PAUSE_MS);
  }
}

async function readRequirements(aiUrl: string, fetchWith: typeof fetch): Promise<Item> {
  const answer = await fetchWith(aiUrl);
  const {
    accepts = [],
    error,
    message,
  } = (await answer.json()) as {
    accepts?: Item[];
    error?: unknown;
    message?: string;
  };
  const [item] = accepts;
  if (answer.status !== 402 || !item)
    throw refused(message ?? "The link cannot be paid", typeof error === "string" ? error : "NOT_PAYABLE");
  return item;
}

async function sign(item: Item, account: Signer, given: { amountUnits: bigint; validBefore: number }) {
  const nonce: Hex = `0x${[...crypto.getRandomValues(new Uint8Array(32))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  const authorization = {
    from: account.address,
    to: item.payTo,
    value: given.amountUnits,
    validAfter: 0n,
    validBefore: BigInt(given.validBefore),
    nonce,
  };
  const signature = await account.signTypedData({
    domain: { ...item.extra, chainId: item.chainId, verifyingContract: item.asset },
    types: TYPES,
    primaryType: "TransferWithAuthorization",
    message: authorization,
  });
  const text = { value: String(given.amountUnits), validAfter: 0, validBefore: given.validBefore };
  return { ...authorization, ...text, signature };
}

/** Undefined when there was no answer. */
async function post(
  aiUrl: string,
  { body, key }: { body: string; key: string },
  fetchWith: typeof fetch,
): Promise<Outcome | undefined> {
  // a repeat with the same key is answered as the first time, also after the payment is settled
  const headers = { "content-type": "application/json", "idempotency-key": key };
  const answer = await fetchWith(`${aiUrl}/pay`, { method: "POST", headers, body }).catch(() => undefined);
  if (!answer || answer.status === 429 || answer.status >= 500) return undefined;
  return (await answer.json().catch(() => undefined)) as Outcome | undefined;
}

/** Our authorization is on its way, or was already settled by an answer that got lost: asking again tells. */
function isUndecided({ error, retryable }: Outcome): boolean {
  return error === "SETTLEMENT_PENDING" || retryable === true;
}

function refused(message: string, code: string): PaymentError {
  return new PaymentError({ status: 402, code, message });
}
