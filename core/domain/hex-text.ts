/** Bytes as `0x…` text. */
import type { Hex } from "./networks.ts";

export function hexOf(bytes: Uint8Array): Hex {
  return `0x${Buffer.from(bytes).toString("hex")}`;
}
