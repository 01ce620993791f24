/** The dashboard's built files and types, and the rules that need no browser: what may be signed, and what a payout's table says. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { taggedTransfers } from "../../core/chain/account-state.ts";
import { buildUserOperation } from "../../core/chain/user-operation.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { operationTag } from "../../core/domain/wallet-operation.ts";
import { buildPages } from "../../local/processes/service-process.ts";
import { readRates } from "../../web/dashboard/exports/parse-rates.ts";
import { withRecord } from "../../web/dashboard/frame/live-record.ts";
import { faultOfAmount, NOT_AN_AMOUNT, TWO_READINGS } from "../../web/dashboard/parts/amount-fault.ts";
import {
  checkOperation,
  ForeignOperation,
  lastRecipient,
  type Offered,
  type Payment,
  readUnits,
  tagOf,
  writeUnits,
} from "../../web/dashboard/send/check-signed-operation.ts";
import { readPayout, sumPayout } from "../../web/dashboard/send/parse-payout.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { readDocument } from "../support/openapi-document.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { renderWireTypes, WIRE_TYPES } from "./wire-types.ts";

const ROOT = join(import.meta.dir, "../..");
const FIRST_SCREEN_MAX = 35_840;
const ALL_MAX = 61_440;
const STYLE_MAX = 6_144;

test("the types of requests and answers are those of the OpenAPI document", async () => {
  expect(readFileSync(join(ROOT, WIRE_TYPES), "utf8")).toBe(await renderWireTypes());
});

test("links of the dashboard to the API lead to routes that exist", async () => {
  const { paths } = await readDocument();
  const sources = [...new Bun.Glob("**/*.tsx").scanSync(join(ROOT, "web/dashboard"))]
    .map((file) => readFileSync(join(ROOT, "web/dashboard", file), "utf8"))
    .join("\n");
  const links = [...sources.matchAll(/(?:href=|forMerchant\()"(\/v1\/[^"?]*)/g)].map(([, path = ""]) => path);
  expect(links.length).toBeGreaterThan(1);
  for (const path of links) expect([path, Object.keys(paths[path] ?? {})]).toEqual([path, ["get"]]);
});

describe("the code that a merchant's browser loads", () => {
  const sizeOf = (name: string) => readFileSync(join(ROOT, "web/dist", `${name}.br`)).length;

  test("the first screen has at most 35 kB of script, all screens 60 kB, the style 6 kB", async () => {
    await buildPages();
    const { assets } = JSON.parse(readFileSync(join(ROOT, "web/dist/manifest.json"), "utf8"));
    const scripts = Object.keys(assets).filter((name) => /^dashboard.*\.js$/.test(name));
    expect(scripts.length).toBeGreaterThan(1);
    expect(sizeOf(assets["dashboard.js"])).toBeLessThanOrEqual(FIRST_SCREEN_MAX);
    const sum = scripts.reduce((total, name) => total + sizeOf(assets[name]), 0);
    expect(sum).toBeLessThanOrEqual(ALL_MAX);
    expect(sizeOf(assets["dashboard.css"])).toBeLessThanOrEqual(STYLE_MAX);
  });
});

describe("a record that an event carries", () => {
  const at = (second: number) => new Date(second * 1_000).toISOString();
  const link = (id: string, second: number) => ({ id, status: "ACTIVE", createdAt: at(second) });
  const links = { links: [link("b", 2), link("a", 1)], nextCursor: null };

  test("replaces the row with its id on every page, and comes first on the newest unfiltered page if it is newer", () => {
    const paid = { ...link("a", 1), status: "PAID" };
    expect(withRecord(links, paid, 0)).toEqual({ ...links, links: [link("b", 2), paid] });
    const newer = link("c", 3);
    expect(withRecord(links, newer, 50)).toEqual({ ...links, links: [newer, ...links.links] });
    expect(withRecord(links, newer, 2)).toEqual({ ...links, links: [newer, link("b", 2)] });
    const history = { success: true, data: { transactions: [{ id: "t1", detectedAt: at(1) }] } };
    const next = { id: "t2", detectedAt: at(2) };
    expect(withRecord(history, next, 50)).toEqual({
      ...history,
      data: { transactions: [next, ...history.data.transactions] },
    });
  });

  test("does not change a filtered page, a page it is too old for, a use of a reusable link, or other answers", () => {
    expect(withRecord(links, link("c", 3), 0)).toBe(links);
    expect(withRecord(links, link("c", 2), 50)).toBe(links);
    expect(withRecord(links, { ...link("c", 3), parentId: "b" }, 50)).toBe(links);
    expect(withRecord(links, { id: "t1", detectedAt: at(9) }, 50)).toBe(links);
    for (const answer of [undefined, null, "text", { balance: 1 }])
      expect(withRecord(answer, link("c", 3), 50)).toBe(answer);
  });
});

describe("an operation is signed only when it does what is shown", () => {
  const random = seededRandom("operations");
  const LINK = "link_P72OKQub5BzTCjbZTmgPD0";
  const network = NETWORKS["base-sepolia"];
  const from = randomAddress();
  const newId = () =>
    `snd_${Array.from({ length: 32 }, () => Math.floor(random() * 16).toString(16)).join("")}`;
  const newPayments = (count: number): Payment[] =>
    Array.from({ length: count }, () => ({
      to: randomAddress(),
      units: BigInt(Math.floor(random() * 1e12) + 1),
    }));

  /** As the service prepares it. */
  function offer(payments: readonly Payment[], { id, linkId }: { id: string; linkId?: string }): Offered {
    const tag: Hex = `${operationTag(id)}${linkId ? linkTag(linkId).slice(2) : ""}`;
    const items = payments.map(({ to, units }) => ({ to: to as Hex, amountUnits: units }));
    const calls = taggedTransfers(network.usdc.address, items, tag);
    const operation = buildUserOperation({ sender: from, nonce: 7n, calls });
    const userOpHash = userOperationHash(operation, network.chainId);
    const texts = Object.fromEntries(Object.entries(operation).map(([name, value]) => [name, String(value)]));
    return {
      userOpHash,
      chainId: network.chainId,
      entryPoint: CONTRACTS.entryPointV06,
      passkeyChallenge: { challenge: Buffer.from(userOpHash.slice(2), "hex").toString("base64url") },
      userOperation: texts as Offered["userOperation"],
    };
  }

  for (const count of [1, 2, 3, 100])
    test(`the service's own operation of ${count} transfers is accepted, with and without a link's tag`, () => {
      for (const linkId of [undefined, LINK]) {
        const [payments, id] = [newPayments(count), newId()];
        const offered = offer(payments, linkId ? { id, linkId } : { id });
        const tag = tagOf(id, linkId);
        checkOperation(offered, { chainId: network.chainId, from, payments, tag });
        expect(lastRecipient(offered.userOperation.callData, tag)).toBe(payments.at(-1)?.to ?? "");
      }
    });

  const id = newId();
  const payments = newPayments(2);
  const offered = offer(payments, { id });
  const shown = { chainId: network.chainId, from, payments, tag: tagOf(id) };
  const fieldOf = (given: Offered, seen = shown) => {
    try {
      checkOperation(given, seen);
      return "taken";
    } catch (error) {
      if (error instanceof ForeignOperation) return error.field;
      throw error;
    }
  };
  const [first, second] = payments as [Payment, Payment];
  const withFields = (fields: Partial<Offered["userOperation"]>): Offered => ({
    ...offered,
    userOperation: { ...offered.userOperation, ...fields },
  });

  test("an operation that does what is shown is accepted", () => {
    expect(fieldOf(offered)).toBe("taken");
  });

  test("another recipient, amount, order, number of transfers or tag is refused", () => {
    for (const others of [
      [{ ...first, to: randomAddress() }, second],
      [{ ...first, units: first.units + 1n }, second],
      [second, first],
      [first],
      [first, second, second],
    ])
      expect(fieldOf(offer(others, { id }))).toBe("callData");
    expect(fieldOf(offer(payments, { id: newId() }))).toBe("callData");
  });

  test("a hash or challenge of anything else is refused", () => {
    const other = offer(payments, { id: newId() });
    expect(fieldOf({ ...offered, userOpHash: other.userOpHash })).toBe("userOpHash");
    expect(fieldOf({ ...offered, passkeyChallenge: other.passkeyChallenge })).toBe("challenge");
    expect(fieldOf(withFields({ nonce: "8" }))).toBe("userOpHash");
    expect(fieldOf(withFields({ callGasLimit: "1" }))).toBe("userOpHash");
  });

  test("another wallet, network, EntryPoint, code, paymaster or fee is refused", () => {
    expect(fieldOf(offered, { ...shown, from: randomAddress() })).toBe("sender");
    expect(fieldOf(offered, { ...shown, chainId: NETWORKS.base.chainId })).toBe("chainId");
    expect(fieldOf({ ...offered, chainId: NETWORKS.base.chainId })).toBe("chainId");
    expect(fieldOf({ ...offered, entryPoint: randomAddress() })).toBe("entryPoint");
    expect(fieldOf(withFields({ initCode: "0x01" }))).toBe("initCode");
    expect(fieldOf(withFields({ paymasterAndData: "0x01" }))).toBe("initCode");
    expect(fieldOf(withFields({ maxFeePerGas: "1" }))).toBe("maxFeePerGas");
    expect(fieldOf(withFields({ preVerificationGas: "1" }))).toBe("maxFeePerGas");
  });
});

test("amounts are parsed exactly, and anything else is refused", () => {
  expect(readUnits("12.5")).toBe(12_500_000n);
  expect(readUnits("0,000001")).toBe(1n);
  expect(readUnits("999999999999.999999")).toBe(999_999_999_999_999_999n);
  for (const text of ["", "1.0000001", "1e3", "-1", "1.", ".5", "1 000", "0x1"])
    expect(`${text}: ${readUnits(text)}`).toBe(`${text}: undefined`);
  expect(writeUnits(12_500_001n)).toBe("12.500001");
});

describe("a payout's table", () => {
  const own = randomAddress();
  const to = randomAddress();
  const faultOf = (line: string) => readPayout(line, own)[0]?.fault;

  test("is summed without its faulty lines", () => {
    const others = [
      `${randomAddress()},12.5`,
      `0x12,5000`,
      `${randomAddress()},3000,50`,
      `${randomAddress()},1`,
    ];
    expect(sumPayout(readPayout(others.join("\n"), own))).toEqual({
      payable: 2,
      faulty: 2,
      total: 13_500_000n,
    });
    expect(sumPayout([])).toEqual({ payable: 0, faulty: 0, total: 0n });
  });

  test("is read with commas, semicolons or tabs, quotes, a heading and empty lines", () => {
    const text = `address;amount;note\r\n${to};12,5;"Rent; May"\r\n\r\n${randomAddress()};1;\n`;
    const lines = readPayout(text, own);
    expect(
      lines.map(({ number, amount, note, units, fault }) => [number, amount, note, units, fault]),
    ).toEqual([
      [2, "12.5", "Rent; May", 12_500_000n, undefined],
      [4, "1", "", 1_000_000n, undefined],
    ]);
    expect(readPayout(`${to},3.25,"a ""b"", c"`, own)[0]).toMatchObject({
      note: 'a "b", c',
      units: 3_250_000n,
    });
    expect(readPayout(`${to}\t7\tx`, own)[0]).toMatchObject({ note: "x", units: 7_000_000n });
  });

  test("a line that would lose money is refused with the reason", () => {
    expect(faultOf(`${to.slice(0, -1)},1`)).toStartWith("Not an address");
    expect(faultOf(`0x${"0".repeat(40)},1`)).toStartWith("The zero address");
    expect(faultOf(`${own.toUpperCase().replace("0X", "0x")},1`)).toStartWith("This is your own wallet");
    expect(faultOf(`${to},1.0000001`)).toStartWith("Not an amount");
    expect(faultOf(`${to},0`)).toStartWith("The amount is 0");
    expect(faultOf(`${to},12,50`)).toStartWith("The amount can be read in two ways");
    expect(faultOf(`${to}, 12,50, Rent`)).toStartWith("The amount can be read in two ways");
    expect(faultOf(`${to},12,2026`)).toBeUndefined();
    expect(faultOf(`${to},12, 50`)).toBeUndefined();
    expect(faultOf("name.eth,12")).toStartWith("Not an address");
    expect(faultOf(`${to},"12,50",50`)).toBeUndefined();
    expect(faultOf(`${to},0.000001,${"x".repeat(500)}`)).toBeUndefined();
    expect(faultOf(`${to},0.000001,${"x".repeat(501)}`)).toStartWith("The note is longer");
  });

  test.each(["1,000", "1,000.50", "12,500,Rent", "1,000,000"])(
    "%s in a comma-separated line is ambiguous, and is refused until it has a decimal point",
    (amount) => {
      expect(faultOf(`${to},${amount}`)).toStartWith("The amount can be read in two ways");
    },
  );

  test("a comma before three digits in a cell is refused as ambiguous, any other is a decimal comma", () => {
    for (const amount of ["1,000", "12,500", "1,000,000"]) {
      expect(faultOf(`${to};${amount};Rent`)).toStartWith("The amount can be read in two ways");
      expect(faultOfAmount(` ${amount}`, false)).toBe(TWO_READINGS);
    }
    for (const amount of ["1000", "0,125", "12,50", "1,2345", "1.000", "0,000"]) {
      expect(faultOfAmount(amount, false)).toBeUndefined();
      expect(faultOf(`${to};${amount}`)?.slice(0, 20)).toBe(
        amount === "0,000" ? "The amount is 0." : undefined,
      );
    }
  });

  test("a point before three digits has two readings for people who group digits with it", () => {
    expect(readPayout(`${to};1.000;Rent`, own, true)[0]?.fault).toBe(TWO_READINGS);
    for (const amount of ["1.000", "12.500", "1.000.000", "1,000"])
      expect(faultOfAmount(amount, true)).toBe(TWO_READINGS);
    for (const amount of ["1000", "0.125", "12.50", "1.2345", "1000.000"])
      expect(faultOfAmount(amount, true)).toBeUndefined();
  });

  test("anything but a number with at most six decimals is refused as an amount", () => {
    for (const amount of ["", "abc", "1e5", "-1", "0x10", "1.2345678", "1,000.50", "Infinity", "1 000"])
      expect([amount, faultOfAmount(amount, false)]).toEqual([amount, NOT_AN_AMOUNT]);
  });

  test("a repeated pair of address and amount is reported on its second line; another amount is accepted", () => {
    const lines = readPayout(`${to},1\n${to},2\n${to.toLowerCase()},1.0`, own);
    expect(lines.map(({ fault, twin }) => [fault?.slice(0, 8), twin])).toEqual([
      [undefined, undefined],
      [undefined, undefined],
      ["The same", 1],
    ]);
  });
});

describe("a table of exchange rates", () => {
  const faultsOf = (text: string) => readRates(text).map(({ fault }) => fault);

  test("is read with commas, semicolons or tabs, a heading, and the decimal comma", () => {
    const rows = [
      { date: "2026-10-30", rate: "0.92" },
      { date: "2026-10-31", rate: "0.9231" },
    ];
    for (const text of [
      "Day,Rate\n2026-10-30,0.92\n2026-10-31,0.9231\n",
      "2026-10-30;0,92\r\n\r\n2026-10-31;0,9231",
      '2026-10-30\t0.92\n"2026-10-31"\t"0.9231"',
      '2026-10-30,0.92,\n2026-10-31,"0,9231"',
    ])
      expect(readRates(text).map(({ date, rate, fault }) => ({ date, rate, fault }))).toEqual(
        rows.map((row) => ({ ...row, fault: undefined })),
      );
    expect(readRates("Day,Rate\n\n2026-10-30,0.92").map(({ number }) => number)).toEqual([3]);
  });

  test("accepts no line that would store another rate or day than the one written", () => {
    expect(faultsOf("2026-10-30,0,92")).toEqual(["Too many cells: a day and a rate."]);
    expect(faultsOf("2026-02-29,1\n2024-02-29,1\n31.10.2026;1\n2026-1-1,1")).toEqual([
      "Not a date: write it as 2026-10-31.",
      undefined,
      "Not a date: write it as 2026-10-31.",
      "Not a date: write it as 2026-10-31.",
    ]);
    const noRate = "Not a rate: use a positive number with at most 10 decimal places.";
    const rates = ["0", "-1", "1e3", "", "1.12345678901", "1.1234567890", "1'000", "999999999999"];
    expect(rates.flatMap((rate) => faultsOf(`2026-01-01;${rate}`))).toEqual([
      ...[noRate, noRate, noRate, noRate, noRate, undefined, noRate, undefined],
    ]);
    expect(faultsOf("2026-01-01,1\n2026-01-02,1\n2026-01-01,1")).toEqual([
      ...[undefined, undefined, "This date appears twice."],
    ]);
  });
});
