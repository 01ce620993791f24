/** The texts of the payment pages: which language a request gets, and how numbers and times are written in it. */

import {
  acceptedLanguage,
  DEFAULT_LANGUAGE,
  findLanguage,
  type Language,
} from "../../core/domain/language.ts";
import ar from "../../web/messages/ar.json" with { type: "json" };
import dashboardDe from "../../web/messages/dashboard/de.json" with { type: "json" };
import de from "../../web/messages/de.json" with { type: "json" };
import en from "../../web/messages/en.json" with { type: "json" };
import es from "../../web/messages/es.json" with { type: "json" };
import fr from "../../web/messages/fr.json" with { type: "json" };
import hi from "../../web/messages/hi.json" with { type: "json" };
import id from "../../web/messages/id.json" with { type: "json" };
import { fillMessage } from "../../web/messages/isolate.ts";
import ptBR from "../../web/messages/pt-BR.json" with { type: "json" };
import tr from "../../web/messages/tr.json" with { type: "json" };
import vi from "../../web/messages/vi.json" with { type: "json" };
import zhHans from "../../web/messages/zh-Hans.json" with { type: "json" };

export type Messages = typeof en;

/** By BCP 47 tag, with each language's own name. */
export const LANGUAGES = {
  en: { name: "English", messages: en },
  es: { name: "Español", messages: es },
  "pt-BR": { name: "Português", messages: ptBR },
  fr: { name: "Français", messages: fr },
  de: { name: "Deutsch", messages: de },
  tr: { name: "Türkçe", messages: tr },
  ar: { name: "العربية", messages: ar },
  hi: { name: "हिन्दी", messages: hi },
  id: { name: "Bahasa Indonesia", messages: id },
  vi: { name: "Tiếng Việt", messages: vi },
  "zh-Hans": { name: "简体中文", messages: zhHans },
} as const satisfies Record<Language, { name: string; messages: Messages }>;

export type PageTexts = {
  language: Language;
  direction: "ltr" | "rtl";
  messages: Messages;
  say: (key: keyof Messages, values?: Record<string, string>) => string;
  formatAmount: (amount: number) => string;
  formatTime: (time: Date | string) => string;
  formatMinutes: (minutes: number) => string;
};

/** The dashboard's texts keyed by the English text, which is shown when a translation is missing. */
const DASHBOARD: Partial<Record<Language, Readonly<Record<string, string>>>> = { en: {}, de: dashboardDe };

/** Undefined: the dashboard is not translated into this language. */
export function dashboardMessagesOf(language: Language): Readonly<Record<string, string>> | undefined {
  return DASHBOARD[language];
}

/** `asked` is the page's `?lang=`, which wins over the browser's `Accept-Language`. */
export function chooseLanguage(asked: string | null, accepted: string | null): Language {
  return (asked === null ? undefined : findLanguage(asked)) ?? acceptedLanguage(accepted) ?? DEFAULT_LANGUAGE;
}

export function textsOf(language: Language): PageTexts {
  const { messages } = LANGUAGES[language];
  const direction = language === "ar" ? "rtl" : "ltr";
  // Latin digits everywhere, because readers compare amounts with what their wallet shows.
  const locale = `${language}-u-nu-latn`;
  const amounts = new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 6 });
  const times = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });
  const minutes = new Intl.NumberFormat(locale, { style: "unit", unit: "minute", unitDisplay: "long" });
  return {
    language,
    direction,
    messages,
    say: (key, values = {}) => fillMessage(messages[key], values, direction),
    formatAmount: (amount) => amounts.format(amount),
    formatTime: (time) => `${times.format(new Date(time))} UTC`,
    formatMinutes: (count) => minutes.format(count),
  };
}
