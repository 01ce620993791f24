/** The texts of receipts, credit notes and the mail with a receipt, in the languages of the payment page. */
import texts from "./document-words.json" with { type: "json" };
import type { Language } from "./language.ts";

export type DocumentWords = (typeof texts)["en"];
const words: Record<Language, DocumentWords> = texts;

export type DocumentSpeech = {
  words: DocumentWords;
  isRightToLeft: boolean;
  /** "12.50 USDC", with Latin digits: an amount is compared with what a wallet shows. */
  amount: (text: string) => string;
  /** Day and time in a zone, with the zone's name. */
  time: (instant: Date, timeZone: string) => string;
};

export function speechOf(language: Language): DocumentSpeech {
  const locale = `${language}-u-nu-latn`;
  const amounts = new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 6 });
  return {
    words: words[language],
    isRightToLeft: language === "ar",
    // as text, which is exact whatever its size
    amount: (text) => `${amounts.format(text as `${number}`)} USDC`,
    time: (instant, timeZone) =>
      new Intl.DateTimeFormat(locale, {
        ...{
          year: "numeric",
          month: "long",
          day: "numeric",
          hour: "2-digit",
          minute: "2-digit",
          second: "2-digit",
        },
        timeZone,
        timeZoneName: "short",
        hourCycle: "h23",
      }).format(instant),
  };
}
