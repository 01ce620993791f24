/** Logs of a passkey account that change who may spend from it. */
import { decodeAbiParameters } from "viem-modules/utils/abi/decodeAbiParameters.js";
import type { Hex } from "../domain/networks.ts";
import type { RawLog } from "./usdc.ts";

/** `AddOwner(uint256 indexed index, bytes owner)` */
export const ADD_OWNER_TOPIC = "0x38109edc26e166b5579352ce56a50813177eb25208fd90d61f2f378386220220";
/** `RemoveOwner(uint256 indexed index, bytes owner)` */
export const REMOVE_OWNER_TOPIC = "0xcf95bbfe6f870f8cc40482dc3dccdafd268f0e9ce0a4f24ea1bea9be64e505ff";
/** `Upgraded(address indexed implementation)` (ERC-1967) */
export const UPGRADED_TOPIC = "0xbc7cd75a20ee27fd9adebab32041f755214dbc6bffa90cc0225b39da2e5c2d3b";

export const ACCOUNT_TOPICS = [ADD_OWNER_TOPIC, REMOVE_OWNER_TOPIC, UPGRADED_TOPIC] as const;

export type AccountChange =
  | { type: "OWNER_ADDED" | "OWNER_REMOVED"; ownerIndex: bigint; subject: Hex }
  | { type: "UPGRADED"; ownerIndex: undefined; subject: Hex };

/** Digits of `0x…`: an address in 32 bytes, or the 64 bytes of a passkey's key. The account refuses every other length. */
const OWNER_LENGTHS = [2 + 64, 2 + 128];
/** Indexes are counted up from 0, so none comes near it. Rows hold it as an integer. */
const OWNER_INDEX_END = 2n ** 31n - 1n;

/**
 * Undefined for every other log, and for one of the same name that the account does not write: any contract may, also a wallet that was
 * upgraded to one, and what no row can hold would stop the indexer at its block.
 */
export function decodeAccountLog({ topics, data }: RawLog): AccountChange | undefined {
  const [topic, indexed] = topics;
  if (!indexed || !ACCOUNT_TOPICS.some((one) => one === topic)) return undefined;
  if (topic === UPGRADED_TOPIC)
    return { type: "UPGRADED", ownerIndex: undefined, subject: `0x${indexed.slice(-40)}` };
  try {
    const [subject] = decodeAbiParameters([{ type: "bytes" }], data as Hex);
    const ownerIndex = BigInt(indexed);
    if (!OWNER_LENGTHS.includes(subject.length) || ownerIndex >= OWNER_INDEX_END) return undefined;
    const type = topic === ADD_OWNER_TOPIC ? "OWNER_ADDED" : "OWNER_REMOVED";
    return { type, ownerIndex, subject: subject.toLowerCase() as Hex };
  } catch {
    // not the account's encoding
    return undefined;
  }
}
