/** Amounts as people type them, with a decimal point or a decimal comma. Pure. */

/** "1,000" is a thousand, or one with a decimal comma; so is "1.000" in a language that groups digits with a point. */
export function hasTwoReadings(typed: string, language: string): boolean {
  const groups = new Intl.NumberFormat(language).formatToParts(12_345).find(({ type }) => type === "group");
  const marks = groups?.value === "." ? ",." : ",";
  return new RegExp(`^[1-9]\\d{0,2}(?:[${marks}]\\d{3})+$`).test(typed.trim());
}

const ZEROS = ["\u0660", "\u06f0", "\u0966"].map((zero) => zero.charCodeAt(0));
const DIGITS_EACH = 10;

/** With the digits and the decimal point of Latin text: keyboards of Arabic, Persian and Hindi may type their own. */
export function toLatinDigits(typed: string): string {
  return typed
    .replaceAll("\u066b", ".")
    .replaceAll("\u066c", ",")
    .replace(/[\u0660-\u0669\u06f0-\u06f9\u0966-\u096f]/g, (digit) => {
      const code = digit.charCodeAt(0);
      const zero = ZEROS.find((first) => code >= first && code < first + DIGITS_EACH) ?? code;
      return String(code - zero);
    });
}
