/** A table within the terminal's width: ids and amounts are never truncated, only the one flexible column. */
import { cut, pad, plain, widthOf } from "./plain-text.ts";

export type Column<Row> = {
  title: string;
  read: (row: Row) => string;
  /** Numbers are right-aligned. */
  isRight?: true;
  /** Takes the remaining width, and is truncated to it. */
  isFlexible?: true;
};

const GAP = "  ";
const FLEXIBLE_MIN = 8;

export function tableOf<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  columnsOfTerminal: number,
): string {
  const cells = rows.map((row) => columns.map(({ read }) => plain(read(row))));
  const natural = columns.map(({ title }, at) =>
    Math.max(title.length, ...cells.map((line) => widthOf(line[at] ?? ""))),
  );
  const fixed = natural.reduce((sum, width, at) => sum + (columns[at]?.isFlexible ? 0 : width), 0);
  const left = columnsOfTerminal - fixed - GAP.length * (columns.length - 1);
  const widths = natural.map((width, at) =>
    columns[at]?.isFlexible ? Math.min(width, Math.max(FLEXIBLE_MIN, left)) : width,
  );
  const lineOf = (line: readonly string[]) =>
    line
      .map((cell, at) => pad(cut(cell, widths[at] ?? 0), widths[at] ?? 0, columns[at]?.isRight ?? false))
      .join(GAP)
      .trimEnd();
  return [lineOf(columns.map(({ title }) => title)), ...cells.map(lineOf)].join("\n");
}
