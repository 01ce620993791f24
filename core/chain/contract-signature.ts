/** Signatures of contract payers, verified on the chain (ERC-1271), also before the contract is deployed (ERC-6492). */
import { decodeAbiParameters } from "viem";
import type { Authorization } from "../domain/authorization.ts";
import { CONTRACTS, type Hex } from "../domain/networks.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { RpcResponseError } from "../rpc/errors.ts";
import { parseData, toQuantity } from "../rpc/parse-answers.ts";
import { bytesTail, uintWord } from "./abi-words.ts";
import { findContracts } from "./accounts-with-code.ts";
import { authorizationDigest, tokenDomainOf } from "./authorization-digest.ts";
import { decodeAggregate3, encodeAggregate3, type InnerCall } from "./multicall.ts";

/** The parts of a contract payer's signature: the bytes for the contract, and the call that deploys it. */
export type ContractSignature = { readonly signature: Hex; readonly deployment: InnerCall | undefined };

const ERC6492_SUFFIX = "6492".repeat(16);
const ERC6492_FIELDS = [{ type: "address" }, { type: "bytes" }, { type: "bytes" }] as const;
/** `isValidSignature(bytes32,bytes)`; also the magic value it returns (ERC-1271). */
const IS_VALID_SIGNATURE = "0x1626ba7e";
const MAGIC_WORD = `${IS_VALID_SIGNATURE}${"00".repeat(28)}`;
/** The gas a relay provides: a verification that needs more is refused before any gas is spent. */
const VERIFICATION_GAS = 200_000;
const DEPLOYMENT_GAS = 350_000;

/** Unwraps ERC-6492; undefined when the wrapper is malformed. Other bytes are returned unchanged. The factory is checked on acceptance. */
export function readContractSignature(bytes: Hex): ContractSignature | undefined {
  if (!bytes.endsWith(ERC6492_SUFFIX)) return { signature: bytes, deployment: undefined };
  try {
    const [factory, data, signature] = decodeAbiParameters(ERC6492_FIELDS, bytes.slice(0, -64) as Hex);
    return { signature, deployment: { to: factory.toLowerCase() as Hex, data } };
  } catch {
    // Bytes that do not decode are refused like any other invalid signature.
    return undefined;
  }
}

/** The factory named by an ERC-6492 signature when this service does not allow it. */
export function findForbiddenFactory(chain: Chain, bytes: Hex): Hex | undefined {
  const factory = readContractSignature(bytes)?.deployment?.to;
  return factory === undefined || chain.walletFactories.includes(factory) ? undefined : factory;
}

/**
 * Whether the token would accept these bytes from the contract at `authorization.from`. An undeployed contract is verified together with the
 * deployment in the signature. Throws RpcTransportError when the chain gave no verdict.
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

/** Whether the contract at `account` accepts these bytes for this digest (ERC-1271). Throws RpcTransportError when it could not be asked. */
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

/** The first word of the contract's answer; undefined when it reverted or is absent even after its deployment. */
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
