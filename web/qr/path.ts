/** The dark modules of a QR code as an SVG path. The server draws its pages' codes with it too. */

/** One rectangle for each run of dark modules in a row. */
export function pathOf(rows: readonly (readonly boolean[])[]): string {
  return rows
    .map((row, y) => {
      let path = "";
      for (let x = 0; x < row.length; x++) {
        if (!row[x]) continue;
        const start = x;
        while (row[x + 1]) x++;
        path += `M${start} ${y}h${x - start + 1}v1h-${x - start + 1}z`;
      }
      return path;
    })
    .join("");
}
