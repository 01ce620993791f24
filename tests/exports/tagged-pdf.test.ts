/** Statements as tagged PDF: what is read aloud, in which order, and that nothing else is. */
import { describe, expect, test } from "bun:test";
import { inflateSync } from "node:zlib";
import type { StatementHead, StatementLine } from "../../core/domain/statement.ts";
import { renderStatementPdf } from "../../worker/exports/statement/statement-pdf.ts";
import { pdfPageCount } from "./read-files.ts";

const HASH = `0x${"cd".repeat(32)}` as const;
const WALLET = `0x${"ab".repeat(20)}` as const;

async function statementOf(movements: number): Promise<Uint8Array> {
  const head: StatementHead = {
    issuer: {
      name: "Müller & Söhne",
      postalAddress: "Hauptstraße 1\n10115 Berlin",
      taxId: null,
      email: "a@example.com",
    },
    network: "base",
    ...{ walletId: "wal_1", walletAddress: WALLET, timeZone: "Europe/Berlin" },
    ...{ from: new Date("2025-01-01T00:00:00Z"), before: new Date("2025-02-01T00:00:00Z"), isFinal: true },
    ...{ generatedAt: new Date("2025-02-02T00:00:00Z"), openingUnits: 0n, closingUnits: BigInt(movements) },
    movements,
    totals: [{ kind: "RECEIVE", count: movements, units: BigInt(movements) }],
    check: { outcome: "not_checked", reason: "no node answered" },
    valuation: undefined,
  };
  const row = {
    ...{ id: "txn_1", type: "RECEIVE", kind: "RECEIVE", status: "CONFIRMED", network: "base" },
    ...{ description: "Größe „L“; 北京", reference: null, counterparty: WALLET, txHash: HASH, logIndex: 1 },
    detectedAt: new Date("2025-01-15T12:00:00Z"),
  } as unknown as StatementLine["row"];
  const lines = Array.from({ length: movements }, (_, n) => ({
    row,
    changeUnits: 1n,
    balanceUnits: BigInt(n + 1),
  }));
  async function* batches() {
    yield lines;
  }
  return Buffer.concat(await Array.fromAsync(renderStatementPdf(head, batches())));
}

const countOf = (raw: string, mark: string) => raw.split(mark).length - 1;

describe("a statement as PDF", () => {
  test("has a title, headings and tables with named columns; a movement and its details are a row each", async () => {
    const bytes = await statementOf(100);
    const raw = Buffer.from(bytes).toString("latin1");
    for (const mark of ["/Marked true", "/Lang (en)", "/StructTreeRoot", "pdfuaid:part"])
      expect(raw).toContain(mark);
    expect(["H1", "H2", "Table"].map((type) => countOf(raw, `/S /${type}\n`))).toEqual([1, 2, 2]);
    expect(countOf(raw, "/Scope /Column")).toBe(3 + 6);
    // head, opening, what came in, closing; head, opening, the movements and their small print, closing
    expect(countOf(raw, "/S /TR\n")).toBe(4 + 3 + 2 * 100);
    expect(countOf(raw, "/ColSpan 6")).toBe(100);
  });

  test("draws nothing outside of an element or an artifact", async () => {
    const bytes = await statementOf(100);
    const pages = pageStreams(bytes).filter((stream) => stream.includes("BDC"));
    expect(pages.length).toBe(pdfPageCount(bytes));
    for (const page of pages) {
      let depth = 0;
      for (const [token] of page.matchAll(/\b(?:BDC|BMC|EMC|Tj|TJ|S|Do)\b/g)) {
        if (token === "EMC") depth -= 1;
        else if (token === "BDC" || token === "BMC") depth += 1;
        else expect([token, depth > 0]).toEqual([token, true]);
      }
      expect(depth).toBe(0);
    }
  });

  test.each([
    [1_000, true],
    [1_001, false],
  ])("of %d movements is tagged: %p", async (movements, isTagged) => {
    const raw = Buffer.from(await statementOf(movements)).toString("latin1");
    expect(raw.includes("/StructTreeRoot")).toBe(isTagged);
  });
});

function pageStreams(bytes: Uint8Array): string[] {
  const raw = Buffer.from(bytes);
  const text = raw.toString("latin1");
  return [...text.matchAll(/\/Length (\d+)\n\/Filter \/FlateDecode\n>>\nstream\n/g)].map((found) => {
    const start = found.index + found[0].length;
    return inflateSync(raw.subarray(start, start + Number(found[1]))).toString("latin1");
  });
}
