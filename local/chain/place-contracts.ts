/** Places every contract the service needs on a local chain, at its public address. Idempotent. */
import { createRequire } from "node:module";
import { concatHex, encodeAbiParameters, keccak256, toBytes, toHex, zeroHash } from "viem";
import { CONTRACTS, type Hex, type Network } from "../../core/domain/networks.ts";
import { multicall3Bytecode } from "../../node_modules/viem/constants/contracts.ts";
import { localAccount } from "./accounts.ts";
import { auditedAccount } from "./audited-account.ts";
import { callRpc, callRpcBatch, callRpcText, type RpcCall } from "./rpc.ts";
import { localNetworkOf, placeUsdc, setCode } from "./usdc.ts";

/** The deterministic deployer and its code, present on every anvil chain that is not a fork. */
const CREATE2_DEPLOYER = "0x4e59b44847b379578588920ca78fbf26c0b4956c";
const CREATE2_DEPLOYER_CODE =
  "0x7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3";
const PASSKEY_ACCOUNT_FILE = new URL("contracts/passkey-account.json", import.meta.url);
const SETUP_GAS = toHex(8_000_000);

type PasskeyAccountCode = { factory: { runtimeCode: Hex }; implementation: { runtimeCode: Hex } };

/**
 * Needs a node that mines on request (`evm_mine`) or immediately. `walletCodeUrl`: a node of a public
 * network whose audited wallet contracts are placed instead of the stand-in. Throws when the token's domain is not the public one.
 */
export async function placeContracts(
  rpcUrl: string,
  options: { walletCodeUrl?: string | undefined } = {},
): Promise<void> {
  const network = await localNetworkOf(rpcUrl);
  const usdc = await placeUsdc(rpcUrl, network);
  const entryPointCode = await callRpcText(rpcUrl, "eth_getCode", [CONTRACTS.entryPointV06, "latest"]);
  // An eth_call of creation code returns the runtime code it would deploy.
  const multicall3 = (await callRpcText(rpcUrl, "eth_call", [{ data: multicall3Bytecode }])) as Hex;
  await callRpcBatch(rpcUrl, [
    setCode(CREATE2_DEPLOYER, CREATE2_DEPLOYER_CODE),
    ...usdc.code,
    setCode(CONTRACTS.multicall3, multicall3),
    ...(await (options.walletCodeUrl ? auditedAccount(options.walletCodeUrl) : passkeyAccount())),
  ]);

  const owner = localAccount(9).address;
  const setup = usdc.initialize.map((data) => ({ from: owner, to: network.usdc.address, data }));
  const entryPoint = entryPointCode === "0x" ? [await entryPointDeployment(owner)] : [];
  await sendInOneBlock(rpcUrl, owner, [...setup, ...entryPoint]);
  await checkPlaced(rpcUrl, network);
}

async function entryPointDeployment(from: Hex) {
  const file = createRequire(import.meta.url).resolve(
    "@account-abstraction/contracts/artifacts/EntryPoint.json",
  );
  const { bytecode } = (await Bun.file(file).json()) as { bytecode: Hex };
  return { from, to: CREATE2_DEPLOYER, data: concatHex([zeroHash, bytecode]) };
}

async function passkeyAccount(): Promise<RpcCall[]> {
  const file = Bun.file(PASSKEY_ACCOUNT_FILE);
  if (!(await file.exists())) return [];
  const { factory, implementation } = (await file.json()) as PasskeyAccountCode;
  return [
    setCode(CONTRACTS.smartWalletFactory, factory.runtimeCode),
    setCode(CONTRACTS.smartWalletImplementation, implementation.runtimeCode),
  ];
}

/** The node has the keys of its own accounts and signs these. */
async function sendInOneBlock(rpcUrl: string, from: Hex, transactions: readonly object[]): Promise<void> {
  if (transactions.length === 0) return;
  const firstNonce = Number(await callRpcText(rpcUrl, "eth_getTransactionCount", [from, "latest"]));
  await callRpc(rpcUrl, "evm_setAutomine", [false]);
  const hashes = await callRpcBatch(
    rpcUrl,
    transactions.map((transaction, index) => ({
      method: "eth_sendTransaction",
      params: [{ ...transaction, gas: SETUP_GAS, nonce: toHex(firstNonce + index) }],
    })),
  );
  await callRpc(rpcUrl, "evm_mine");
  await callRpc(rpcUrl, "evm_setAutomine", [true]);
  const receipts = await callRpcBatch(
    rpcUrl,
    hashes.map((hash) => ({ method: "eth_getTransactionReceipt", params: [hash] })),
  );
  const failed = receipts.findIndex((receipt) => (receipt as { status?: string } | null)?.status !== "0x1");
  if (failed >= 0)
    throw new Error(`Setup transaction ${failed} of ${receipts.length} failed on the local chain.`);
}

async function checkPlaced(rpcUrl: string, network: Network): Promise<void> {
  const [entryPoint, separator] = await callRpcBatch(rpcUrl, [
    { method: "eth_getCode", params: [CONTRACTS.entryPointV06, "latest"] },
    { method: "eth_call", params: [{ to: network.usdc.address, data: "0x3644e515" }, "latest"] },
  ]);
  if (entryPoint === "0x") throw new Error("EntryPoint v0.6 is not at its canonical address.");
  const expected = domainSeparator(network);
  if (separator !== expected)
    throw new Error(`USDC's DOMAIN_SEPARATOR is ${separator}, expected ${expected}.`);
}

/** EIP-712: hash of the domain type and its four fields. */
function domainSeparator({ chainId, usdc }: Network): Hex {
  const type = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)";
  return keccak256(
    encodeAbiParameters(
      [
        { type: "bytes32" },
        { type: "bytes32" },
        { type: "bytes32" },
        { type: "uint256" },
        { type: "address" },
      ],
      [
        keccak256(toBytes(type)),
        keccak256(toBytes(usdc.name)),
        keccak256(toBytes(usdc.version)),
        BigInt(chainId),
        usdc.address,
      ],
    ),
  );
}
