/** A resource server's request to the facilitator: a payer's payload and the requirements it must meet, in version 1 or 2. */
import { NETWORKS, type NetworkId, parseNetwork } from "../../core/domain/networks.ts";
import type { Asker } from "../../db/payments/claim-success-answer.ts";
import type { IdentifiedPayment, KeyedPayment } from "../../db/payments/payment-identifiers.ts";
import { type PaymentAttempt, parsePayment } from "../x402/payload.ts";

export type FacilitatorRequest = {
  readonly version: 1 | 2;
  readonly network: NetworkId;
  readonly terms: { readonly payTo: `0x${string}`; readonly amountUnits: bigint };
  readonly attempt: PaymentAttempt;
};

/** `reason` is an x402 reason code; `payer` when it could be read. */
export type Unreadable = { readonly ok: false; readonly reason: string; readonly payer?: string };
export type Read = { readonly ok: true; readonly request: FacilitatorRequest } | Unreadable;

type Fields = Readonly<Record<string, unknown>>;

const ADDRESS = /^0x[0-9a-f]{40}$/i;
/** Fits into an int8 column. */
const AMOUNT = /^[1-9]\d{0,17}$/;

/** `isEnabled`: whether we relay on a network. */
export function readRequest(body: unknown, isEnabled: (network: NetworkId) => boolean): Read {
  const { x402Version, paymentPayload, paymentRequirements } = fieldsOf(body);
  const payload = fieldsOf(paymentPayload);
  const wanted = fieldsOf(paymentRequirements);
  const version = x402Version ?? payload.x402Version;
  if (version !== 1 && version !== 2) return refuse("invalid_x402_version");
  if (payload.x402Version !== undefined && payload.x402Version !== version)
    return refuse("invalid_x402_version");
  const scheme = fieldsOf(version === 2 ? payload.accepted : payload).scheme;
  if (wanted.scheme !== "exact" || scheme !== "exact") return refuse("unsupported_scheme");
  const transferMethod = fieldsOf(wanted.extra).assetTransferMethod;
  if (transferMethod !== undefined && transferMethod !== "eip3009") return refuse("unsupported_scheme");
  const parsed = parsePayment({ ...payload, x402Version: version });
  if (!parsed.ok) return refuse("invalid_payload");
  const { attempt } = parsed;
  const payer = attempt.authorization.from;
  const network = typeof wanted.network === "string" ? parseNetwork(wanted.network) : undefined;
  if (!network || !isEnabled(network) || attempt.network !== network) return refuse("invalid_network", payer);
  const amount = version === 1 ? wanted.maxAmountRequired : wanted.amount;
  const { payTo, asset } = wanted;
  const isMeant =
    typeof amount === "string" &&
    AMOUNT.test(amount) &&
    typeof payTo === "string" &&
    ADDRESS.test(payTo) &&
    typeof asset === "string" &&
    asset.toLowerCase() === NETWORKS[network].usdc.address;
  if (!isMeant) return refuse("invalid_payment_requirements", payer);
  // matched as an address above
  const terms = { payTo: payTo.toLowerCase() as `0x${string}`, amountUnits: BigInt(amount) };
  return { ok: true, request: { version, network, terms, attempt } };
}

/** The key that an authorization's payment is found by. */
export function keyOf({ network, attempt }: FacilitatorRequest) {
  const { from: payer, nonce } = attempt.authorization;
  return { network, token: NETWORKS[network].usdc.address, payer, nonce };
}

/** With its `payment-identifier`, if it has one; `userId`: on whose behalf it is settled. */
export function identifiedOf(
  { network, attempt }: FacilitatorRequest,
  userId: string,
): IdentifiedPayment | undefined {
  const { authorization, paymentIdentifier: identifier } = attempt;
  if (identifier === undefined) return undefined;
  return { userId, network, payer: authorization.from, nonce: authorization.nonce, identifier };
}

/** With the Idempotency-Key of the request, if it has one. */
export function keyedOf(
  { network, attempt }: FacilitatorRequest,
  { userId, idempotencyKey }: Pick<Asker, "userId" | "idempotencyKey">,
): KeyedPayment | undefined {
  if (idempotencyKey === undefined) return undefined;
  const { from: payer, nonce } = attempt.authorization;
  return { userId, network, payer, nonce, idempotencyKey };
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

function refuse(reason: string, payer?: string): Unreadable {
  return { ok: false, reason, ...(payer === undefined ? {} : { payer }) };
}
