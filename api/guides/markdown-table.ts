/** Markdown tables. */

export function row(...cells: string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", " ")).join(" | ")} |`;
}

export function table(head: readonly string[], rows: readonly string[]): string {
  return [row(...head), `|${head.map(() => "---").join("|")}|`, ...rows].join("\n");
}
