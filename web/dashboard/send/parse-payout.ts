/**
 * Parses a payout's lines: address, amount and an optional note, separated by commas, semicolons or tabs. Every line is checked before
 * anything is sent to the service.
 */
import { faultOfAmount, TWO_READINGS } from "../parts/amount-fault.ts";
import { filledLines, splitCells } from "../parts/split-cells.ts";
import { readUnits } from "./check-signed-operation.ts";

export const LINES_MAX = 100;

export type PayoutLine = {
  readonly number: number;
  readonly to: string;
  readonly amount: string;
  readonly note: string;
  readonly units: bigint;
  /** An English text, to be translated; undefined if the line is valid. */
  readonly fault: string | undefined;
  /** The earlier line with the same content. */
  readonly twin: number | undefined;
};

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
const NOTE_MAX = 500;
/** Between commas "12,50" is an amount of 12 and a note, or twelve and a half; "1,000.50" is 1 and a note, or a thousand. */
const SPLIT_AMOUNT = /^[^,;\t"]*,\s*\d+,(\d{1,2}|\d{3}(\.\d*)?)\s*(,|$)/;

export function readPayout(text: string, ownAddress: string, groupsWithPoint = false): PayoutLine[] {
  const filled = filledLines(text);
  const rows = filled.filter(({ line }, index) => index > 0 || !isHeading(line));
  const seen = new Map<string, number>();
  return rows.map(({ line, number }) => {
    const [to = "", amount = "", ...rest] = splitCells(line);
    const note = rest.join(", ").trim();
    const units = readUnits(amount);
    const key = `${to.toLowerCase()} ${units}`;
    const twin = seen.get(key);
    seen.set(key, twin ?? number);
    const fault = SPLIT_AMOUNT.test(line)
      ? TWO_READINGS
      : faultOf({ to, amount, units, note, twin, ownAddress, groupsWithPoint });
    return { number, to, amount: amount.replace(",", "."), note, units: units ?? 0n, fault, twin };
  });
}

/** Neither an address nor an amount: a recipient whose address is mistyped must be shown as faulty, not left out. */
const isHeading = (line: string) => !/0x/i.test(line) && !/^\d/.test(splitCells(line)[1] ?? "");

/** How many lines can be paid, their total, and how many are invalid; those do not count towards the total. */
export function sumPayout(lines: readonly PayoutLine[]): { payable: number; faulty: number; total: bigint } {
  const payable = lines.filter(({ fault }) => fault === undefined);
  const total = payable.reduce((sum, { units }) => sum + units, 0n);
  return { payable: payable.length, faulty: lines.length - payable.length, total };
}

type Given = {
  to: string;
  amount: string;
  units: bigint | undefined;
  note: string;
  twin: number | undefined;
  ownAddress: string;
  groupsWithPoint: boolean;
};

function faultOf({ to, amount, units, note, twin, ownAddress, groupsWithPoint }: Given): string | undefined {
  if (!ADDRESS.test(to)) return "Not an address: it needs 0x and 40 hexadecimal digits.";
  if (/^0x0{40}$/.test(to)) return "The zero address: what it receives is lost.";
  if (to.toLowerCase() === ownAddress.toLowerCase()) return "This is your own wallet.";
  const fault = faultOfAmount(amount, groupsWithPoint);
  if (fault) return fault;
  if (units === 0n) return "The amount is 0.";
  if (Array.from(note).length > NOTE_MAX) return "The note is longer than 500 characters.";
  return twin === undefined ? undefined : "The same as line {number}: same address, same amount.";
}
