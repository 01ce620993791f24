import { describe, expect, test } from "bun:test";
import {
  hmacOtp,
  isOtpCode,
  newOtpCode,
  OTP_PATTERN,
  openSealedOtp,
  sealOtp,
} from "../../core/domain/otp.ts";
import { renderOtpMail } from "../../core/domain/otp-mail.ts";

const PEPPER = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";
const OTP = { id: "otp_one", userId: "user_one" };

describe("one-time codes", () => {
  test("are six digits, every digit equally likely in every place", () => {
    const draws = 60_000;
    const counts = Array.from({ length: 6 }, () => new Array<number>(10).fill(0));
    for (let draw = 0; draw < draws; draw++) {
      const code = newOtpCode();
      expect(code).toMatch(OTP_PATTERN);
      for (const [place, digit] of [...code].entries()) {
        const row = counts[place] ?? [];
        row[Number(digit)] = (row[Number(digit)] ?? 0) + 1;
      }
    }
    // chi-square with 9 degrees of freedom stays below 40, except once in 100,000 runs, for each of six places
    const expected = draws / 10;
    for (const row of counts) {
      const chiSquare = row.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
      expect(chiSquare).toBeLessThan(40);
    }
  });

  test("verify only for the user, row and pepper they were made for", () => {
    const codeHmac = hmacOtp([PEPPER], OTP, "042424");
    expect(codeHmac).toHaveLength(32);
    expect(isOtpCode([PEPPER], { ...OTP, codeHmac }, "042424")).toBe(true);
    expect(isOtpCode([PEPPER], { ...OTP, codeHmac }, "042425")).toBe(false);
    expect(isOtpCode([PEPPER], { ...OTP, userId: "user_two", codeHmac }, "042424")).toBe(false);
    expect(isOtpCode([PEPPER], { ...OTP, id: "otp_two", codeHmac }, "042424")).toBe(false);
    expect(isOtpCode([PEPPER.toUpperCase()], { ...OTP, codeHmac }, "042424")).toBe(false);
  });

  test("made with an older pepper of the list still verify and open; new ones use the first pepper", () => {
    const [older, newest] = [`${PEPPER}old`, `${PEPPER}new`];
    const code = { ...OTP, codeHmac: hmacOtp([older], OTP, "042424") };
    const sealed = sealOtp([older], OTP, "042424");
    expect(isOtpCode([newest, older], code, "042424")).toBe(true);
    expect(isOtpCode([newest, older], code, "042425")).toBe(false);
    expect(openSealedOtp([newest, older], OTP, sealed)).toBe("042424");
    expect(isOtpCode([newest], code, "042424")).toBe(false);
    expect(() => openSealedOtp([newest], OTP, sealed)).toThrow();
    expect(hmacOtp([newest, older], OTP, "1")).toEqual(hmacOtp([newest], OTP, "1"));
    expect(openSealedOtp([newest], OTP, sealOtp([newest, older], OTP, "000007"))).toBe("000007");
  });

  test("are sealed for one row and pepper, with a different ciphertext each time", () => {
    const sealed = sealOtp([PEPPER], OTP, "000007");
    expect(openSealedOtp([PEPPER], OTP, sealed)).toBe("000007");
    expect(sealOtp([PEPPER], OTP, "000007")).not.toEqual(sealed);
    expect(sealed.toString("latin1")).not.toContain("000007");
    expect(() => openSealedOtp([PEPPER], { ...OTP, id: "otp_two" }, sealed)).toThrow();
    expect(() => openSealedOtp([`${PEPPER}0`], OTP, sealed)).toThrow();
    for (let at = 0; at < sealed.length; at++) {
      const broken = Buffer.from(sealed);
      broken[at] = (broken[at] ?? 0) ^ 1;
      expect(() => openSealedOtp([PEPPER], OTP, broken)).toThrow();
    }
  });

  test("are mailed as text and HTML without links, pictures or scripts", () => {
    const { subject, text, html } = renderOtpMail({ code: "123456", baseUrl: "https://pay.example.com" });
    expect(subject).toBe("123456 is your code for pay.example.com");
    for (const part of [text, html]) {
      expect(part).toContain("123456");
      expect(part).toContain("pay.example.com");
      expect(part).toContain("10 minutes");
      expect(part).not.toMatch(/https?:|href|<img|<script/i);
    }
  });
});
