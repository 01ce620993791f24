/** Amounts as people type them, with a decimal point or a decimal comma. Pure. */

/** "1,000" is a thousand, or one with a decimal comma; so is "1.000" in a language that groups digits with a point. */
export function hasTwoReadings(typed: string, language: string): boolean {
  const groups = new Intl.NumberFormat(language).formatToParts(12_345).find(({ type }) => type === "group");
  const marks = groups?.value === "." ? ",." : ",";
  return new RegExp(`^[1-9]\\d{0,2}(?:[${marks}]\\d{3})+$`).test(typed.trim());
}
