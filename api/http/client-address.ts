/** The caller's IP address: the socket's, or the one that trusted proxies forwarded. */
import { isIP, isIPv6 } from "node:net";
import { isPublicAddress } from "../../core/runtime/public-ip-ranges.ts";
import type { TrustedProxies } from "../../core/runtime/trusted-proxies.ts";

const HOPS_MAX = 20;

/**
 * The address used for rate limits. `X-Forwarded-For` is trusted only when the peer is a trusted proxy, and is then walked from the
 * right to the first hop that is not one. Anything that is not an address ends the walk at the last trusted hop.
 */
export function clientAddressOf(
  peer: string | undefined,
  forwardedFor: string | null,
  proxies: TrustedProxies,
): string {
  let trusted = normalizeAddress(peer ?? "");
  if (!forwardedFor || !trusted || !proxies.isTrusted(trusted)) return trusted || "unknown";
  const hops = forwardedFor.split(",").slice(-HOPS_MAX).reverse();
  for (const hop of hops) {
    const address = normalizeAddress(hop.trim());
    if (!address) break;
    trusted = address;
    if (!proxies.isTrusted(address)) break;
  }
  return trusted;
}

/**
 * The address of what is probably an untrusted proxy, whose callers all share one rate limit: it forwards, and is not on the internet. A caller
 * on the internet may send the header too.
 */
export function untrustedProxyOf(
  peer: string | undefined,
  forwardedFor: string | null,
  proxies: TrustedProxies,
): string | undefined {
  if (!forwardedFor) return undefined;
  const address = normalizeAddress(peer ?? "");
  return address && !isPublicAddress(address) && !proxies.isTrusted(address) ? address : undefined;
}

const behalves = new WeakMap<Request, string>();

/** A request that this process makes to itself on behalf of a caller counts against the caller's address. */
export function requestOnBehalfOf(request: Request, clientAddress: string): Request {
  behalves.set(request, clientAddress);
  return request;
}

/** The address on whose behalf this process made the request, if it did. */
export function behalfOf(request: Request): string | undefined {
  return behalves.get(request);
}

/** IPv4-mapped IPv6 as IPv4, without port or brackets; "" when it is not an address. */
function normalizeAddress(text: string): string {
  const bare = text.replace(/^\[([^\]]*)\](?::\d+)?$/, "$1").replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, "$1");
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1];
  const address = mapped ?? bare.toLowerCase();
  return isIP(address) === 0 ? "" : address;
}

/** The part of an address that one customer controls: the whole IPv4 address, or the /64 of an IPv6 address. */
export function addressGroup(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = "", tail = ""] = address.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === "" ? [] : tail.split(":");
  const zeros = address.includes("::") ? Array(Math.max(0, 8 - left.length - right.length)).fill("0") : [];
  return `${[...left, ...zeros, ...right].slice(0, 4).join(":")}::/64`;
}
