/** Names within sentences: a shop's or a wallet's name has its own direction and must not affect the words around it. */

/** Marks, embeddings, overrides and isolates (UAX 9), which in a name are only abuse. */
const CONTROLS = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
/** Right-to-left scripts, and others for which an isolate does no harm. */
const OTHER_SCRIPTS = /[\u0590-\u1fff\u2c00-\uffff]/;

/** A message with its `{placeholders}` filled, each between isolates where its direction may differ from the sentence's. */
export function fillMessage(
  message: string,
  values: Readonly<Record<string, string>>,
  direction: string,
): string {
  return message.replace(/\{(\w+)\}/g, (placeholder, name: string) => {
    const value = (values[name] ?? placeholder).replace(CONTROLS, "");
    return direction === "rtl" || OTHER_SCRIPTS.test(value) ? `\u2068${value}\u2069` : value;
  });
}
