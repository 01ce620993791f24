/** USDC (Circle's FiatTokenV2_2) over JSON-RPC: calls, reads and logs. Amounts are micro-USDC. */
import type { Authorization } from "../domain/authorization.ts";
import { CONTRACTS, type Hex } from "../domain/networks.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { isRefusal, RpcTransportError } from "../rpc/errors.ts";
import type { RpcCall } from "../rpc/node.ts";
import { parseData, parseQuantity } from "../rpc/parse-answers.ts";
import { bytesTail, hexWord, uintWord } from "./abi-words.ts";
import { domainSeparator, tokenDomainOf } from "./authorization-digest.ts";
import { decodeAggregate3, encodeAggregate3 } from "./multicall.ts";

/** `Transfer(address indexed from, address indexed to, uint256 value)` */
export const TRANSFER_TOPIC = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
/** `AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)` (EIP-3009); its Transfer is the next log. */
export const AUTHORIZATION_USED_TOPIC = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
/** `AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce)` (EIP-3009) */
export const AUTHORIZATION_CANCELED_TOPIC =
  "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81";

/** `transferWithAuthorization(…, uint8 v, bytes32 r, bytes32 s)` */
export const TRANSFER_WITH_VRS = "0xe3ee160e";
/** `transferWithAuthorization(…, bytes signature)` */
export const TRANSFER_WITH_BYTES = "0xcf092995";

const SELECTORS = {
  transfer: "0xa9059cbb",
  balanceOf: "0x70a08231",
  authorizationState: "0xe94a0102",
  domainSeparator: "0x3644e515",
} as const;

/** A block as calls name it: a tag, a hex number, or a hash that must be canonical (EIP-1898). */
export type BlockRef =
  | "latest"
  | "pending"
  | "safe"
  | "finalized"
  | Hex
  | { readonly blockHash: Hex; readonly requireCanonical: true };

/** `transferWithAuthorization(…, uint8 v, bytes32 r, bytes32 s)` for a 65-byte signature r, s, v. */
export function encodeTransferWithVrs(authorization: Authorization, signature: Hex): Hex {
  if (signature.length !== 132)
    throw new RangeError("a v, r, s transfer needs a signature of exactly 65 bytes");
  const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)];
  return `${TRANSFER_WITH_VRS}${authorizationWords(authorization)}${hexWord(`0x${v}`)}${r}${s}`;
}

/** `transferWithAuthorization(…, bytes signature)`, the overload that supports contracts (ERC-1271). */
export function encodeTransferWithBytes(authorization: Authorization, signature: Hex): Hex {
  const offset = uintWord(7 * 32);
  return `${TRANSFER_WITH_BYTES}${authorizationWords(authorization)}${offset}${bytesTail(signature)}`;
}

export function encodeTransfer(to: Hex, amountUnits: bigint): Hex {
  return `${SELECTORS.transfer}${hexWord(to)}${uintWord(amountUnits)}`;
}

/** The `eth_call` behind `readBalance`, for callers that put others into its batch. */
export function balanceOfCall(chain: Chain, holder: Hex, block: BlockRef = "latest"): RpcCall {
  return callOf(chain, encodeBalanceOf(holder), block);
}

/** Micro-USDC. Throws RpcTransportError when no node answers, instead of returning 0. */
export async function readBalance(chain: Chain, holder: Hex, block: BlockRef = "latest"): Promise<bigint> {
  return parseQuantity(await read(chain, balanceOfCall(chain, holder, block)), "balanceOf");
}

/**
 * Of many holders, in their order, in one call: a provider counts it as one. Halved when a node refuses so much gas or data at once.
 * Throws RpcTransportError when one is not answered.
 */
export async function readBalances(
  chain: Chain,
  holders: readonly Hex[],
  block: BlockRef = "latest",
): Promise<bigint[]> {
  if (holders.length === 0) return [];
  const to = chain.network.usdc.address;
  const data = encodeAggregate3(holders.map((holder) => ({ to, data: encodeBalanceOf(holder) })));
  try {
    const answer = await chain.request("eth_call", [{ to: CONTRACTS.multicall3, data }, block]);
    return decodeAggregate3(answer, holders.length).map((result) => {
      if (result.success) return parseQuantity(result.data, "balanceOf");
      throw new RpcTransportError("malformed", "balanceOf was not answered");
    });
  } catch (error) {
    if (!isRefusal(error) || holders.length === 1) throw error;
    const middle = holders.length >> 1;
    const first = await readBalances(chain, holders.slice(0, middle), block);
    return [...first, ...(await readBalances(chain, holders.slice(middle), block))];
  }
}

function encodeBalanceOf(holder: Hex): Hex {
  return `${SELECTORS.balanceOf}${hexWord(holder)}`;
}

/** True when the nonce was used or cancelled; only the logs tell which. */
export async function readAuthorizationState(
  chain: Chain,
  authorizer: Hex,
  nonce: Hex,
  block: BlockRef = "latest",
): Promise<boolean> {
  const call = authorizationStateCall(chain, { authorizer, nonce }, block);
  return parseQuantity(await read(chain, call), "authorizationState") !== 0n;
}

/** The same for many at the latest block, in order. Throws RpcTransportError when one is not answered. */
export async function readAuthorizationStates(
  chain: Chain,
  keys: readonly { authorizer: Hex; nonce: Hex }[],
): Promise<boolean[]> {
  const outcomes = await chain.batch(keys.map((key) => authorizationStateCall(chain, key, "latest")));
  return keys.map((_, index) => {
    const outcome = outcomes[index];
    if (!outcome?.ok) throw new RpcTransportError("malformed", "authorizationState was not answered");
    return parseQuantity(outcome.result, "authorizationState") !== 0n;
  });
}

function authorizationStateCall(
  chain: Chain,
  { authorizer, nonce }: { authorizer: Hex; nonce: Hex },
  block: BlockRef,
): RpcCall {
  return callOf(chain, encodeAuthorizationState({ authorizer, nonce }), block);
}

/** `authorizationState(address, bytes32)`, for callers that aggregate many into one call. */
export function encodeAuthorizationState({ authorizer, nonce }: { authorizer: Hex; nonce: Hex }): Hex {
  return `${SELECTORS.authorizationState}${hexWord(authorizer)}${hexWord(nonce)}`;
}

/**
 * Compares the token's `DOMAIN_SEPARATOR()` with the one signatures are checked against: it covers name, version, chain id
 * and address. Throws Error on a mismatch (do not start), RpcTransportError when no node answers, or one without the token's code: it is
 * still syncing.
 */
export async function assertTokenDomain(chain: Chain): Promise<void> {
  const { network } = chain;
  const actual = parseData(
    await read(chain, callOf(chain, SELECTORS.domainSeparator, "latest")),
    "DOMAIN_SEPARATOR",
    32,
  );
  const expected = `0x${Buffer.from(domainSeparator(tokenDomainOf(network))).toString("hex")}`;
  if (actual === expected) return;
  const { name, version, address } = network.usdc;
  throw new Error(
    `USDC at ${address} on ${network.id} has DOMAIN_SEPARATOR ${actual}, expected ${expected} ("${name}", version ${version}, chain ${network.chainId})`,
  );
}

/** The fields of a log that decoding needs, as JSON-RPC returns them. */
export type RawLog = { readonly topics: readonly string[]; readonly data: string };

/** Undefined when the log is not an ERC-20 `Transfer` with both parties indexed. Addresses are lower case as nodes send them. */
export function decodeTransferLog({
  topics,
  data,
}: RawLog): { from: Hex; to: Hex; amountUnits: bigint } | undefined {
  const [topic, from, to] = topics;
  if (topic !== TRANSFER_TOPIC || topics.length !== 3 || !from || !to || data.length !== 66) return undefined;
  return { from: `0x${from.slice(26)}`, to: `0x${to.slice(26)}`, amountUnits: BigInt(data) };
}

/** The authorizer, the nonce, and whether it was used or cancelled; undefined for every other log. */
export function decodeAuthorizationLog({
  topics,
}: RawLog): { authorizer: Hex; nonce: Hex; isCanceled: boolean } | undefined {
  const [topic, authorizer, nonce] = topics;
  const isCanceled = topic === AUTHORIZATION_CANCELED_TOPIC;
  if (!isCanceled && topic !== AUTHORIZATION_USED_TOPIC) return undefined;
  if (topics.length !== 3 || !authorizer || !nonce) return undefined;
  return { authorizer: `0x${authorizer.slice(26)}`, nonce: nonce as Hex, isCanceled };
}

function authorizationWords({ from, to, value, validAfter, validBefore, nonce }: Authorization): string {
  const window = uintWord(validAfter) + uintWord(validBefore);
  return hexWord(from) + hexWord(to) + uintWord(value) + window + hexWord(nonce);
}

function callOf(chain: Chain, data: Hex, block: BlockRef): RpcCall {
  return { method: "eth_call", params: [{ to: chain.network.usdc.address, data }, block] };
}

function read(chain: Chain, { method, params }: RpcCall): Promise<unknown> {
  return chain.request(method, params);
}
