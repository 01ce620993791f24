/** Checks on URLs and hosts of the environment: encryption, and registrable domains. */
import { getDomain } from "tldts";

/** https, or plain http that does not leave this machine. */
export function isEncryptedOrLocal(url: string): boolean {
  return new URL(url).protocol === "https:" || isOnThisMachine(url);
}

export function isOnThisMachine(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/**
 * May a page of `host` use `rpId` as its relying party: the host itself, or a registrable parent domain of it
 * (WebAuthn level 3, section 5.1.3). Browsers refuse public suffixes (`com`, `co.uk`, `github.io`).
 */
export function isRegistrableParent(rpId: string, host: string): boolean {
  if (rpId === host) return true;
  if (!host.endsWith(`.${rpId}`)) return false;
  const domain = getDomain(host, { allowPrivateDomains: true });
  return domain !== null && (rpId === domain || rpId.endsWith(`.${domain}`));
}
