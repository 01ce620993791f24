/** Amounts and addresses as people type and read them. */
import { getAddress, isAddress } from "viem";
import { CONTRACTS, type Hex } from "../chain/networks.ts";
import type { Account } from "./account.ts";
import { Fault } from "./user-error.ts";

const AMOUNT = /^(\d{1,12})(?:\.(\d{1,6}))?$/;

/** Micro-USDC. Throws Fault. */
export function readAmount(text: string, { balanceUnits }: Account): bigint {
  const [, whole, fraction = ""] = AMOUNT.exec(text.trim()) ?? [];
  if (whole === undefined) throw new Fault("The amount is a number with at most 6 places, such as 12.50.");
  const units = BigInt(whole) * 1_000_000n + BigInt(fraction.padEnd(6, "0"));
  if (units === 0n) throw new Fault("The amount must be more than 0.");
  if (units > balanceUnits) throw new Fault(`The wallet holds ${formatAmount(balanceUnits)} USDC only.`);
  return units;
}

/** Lower case. Throws Fault for anything that cannot be a recipient. */
export function readRecipient(text: string, { file, network }: Account): Hex {
  const given = text.trim();
  if (!/^0x[0-9a-f]{40}$/i.test(given)) throw new Fault("The recipient is an address: 0x and 40 digits.");
  const isMixed =
    given.slice(2) !== given.slice(2).toLowerCase() && given.slice(2) !== given.slice(2).toUpperCase();
  if (isMixed && !isAddress(given))
    throw new Fault(
      "The recipient's address has a typing error: its upper and lower case do not fit (EIP-55).",
    );
  const address = given.toLowerCase() as Hex;
  if (/^0x0+$/.test(address)) throw new Fault("USDC sent to the zero address would be lost.");
  if (address === file.address) throw new Fault("This is the wallet's own address.");
  if (address === network.usdc)
    throw new Fault("This is the USDC contract itself. What it receives is lost.");
  if (Object.values<string>(CONTRACTS).includes(address))
    throw new Fault("This is a contract of the wallet's infrastructure. What it receives is lost.");
  return address;
}

/** At least two places, at most six. */
export function formatAmount(units: bigint): string {
  const fraction = (units % 1_000_000n)
    .toString()
    .padStart(6, "0")
    .replace(/0{1,4}$/, "");
  return `${units / 1_000_000n}.${fraction}`;
}

export function checksummed(address: Hex): string {
  return getAddress(address);
}
