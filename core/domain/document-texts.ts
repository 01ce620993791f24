/** The texts of receipts, credit notes and receipt e-mails, in the languages of the payment page. */
import texts from "./document-texts.json" with { type: "json" };
import type { Language } from "./language.ts";

export type DocumentMessages = (typeof texts)["en"];
const messages: Record<Language, DocumentMessages> = texts;

export type DocumentTexts = {
  messages: DocumentMessages;
  isRightToLeft: boolean;
  /** "12.50 USDC", with Latin digits, because readers compare it with what their wallet shows. */
  amount: (text: string) => string;
  /** Day and time in a zone, with the zone's name. */
  time: (instant: Date, timeZone: string) => string;
};

export function documentTextsOf(language: Language): DocumentTexts {
  const locale = `${language}-u-nu-latn`;
  const amounts = new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 6 });
  return {
    messages: messages[language],
    isRightToLeft: language === "ar",
    // as text, which is exact whatever its size
    amount: (text) => `${amounts.format(text as `${number}`)} USDC`,
    time: (instant, timeZone) =>
      new Intl.DateTimeFormat(locale, {
        year: "numeric",
        month: "long",
        day: "numeric",
        hour: "2-digit",
        minute: "2-digit",
        second: "2-digit",
        timeZone,
        timeZoneName: "short",
        hourCycle: "h23",
      }).format(instant),
  };
}
