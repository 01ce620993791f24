/** Where a payer may be sent back to, and how the shop's own address keeps what it says. */
import { describe, expect, test } from "bun:test";
import { signReturnUrl, whyNotAReturnUrl } from "../../core/domain/return-url.ts";

describe("a return URL", () => {
  test.each([
    "https://shop.example/thanks?order=1#done",
    "http://localhost:3000/",
    "http://127.0.0.1/x",
    "http://[::1]:8080/",
    "https://shop.example/?LinkId=1",
  ])("may be %s", (url) => {
    expect(whyNotAReturnUrl(url)).toBeUndefined();
  });

  test.each([
    ["shop.example/thanks", "must be a URL"],
    ["", "must be a URL"],
    ["http://shop.example/", "must be https, or http on localhost"],
    ["http://localhost.shop.example/", "must be https, or http on localhost"],
    ["javascript:alert(1)", "must be https, or http on localhost"],
    ["ftp://localhost/", "must be https, or http on localhost"],
    ["https://bob@shop.example/", "must not contain a user or password"],
    ["https://:secret@shop.example/", "must not contain a user or password"],
    ["https://shop.example/?status=PAID", "must not have the query parameter status, which the service adds"],
    ["https://shop.example/?a=1&sig=2", "must not have the query parameter sig, which the service adds"],
  ])("may not be %s: %s", (url, why) => {
    expect(whyNotAReturnUrl(url)).toBe(why);
  });

  test.each([
    ["https://a.example/x", "https://a.example/x?", ""],
    ["https://a.example/x?b=1", "https://a.example/x?b=1&", ""],
    ["https://a.example/x?b=%20#c?d", "https://a.example/x?b=%20&", "#c?d"],
    ["https://a.example/#c", "https://a.example/?", "#c"],
  ])("%s keeps its own query and fragment", (target, start, end) => {
    const at = new Date("2026-11-22T10:00:00.000Z");
    const url = signReturnUrl(target, { linkId: "link_1", reference: "A 1", status: "PAID", at }, "ret_key");
    expect(url.startsWith(`${start}linkId=link_1&reference=A+1&status=PAID&at=`)).toBe(true);
    expect(url).toMatch(/&sig=[0-9a-f]{64}(#.*)?$/);
    expect(url.endsWith(end)).toBe(true);
  });
});
