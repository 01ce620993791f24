declare module "wawoff2" {
  /** A WOFF2 font as the TrueType font it was made from. */
  export function decompress(woff2: Uint8Array): Promise<Uint8Array>;
}
