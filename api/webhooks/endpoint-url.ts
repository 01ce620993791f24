/** Which URLs a webhook endpoint may have. */
import { hasDirectionControls } from "../../core/domain/direction-controls.ts";
import { isWebhookPort } from "../../core/domain/webhook.ts";
import { isPublicAddress } from "../../core/runtime/public-ip-ranges.ts";

/** Why a URL cannot be an endpoint; undefined if it can. Host names are resolved and checked again at every delivery. */
export function whyNotAnEndpoint(text: string, allowPrivate: boolean): string | undefined {
  const parsed = URL.parse(text);
  if (!parsed) return "must be a URL";
  // it is shown as it was given, while the parser drops or encodes them
  if (/[\s\p{Cc}]/u.test(text) || hasDirectionControls(text))
    return "must not contain white space, control characters, or characters that change the direction of text";
  if (parsed.protocol !== "https:" && !(allowPrivate && parsed.protocol === "http:")) return "must be https";
  if (parsed.username || parsed.password) return "must not contain a user or password";
  if (parsed.hash) return "must not have a fragment";
  if (allowPrivate) return undefined;
  if (!isWebhookPort(Number(parsed.port || 443))) return "must use port 443, or a port from 1024";
  const host = parsed.hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  const isAddress = /^[\d.]+$/.test(host) || host.includes(":");
  if (isAddress && !isPublicAddress(host)) return "must be on the public internet";
  if (!isAddress && (!host.includes(".") || /\.(local|localhost|internal|home\.arpa)$/i.test(host)))
    return "must be on the public internet";
  return undefined;
}
