/** Spreadsheets: every text survives whatever it holds, numbers and dates are exact, and rows leave as they come. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import type { TableCell, TableColumn, TableRow } from "../../core/domain/table.ts";
import { renderTableXlsx } from "../../worker/exports/table-xlsx.ts";
import { dayOfSerial, readXlsx, readZip } from "./read-xlsx.ts";

setDefaultTimeout(120_000);

const TEXT: readonly TableColumn[] = [{ title: "Text", kind: "text" }];

async function* given(...batches: TableRow[][]) {
  yield* batches;
}

async function render(columns: readonly TableColumn[], rows: readonly TableRow[]): Promise<Uint8Array> {
  return Buffer.concat(await Array.fromAsync(renderTableXlsx("Sheet", columns, given([...rows]))));
}

async function write(columns: readonly TableColumn[], rows: readonly TableRow[]) {
  return readXlsx(await render(columns, rows)).slice(1);
}

describe("a cell of a spreadsheet", () => {
  test("stores any text that XML can represent, unchanged", async () => {
    const letter = fc.constantFrom(
      ...["<", ">", "&", '"', "'", "_", "x", "0041", "_x0041_", "_x000D_", "]]>", "&amp;", "=1+1", "\n"],
      ...["\r", "\r\n", "\t", " ", "é", "北", "\u{1f600}", "\u200b", "^", "<!--"],
    );
    const texts = fc.array(fc.string({ unit: letter, minLength: 1, maxLength: 12 }), {
      minLength: 20,
      maxLength: 20,
    });
    await fc.assert(
      fc.asyncProperty(texts, async (cells) => {
        const read = await write(
          TEXT,
          cells.map((cell) => [cell]),
        );
        expect(read).toEqual(cells.map((text) => [{ text }]));
      }),
      { numRuns: 30 },
    );
  });

  test("stores text that would read as an escaped character once a carriage return after it is escaped", async () => {
    const cells = ["_x0041\r", "_x0041_x0041\r\n", "\rx0041_", "_\r_x000D_"];
    const rows = cells.map((cell) => [cell]);
    expect(await write(TEXT, rows)).toEqual(cells.map((text) => [{ text }]));
  });

  test("has a space for what XML cannot represent, and is truncated where spreadsheets truncate it", async () => {
    const cells = [
      "a\u0000b\u001fc\ufffed",
      "lone \ud800 half",
      "x".repeat(32_768),
      `${"x".repeat(32_766)}\u{1f600}`,
    ];
    expect(
      await write(
        TEXT,
        cells.map((cell) => [cell]),
      ),
    ).toEqual([
      [{ text: "a b c d" }],
      [{ text: "lone \ufffd half" }],
      [{ text: "x".repeat(32_767) }],
      [{ text: `${"x".repeat(32_766)}\ufffd` }],
    ]);
  });

  test("is a number while that is exact, and text beyond that", async () => {
    const columns = (["amount", "integer", "decimal", "date"] as const).map((kind) => ({
      title: kind,
      kind,
    }));
    const rows: TableCell[][] = [
      [999_999_999_999_999n, 123_456_789_012_345n, "1.00000000000001", "2025-03-30"],
      [1_000_000_000_000_000n, 1_234_567_890_123_456n, "1.000000000000001", "soon"],
      [-1n, -7n, "-0.5", "1900-03-01"],
      [null, null, null, null],
    ];
    const [exact, beyond, negative, none] = await write(columns, rows);
    const amount = "#,##0.000000";
    expect(exact?.map((cell) => cell && "number" in cell && [cell.number, cell.format])).toEqual([
      ...[
        [999_999_999.999999, amount],
        [123_456_789_012_345, ""],
        [1.00000000000001, ""],
      ],
      [45_746, "yyyy-mm-dd"],
    ]);
    expect(exact?.[3] && "number" in exact[3] && dayOfSerial(exact[3].number)).toBe("2025-03-30");
    expect(beyond).toEqual([
      ...[{ text: "1000000000.000000" }, { text: "1234567890123456" }, { text: "1.000000000000001" }],
      { text: "soon" },
    ]);
    expect(negative?.map((cell) => cell && "number" in cell && cell.number)).toEqual([
      -0.000001, -7, -0.5, 61,
    ]);
    expect(none).toEqual([]);
  });

  test("of a column of numbers is right-aligned: its title, and a number stored as text", async () => {
    const columns: readonly TableColumn[] = [
      { title: "Text", kind: "text" },
      { title: "Net", kind: "amount" },
    ];
    const files = readZip(await render(columns, [["one", 1_000_000_000_000_000n]]));
    const xml = (name: string) => new TextDecoder().decode(files.get(name));
    const styles = /<cellXfs[^>]*>(.*?)<\/cellXfs>/s.exec(xml("xl/styles.xml"))?.[1] ?? "";
    const each = styles.match(/<xf\b[^>]*?(?:\/>|>.*?<\/xf>)/g) ?? [];
    const isRight = (place: string) => {
      const style = new RegExp(`<c r="${place}" s="(\\d+)"`).exec(xml("xl/worksheets/sheet1.xml"))?.[1];
      return each[Number(style)]?.includes('<alignment horizontal="right"/>');
    };
    expect(["A1", "B1", "A2", "B2"].map(isRight)).toEqual([false, true, false, true]);
  });

  test("is in its column beyond Z, too", async () => {
    const columns = Array.from({ length: 60 }, (_, n) => ({ title: `c${n}`, kind: "text" as const }));
    const [row] = await write(columns, [columns.map(({ title }) => title)]);
    expect(row).toEqual(columns.map(({ title }) => ({ text: title })));
  });
});

describe("the rows of a spreadsheet", () => {
  const column: readonly TableColumn[] = [{ title: "Hash", kind: "text" }];
  /** Does not deflate to nothing. */
  const batch = () => Array.from({ length: 250 }, () => [crypto.randomUUID() + crypto.randomUUID()]);

  test("are sent while others are still being read", async () => {
    let made = 0;
    async function* batches() {
      for (; made < 200; made++) yield batch();
    }
    const madeWhenFirstLeft: number[] = [];
    let bytes = 0;
    for await (const piece of renderTableXlsx("Sheet", column, batches())) {
      bytes += piece.byteLength;
      if (bytes > 256 * 1024) madeWhenFirstLeft.push(made);
    }
    expect(made).toBe(200);
    expect(madeWhenFirstLeft[0]).toBeLessThan(100);
  });

  test("end the file with their error", async () => {
    async function* batches() {
      yield batch();
      throw new Error("the snapshot is gone");
    }
    const read = async () => {
      for await (const _ of renderTableXlsx("Sheet", column, batches()));
    };
    await expect(read()).rejects.toThrow("the snapshot is gone");
  });

  test("are no longer read when the file is abandoned", async () => {
    const closed = Promise.withResolvers<string>();
    async function* batches() {
      try {
        for (;;) yield batch();
      } finally {
        closed.resolve("closed");
      }
    }
    for await (const piece of renderTableXlsx("Sheet", column, batches()))
      if (piece.byteLength > 10_000) break;
    expect(await closed.promise).toBe("closed");
  });
});
