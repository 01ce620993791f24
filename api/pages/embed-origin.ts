/** Which shop may embed a payment page: `?embed=` names its origin, which is accepted only if the merchant lists it. */
import type { ResponseSet } from "../http/session-cookie.ts";

/** For a shop it also removes the API's `x-frame-options`, which cannot name an origin, because not every browser gives frame-ancestors precedence. */
export function findShop(
  { request, set }: { request: Request; set: ResponseSet },
  listed: readonly string[],
): string | undefined {
  const asked = new URL(request.url).searchParams.get("embed");
  if (asked === null || !listed.includes(asked)) return undefined;
  delete set.headers["x-frame-options"];
  return asked;
}

/** The query string that passes the shop's origin from one page to the next. */
export function embedQuery(shopOrigin: string | undefined): string {
  return shopOrigin === undefined ? "" : `&embed=${encodeURIComponent(shopOrigin)}`;
}
