/** Whether a URL of the environment is protected against eavesdropping. */

/** https, or plain http that does not leave this machine. */
export function isEncryptedOrLocal(url: string): boolean {
  return new URL(url).protocol === "https:" || isOnThisMachine(url);
}

export function isOnThisMachine(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}
