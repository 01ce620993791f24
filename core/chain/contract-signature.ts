/** Payers that are contracts: asked on the chain whether they signed (ERC-1271), also before they are deployed (ERC-6492). */
import { decodeAbiParameters } from "viem";
import type { Authorization } from "../domain/authorization.ts";
import { CONTRACTS, type Hex } from "../domain/networks.ts";
import { parseData, toQuantity } from "../rpc/answers.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { RpcResponseError } from "../rpc/errors.ts";
import { authorizationDigest, tokenDomainOf } from "./authorization-digest.ts";
import { decodeAggregate3, encodeAggregate3, type InnerCall } from "./multicall.ts";
import { bytesTail, uintWord } from "./words.ts";

/** What a contract payer's signature consists of: the bytes for the contract, and the call that makes it exist. */
export type ContractSignature = { readonly signature: Hex; readonly deployment: InnerCall | undefined };

const ERC6492_SUFFIX = "6492".repeat(16);
const ERC6492_FIELDS = [{ type: "address" }, { type: "bytes" }, { type: "bytes" }] as const;
/** `isValidSignature(bytes32,bytes)`; also the magic value it answers (ERC-1271). */
const IS_VALID_SIGNATURE = "0x1626ba7e";
const MAGIC_WORD = `${IS_VALID_SIGNATURE}${"00".repeat(28)}`;
/** As much as a relay spends on it: whoever needs more is refused before any gas is paid. */
const VERIFICATION_GAS = 200_000;
const DEPLOYMENT_GAS = 350_000;

/** Unwraps ERC-6492; undefined when the wrapper is broken. Other bytes stay as they are. Whether its factory may be called is decided on acceptance. */
export function readContractSignature(bytes: Hex): ContractSignature | undefined {
  if (!bytes.endsWith(ERC6492_SUFFIX)) return { signature: bytes, deployment: undefined };
  try {
    const [factory, data, signature] = decodeAbiParameters(ERC6492_FIELDS, bytes.slice(0, -64) as Hex);
    return { signature, deployment: { to: factory.toLowerCase() as Hex, data } };
  } catch {
    // Bytes that do not decode are a refusal like any other wrong signature.
    return undefined;
  }
}

/** The factory an ERC-6492 signature names, when it is none of those this service calls. */
export function findForbiddenFactory(chain: Chain, bytes: Hex): Hex | undefined {
  const factory = readContractSignature(bytes)?.deployment?.to;
  return factory === undefined || chain.walletFactories.includes(factory) ? undefined : factory;
}

/**
 * Would the token accept these bytes from the contract at `authorization.from`? Where there is no contract yet, only with the
 * deployment it brings along. Throws RpcTransportError when the chain gave no verdict.
 */
export async function isContractSignatureValid(
  chain: Chain,
  authorization: Authorization,
  bytes: Hex,
): Promise<boolean> {
  const read = readContractSignature(bytes);
  if (!read || findForbiddenFactory(chain, bytes)) return false;
  const contracts = await findContracts(chain, [authorization.from]);
  const isDeployed = contracts.has(authorization.from);
  if (!isDeployed && !read.deployment) return false;
  const digest = authorizationDigest(tokenDomainOf(chain.network), authorization);
  const data: Hex = `${IS_VALID_SIGNATURE}${Buffer.from(digest).toString("hex")}${uintWord(64)}${bytesTail(read.signature)}`;
  const question = { to: authorization.from, data };
  const deployment = isDeployed ? undefined : read.deployment;
  try {
    return (await askContract(chain, question, deployment)) === MAGIC_WORD;
  } catch (error) {
    if (error instanceof RpcResponseError) return false;
    throw error;
  }
}

/** Does the contract at `account` accept these bytes for this digest (ERC-1271)? Throws RpcTransportError when it could not be asked. */
export async function isValidContractSignature(
  chain: Chain,
  { account, digest, signature }: { account: Hex; digest: Hex; signature: Hex },
): Promise<boolean> {
  const data: Hex = `${IS_VALID_SIGNATURE}${digest.slice(2)}${uintWord(64)}${bytesTail(signature)}`;
  try {
    return (await askContract(chain, { to: account, data }, undefined)) === MAGIC_WORD;
  } catch (error) {
    if (error instanceof RpcResponseError) return false;
    throw error;
  }
}

/** Which of these addresses hold code now; their signatures are the contract's to judge, whatever they look like. */
export async function findContracts(chain: Chain, addresses: readonly Hex[]): Promise<Set<Hex>> {
  const calls = addresses.map((address) => ({ method: "eth_getCode", params: [address, "latest"] }));
  const outcomes = await chain.batch(calls);
  const contracts = new Set<Hex>();
  for (const [index, address] of addresses.entries()) {
    const outcome = outcomes[index];
    if (!outcome?.ok) throw outcome?.error ?? new RangeError("a batch lost an answer");
    if (parseData(outcome.result, "eth_getCode") !== "0x") contracts.add(address);
  }
  return contracts;
}

/** The first word of the contract's answer; undefined when it reverted or is not there even after its deployment. */
async function askContract(
  chain: Chain,
  question: InnerCall,
  deployment: InnerCall | undefined,
): Promise<string | undefined> {
  if (!deployment) {
    const call = { ...question, gas: toQuantity(VERIFICATION_GAS) };
    return parseData(await chain.request("eth_call", [call, "latest"]), "isValidSignature").slice(0, 66);
  }
  const calls = [deployment, question];
  const bundle = {
    to: CONTRACTS.multicall3,
    data: encodeAggregate3(calls),
    gas: toQuantity(DEPLOYMENT_GAS + VERIFICATION_GAS),
  };
  const answer = await chain.request("eth_call", [bundle, "latest"]);
  const [, verdict] = decodeAggregate3(answer, calls.length);
  return verdict?.success ? verdict.data.slice(0, 66) : undefined;
}
