/** Whether the wallet contracts at their public addresses have the audited code; a local chain may have a stand-in. */
import type { Hex } from "../domain/networks.ts";
import { keccak256Bytes } from "./keccak.ts";

export const AUDITED_CONTRACTS = ["entryPoint", "walletFactory", "walletImplementation"] as const;
export type AuditedContract = (typeof AUDITED_CONTRACTS)[number];

/** Keccak-256 of the runtime code. The wallet's two are Coinbase Smart Wallet v1.1, rebuilt from its init code; EntryPoint is v0.6. */
const AUDITED: Readonly<Record<AuditedContract, Hex>> = {
  entryPoint: "0xc93c806e738300b5357ecdc2e971d6438d34d8e4e17b99b758b1f9cac91c8e70",
  walletFactory: "0xb60a629aa7c6af9b550871fd21b67ab84638156683cec68491049cb5d235ed2f",
  walletImplementation: "0x136185896fc519277ec953c0b3d048fc0c9f607b8d04022e60f23ef8dbc6c4d5",
};

export function isAuditedCode(contract: AuditedContract, code: Hex): boolean {
  const hash = Buffer.from(keccak256Bytes(Buffer.from(code.slice(2), "hex"))).toString("hex");
  return AUDITED[contract] === `0x${hash}`;
}
