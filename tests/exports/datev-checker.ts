/**
 * Checks a file for DATEV by the published description of the format (EXTF 700, Buchungsstapel 13): each field's kind, length and characters,
 * and what the fields of head and postings say about each other. Throws on the first fault.
 */

type Field = { name: string; pattern: RegExp; isRequired?: true };
export type Posting = {
  /** Cents, from the side of the account: debit positive. */
  cents: bigint;
  currency: string;
  account: string;
  contra: string;
  /** DDMM */
  day: string;
  reference: string;
  text: string;
  facts: Record<string, string>;
};
export type DatevFile = { head: readonly string[]; currency: string; postings: Posting[] };

const text = (max: number) => new RegExp(`^"(?:[^"]|""){0,${max}}"$`);
const number = (digits: string) => new RegExp(`^\\d{${digits}}$`);
const day = /^\d{4}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$/;
const nothing = /^$/;

const HEAD: readonly Field[] = [
  { name: "Kennzeichen", pattern: /^"EXTF"$/, isRequired: true },
  { name: "Versionsnummer", pattern: /^700$/, isRequired: true },
  { name: "Formatkategorie", pattern: /^21$/, isRequired: true },
  { name: "Formatname", pattern: /^"Buchungsstapel"$/, isRequired: true },
  { name: "Formatversion", pattern: /^13$/, isRequired: true },
  {
    name: "Erzeugt am",
    pattern: /^20\d{2}(0[1-9]|1[0-2])\d{2}([01]\d|2[0-3])[0-5]\d[0-5]\d\d{3}$/,
    isRequired: true,
  },
  { name: "Importiert", pattern: nothing },
  { name: "Herkunft", pattern: text(2) },
  { name: "Exportiert von", pattern: text(25) },
  { name: "Importiert von", pattern: text(25) },
  { name: "Beraternummer", pattern: number("4,7"), isRequired: true },
  { name: "Mandantennummer", pattern: number("1,5"), isRequired: true },
  { name: "WJ-Beginn", pattern: day, isRequired: true },
  { name: "Sachkontenlänge", pattern: /^[4-8]$/, isRequired: true },
  { name: "Datum von", pattern: day, isRequired: true },
  { name: "Datum bis", pattern: day, isRequired: true },
  { name: "Bezeichnung", pattern: text(30) },
  { name: "Diktatkürzel", pattern: /^"[A-Z]{0,2}"$/ },
  { name: "Buchungstyp", pattern: /^[12]$/ },
  { name: "Rechnungslegungszweck", pattern: /^(0|30|40|50|64)$/ },
  { name: "Festschreibung", pattern: /^[01]$/ },
  { name: "WKZ", pattern: /^"[A-Z]{3}"$/ },
  { name: "reserviert", pattern: nothing },
  { name: "Derivatskennzeichen", pattern: /^""$/ },
  { name: "reserviert", pattern: nothing },
  { name: "reserviert", pattern: nothing },
  { name: "Sachkontenrahmen", pattern: /^"\d{0,2}"$/ },
  { name: "Branchenlösung", pattern: /^\d{0,4}$/ },
  { name: "reserviert", pattern: nothing },
  { name: "reserviert", pattern: /^""$/ },
  { name: "Anwendungsinformation", pattern: text(16) },
];

/** Number, heading and content of the fields that may be filled; all others must be empty. */
const POSTING: readonly (readonly [number, string, RegExp])[] = [
  [1, "Umsatz (ohne Soll/Haben-Kz)", /^\d{1,10},\d{2}$/],
  [2, "Soll/Haben-Kennzeichen", /^"[SH]"$/],
  [3, "WKZ Umsatz", /^"[A-Z]{3}"$/],
  [7, "Konto", /^[1-9]\d{0,8}$/],
  [8, "Gegenkonto (ohne BU-Schlüssel)", /^[1-9]\d{0,8}$/],
  [10, "Belegdatum", /^(0[1-9]|[12]\d|3[01])(0[1-9]|1[0-2])$/],
  [11, "Belegfeld 1", /^"[a-zA-Z0-9$&%*+\-/]{0,36}"$/],
  [14, "Buchungstext", text(60)],
  ...[0, 1, 2, 3].flatMap((n): [number, string, RegExp][] => [
    [21 + 2 * n, `Beleginfo - Art ${n + 1}`, text(20)],
    [22 + 2 * n, `Beleginfo - Inhalt ${n + 1}`, text(210)],
  ]),
];
const REQUIRED = [1, 2, 7, 8, 10];
/** Headings at the ends of the runs between: a missing or doubled one moves all that follow. */
const HEADINGS: readonly (readonly [number, string])[] = [
  ...POSTING.map(([at, name]) => [at, name] as const),
  ...([
    [36, "Beleginfo - Inhalt 8"],
    [37, "KOST1 - Kostenstelle"],
    [47, "BU 49 Funktionsergänzung"],
  ] as const),
  ...([
    [48, "Zusatzinformation - Art 1"],
    [87, "Zusatzinformation- Inhalt 20"],
    [88, "Stück"],
  ] as const),
  ...([
    [103, "Buchungs GUID"],
    [114, "Festschreibung"],
    [116, "Datum Zuord. Steuerperiode"],
  ] as const),
  ...([
    [118, "Generalumkehr (GU)"],
    [121, "Abrechnungsreferenz"],
    [125, "Abw. Skontokonto"],
  ] as const),
];
const FIELDS = 125;

export function checkDatev(bytes: Uint8Array): DatevFile {
  const content = new TextDecoder("windows-1252", { fatal: true }).decode(bytes);
  if (!content.endsWith("\r\n")) throw new Error("the last record does not end with CRLF");
  const [headLine = "", titleLine = "", ...lines] = content.slice(0, -2).split("\r\n");
  const head = split(headLine);
  if (head.length !== HEAD.length) throw new Error(`the head has ${head.length} fields, not ${HEAD.length}`);
  for (const [index, { name, pattern, isRequired }] of HEAD.entries()) {
    const value = head[index] ?? "";
    if (value === "" ? isRequired : !pattern.test(value))
      throw new Error(`head ${index + 1} ${name}: ${value}`);
  }
  const titles = split(titleLine);
  if (titles.length !== FIELDS) throw new Error(`${titles.length} headings, not ${FIELDS}`);
  for (const [at, name] of HEADINGS)
    if (titles[at - 1] !== name) throw new Error(`heading ${at} is ${titles[at - 1]}, not ${name}`);
  const [start = "", from = "", to = ""] = [head[12], head[14], head[15]];
  const next = `${Number(start.slice(0, 4)) + 1}${start.slice(4)}`;
  if (from < start || to < from || to >= next)
    throw new Error(`${from} to ${to} is not in the year from ${start}`);
  const accountLength = Number(head[13]);
  const postings = lines.map((line, index) => {
    const fields = split(line);
    if (fields.length !== FIELDS) throw new Error(`posting ${index + 1} has ${fields.length} fields`);
    return readPosting(fields, { start, from, to, accountLength, place: `posting ${index + 1}` });
  });
  return { head, currency: unquote(head[21] ?? ""), postings };
}

type Place = { start: string; from: string; to: string; accountLength: number; place: string };

function readPosting(fields: readonly string[], { start, from, to, accountLength, place }: Place): Posting {
  const known = new Map(POSTING.map(([at, name, pattern]) => [at, { name, pattern }]));
  for (const [index, value] of fields.entries()) {
    const field = known.get(index + 1);
    if (value === "" ? REQUIRED.includes(index + 1) : !field?.pattern.test(value))
      throw new Error(`${place}, field ${index + 1} (${field?.name ?? "must be empty"}): ${value}`);
  }
  const at = (column: number) => fields[column - 1] ?? "";
  const cents = BigInt(at(1).replace(",", ""));
  if (cents === 0n) throw new Error(`${place}: an amount of zero`);
  for (const account of [at(7), at(8)])
    if (account.length > accountLength + 1) throw new Error(`${place}: the account ${account} is too long`);
  const date = `${at(10).slice(2)}${at(10).slice(0, 2)}`;
  const year = date >= start.slice(4) ? start.slice(0, 4) : String(Number(start.slice(0, 4)) + 1);
  if (`${year}${date}` < from || `${year}${date}` > to)
    throw new Error(`${place}: ${at(10)} is not in the period`);
  const facts = [0, 1, 2, 3].map((n) => [unquote(at(21 + 2 * n)), unquote(at(22 + 2 * n))] as const);
  return {
    cents: at(2) === '"S"' ? cents : -cents,
    ...{ currency: unquote(at(3)), account: at(7), contra: at(8), day: at(10) },
    ...{ reference: unquote(at(11)), text: unquote(at(14)) },
    facts: Object.fromEntries(facts.filter(([name]) => name !== "")),
  };
}

/** Semicolons inside quotes are text. */
function split(line: string): string[] {
  const fields = line.match(/("(?:[^"]|"")*"|[^;"]*)(?:;|$)/g) ?? [];
  const whole = fields.join("");
  if (whole !== line) throw new Error(`not a record: ${line.slice(0, 100)}`);
  const read = fields.map((field) => field.replace(/;$/, ""));
  return line.endsWith(";") ? read : read.slice(0, fields.at(-1) === "" ? -1 : undefined);
}

function unquote(field: string): string {
  return field.replace(/^"|"$/g, "").replaceAll('""', '"');
}
