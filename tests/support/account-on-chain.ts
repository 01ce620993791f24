/** What tests ask an account on the chain, and the relayer's transaction for one operation. */
import { hexWord, uintWord } from "../../core/chain/abi-words.ts";
import { keccak256Bytes } from "../../core/chain/keccak.ts";
import type { InnerCall } from "../../core/chain/multicall.ts";
import { NEXT_OWNER_INDEX_CALL, nonceCall } from "../../core/chain/passkey-account.ts";
import { readOwners } from "../../core/chain/read-owners.ts";
import type { RelayCall } from "../../core/chain/relay.ts";
import { buildBundleCall, type UserOperation } from "../../core/chain/user-operation.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { parseQuantity } from "../../core/rpc/parse-answers.ts";

const WALLET_NAME_AND_VERSION = ["Coinbase Smart Wallet", "1"] as const;
const DOMAIN_TYPE = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)";
const MESSAGE_TYPE = "CoinbaseSmartWalletMessage(bytes32 hash)";

/** The hash an owner signs so that the account has signed `hash` (ERC-1271, EIP-712): bound to account and chain. */
export function replaySafeHash(account: Hex, chainId: number, hash: Hex): Hex {
  const hashOf = (text: string) => keccak256Bytes(Buffer.from(text));
  const domain = [
    hashOf(DOMAIN_TYPE),
    ...WALLET_NAME_AND_VERSION.map(hashOf),
    bytesOf(`0x${uintWord(chainId)}${hexWord(account)}`),
  ];
  const separator = keccak256Bytes(Buffer.concat(domain));
  const message = keccak256Bytes(Buffer.concat([hashOf(MESSAGE_TYPE), bytesOf(hash)]));
  const digest = keccak256Bytes(Buffer.concat([Buffer.from([0x19, 0x01]), separator, message]));
  return `0x${Buffer.from(digest).toString("hex")}`;
}

/** The nonce of the account's next user operation (EntryPoint v0.6, sequential key 0). Also defined before deployment. */
export async function readAccountNonce(chain: Chain, account: Hex): Promise<bigint> {
  const { method, params } = nonceCall(account);
  return parseQuantity(await chain.request(method, params), "getNonce");
}

/**
 * The owner's index on this chain; undefined when it is not an owner (any more). Indexes differ between chains once owners were
 * added, so they are always read. Only for deployed accounts: before deployment the index is the position in `owners`.
 */
export async function findOwnerIndex(chain: Chain, account: Hex, owner: Hex): Promise<number | undefined> {
  const next = await chain.request("eth_call", [{ to: account, data: NEXT_OWNER_INDEX_CALL }, "latest"]);
  const count = parseQuantity(next, "nextOwnerIndex");
  const owners = await readOwners(chain, account, count);
  const found = owners.indexOf(owner);
  return found < 0 ? undefined : found;
}

/**
 * The relayer's transaction for a signed operation. With `deployment` (the account does not exist yet) the factory is called
 * first in the same transaction; it does nothing when the account was deployed in between.
 */
export function buildUserOperationCall(
  operation: UserOperation,
  relayer: Hex,
  deployment?: InnerCall,
): RelayCall {
  return buildBundleCall([{ operation, deployment }], relayer);
}

function bytesOf(hex: string): Buffer {
  return Buffer.from(hex.slice(2), "hex");
}
