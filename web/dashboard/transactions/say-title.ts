/** The API's title of a transaction in the reader's language; the merchant's own words in it stay as they are. */
import { say } from "../frame/texts.ts";

const WHAT = "{what}";
const TITLES = [
  "Payment for {what}",
  "Payment from {what}",
  "Received from {what}",
  "Sent to {what}",
  "Refund for {what}",
];

export function sayTitle(title: string): string {
  const start = (text: string) => text.slice(0, -WHAT.length);
  const found = TITLES.find((text) => title.startsWith(start(text)));
  return found ? say(found, { what: title.slice(start(found).length) }) : title;
}
