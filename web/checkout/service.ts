/** Calls to the service. A payment that may have been accepted is submitted again with the same bytes until its outcome is known. */
import { type Hex, type Link, type Messages, page } from "./page-data.ts";
import { Stop } from "./wallet-calls.ts";

type Answer = {
  success?: boolean;
  settled?: boolean;
  txHash?: Hex | null;
  error?:
    | string
    | { code: string; message: string; details?: { issue?: string; typedData?: unknown } }
    | null;
  message?: string;
  paymentId?: string;
  retryable?: boolean;
};

const RETRY_MS = 3_000;
/** Attempts to submit a payment that the service temporarily cannot accept. */
const REFUSED_ATTEMPTS_MAX = 4;
/** Longer than an authorization is valid. */
const ASKED_FOR_MS = 900_000;
/** Longer than the service takes to respond to a payment; a browser's own timeout is minutes. */
const ANSWER_MAX_MS = 30_000;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A request that times out fails like a lost connection: it may have arrived. */
async function call(path: string, init?: RequestInit): Promise<{ status: number; body: Answer }> {
  // some wallets' browsers do not have AbortSignal.timeout; they wait
  const signal = AbortSignal.timeout?.(ANSWER_MAX_MS);
  const response = await fetch(path, { ...init, signal });
  return { status: response.status, body: (await response.json().catch(() => ({}))) as Answer };
}

/** The receipt is issued in the page's language, which may differ from the browser's. */
function post(path: string, body: string, headers?: Record<string, string>) {
  return call(path, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", "accept-language": page.language, ...headers },
  });
}

export async function readLink(linkId: string): Promise<Link> {
  const { body } = await call(`/api/v1/public/payment-links/${linkId}/data`);
  if (!("linkId" in body)) throw new Error("no link");
  return body as Link;
}

/**
 * The hash of the paying transaction once it is in a block. Throws Stop when the payment was refused: then nothing was sent. Sending the
 * same body again with the same key can never pay twice.
 */
export async function submitPayment(linkId: string, body: string, key: string): Promise<Hex | null> {
  let refusals = 0;
  let isUncertain = false;
  const endMs = Date.now() + ASKED_FOR_MS;
  while (Date.now() < endMs) {
    const headers = { "idempotency-key": key };
    const answer = await post(`/v1/x402/${linkId}/pay`, body, headers).catch(() => undefined);
    if (answer) {
      const { status, body: said } = answer;
      if (status === 200 && said.success) return said.txHash ?? null;
      if (status === 202 && said.paymentId) return followPayment(linkId, said.paymentId);
      // without an error of the service the response is an intermediary's, which knows nothing about the payment
      if (status >= 400 && status < 500 && status !== 429 && said.error) return explain(said);
      // after a lost response, "not now" says nothing about the previous attempt
      const isRefusedForNow: boolean = !isUncertain && (status === 429 || said.retryable === true);
      if (isRefusedForNow && ++refusals >= REFUSED_ATTEMPTS_MAX) throw new Stop("unavailableText");
      isUncertain ||= !isRefusedForNow;
    }
    isUncertain ||= !answer;
    await pause(RETRY_MS);
  }
  throw new Stop("maybeSent");
}

async function followPayment(linkId: string, paymentId: string): Promise<Hex | null> {
  const endMs = Date.now() + ASKED_FOR_MS;
  while (Date.now() < endMs) {
    const answer = await call(`/v1/x402/${linkId}/payments/${paymentId}`).catch(() => undefined);
    if (answer?.status === 200 && answer.body.settled) return answer.body.txHash ?? null;
    if (answer?.status === 200 && answer.body.error && answer.body.error !== "SETTLEMENT_PENDING")
      return explain(answer.body);
    await pause(RETRY_MS);
  }
  throw new Stop("maybeSent");
}

/** Throws the refusal, or returns the hash when the refusal says that this authorization has paid. */
function explain({ error, txHash, message }: Answer): Hex {
  const code = typeof error === "string" ? error : (error?.code ?? "");
  switch (code) {
    case "NONCE_USED":
      // the nonce is this page's own: whatever used it is this payment
      if (txHash) return txHash;
      // executed by a transaction that is not known yet, or cancelled
      throw new Stop("maybeSent");
    case "LINK_ALREADY_PAID":
    case "PAYMENT_IN_PROGRESS":
      throw new Stop("otherCameFirst");
    case "INVALID_SIGNATURE":
      throw new Stop("cannotSign", {}, true);
    case "AMOUNT_TOO_SMALL_TO_RELAY":
    case "RELAY_BUDGET_SPENT":
      throw new Stop("noRelay", {}, true);
  }
  // by its code in the page's language; a reason that this page's own payments cannot have is the service's English
  throw new Stop(
    "refusedBecause",
    { reason: page.messages[code as keyof Messages] ?? message ?? code },
    true,
  );
}

/** `key`: of the message that says so. `typedData`: what the sender has to sign for `claimProof`. */
export type ClaimAnswer = {
  key: "claimDone" | "claimProof" | "claimInvalid" | "claimUnrelated" | "claimFailed";
  typedData?: unknown;
};

/** Claims that a transaction paid the link. `signature`: of the typed data that a response requested. */
export async function claim(
  linkId: string,
  claimed: { transactionHash: string; clientWalletAddress: string; signature?: Hex },
): Promise<ClaimAnswer> {
  const path = `/api/v1/public/payment-links/${linkId}/complete`;
  const answer = await post(path, JSON.stringify(claimed)).catch(() => undefined);
  if (!answer) return { key: "claimFailed" };
  const { status, body } = answer;
  const { typedData } = body as { typedData?: unknown };
  if (status === 200 && !typedData) return { key: "claimDone" };
  const details = typeof body.error === "object" ? body.error?.details : undefined;
  const proof = typedData ?? details?.typedData;
  if (proof) return { key: "claimProof", typedData: proof };
  if (details?.issue === "does_not_pay_this_link") return { key: "claimUnrelated" };
  return { key: status === 400 ? "claimInvalid" : "claimFailed" };
}
