/**
 * DATEV's format for journal entries: EXTF 700, category 21 (Buchungsstapel), version 13. Two header records and one record per entry, 125 fields
 * each, in Windows-1252, with semicolons and decimal commas. Pure.
 */

import { formatMinor, type ImportRow } from "./bank-import-rows.ts";
import type { DatevSettings } from "./datev-settings.ts";
import { ExportRefusal } from "./export-refusal-error.ts";

export const DATEV_PLACES = 2;
const EMPTY = "";
const numbered = (first: string, second: string, count: number) =>
  Array.from({ length: count }, (_, n) => [`${first}${n + 1}`, `${second}${n + 1}`]).flat();

const COLUMNS: readonly string[] = [
  ...["Umsatz (ohne Soll/Haben-Kz)", "Soll/Haben-Kennzeichen", "WKZ Umsatz", "Kurs", "Basis-Umsatz"],
  ...["WKZ Basis-Umsatz", "Konto", "Gegenkonto (ohne BU-Schlüssel)", "BU-Schlüssel", "Belegdatum"],
  ...["Belegfeld 1", "Belegfeld 2", "Skonto", "Buchungstext", "Postensperre", "Diverse Adressnummer"],
  ...["Geschäftspartnerbank", "Sachverhalt", "Zinssperre", "Beleglink"],
  ...numbered("Beleginfo - Art ", "Beleginfo - Inhalt ", 8),
  ...["KOST1 - Kostenstelle", "KOST2 - Kostenstelle", "Kost-Menge", "EU-Land u. UStID (Bestimmung)"],
  ...["EU-Steuersatz (Bestimmung)", "Abw. Versteuerungsart", "Sachverhalt L+L", "Funktionsergänzung L+L"],
  ...["BU 49 Hauptfunktionstyp", "BU 49 Hauptfunktionsnummer", "BU 49 Funktionsergänzung"],
  ...numbered("Zusatzinformation - Art ", "Zusatzinformation- Inhalt ", 20),
  ...["Stück", "Gewicht", "Zahlweise", "Forderungsart", "Veranlagungsjahr", "Zugeordnete Fälligkeit"],
  ...["Skontotyp", "Auftragsnummer", "Buchungstyp", "USt-Schlüssel (Anzahlungen)", "EU-Land (Anzahlungen)"],
  ...["Sachverhalt L+L (Anzahlungen)", "EU-Steuersatz (Anzahlungen)", "Erlöskonto (Anzahlungen)"],
  ...["Herkunft-Kz", "Buchungs GUID", "KOST-Datum", "SEPA-Mandatsreferenz", "Skontosperre"],
  ...["Gesellschaftername", "Beteiligtennummer", "Identifikationsnummer", "Zeichnernummer"],
  ...["Postensperre bis", "Bezeichnung SoBil-Sachverhalt", "Kennzeichen SoBil-Buchung", "Festschreibung"],
  ...["Leistungsdatum", "Datum Zuord. Steuerperiode", "Fälligkeit", "Generalumkehr (GU)", "Steuersatz"],
  ...["Land", "Abrechnungsreferenz", "BVV-Position", "EU-Land u. UStID (Ursprung)"],
  ...["EU-Steuersatz (Ursprung)", "Abw. Skontokonto"],
];

const GEGENKONTO: Record<ImportRow["kind"], keyof DatevSettings["accounts"]> = {
  PAYMENT: "payments",
  RECEIVE: "received",
  SEND: "sent",
  REFUND: "refunds",
  FEE: "fees",
  ROUNDING: "rounding",
};

export type DatevHead = {
  settings: DatevSettings;
  currency: string;
  generatedAt: Date;
  /** First and last day of the entries. */
  firstDay: string;
  lastDay: string;
};

/** The first two records. Throws ExportRefusal when the entries span two fiscal years. */
export function datevHead(head: DatevHead): string[] {
  const { settings, currency, generatedAt, firstDay, lastDay } = head;
  const year = fiscalYearOf(firstDay, settings.fiscalYearStart);
  if (lastDay >= year.next)
    throw new ExportRefusal(
      `DATEV accepts entries of one fiscal year, which ends before ${year.next}; these continue to ${lastDay}`,
    );
  const record = [
    ...[quote("EXTF"), "700", "21", quote("Buchungsstapel"), "13"],
    generatedAt.toISOString().replace(/\D/g, ""),
    ...[EMPTY, quote("RE"), quote(""), quote("")],
    ...[String(settings.consultantNumber), String(settings.clientNumber)],
    ...[compact(year.start), String(settings.accountLength), compact(firstDay), compact(lastDay)],
    ...[quote("USDC"), quote(""), "1", "0", "0", quote(currency)],
    ...[EMPTY, quote(""), EMPTY, EMPTY, quote(""), EMPTY, EMPTY, quote(""), quote("")],
  ];
  return [record.join(";"), COLUMNS.join(";")];
}

/** The wallet's account is debited (S) with money in and credited (H) with money out. */
export function datevRecord(row: ImportRow, { settings, currency }: DatevHead, places: number): string {
  const magnitude = row.minorUnits < 0n ? -row.minorUnits : row.minorUnits;
  const amount = formatMinor(magnitude * 10n ** BigInt(DATEV_PLACES - places), DATEV_PLACES);
  const fields: string[] = COLUMNS.map(() => EMPTY);
  const set = (column: number, value: string) => {
    fields[column - 1] = value;
  };
  set(1, amount.replace(".", ","));
  set(2, quote(row.minorUnits < 0n ? "H" : "S"));
  set(3, quote(currency));
  set(7, settings.accounts.wallet);
  set(8, settings.accounts[GEGENKONTO[row.kind]]);
  set(10, `${row.day.slice(8, 10)}${row.day.slice(5, 7)}`);
  set(11, quote(row.reference.replace(/[^a-zA-Z0-9$&%*+\-/]/g, "").slice(0, 36)));
  set(14, quote(printable(row.description).slice(0, 60)));
  const facts = [
    ["USDC", row.usdc],
    ["Kurs", row.rate],
    ["Transaktion", row.place],
    ["Gegenpartei", row.counterparty],
  ] as const;
  for (const [index, [name, value]] of facts.filter(([, value]) => value !== "").entries()) {
    set(21 + 2 * index, quote(name));
    set(22 + 2 * index, quote(printable(value).slice(0, 210)));
  }
  return fields.join(";");
}

/** The fiscal year of a day: its first day, and the first day of the next. */
function fiscalYearOf(day: string, start: string): { start: string; next: string } {
  const year = Number(day.slice(0, 4)) - (day.slice(5) < start ? 1 : 0);
  return { start: `${year}-${start}`, next: `${year + 1}-${start}` };
}

function quote(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}

/** One line of characters that Windows-1252 has. */
function printable(text: string): string {
  return [...text.normalize("NFC").replace(/\p{Cc}+/gu, " ")]
    .map((letter) => (toByte(letter) === undefined ? "?" : letter))
    .join("");
}

function compact(day: string): string {
  return day.replaceAll("-", "");
}

/** 0x80 to 0x9f of Windows-1252; five of them are unassigned. */
const HIGH = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ";

function toByte(letter: string): number | undefined {
  const code = letter.codePointAt(0) ?? 0;
  if (code < 0x80 || (code >= 0xa0 && code <= 0xff)) return code;
  const at = HIGH.indexOf(letter);
  return code >= 0xa0 && at >= 0 ? 0x80 + at : undefined;
}

/** "?" replaces characters that Windows-1252 lacks. */
export function toWindows1252(text: string): Uint8Array {
  return Uint8Array.from(text, (letter) => toByte(letter) ?? 0x3f);
}
