/** Names that browsers accept as a relying party, by the public suffix list. */
import { expect, test } from "bun:test";
import {
  isRegistrable,
  isRegistrableParent,
  registrableLabel,
} from "../../core/runtime/registrable-domain.ts";

test.each([
  ["the host itself", "pay.example.com", "pay.example.com", true],
  ["a host without a registrable domain, itself", "localhost", "localhost", true],
  ["its registrable domain", "example.com", "pay.example.com", true],
  ["a domain between both", "shop.example.co.uk", "pay.shop.example.co.uk", true],
  ["a public suffix", "co.uk", "example.co.uk", false],
  ["a top-level domain", "com", "example.com", false],
  ["a suffix that a company gives to its users", "github.io", "shop.github.io", false],
  ["another domain", "example.org", "pay.example.com", false],
  ["the end of its name", "ample.com", "example.com", false],
  ["a domain below the host", "pay.example.com", "example.com", false],
  ["a part of an address", "0.0.1", "127.0.0.1", false],
])("%s as a relying party", (_which, rpId, host, isAllowed) => {
  expect(isRegistrableParent(rpId, host)).toBe(isAllowed);
});

test.each([
  ["example.com", true],
  ["pay.example.co.uk", true],
  ["shop.github.io", true],
  ["github.io", false],
  ["co.uk", false],
  ["com", false],
  ["127.0.0.1", false],
  ["https://example.com", false],
  ["example.com:443", false],
  ["example.com/", false],
  ["Example.com", false],
  ["-example.com", false],
  ["a..example.com", false],
  ["", false],
])("%p is registrable: %p", (host, isAllowed) => {
  expect(isRegistrable(host)).toBe(isAllowed);
});

test("a label is the part before the public suffix, and the host's first part where there is none", () => {
  expect(registrableLabel("https://shop.example.co.uk")).toBe("example");
  expect(registrableLabel("https://shop.github.io:8443")).toBe("shop");
  expect(registrableLabel("http://localhost:3000")).toBe("localhost");
});
