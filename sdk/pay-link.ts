/**
 * Pays a link by x402 with an account that signs EIP-712, such as one of viem. The payer needs USDC and no ETH.
 * One authorization is signed for a call, and every retry sends that one again, so a lost answer never pays twice.
 */
import { ConnectionError, PaymentError } from "./errors.ts";
import { ignore, pause, RETRY_AFTER_MAX_S, retryAfterOf, TIMEOUT_MS } from "./request.ts";

type Hex = `0x${string}`;
export type Signer = {
  address: Hex;
  // biome-ignore lint/suspicious/noExplicitAny: viem's accounts infer their parameter from the data
  signTypedData: (typedData: any) => Promise<Hex>;
};
export type Payment = { txHash: string; paymentId: string | undefined; amountUnits: bigint };
export type PayOptions = {
  /** USDC that may be paid at most. */
  maxAmount: number;
  /** USDC, for links whose payer chooses the amount. */
  amount?: number | undefined;
  /** Chain ids that may be paid on; default Base and Base Sepolia. */
  chainIds?: readonly number[] | undefined;
};
export type SendOptions = {
  fetch?: typeof fetch | undefined;
  /** How long to wait for the outcome; default until the authorization has expired. */
  waitMs?: number | undefined;
};

/** A signed authorization and where it belongs. Sending it again never pays twice; it can be kept as JSON. */
export type Attempt = {
  aiUrl: string;
  network: string;
  chainId: number;
  payTo: Hex;
  /** Micro-USDC. */
  amount: string;
  /** Unix seconds after which it can no longer be executed. */
  validBefore: number;
  payload: { nonce: Hex; [field: string]: unknown };
};

/** The payment may or may not have been made: send `attempt` again with `sendPayment`, or look at the link, before paying otherwise. */
export class UnknownOutcomeError extends ConnectionError {
  override readonly name = "UnknownOutcomeError";
  readonly attempt: Attempt;

  constructor(attempt: Attempt) {
    super("The outcome of the payment is unknown; check the link before paying again");
    this.attempt = attempt;
  }
}

type Item = {
  amount: string;
  chainId: number;
  network: string;
  payTo: Hex;
  asset: Hex;
  maxTimeoutSeconds: number;
};
type Outcome = {
  success?: boolean;
  /** Whether the transfer is in a block. */
  settled?: boolean;
  txHash?: string | null;
  accepts?: Item[];
  error?: unknown;
  message?: string;
  paymentId?: string;
  retryable?: boolean;
};

const PRIMARY_TYPE = "TransferWithAuthorization";
const FIELDS = {
  from: "address",
  to: "address",
  value: "uint256",
  validAfter: "uint256",
  validBefore: "uint256",
  nonce: "bytes32",
};
const TYPES = { [PRIMARY_TYPE]: Object.entries(FIELDS).map(([name, type]) => ({ name, type })) };
/** Whatever a link says, nothing else is signed for: the name of the token's EIP-712 domain, and its address. */
export const USDC: Readonly<Record<number, readonly [string, Hex]>> = {
  8453: ["USD Coin", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"],
  84532: ["USDC", "0x036CbD53842c5426634e7929541eC2318f3dCF7e"],
};
const PAUSE_S = 0.5;
/** The service responds to a payment within two minutes, whatever its outcome. */
const PAY_TIMEOUT_MS = 130_000;
const PAY_TIMEOUT_MIN_MS = 10_000;
/** Maximum validity in seconds, because anyone with a signed authorization can execute it until it expires. */
const VALID_MAX_S = 900;

/** `aiUrl` is the link's. Throws PaymentError, or UnknownOutcomeError. */
export async function payLink(
  aiUrl: string,
  account: Signer,
  options: PayOptions & SendOptions,
): Promise<Payment> {
  return sendPayment(await signPayment(aiUrl, account, options), options);
}

/** Signs the link's terms without sending anything. Throws PaymentError when they exceed what is allowed. */
export async function signPayment(
  aiUrl: string,
  account: Signer,
  { maxAmount, amount, chainIds, fetch: fetchWith = fetch }: PayOptions & Pick<SendOptions, "fetch">,
): Promise<Attempt> {
  const {
    chainId,
    network,
    payTo,
    asset,
    maxTimeoutSeconds: validS,
    url,
    ...item
  } = await readItem(amount === undefined ? aiUrl : `${aiUrl}?amount=${amount}`, fetchWith);
  const [name, token = ""] = USDC[chainId] ?? [];
  if (!name || token.toLowerCase() !== asset.toLowerCase())
    refuse(`The link requires a token that is not USDC on Base: ${asset}`, "UNKNOWN_TOKEN");
  if (chainIds && !chainIds.includes(chainId))
    refuse(`The link is on ${network} (${chainId}), which is not allowed`, "NETWORK_NOT_ALLOWED");
  if (typeof item.amount !== "string" || !/^\d{1,30}$/.test(item.amount))
    refuse(`The link's amount is invalid: ${item.amount}`, "NOT_PAYABLE");
  const units = BigInt(item.amount);
  const asked = `The link asks for ${Number(units) / 1e6} USDC`;
  if (units > toUnits(maxAmount)) refuse(`${asked}; at most ${maxAmount} may be paid`, "OVER_LIMIT");
  if (amount !== undefined && units !== toUnits(amount))
    refuse(`${asked}, not for ${amount}`, "AMOUNT_DIFFERS");
  if (!(Number.isInteger(validS) && validS > 0 && validS <= VALID_MAX_S))
    refuse(`The link requires an authorization of ${validS} seconds`, "VALIDITY_NOT_ALLOWED");
  const validBefore = Math.floor(Date.now() / 1_000) + validS;
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  const message = {
    from: account.address,
    to: payTo,
    value: units,
    validAfter: 0n,
    validBefore: BigInt(validBefore),
    nonce: `0x${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}` as Hex,
  };
  const signature = await account.signTypedData({
    domain: { name, version: "2", chainId, verifyingContract: token },
    types: TYPES,
    primaryType: PRIMARY_TYPE,
    message,
  });
  const payload = { ...message, value: String(units), validAfter: 0, validBefore, signature };
  return { aiUrl: url, network, chainId, payTo, amount: payload.value, validBefore, payload };
}

/** Sends an attempt until its outcome is known. The same attempt sent again gets the same outcome. */
export async function sendPayment(
  attempt: Attempt,
  { fetch: fetchWith = fetch, waitMs = VALID_MAX_S * 1_000 }: SendOptions = {},
): Promise<Payment> {
  const { aiUrl, network, payload, validBefore, amount } = attempt;
  // a repeat with the same key is answered as the first time, also after the payment is settled
  const headers = { "content-type": "application/json", "idempotency-key": payload.nonce };
  const call = { method: "POST", headers, body: JSON.stringify({ network, payload }) };
  const untilMs = Math.min(Date.now() + waitMs, validBefore * 1_000);
  for (;;) {
    const timeoutMs = Math.min(PAY_TIMEOUT_MS, Math.max(PAY_TIMEOUT_MIN_MS, untilMs - Date.now()));
    const signalled = { ...call, signal: AbortSignal.timeout(timeoutMs) };
    const answer = await fetchWith(`${aiUrl}/pay`, signalled).catch(ignore);
    const outcome = answer && (await toOutcome(answer).catch(ignore));
    // without `settled` the transaction is sent, and no block holds it yet
    if (outcome?.settled && outcome.txHash)
      return { txHash: outcome.txHash, paymentId: outcome.paymentId, amountUnits: BigInt(amount) };
    if (outcome && !isUndecided(outcome))
      refuse(outcome.message ?? `The payment was refused: ${outcome.error}`, `${outcome.error}`);
    const leftMs = untilMs - Date.now();
    if (leftMs < 0) throw new UnknownOutcomeError(attempt);
    const pauseS = Math.min(retryAfterOf(answer) ?? PAUSE_S, RETRY_AFTER_MAX_S);
    await pause(Math.min(pauseS * 1_000, leftMs));
  }
}

const toUnits = (usdc: number) => BigInt(Math.round(usdc * 1e6));

/** `url`: where it was read, without its query. A payment sent to an address that redirects could arrive as a GET. */
async function readItem(asked: string, fetchWith: typeof fetch): Promise<Item & { url: string }> {
  const answer = await fetchWith(asked, { signal: AbortSignal.timeout(TIMEOUT_MS) }).catch((cause) => {
    throw new ConnectionError("The link could not be read; nothing was signed", { cause });
  });
  const terms = (await answer.json().catch(ignore)) as Outcome | null | undefined;
  if (!terms)
    throw new ConnectionError(`The response is not a payment link's (${answer.status}); nothing was signed`);
  const { accepts = [], error, message = "The link cannot be paid" } = terms;
  const [item] = accepts;
  if (answer.status !== 402 || !item) refuse(message, typeof error === "string" ? error : "NOT_PAYABLE");
  return { ...item, url: (answer.redirected ? answer.url : asked).replace(/\?.*/, "") };
}

/** Undefined when it is no answer of the service: a proxy's refusal says nothing about what was sent before. */
async function toOutcome(answer: Response): Promise<Outcome | undefined> {
  if (answer.status === 429 || answer.status >= 500) return undefined;
  const outcome = (await answer.json()) as Outcome;
  const isRefusal = typeof outcome.error === "string" && (outcome.success === false || "accepts" in outcome);
  return outcome.success || isRefusal ? outcome : undefined;
}

/** Our authorization is in progress, or was already settled and the response was lost: repeating the request shows which. */
function isUndecided({ success, error, retryable }: Outcome): boolean | undefined {
  return success || error === "SETTLEMENT_PENDING" || retryable;
}

function refuse(message: string, code: string): never {
  throw new PaymentError({ status: 402, code, message });
}
