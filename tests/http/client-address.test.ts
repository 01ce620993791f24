import { describe, expect, test } from "bun:test";
import { addressGroup, clientAddressOf } from "../../api/http/client-address.ts";
import { proxyFaults, readProxies } from "../../core/runtime/trusted-proxies.ts";

const none = readProxies([]);
const proxies = readProxies(["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]);

describe("the client's address", () => {
  test("is the socket's when no proxy is trusted, whatever X-Forwarded-For says", () => {
    expect(clientAddressOf("203.0.113.5", "1.2.3.4", none)).toBe("203.0.113.5");
    expect(clientAddressOf("203.0.113.5", "1.2.3.4", proxies)).toBe("203.0.113.5");
  });

  test("is the first hop from the right that is not a trusted proxy", () => {
    expect(clientAddressOf("10.1.1.1", "1.2.3.4", proxies)).toBe("1.2.3.4");
    expect(clientAddressOf("10.1.1.1", "6.6.6.6, 1.2.3.4", proxies)).toBe("1.2.3.4");
    expect(clientAddressOf("10.1.1.1", "6.6.6.6, 1.2.3.4, 192.0.2.7, 10.9.9.9", proxies)).toBe("1.2.3.4");
    expect(clientAddressOf("2001:db8::9", "1.2.3.4", proxies)).toBe("1.2.3.4");
  });

  test("falls back to the last trusted hop when the list contains anything but addresses", () => {
    expect(clientAddressOf("10.1.1.1", "nonsense", proxies)).toBe("10.1.1.1");
    expect(clientAddressOf("10.1.1.1", "6.6.6.6, <script>, 10.2.2.2", proxies)).toBe("10.2.2.2");
    expect(clientAddressOf("10.1.1.1", "", proxies)).toBe("10.1.1.1");
    expect(clientAddressOf(undefined, "1.2.3.4", proxies)).toBe("unknown");
  });

  test("is read in all the forms that proxies write", () => {
    expect(clientAddressOf("::ffff:10.1.1.1", "1.2.3.4:5678", proxies)).toBe("1.2.3.4");
    expect(clientAddressOf("10.1.1.1", "[2001:DB9::1]:443", proxies)).toBe("2001:db9::1");
    expect(clientAddressOf("10.1.1.1", " 1.2.3.4 ", proxies)).toBe("1.2.3.4");
  });

  test("looks at a bounded number of hops", () => {
    const hops = Array.from({ length: 5_000 }, (_, index) => `10.0.${index % 250}.1`).join(",");
    expect(clientAddressOf("10.1.1.1", `6.6.6.6,${hops}`, proxies)).toStartWith("10.0.");
  });

  test("error: an invalid range is reported by name", () => {
    expect(proxyFaults(["10.0.0.0/8", "10.0.0.0/33", "hello"])).toEqual([
      'TRUSTED_PROXIES: "10.0.0.0/33" is not an address or CIDR range',
      'TRUSTED_PROXIES: "hello" is not an address or CIDR range',
    ]);
  });

  test("error: a range without a plain number of bits is invalid, since an empty one would trust every address", () => {
    for (const range of [
      "10.0.0.0/",
      "10.0.0.0/0x8",
      "10.0.0.0/1e1",
      "10.0.0.0/8/9",
      "10.0.0.0/-1",
      "/8",
      "10.0.0.0/ 8",
    ]) {
      expect(proxyFaults([range])).toEqual([`TRUSTED_PROXIES: "${range}" is not an address or CIDR range`]);
      expect(readProxies([range]).isTrusted("203.0.113.5")).toBe(false);
    }
  });

  test("is grouped by the whole address for IPv4 and by /64 for IPv6", () => {
    expect(addressGroup("1.2.3.4")).toBe("1.2.3.4");
    expect(addressGroup("2001:db8:1:2:3:4:5:6")).toBe("2001:db8:1:2::/64");
    expect(addressGroup("2001:db8:1:2::9")).toBe("2001:db8:1:2::/64");
    expect(addressGroup("2001:db8::9")).toBe("2001:db8:0:0::/64");
    expect(addressGroup("::1")).toBe("0:0:0:0::/64");
  });
});
