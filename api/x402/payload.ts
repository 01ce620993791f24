/**
 * Parses four wire formats into one authorization: the documented shapes A (`signature`) and B (`v, r, s`), and the standard
 * `exact` payloads of x402 version 1 and 2. Only this file knows their differences.
 */

import {
  type Authorization,
  type PayerSignature,
  parseAuthorization,
  parseSignature,
  parseVrs,
} from "../../core/domain/authorization.ts";
import { type NetworkId, parseNetwork } from "../../core/domain/networks.ts";
import { parseJson } from "../../core/domain/parse-json.ts";
import { PAYMENT_HEADER_MAX_CHARS } from "../http/header-limit.ts";

export type PaymentAttempt = {
  readonly authorization: Authorization;
  readonly signature: PayerSignature;
  /** Undefined when the client named a network we don't know. */
  readonly network: NetworkId | undefined;
  /** The `payment-identifier` extension's id (x402 version 2), 16 to 128 characters. */
  readonly paymentIdentifier: string | undefined;
};

export type Parsed =
  | { readonly ok: true; readonly attempt: PaymentAttempt }
  | { readonly ok: false; readonly issue: string };

type Fields = Readonly<Record<string, unknown>>;

const SCHEMES: readonly unknown[] = ["exact", "evm-erc3009"];
/** More than any payment needs. */
const BODY_MAX_CHARS = 65_536;
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;
const PAYMENT_IDENTIFIER = /^[A-Za-z0-9_-]{16,128}$/;
const HEX = /^0x(?:[0-9a-fA-F]{2})*$/;

/** How a payment was sent: as JSON in the body, or in a header of x402 version 1 or 2. */
export type Way = "json" | 1 | 2;

/** What a request contains: a request for the link's terms, or a payment. */
export type Shown =
  | { readonly kind: "question" }
  | { readonly kind: "payment"; readonly way: Way; readonly parsed: Parsed };

type Headers = Readonly<Record<string, string | undefined>>;

/** Whether a request appears to contain a payment, without parsing it; selects its rate limit. */
export function bringsPayment(headers: Headers, bodyText: string | undefined): boolean {
  return (
    headers["payment-signature"] !== undefined ||
    headers["x-payment"] !== undefined ||
    (bodyText ?? "").trim() !== ""
  );
}

export function withoutPayment(headers: Headers): Headers {
  return { ...headers, "payment-signature": undefined, "x-payment": undefined };
}

/** No body and an empty object ask for the terms; every other JSON value is parsed as a payment, and refused if it is not one. */
export function readShown(headers: Headers, bodyText: string | undefined): Shown {
  const versionTwo = headers["payment-signature"];
  if (versionTwo !== undefined) return { kind: "payment", way: 2, parsed: parsePaymentHeader(versionTwo) };
  const versionOne = headers["x-payment"];
  if (versionOne !== undefined) return { kind: "payment", way: 1, parsed: parsePaymentHeader(versionOne) };
  if (bodyText === undefined || bodyText.trim() === "") return { kind: "question" };
  if (bodyText.length > BODY_MAX_CHARS) {
    const issue = `the body has ${bodyText.length} characters; at most ${BODY_MAX_CHARS} are accepted`;
    return { kind: "payment", way: "json", parsed: refuse(issue) };
  }
  const body = parseJson(bodyText);
  if (body === undefined) return { kind: "payment", way: "json", parsed: refuse("the body is not JSON") };
  if (isFields(body) && Object.keys(body).length === 0) return { kind: "question" };
  return { kind: "payment", way: "json", parsed: parsePayment(body) };
}

/** Reads an `X-PAYMENT` or `PAYMENT-SIGNATURE` header: base64 of the JSON payload. */
function parsePaymentHeader(header: string): Parsed {
  if (header.length > PAYMENT_HEADER_MAX_CHARS) {
    return refuse(
      `the payment header has ${header.length} characters; at most ${PAYMENT_HEADER_MAX_CHARS} are accepted`,
    );
  }
  if (!BASE64.test(header)) return refuse("the payment header is not base64");
  const payload = parseJson(Buffer.from(header, "base64").toString("utf8"));
  return payload === undefined
    ? refuse("the payment header is not a base64-encoded JSON object")
    : parsePayment(payload);
}

/** Reads a JSON body of any of the four shapes. */
export function parsePayment(body: unknown): Parsed {
  if (!isFields(body)) return refuse("the payment is not a JSON object");
  const { payload, accepted } = body;
  if (!isFields(payload)) return refuse("payload is missing");
  const version = body.x402Version ?? (accepted === undefined ? 1 : 2);
  if (version !== 1 && version !== 2) return refuse("x402Version must be 1 or 2");
  const terms = isFields(accepted) ? accepted : body;
  const scheme = terms.scheme;
  if (scheme !== undefined && !SCHEMES.includes(scheme)) return refuse("scheme is not supported");
  if (typeof terms.network !== "string") return refuse("network is missing");
  const authorization = readAuthorization(payload);
  if (!authorization) return refuse("the authorization's fields are missing or malformed");
  const signature = readSignature(payload);
  if (!signature) return refuse("the signature is missing, malformed, or its two forms disagree");
  const paymentIdentifier = readPaymentIdentifier(body.extensions);
  if (paymentIdentifier === null) return refuse("payment-identifier is malformed or missing");
  return {
    ok: true,
    attempt: {
      authorization,
      signature,
      network: parseNetwork(terms.network),
      paymentIdentifier,
    },
  };
}

function readAuthorization(payload: Fields): Authorization | undefined {
  const nested = payload.authorization;
  const fields = isFields(nested) ? nested : payload;
  const { data } = payload;
  if (data !== undefined && (typeof data !== "string" || !HEX.test(data))) return undefined;
  return parseAuthorization({
    from: fields.from,
    to: fields.to,
    value: fields.value,
    validAfter: fields.validAfter,
    validBefore: fields.validBefore,
    nonce: fields.nonce,
  });
}

/** `signature`, or `v, r, s`, or both when they say the same. */
function readSignature(payload: Fields): PayerSignature | undefined {
  const { signature, v, r, s } = payload;
  const hasParts = v !== undefined || r !== undefined || s !== undefined;
  const whole = signature === undefined ? undefined : parseSignature(signature);
  if (!hasParts) return whole;
  const parts = parseVrs(v, r, s);
  if (signature === undefined) return parts;
  return whole?.ecdsa !== undefined && whole.ecdsa === parts?.ecdsa ? whole : undefined;
}

/** Undefined when absent, null when present but not an identifier, or required and not given. */
function readPaymentIdentifier(extensions: unknown): string | undefined | null {
  if (!isFields(extensions)) return undefined;
  const extension = extensions["payment-identifier"];
  if (!isFields(extension)) return undefined;
  const info = isFields(extension.info) ? extension.info : {};
  const { id } = info;
  if (id === undefined) return info.required === true ? null : undefined;
  return typeof id === "string" && PAYMENT_IDENTIFIER.test(id) ? id : null;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function refuse(issue: string): Parsed {
  return { ok: false, issue };
}
