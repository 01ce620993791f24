/** TRUSTED_PROXIES: the addresses whose `X-Forwarded-For` is trusted. */
import { BlockList, isIP, isIPv6 } from "node:net";

export type TrustedProxies = { isTrusted(address: string): boolean };

type ProxyRange = { address: string; prefix: number; version: "ipv4" | "ipv6" };

/** One sentence for each entry that is neither an address nor a CIDR range. */
export function proxyFaults(ranges: readonly string[]): string[] {
  return ranges
    .filter((range) => !parseRange(range))
    .map((range) => `TRUSTED_PROXIES: "${range}" is not an address or CIDR range`);
}

/** Takes ranges that `proxyFaults` accepts; others match no address. */
export function readProxies(ranges: readonly string[]): TrustedProxies {
  const list = new BlockList();
  for (const range of ranges) {
    const parsed = parseRange(range);
    if (parsed) list.addSubnet(parsed.address, parsed.prefix, parsed.version);
  }
  return { isTrusted: (address) => list.check(address, isIPv6(address) ? "ipv6" : "ipv4") };
}

function parseRange(range: string): ProxyRange | undefined {
  const [, address = "", bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(range) ?? [];
  const version = isIP(address);
  const prefixMax = version === 6 ? 128 : 32;
  const prefix = bits === undefined ? prefixMax : Number(bits);
  if (version === 0 || prefix > prefixMax) return undefined;
  return { address, prefix, version: version === 6 ? "ipv6" : "ipv4" };
}
