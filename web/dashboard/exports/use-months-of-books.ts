/** The months of the books: they begin in the books' time zone, as those of statements and documents do. */
import { useLoad } from "../frame/load.ts";
import { lastMonths } from "./months.ts";

/** `timeZone`: undefined until it is known; the months are the device's until then. */
export function useMonthsOfBooks(): { months: readonly string[]; timeZone: string | undefined } {
  const timeZone = useLoad("GET /v1/settings/books").value?.timeZone;
  return { months: lastMonths(new Date(), timeZone), timeZone };
}
