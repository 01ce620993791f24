/** Headers of every response. API responses are data: never cached, framed, sniffed or executed. */

const API_HEADERS = {
  "x-api-version": "v1",
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-site",
} as const;

const HSTS = "max-age=31536000; includeSubDomains";

export function apiHeaders(isProduction: boolean): Readonly<Record<string, string>> {
  return isProduction ? { ...API_HEADERS, "strict-transport-security": HSTS } : API_HEADERS;
}
