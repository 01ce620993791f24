/**
 * `bun tests/exports/libreoffice.ts [rows] [seed]`: opens books as XLSX, CSV and Excel CSV in LibreOffice (`soffice`), which adds up their
 * amounts and reads their dates with its own formulas, and gives every cell back. Throws when it finds anything else than what was written.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chosenBooks } from "../../core/domain/bookkeeping-rows.ts";
import type { ExportRow } from "../../core/domain/export.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { changeOf } from "../../core/domain/statement.ts";
import { cellText, type TableRow } from "../../core/domain/table.ts";
import { zip } from "../../worker/exports/archive/zip.ts";
import { EXCEL_CSV, PLAIN_CSV, renderTableCsv } from "../../worker/exports/table-csv.ts";
import { renderTableXlsx } from "../../worker/exports/table-xlsx.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { parseCsv, sum } from "./read-files.ts";
import { readZip } from "./read-xlsx.ts";

const [count = "2000", seed = "books in LibreOffice"] = process.argv.slice(2);
const ZONE = "Europe/Berlin";
/** UTF-8, from the first line; the last three: values instead of what is shown, no detection beyond numbers. */
const AS_CSV = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false,false";
const PLAIN_INPUT = "Text - txt - csv (StarCalc):44,34,76,1,,1033,false,true,false,false,false,-1,true";
const EXCEL_INPUT = "Text - txt - csv (StarCalc):59,34,76,1,,1031,false,true,false,false,false,-1,true";
const TEXTS = [
  "Order",
  "=1+1",
  "Größe „L“",
  '5" nail, oak',
  "<b>&amp;",
  "_x0041_",
  "007",
  "1e5",
  "北京",
  "a\nb",
];

const columns = chosenBooks({ timeZone: ZONE, metadataColumns: [], valuation: undefined }, undefined);
const rows = makeRows(Number(count));
const table = rows.map(columns.cellsOf);
const place = (key: string) => columns.columns.findIndex((column) => column.key === key);
const letter = (key: string) => String.fromCharCode(65 + place(key));
const last = rows.length + 1;
const range = (key: string) => `${letter(key)}2:${letter(key)}${last}`;

/** What LibreOffice is asked, and what is so. */
const net = rows.map(changeOf);
const june = rows.filter((_, n) => String(table[n]?.[place("date")]).slice(5, 7) === "06");
const days = table.map((cells) => String(cells[place("date")])).toSorted();
const questions: [formula: string, answer: string][] = [
  [`TEXT(SUM(${range("net")});"0.000000")`, formatUnits(sum(net))],
  [`TEXT(SUM(${range("gross")});"0.000000")`, formatUnits(sum(net))],
  [
    `TEXT(SUMPRODUCT((MONTH(${range("date")})=6)*${range("net")});"0.000000")`,
    formatUnits(sum(june.map(changeOf))),
  ],
  [`TEXT(MIN(${range("date")});"yyyy-mm-dd")`, days[0] ?? ""],
  [`TEXT(MAX(${range("date")});"yyyy-mm-dd")`, days.at(-1) ?? ""],
  [`TEXT(COUNT(${range("date")});"0")`, String(rows.length)],
  [`TEXT(COUNT(${range("net")});"0")`, String(rows.length)],
  [`TEXT(COUNT(${range("block")});"0")`, String(rows.length)],
];

const folder = await mkdtemp(join(tmpdir(), "libreoffice-"));
try {
  await checkXlsx();
  await checkCsv("plain", PLAIN_INPUT);
  await checkCsv("excel", EXCEL_INPUT);
} finally {
  await rm(folder, { recursive: true });
}

async function checkXlsx(): Promise<void> {
  const bytes = await collect(renderTableXlsx("Books", columns.columns, batches()));
  const read = await convert("books.xlsx", bytes);
  expectEqual("xlsx: cells", read.slice(1), table.map(textsOf));
  const asked = await convert("asked.xlsx", await withFormulas(bytes));
  report("xlsx", asked[0]?.slice(columns.columns.length) ?? [], bytes);
}

/** A copy of the workbook whose title row goes on with the formulas. */
async function withFormulas(bytes: Uint8Array): Promise<Uint8Array> {
  const files = readZip(bytes);
  const cells = questions.map(([formula], n) => {
    const at = `A${String.fromCharCode(65 + columns.columns.length - 26 + n)}1`;
    const name =
      columns.columns.length + n < 26 ? String.fromCharCode(65 + columns.columns.length + n) + 1 : at;
    const xml = formula.replaceAll(";", ",").replaceAll('"', "&quot;");
    return `<c r="${name}" t="str"><f>${xml}</f></c>`;
  });
  async function* parts() {
    for (const [name, content] of files) {
      const xml = new TextDecoder().decode(content).replace("</row>", `${cells.join("")}</row>`);
      const isSheet = name === "xl/worksheets/sheet1.xml";
      yield { name, modifiedAt: new Date(), bytes: isSheet ? new TextEncoder().encode(xml) : content };
    }
  }
  return collect(zip(parts()));
}

async function checkCsv(name: "plain" | "excel", input: string): Promise<void> {
  const style = name === "plain" ? PLAIN_CSV : EXCEL_CSV;
  const bytes = await collect(renderTableCsv(columns.columns, batches(), style));
  const formulas = questions.map(([formula]) => `"=${formula.replaceAll('"', '""')}"`);
  const asked = Buffer.concat([bytes, Buffer.from(`${formulas.join(style.delimiter)}\r\n`)]);
  const read = await convert(`${name}.csv`, asked, input);
  report(`${name} csv`, read.at(-1)?.slice(0, questions.length) ?? [], bytes);
}

function report(name: string, answers: readonly string[], bytes: Uint8Array): void {
  expectEqual(
    name,
    answers.slice(0, questions.length),
    questions.map(([, answer]) => answer),
  );
  console.log(JSON.stringify({ file: name, seed, rows: rows.length, kB: bytes.byteLength >> 10, answers }));
}

/** A file as LibreOffice gives it back: values of all cells. */
async function convert(name: string, bytes: Uint8Array, input?: string): Promise<string[][]> {
  await writeFile(join(folder, name), bytes);
  const out = join(folder, "out");
  const command = [
    ...["soffice", "--headless", "--norestore", `-env:UserInstallation=file://${folder}/profile`],
    ...(input ? [`--infilter=${input}`] : []),
    ...["--convert-to", AS_CSV, "--outdir", out, join(folder, name)],
  ];
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "pipe" });
  const [said, failed] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  if ((await child.exited) !== 0) throw new Error(`soffice: ${said}${failed}`);
  const text = await readFile(join(out, name.replace(/\.\w+$/, ".csv")), "utf8");
  return parseCsv(text.replace(/\r?\n/g, "\r\n").replaceAll('a\r\nb"', 'a\nb"'));
}

/** A cell as a spreadsheet holds it: numbers without zeros at their end, an apostrophe of ours nowhere. */
function textsOf(cells: TableRow): string[] {
  return cells.map((cell, index) => {
    const kind = columns.columns[index]?.kind ?? "text";
    const text = cellText(cell, kind);
    return kind === "amount" ? text.replace(/\.?0+$/, "") : text;
  });
}

function expectEqual(what: string, found: unknown, wanted: unknown): void {
  if (Bun.deepEquals(found, wanted)) return;
  const [all, others] = [found, wanted].map((one) => (Array.isArray(one) ? one : [one]));
  const at = all?.findIndex((one, index) => !Bun.deepEquals(one, others?.[index])) ?? 0;
  throw new Error(
    `${what}: at ${at} LibreOffice has ${JSON.stringify(all?.[at])}, written was ${JSON.stringify(others?.[at])}`,
  );
}

async function* batches() {
  for (let from = 0; from < table.length; from += 250) yield table.slice(from, from + 250);
}

async function collect(pieces: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  return Buffer.concat(await Array.fromAsync(pieces));
}

/** Money in and out through a year, from a millionth of a dollar to what a number of a spreadsheet holds exactly in the sum. */
function makeRows(wanted: number): ExportRow[] {
  const random = seededRandom(seed);
  const hash = () => `0x${Array.from({ length: 64 }, () => Math.floor(random() * 16).toString(16)).join("")}`;
  return Array.from({ length: wanted }, (_, n) => {
    const type = n % 4 === 0 ? "SEND" : "RECEIVE";
    const made = {
      ...{ id: `txn_${n}`, type, kind: type, status: "CONFIRMED", network: "base" },
      amountUnits: n === 0 ? 1n : BigInt(Math.floor(random() * 2_000_000_000)) + 1n,
      ...{ counterparty: hash().slice(0, 42), walletAddress: hash().slice(0, 42), txHash: hash() },
      ...{
        logIndex: n % 300,
        blockNumber: BigInt(30_000_000 + n),
        description: TEXTS[n % TEXTS.length] ?? "",
      },
      detectedAt: new Date(Date.UTC(2025, 0, 1) + Math.floor(random() * 365 * 86_400) * 1_000),
      ...{ reference: null, customerEmail: null, linkId: null, paymentId: null, operationId: null },
      ...{ refundOf: null, settledBy: null, feeUnits: null, feeWei: null, isFinalized: true },
      ...{
        orderMetadata: null,
        confirmedAt: null,
        failureReason: null,
        candidates: null,
        operationNote: null,
      },
    };
    return made as unknown as ExportRow;
  });
}
