/** What the addresses in the environment promise: whether they are encrypted, and whose name a host is. */
import { getDomain } from "tldts";

/** https, or plain http that does not leave this machine. */
export function isEncryptedOrLocal(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  if (protocol === "https:") return true;
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/**
 * May a page of `host` use `rpId` as its relying party: the host itself, or a parent of it that somebody can register
 * (WebAuthn level 3, section 5.1.3). Public suffixes (`com`, `co.uk`, `github.io`) belong to nobody, browsers refuse them.
 */
export function isRegistrableParent(rpId: string, host: string): boolean {
  if (rpId === host) return true;
  if (!host.endsWith(`.${rpId}`)) return false;
  const domain = getDomain(host, { allowPrivateDomains: true });
  return domain !== null && (rpId === domain || rpId.endsWith(`.${domain}`));
}
