/** The audited wallet contracts for a local chain, read from a node of the developer's choice and placed only if their code hashes match. */
import { toHex } from "viem";
import { isAuditedCode } from "../../core/chain/contract-code.ts";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import { callRpcBatch, type RpcCall } from "./rpc.ts";
import { setCode } from "./usdc.ts";

/** The account's storage slot of `nextOwnerIndex`. The real implementation's constructor has set it, so that nobody can initialise it. */
const NEXT_OWNER_INDEX_SLOT = "0x97e2c6aad4ce5d562ebfaa00db6b9e0fb66ea5d8162ed5b243f51a2e03086f00";

/** The calls that place them. Throws when the node at `url` has other code at one of the addresses. */
export async function auditedAccount(url: string): Promise<RpcCall[]> {
  const { smartWalletFactory, smartWalletImplementation } = CONTRACTS;
  const [factory, implementation] = (await callRpcBatch(url, [
    { method: "eth_getCode", params: [smartWalletFactory, "latest"] },
    { method: "eth_getCode", params: [smartWalletImplementation, "latest"] },
  ])) as [Hex, Hex];
  const isRight =
    isAuditedCode("walletFactory", factory) && isAuditedCode("walletImplementation", implementation);
  if (!isRight)
    throw new Error(
      "WALLET_CODE_RPC_URL does not have the audited wallet contracts (Coinbase Smart Wallet v1.1).",
    );
  return [
    setCode(smartWalletFactory, factory),
    setCode(smartWalletImplementation, implementation),
    {
      method: "anvil_setStorageAt",
      params: [smartWalletImplementation, NEXT_OWNER_INDEX_SLOT, toHex(1, { size: 32 })],
    },
  ];
}
