/**
 * A statement of one wallet and period: opening balance, every confirmed movement with the balance after it, closing balance, and its comparison
 * with the chain. How both balances are computed: worker/exports/statement/build-statement.ts. Pure.
 */

import type { FiatChoice } from "./exchange-rate.ts";
import { type ExportRow, rowIdOf } from "./export.ts";
import type { Valuation } from "./fiat.ts";
import { monthOf, periodOfMonth } from "./local-days.ts";
import { localTime } from "./local-time.ts";
import { formatUnits } from "./money.ts";
import { type Hex, NETWORKS, type NetworkId } from "./networks.ts";
import type { Table } from "./table.ts";
import { directionOf, titleOf } from "./transaction.ts";

/** A statement with more movements than this is refused rather than truncated. */
export const STATEMENT_ROWS_MAX = 100_000;

export type StatementRequest = {
  network: NetworkId;
  from: Date;
  before: Date;
  timeZone: string;
  fiat: FiatChoice | undefined;
};

/** What documents print about the merchant. */
export type Issuer = { name: string; postalAddress: string | null; taxId: string | null; email: string };

/** The last block of the statement; `isFinal` when the period is over and deep enough. */
export type ClosingBlock = { number: number; hash: Hex; time: Date };
export type ChainCheck =
  | { outcome: "equal" | "different"; balanceUnits: bigint; block: ClosingBlock }
  | { outcome: "not_checked"; reason: string };

export type StatementHead = {
  issuer: Issuer;
  network: NetworkId;
  walletId: string;
  walletAddress: string;
  timeZone: string;
  from: Date;
  before: Date;
  /** False: the period was not over, and the statement ends with a block before its end. */
  isFinal: boolean;
  generatedAt: Date;
  openingUnits: bigint;
  /** The part of it that the wallet had when the service began to follow it, if the period begins earlier: when it arrived is not known. */
  untracked?: { units: bigint; before: Date } | undefined;
  closingUnits: bigint;
  movements: number;
  totals: readonly { kind: ExportRow["kind"]; count: number; units: bigint }[];
  check: ChainCheck;
  /** Of a format in a currency. */
  valuation: Valuation | undefined;
};

/** A movement and the balance after it. */
export type StatementLine = { row: ExportRow; changeUnits: bigint; balanceUnits: bigint };

export function changeOf(row: Pick<ExportRow, "type" | "amountUnits">): bigint {
  return directionOf(row.type) === "in" ? row.amountUnits : -row.amountUnits;
}

/** Whether a kind is money into the wallet. */
export function isMoneyIn(kind: ExportRow["kind"]): boolean {
  return kind === "PAYMENT" || kind === "RECEIVE";
}

/** Compares the ledger's closing balance with the chain's. */
export function checkOf(
  closingUnits: bigint,
  chain: { balanceUnits: bigint; block: ClosingBlock } | { reason: string },
): ChainCheck {
  if ("reason" in chain) return { outcome: "not_checked", reason: chain.reason };
  return { ...chain, outcome: chain.balanceUnits === closingUnits ? "equal" : "different" };
}

/** `write`: an amount, for programs unless a reader's form is given. */
export function describeCheck(check: ChainCheck, network: NetworkId, write = formatUnits): string {
  if (check.outcome === "not_checked") return `not checked: ${check.reason}`;
  const { block, balanceUnits } = check;
  const place = `in block ${block.number} (${block.hash}) of ${NETWORKS[network].displayName}`;
  if (check.outcome === "equal") return `equal to the balance ${place}`;
  return `different: the chain has ${write(balanceUnits)} USDC ${place}`;
}

/** "2026-10-01 to 2026-10-31": calendar days of the zone. */
export function periodText({
  from,
  before,
  timeZone,
}: Pick<StatementHead, "from" | "before" | "timeZone">): string {
  const last = new Date(before.getTime() - 1);
  return `${localTime(from, timeZone).slice(0, 10)} to ${localTime(last, timeZone).slice(0, 10)}`;
}

/** "statement-base-2026-10", or with both days of a period that is not a month. */
export function statementName({
  network,
  from,
  before,
  timeZone,
}: Pick<StatementHead, "network" | "from" | "before" | "timeZone">): string {
  const month = monthOf(from, timeZone);
  const whole = periodOfMonth(month, timeZone);
  const isMonth = +whole.from === +from && +whole.before === +before;
  const period = isMonth ? month : periodText({ from, before, timeZone }).replace(" to ", "-to-");
  return `statement-${network}-${period}`;
}

export const KIND_NAMES: Record<ExportRow["kind"], string> = {
  PAYMENT: "Payment",
  RECEIVE: "Received",
  SEND: "Sent",
  REFUND: "Refund",
  FEE: "Fee",
};

/** One-line description of a movement. */
export function detailsOf(row: ExportRow): string {
  if (row.kind === "FEE") return "Service fee";
  return row.description === "" ? titleOf(row) : row.description;
}

export const STATEMENT_COLUMNS = [
  { title: "Row ID", kind: "text" },
  { title: "Date", kind: "date" },
  { title: "Time", kind: "time" },
  { title: "Kind", kind: "text" },
  { title: "Description", kind: "text" },
  { title: "Reference", kind: "text" },
  { title: "Counterparty", kind: "text" },
  { title: "In (USDC)", kind: "amount" },
  { title: "Out (USDC)", kind: "amount" },
  { title: "Balance (USDC)", kind: "amount" },
  { title: "Transaction Hash", kind: "text" },
  { title: "Block", kind: "integer" },
  { title: "Log Index", kind: "integer" },
  { title: "Payment Link ID", kind: "text" },
  { title: "Refund Of", kind: "text" },
  { title: "Transaction ID", kind: "text" },
  { title: "Network", kind: "text" },
  { title: "Wallet", kind: "text" },
  { title: "Time Zone", kind: "text" },
] as const satisfies Table["columns"];

type StatementWallet = Pick<StatementHead, "network" | "walletAddress" | "timeZone">;

/** On every record, because a table has no header of its own, and the files of two wallets are often joined. */
function walletCells({ network, walletAddress, timeZone }: StatementWallet): string[] {
  return [network, walletAddress, timeZone];
}

/** Undefined when every movement of the period is known. */
export function describeUntracked(
  { untracked, timeZone }: StatementHead,
  write = formatUnits,
): string | undefined {
  if (!untracked) return undefined;
  const day = localTime(untracked.before, timeZone).slice(0, 10);
  return `includes ${write(untracked.units)} USDC that the wallet had when this service began to follow it on ${day}`;
}

/** The first record: the balance the period began with. */
export function openingCells(head: StatementHead): Table["rows"][number] {
  const { openingUnits, from, timeZone } = head;
  const time = localTime(from, timeZone);
  return [
    "opening",
    time.slice(0, 10),
    time.slice(11, 19),
    "OPENING",
    ["Opening balance", describeUntracked(head)].filter(Boolean).join(", "),
    ...["", "", null, null, openingUnits, "", null, null, "", "", ""],
    ...walletCells(head),
  ];
}

export function lineCells(
  { row, changeUnits, balanceUnits }: StatementLine,
  wallet: StatementWallet,
): Table["rows"][number] {
  const time = localTime(row.detectedAt, wallet.timeZone);
  const [moneyIn, moneyOut] = changeUnits < 0n ? [null, -changeUnits] : [changeUnits, null];
  return [
    rowIdOf(row),
    time.slice(0, 10),
    time.slice(11, 19),
    row.kind,
    detailsOf(row),
    row.reference ?? "",
    row.counterparty,
    ...[moneyIn, moneyOut, balanceUnits],
    row.txHash ?? "",
    row.blockNumber,
    row.logIndex === null ? null : BigInt(row.logIndex),
    row.linkId ?? "",
    row.refundOf ?? "",
    row.id,
    ...walletCells(wallet),
  ];
}

/** The last records: the balance the period ended with, and the chain's in the named block. */
export function closingCells(head: StatementHead): Table["rows"][number][] {
  const { closingUnits, check, before, timeZone, network } = head;
  const time = localTime(new Date(before.getTime() - 1), timeZone);
  const at = [time.slice(0, 10), time.slice(11, 19)] as const;
  const closing = head.isFinal ? "Closing balance" : "Balance so far: not all of the period is confirmed yet";
  const block = check.outcome === "not_checked" ? undefined : check.block;
  return [
    [
      ...["closing", ...at, "CLOSING", closing, "", "", null, null, closingUnits, "", null, null, "", "", ""],
      ...walletCells(head),
    ],
    [
      ...["chain", ...at, "CHAIN", `Chain: ${describeCheck(check, network)}`, "", "", null, null],
      check.outcome === "not_checked" ? null : check.balanceUnits,
      "",
      block ? BigInt(block.number) : null,
      null,
      ...["", "", ""],
      ...walletCells(head),
    ],
  ];
}
