/** Which shop may embed a payment page: `?embed=` names its origin, which counts only when the merchant lists it. */
import type { ResponseSet } from "../http/session-cookie.ts";

/** Also takes the API's `x-frame-options` back for a shop: it cannot name an origin, and not every browser lets frame-ancestors win. */
export function findShop(
  { request, set }: { request: Request; set: ResponseSet },
  listed: readonly string[],
): string | undefined {
  const asked = new URL(request.url).searchParams.get("embed");
  if (asked === null || !listed.includes(asked)) return undefined;
  delete set.headers["x-frame-options"];
  return asked;
}

/** The query that carries the shop's origin from one page to the next. */
export function embedQuery(shopOrigin: string | undefined): string {
  return shopOrigin === undefined ? "" : `&embed=${encodeURIComponent(shopOrigin)}`;
}
