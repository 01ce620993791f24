/** Who is really calling: the socket's address, or what trusted proxies say about it. */
import { BlockList, isIP, isIPv6 } from "node:net";

export type TrustedProxies = { isTrusted(address: string): boolean };

const HOPS_MAX = 20;

type ProxyRange = { address: string; prefix: number; version: "ipv4" | "ipv6" };

/** One sentence for each range that is neither an address nor CIDR. */
export function proxyFaults(ranges: readonly string[]): string[] {
  return ranges
    .filter((range) => !parseRange(range))
    .map((range) => `TRUSTED_PROXIES: "${range}" is not an address or CIDR range`);
}

/** Takes ranges that `proxyFaults` has nothing to say about; others trust nobody. */
export function readProxies(ranges: readonly string[]): TrustedProxies {
  const list = new BlockList();
  for (const range of ranges) {
    const parsed = parseRange(range);
    if (parsed) list.addSubnet(parsed.address, parsed.prefix, parsed.version);
  }
  return { isTrusted: (address) => list.check(address, isIPv6(address) ? "ipv6" : "ipv4") };
}

function parseRange(range: string): ProxyRange | undefined {
  const [address = "", bits] = range.split("/");
  const version = isIP(address);
  const prefixMax = version === 6 ? 128 : 32;
  const prefix = bits === undefined ? prefixMax : Number(bits);
  if (version === 0 || !Number.isInteger(prefix) || prefix < 0 || prefix > prefixMax) return undefined;
  return { address, prefix, version: version === 6 ? "ipv6" : "ipv4" };
}

/**
 * The address a limit counts. `X-Forwarded-For` is believed only when the peer is a trusted proxy, and is then walked
 * from the right to the first hop that is not one. Anything that is no address ends the walk at the last believed hop.
 */
export function clientAddressOf(
  peer: string | undefined,
  forwardedFor: string | null,
  proxies: TrustedProxies,
): string {
  let believed = normalizeAddress(peer ?? "");
  if (!forwardedFor || !believed || !proxies.isTrusted(believed)) return believed || "unknown";
  const hops = forwardedFor.split(",").slice(-HOPS_MAX).reverse();
  for (const hop of hops) {
    const address = normalizeAddress(hop.trim());
    if (!address) break;
    believed = address;
    if (!proxies.isTrusted(address)) break;
  }
  return believed;
}

/** IPv4-mapped IPv6 as IPv4, without port or brackets; "" when it is no address. */
function normalizeAddress(text: string): string {
  const bare = text.replace(/^\[([^\]]*)\](?::\d+)?$/, "$1").replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, "$1");
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1];
  const address = mapped ?? bare.toLowerCase();
  return isIP(address) === 0 ? "" : address;
}

/** The part of an address one customer holds: IPv4 whole, IPv6 by its /64. */
export function addressGroup(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = "", tail = ""] = address.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === "" ? [] : tail.split(":");
  const zeros = address.includes("::") ? Array(Math.max(0, 8 - left.length - right.length)).fill("0") : [];
  return `${[...left, ...zeros, ...right].slice(0, 4).join(":")}::/64`;
}
