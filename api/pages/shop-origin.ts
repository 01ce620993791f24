/** Which shop shows a payment page: `?embed=` names its origin, which counts only when the merchant lists it. */

export function findShop(request: Request, listed: readonly string[]): string | undefined {
  const asked = new URL(request.url).searchParams.get("embed");
  return asked !== null && listed.includes(asked) ? asked : undefined;
}

/** What keeps the shop known on the way from one page to the next. */
export function embedQuery(shopOrigin: string | undefined): string {
  return shopOrigin === undefined ? "" : `&embed=${encodeURIComponent(shopOrigin)}`;
}
