/** Signs ERC-3009 authorizations the way wallets do, with viem: the tests' independent second opinion. */
import { bytesToHex, type Hex } from "viem";
import type { PrivateKeyAccount } from "viem/accounts";
import type { Authorization } from "../../core/domain/authorization.ts";
import { NETWORKS } from "../../core/domain/networks.ts";

export const TRANSFER_TYPES = {
  TransferWithAuthorization: [
    { name: "from", type: "address" },
    { name: "to", type: "address" },
    { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" },
    { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
} as const;

/** Defaults: 1 USDC, valid from the beginning of time for an hour, a random nonce, Base Sepolia's token. */
export async function signAuthorization(
  payer: PrivateKeyAccount,
  fields: Partial<Authorization> & { to: Hex },
): Promise<{ authorization: Authorization; signature: Hex }> {
  const { address, name, version } = NETWORKS["base-sepolia"].usdc;
  const authorization: Authorization = {
    from: payer.address.toLowerCase() as Hex,
    value: 1_000_000n,
    validAfter: 0n,
    validBefore: BigInt(Math.floor(Date.now() / 1000) + 3600),
    nonce: bytesToHex(crypto.getRandomValues(new Uint8Array(32))),
    ...fields,
  };
  const signature = await payer.signTypedData({
    domain: { name, version, chainId: 84532, verifyingContract: address },
    types: TRANSFER_TYPES,
    primaryType: "TransferWithAuthorization",
    message: authorization,
  });
  return { authorization, signature };
}
