/**
 * Protection against cross-site request forgery, in addition to SameSite=Strict: a request that is authenticated by a cookie and may change
 * something must come from our own origin or a listed one, if the browser sends its origin, and may carry only JSON (json-body.ts: a form cannot
 * send `application/json`, so it cannot send a body at all).
 */
import { invalid, ServiceError } from "../../core/domain/errors.ts";
import type { ApiConfig } from "../config.ts";

const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS"]);
/** Not `same-site`: another subdomain may belong to another owner. Ours are listed in RP_ORIGINS. */
const OWN_FETCH_SITES = new Set(["same-origin", "none"]);

/** Throws FORBIDDEN for a foreign origin, VALIDATION_ERROR for a body or content type a form could send. */
export function refuseForgery(request: Request, config: ApiConfig): void {
  if (SAFE_METHODS.has(request.method)) return;
  const { headers } = request;
  const origin = headers.get("origin");
  const isListed = origin !== null && isOwnOrigin(origin, config);
  const site = headers.get("sec-fetch-site");
  if ((origin !== null && !isListed) || (site !== null && !OWN_FETCH_SITES.has(site) && !isListed))
    throw crossSite();
  const contentType = headers.get("content-type");
  if (contentType === null && request.body === null) return;
  if (contentType?.split(";")[0]?.trim().toLowerCase() !== "application/json")
    throw invalid("content-type", "must_be_application_json", "Send the body as application/json");
}

/** For routes that pages never call: throws FORBIDDEN for a page of a foreign origin. */
export function refuseForeignOrigin(request: Request, config: ApiConfig): void {
  const origin = request.headers.get("origin");
  if (origin !== null && !isOwnOrigin(origin, config)) throw crossSite();
}

function crossSite(): ServiceError {
  return new ServiceError("FORBIDDEN", "This request comes from another site and was refused", {
    details: { field: "origin", issue: "cross_site" },
  });
}

function isOwnOrigin(origin: string, config: ApiConfig): boolean {
  return origin === new URL(config.baseUrl).origin || config.passkey.origins.includes(origin);
}
