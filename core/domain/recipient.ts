/**
 * Whom a send or a refund may pay, and which address may become an owner or receive the fee of sends. Refused are: text that is no address
 * of 20 bytes, mixed case that is not the EIP-55 checksum, the zero address, USDC itself, the contracts of `CONTRACTS` (networks.ts), and
 * the wallet's own address. Pure.
 */
import { getAddress } from "viem-modules/utils/address/getAddress.js";
import { CONTRACTS, type Hex, NETWORKS, type NetworkId } from "./networks.ts";

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
const ZERO_ADDRESS = `0x${"0".repeat(40)}`;
const HEX_ADDRESS_PREFIX = 2;

export type RecipientIssue =
  | "invalid"
  | "bad_checksum"
  | "zero_address"
  | "token_contract"
  | "not_a_recipient"
  | "own_wallet";

/** A typed recipient in lower case, or what is wrong with it. Mixed case must be a correct EIP-55 checksum. */
export function parseRecipient(
  text: string,
  { network, wallet }: { network: NetworkId; wallet: Hex },
): { ok: true; address: Hex } | { ok: false; issue: RecipientIssue } {
  if (!ADDRESS.test(text)) return { ok: false, issue: "invalid" };
  const address = text.toLowerCase() as Hex;
  const digits = text.slice(HEX_ADDRESS_PREFIX);
  const isMixed = digits !== digits.toLowerCase() && digits !== digits.toUpperCase();
  if (isMixed && getAddress(address) !== text) return { ok: false, issue: "bad_checksum" };
  const issue = issueOf(address, network, wallet);
  return issue ? { ok: false, issue } : { ok: true, address };
}

function issueOf(address: Hex, network: NetworkId, wallet: Hex): RecipientIssue | undefined {
  if (address === ZERO_ADDRESS) return "zero_address";
  if (address === NETWORKS[network].usdc.address) return "token_contract";
  if ((Object.values(CONTRACTS) as Hex[]).includes(address)) return "not_a_recipient";
  return address === wallet ? "own_wallet" : undefined;
}

/** Same first and last four hex digits, but another address: what address poisoning relies on. */
export function resembles(address: Hex, other: Hex): boolean {
  return (
    address !== other && address.slice(0, 6) === other.slice(0, 6) && address.slice(-4) === other.slice(-4)
  );
}
