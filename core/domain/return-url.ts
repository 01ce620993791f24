/**
 * Where a payer returns to: which shop URLs are allowed (https, or http on localhost, without user info and without a query parameter
 * that we add), and the signed query that is added.
 */
import { createHmac, randomBytes } from "node:crypto";
import type { LinkStatus } from "./link.ts";

export const RETURN_URL_MAX = 2_000;
const RETURN_PARAMETERS = ["linkId", "reference", "status", "at", "sig"] as const;
const SECRET_BYTES = 32;

export function newReturnSecret(): string {
  return `ret_${randomBytes(SECRET_BYTES).toString("hex")}`;
}

/** Why a payer cannot be sent to this address, if so. */
export function whyNotAReturnUrl(text: string): string | undefined {
  const url = URL.parse(text);
  if (!url) return "must be a URL";
  const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isLocal))
    return "must be https, or http on localhost";
  if (url.username || url.password) return "must not contain a user or password";
  const taken = RETURN_PARAMETERS.filter((name) => url.searchParams.has(name));
  // a shop that reads the first of two values would read an unsigned one
  if (taken.length > 0) return `must not have the query parameter ${taken[0]}, which the service adds`;
  return undefined;
}

export type Returned = { linkId: string; reference: string | null; status: LinkStatus; at: Date };

/**
 * The shop's address with `linkId, reference, status, at, sig` in its query. `sig` is the hex HMAC-SHA256 of the first four joined by
 * newlines, keyed with the bytes of the merchant's return secret as displayed; an absent reference is an empty string.
 */
export function signReturnUrl(
  target: string,
  { linkId, reference, status, at }: Returned,
  secret: string,
): string {
  const signed = [linkId, reference ?? "", status, at.toISOString()];
  const sig = createHmac("sha256", secret).update(signed.join("\n")).digest("hex");
  const values = [...signed, sig];
  const query = new URLSearchParams();
  for (const [index, name] of RETURN_PARAMETERS.entries()) query.append(name, values[index] ?? "");
  // inserted into the text: the shop's own query and fragment stay as they were written
  const [, address = "", fragment = ""] = /^([^#]*)(#.*)?$/s.exec(target) ?? [];
  return `${address}${address.includes("?") ? "&" : "?"}${query}${fragment}`;
}
