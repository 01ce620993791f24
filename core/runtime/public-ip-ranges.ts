/** Which IP addresses are public. Special-purpose ranges (IANA registries) are not: they could be ours or on our network. */
import { BlockList, isIP } from "node:net";

/** All that is allocated of global unicast (RFC 4291, 2.4): what is outside of it translates IPv4 addresses, or leads nowhere public. */
const GLOBAL_6 = new BlockList();
GLOBAL_6.addSubnet("2000::", 3, "ipv6");

/** Two lists, because one would match an IPv4 address against IPv6 ranges. */
const SPECIAL_4 = new BlockList();
const SPECIAL_6 = new BlockList();
for (const range of [
  ...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"],
  ...[
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
  ],
  ...["203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"],
]) {
  const [address = "", bits] = range.split("/");
  SPECIAL_4.addSubnet(address, Number(bits), "ipv4");
}
for (const range of [
  // Teredo and friends, 6to4, documentation
  ...["2001::/23", "2002::/16", "2001:db8::/32", "3fff::/20"],
  // AS112: delegated reverse names of private ranges
  "2620:4f:8000::/48",
]) {
  const [address = "", bits] = range.split("/");
  SPECIAL_6.addSubnet(address, Number(bits), "ipv6");
}

/** False for special-purpose addresses and for text that is no address. */
export function isPublicAddress(address: string): boolean {
  const version = isIP(address);
  if (version === 0 || address.includes("%")) return false;
  if (version === 4) return !SPECIAL_4.check(address, "ipv4");
  return GLOBAL_6.check(address, "ipv6") && !SPECIAL_6.check(address, "ipv6");
}
