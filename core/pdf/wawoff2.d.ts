declare module "wawoff2" {
  /** Decompresses a WOFF2 font to the TrueType font inside. */
  export function decompress(woff2: Uint8Array): Promise<Uint8Array>;
}
