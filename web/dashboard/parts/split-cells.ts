/** Cells of a table's line, separated by tabs, semicolons or commas (RFC 4180); a separator inside quotes is text. */
export function splitCells(line: string): string[] {
  const separator = line.includes("\t") ? "\t" : line.includes(";") ? ";" : ",";
  const cells: string[] = [];
  let cell = "";
  let isQuoted = false;
  for (let at = 0; at < line.length; at++) {
    const char = line[at];
    if (char === '"' && isQuoted && line[at + 1] === '"') {
      cell += '"';
      at++;
    } else if (char === '"') isQuoted = !isQuoted;
    else if (char === separator && !isQuoted) {
      cells.push(cell.trim());
      cell = "";
    } else cell += char;
  }
  return [...cells, cell.trim()];
}

/** The non-empty lines and their numbers. */
export function filledLines(text: string): { line: string; number: number }[] {
  return text
    .split(/\r\n|\r|\n/)
    .map((line, index) => ({ line, number: index + 1 }))
    .filter(({ line }) => line.trim() !== "");
}
