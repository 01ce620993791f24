/** Keeps spreadsheets from executing cells of a CSV file as formulas. */

/** Spaces and invisible characters (byte order mark, zero-width space, controls) do not hide a formula: some programs strip them first. */
const FORMULA = /^(?:[\t\r\n\0]|[\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]*[=+\-@＝＋－＠])/u;

/** Prevents a spreadsheet from reading a cell as a formula: an apostrophe before = + - @ (also full-width), tab and line breaks. */
export function neutralizeCell(cell: string): string {
  return FORMULA.test(cell) ? `'${cell}` : cell;
}
