/** What counts as a registrable domain, by the public suffix list. */

/**
 * Whether a page on `host` may use `rpId` as its relying party: the host itself, or a registrable parent domain of it
 * (WebAuthn level 3, section 5.1.3). Browsers refuse public suffixes (`com`, `co.uk`, `github.io`).
 */
export function isRegistrableParent(rpId: string, host: string): boolean {
  if (rpId === host) return true;
  if (!host.endsWith(`.${rpId}`)) return false;
  const domain = getDomain(host, { allowPrivateDomains: true });
  return domain !== null && (rpId === domain || rpId.endsWith(`.${domain}`));
}

/** A registrable domain, or a host name below one: no public suffix, no URL, no port. */
export function isRegistrable(host: string): boolean {
  return (
    /^[a-z0-9.-]+$/.test(host) &&
    getDomain(host, { allowPrivateDomains: true, validateHostname: true }) !== null
  );
}

/** The part of an origin's host that browsers count for related origins: `example` of https://shop.example.co.uk. */
export function registrableLabel(origin: string): string {
  const { hostname } = new URL(origin);
  return (getDomain(hostname, { allowPrivateDomains: true }) ?? hostname).split(".")[0] ?? hostname;
}

/** The list takes megabytes and 70,000 steps to load, so it is loaded on first use. */
const getDomain: typeof import("tldts").getDomain = (url, options) =>
  require("tldts").getDomain(url, options);
