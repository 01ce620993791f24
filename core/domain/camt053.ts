/**
 * ISO 20022 camt.053.001.08 (bank-to-customer statement) for one wallet and period. Balances are valued at the rate of their day,
 * movements at that of theirs, so a final entry carries the difference due to rate changes and rounding. Pure.
 */

import { formatMinor, type ImportRow, missingRate } from "./bank-import-rows.ts";
import { addDays } from "./exchange-rate.ts";
import { toMinorUnits, type Valuation } from "./fiat.ts";
import { localTime } from "./local-time.ts";
import { NETWORKS } from "./networks.ts";
import type { StatementHead } from "./statement.ts";

/** ActiveOrHistoricCurrencyAndAmount has five. */
export const CAMT_PLACES = 5;
const NAMESPACE = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08";

/** `id` is the same for every statement of a period, because importers skip a file they have already imported. */
export type CamtHead = { head: StatementHead; valuation: Valuation; places: number; id: string };
export type CamtBalances = { openingMinor: bigint; closingMinor: bigint; firstDay: string; lastDay: string };

/** Throws ExportRefusal when a balance cannot be valued. A zero balance needs no rate. */
export function camtBalances({ head, valuation, places }: CamtHead): CamtBalances {
  const dayOf = (instant: Date) => localTime(instant, head.timeZone).slice(0, 10);
  const firstDay = dayOf(head.from);
  const lastDay = dayOf(new Date(head.before.getTime() - 1));
  const minorOf = (units: bigint, day: string) => {
    if (units === 0n) return 0n;
    const value = valuation.valueOf(units, day);
    if (!value) throw missingRate(valuation.currency, day);
    return toMinorUnits(value.units, places);
  };
  return {
    firstDay,
    lastDay,
    // as the period before it ended
    openingMinor: minorOf(head.openingUnits, addDays(firstDay, -1)),
    closingMinor: minorOf(head.closingUnits, lastDay),
  };
}

/** Everything before the first entry. */
export function camtStart(given: CamtHead, balances: CamtBalances): string {
  const { head, valuation, places, id } = given;
  const { openingMinor, closingMinor, firstDay, lastDay } = balances;
  const at = head.generatedAt.toISOString();
  const balance = (code: string, minor: bigint, day: string) =>
    element("Bal", [
      element("Tp", element("CdOrPrtry", element("Cd", code))),
      amount(minor, valuation.currency, places),
      element("Dt", element("Dt", day)),
    ]);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>\n',
    `<Document xmlns="${NAMESPACE}"><BkToCstmrStmt>`,
    element("GrpHdr", [element("MsgId", id), element("CreDtTm", at)]),
    "<Stmt>",
    ...[element("Id", id), element("CreDtTm", at)],
    element("FrToDt", [
      element("FrDtTm", head.from.toISOString()),
      element("ToDtTm", new Date(head.before.getTime() - 1).toISOString()),
    ]),
    element("Acct", [
      element("Id", element("Othr", element("Id", head.walletId))),
      element("Ccy", valuation.currency),
      element("Nm", text(`USDC on ${NETWORKS[head.network].displayName} ${head.walletAddress}`, 70)),
      element("Ownr", element("Nm", text(head.issuer.name, 140))),
    ]),
    balance("OPBD", openingMinor, firstDay),
    balance("CLBD", closingMinor, lastDay),
    "\n",
  ].join("");
}

export function camtEntry(row: ImportRow, { valuation, places }: CamtHead, reference: string): string {
  const isIn = row.minorUnits > 0n;
  const party = element("Pty", element("Nm", text(row.counterparty, 140)));
  const exact = `${row.usdc} USDC at ${row.rate}; ${row.place}`;
  const details = element("TxDtls", [
    element("Refs", [
      element("AcctSvcrRef", text(reference, 35)),
      element("EndToEndId", text(row.reference === "" ? "NOTPROVIDED" : row.reference, 35)),
    ]),
    row.counterparty === ""
      ? ""
      : element("RltdPties", isIn ? element("Dbtr", party) : element("Cdtr", party)),
    element("RmtInf", element("Ustrd", text(row.description, 140))),
  ]);
  return `${element("Ntry", [
    amount(row.minorUnits, valuation.currency, places),
    element("Sts", element("Cd", "BOOK")),
    element("BookgDt", element("Dt", row.day)),
    element("ValDt", element("Dt", row.day)),
    element("AcctSvcrRef", text(reference, 35)),
    element("BkTxCd", element("Prtry", element("Cd", row.kind))),
    element("NtryDtls", details),
    row.usdc === "" ? "" : element("AddtlNtryInf", text(exact, 500)),
  ])}\n`;
}

/** The entry that makes the entries add up to the closing balance; undefined when they already do. */
export function camtDifference(
  { openingMinor, closingMinor, lastDay }: CamtBalances,
  enteredMinor: bigint,
): ImportRow | undefined {
  const left = closingMinor - openingMinor - enteredMinor;
  if (left === 0n) return undefined;
  return {
    day: lastDay,
    minorUnits: left,
    kind: "ROUNDING",
    description: "Exchange difference and rounding",
    reference: "",
    counterparty: "",
    usdc: "",
    rate: "",
    place: "",
  };
}

export const CAMT_END = "</Stmt></BkToCstmrStmt></Document>\n";

function amount(minor: bigint, currency: string, places: number): string {
  const magnitude = formatMinor(minor < 0n ? -minor : minor, places);
  return `<Amt Ccy="${currency}">${magnitude}</Amt>${element("CdtDbtInd", minor < 0n ? "DBIT" : "CRDT")}`;
}

function element(name: string, content: string | readonly string[]): string {
  return `<${name}>${typeof content === "string" ? content : content.join("")}</${name}>`;
}

/** Escaped, one line, only characters that XML allows, and never empty. */
function text(given: string, max: number): string {
  const line = given
    .toWellFormed()
    .replace(/[\p{Cc}\ufffe\uffff]+/gu, " ")
    .trim();
  const cut = [...line].slice(0, max).join("").trim();
  return (cut === "" ? "-" : cut).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
