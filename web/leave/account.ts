/** The account's current state on the chain: balance, nonce and owners. */
import { decodeAbiParameters, decodeFunctionResult, encodeFunctionData, parseAbi } from "viem";
import { CONTRACTS, type Hex, type Network } from "../chain/networks.ts";
import { type Rpc, RpcRefusal } from "./rpc.ts";
import { Fault } from "./user-error.ts";
import type { WalletFile } from "./wallet-file.ts";

export type Owner = { readonly index: number; readonly bytes: Hex };

export type Account = {
  readonly rpc: Rpc;
  readonly network: Network;
  readonly file: WalletFile;
  readonly balanceUnits: bigint;
  readonly nonce: bigint;
  readonly isDeployed: boolean;
  readonly owners: readonly Owner[];
};

const ABI = parseAbi([
  "function balanceOf(address) view returns (uint256)",
  "function getNonce(address, uint192) view returns (uint256)",
  "function nextOwnerIndex() view returns (uint256)",
  "function ownerAtIndex(uint256) view returns (bytes)",
  "struct Call3 { address target; bool allowFailure; bytes callData; }",
  "struct Result { bool success; bytes returnData; }",
  "function aggregate3(Call3[] calls) view returns (Result[] returnData)",
]);
/** ERC-1967. */
const IMPLEMENTATION_SLOT = "0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc";
const OWNERS_MAX = 1_000n;
/** Of one call. */
const OWNERS_PAGE = 100;

/** Throws Fault when the node is on another network or lacks the contracts, or the account's code is not known to this page. */
export async function readAccount(rpc: Rpc, network: Network, file: WalletFile): Promise<Account> {
  await expectNetwork(rpc, network);
  const { address } = file;
  const [balance, nonce, code] = await Promise.all([
    callView(rpc, network.usdc, encodeFunctionData({ abi: ABI, functionName: "balanceOf", args: [address] })),
    callView(
      rpc,
      CONTRACTS.entryPoint,
      encodeFunctionData({ abi: ABI, functionName: "getNonce", args: [address, 0n] }),
    ),
    readCode(rpc, address),
  ]);
  const isDeployed = code !== "0x";
  const owners = isDeployed
    ? await readOwners(rpc, address)
    : file.owners.map((bytes, index) => ({ index, bytes }));
  return { rpc, network, file, balanceUnits: toUint(balance), nonce: toUint(nonce), isDeployed, owners };
}

export async function readBalance({ rpc, network, file }: Account): Promise<bigint> {
  const data = encodeFunctionData({ abi: ABI, functionName: "balanceOf", args: [file.address] });
  return toUint(await callView(rpc, network.usdc, data));
}

export async function readNonce({ rpc, file }: Account): Promise<bigint> {
  const data = encodeFunctionData({ abi: ABI, functionName: "getNonce", args: [file.address, 0n] });
  return toUint(await callView(rpc, CONTRACTS.entryPoint, data));
}

async function expectNetwork(rpc: Rpc, network: Network): Promise<void> {
  const chainId = Number(await rpc.call("eth_chainId", []));
  if (chainId !== network.chainId)
    throw new Fault(
      `This node is of another network: its chain id is ${chainId}, ${network.name} has ${network.chainId}.`,
    );
  const contracts = { ...CONTRACTS, usdc: network.usdc };
  const codes = await Promise.all(Object.values(contracts).map((contract) => readCode(rpc, contract)));
  const missing = Object.keys(contracts).filter((_, index) => codes[index] === "0x");
  if (missing.length > 0)
    throw new Fault(`This node knows no contract ${missing.join(", ")} on ${network.name}.`);
}

async function readOwners(rpc: Rpc, address: Hex): Promise<Owner[]> {
  const slot = String(await rpc.call("eth_getStorageAt", [address, IMPLEMENTATION_SLOT, "latest"]));
  if (`0x${slot.slice(-40)}`.toLowerCase() !== CONTRACTS.implementation)
    throw new Fault(`The account at ${address} was upgraded to a contract that this page does not know.`);
  const next = await callView(rpc, address, encodeFunctionData({ abi: ABI, functionName: "nextOwnerIndex" }));
  const count = toUint(next);
  if (count > OWNERS_MAX)
    throw new Fault(`The account has had ${count} owners, more than this page searches.`);
  const found: Hex[] = [];
  while (found.length < count) found.push(...(await readPage(rpc, address, found.length, Number(count))));
  // a removed owner leaves an empty slot
  return found.map((bytes, index) => ({ index, bytes })).filter(({ bytes }) => bytes !== "0x");
}

async function readPage(rpc: Rpc, target: Hex, first: number, count: number): Promise<Hex[]> {
  const calls = Array.from({ length: Math.min(OWNERS_PAGE, count - first) }, (_, place) => {
    const args = [BigInt(first + place)] as const;
    const callData = encodeFunctionData({ abi: ABI, functionName: "ownerAtIndex", args });
    return { target, allowFailure: false, callData };
  });
  const data = encodeFunctionData({ abi: ABI, functionName: "aggregate3", args: [calls] });
  const answer = await callView(rpc, CONTRACTS.multicall3, data);
  const results = decodeFunctionResult({ abi: ABI, functionName: "aggregate3", data: answer });
  return results.map(({ returnData }) => decodeAbiParameters([{ type: "bytes" }], returnData)[0]);
}

async function callView(rpc: Rpc, to: Hex, data: Hex): Promise<Hex> {
  const answer = await rpc.call("eth_call", [{ to, data }, "latest"]);
  if (typeof answer === "string" && /^0x([0-9a-f]{64})+$/i.test(answer)) return answer as Hex;
  throw new RpcRefusal(`${to} answered nothing`, undefined);
}

async function readCode(rpc: Rpc, address: Hex): Promise<string> {
  return String(await rpc.call("eth_getCode", [address, "latest"]));
}

function toUint(word: Hex): bigint {
  return BigInt(word.slice(0, 66));
}
