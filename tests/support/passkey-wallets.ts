/** Passkey wallets on a chain of their own, driven as the service drives them. */

import { type Hex, toHex } from "viem";
import type { InnerCall } from "../../core/chain/multicall.ts";
import {
  type AccountOrigin,
  accountAddress,
  accountOriginOf,
  encodeCreateAccount,
} from "../../core/chain/passkey-account.ts";
import { encodePasskeySignature } from "../../core/chain/passkey-signature.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import {
  buildUserOperation,
  explainFailedOperation,
  type UserOperation,
} from "../../core/chain/user-operation.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { RpcResponseError } from "../../core/rpc/errors.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import {
  createSoftwarePasskey,
  type PasskeyQuirks,
  type SoftwarePasskey,
} from "../../local/passkey/software-passkey.ts";
import { buildUserOperationCall, readAccountNonce } from "./account-on-chain.ts";
import { startTestChain } from "./chain.ts";
import { type Receipt, waitForReceipt } from "./wait-for-receipt.ts";

export const SITE = { rpId: "localhost", origin: "http://localhost:3000" };
export const CHAIN_ID = 84532;
export const RELAYER = localAccount(0).address.toLowerCase() as Hex;
export const SHOP: Hex = `0x${"5a".repeat(20)}`;

export type Wallet = {
  passkey: SoftwarePasskey;
  origin: AccountOrigin;
  address: Hex;
  deployment: InnerCall;
};

export type WalletWorld = {
  chain: Chain;
  rpcUrl: string;
  sendFromRelayer: (call: { to: Hex; data: Hex; gas: bigint }) => Promise<Receipt>;
  /** Holds 10 USDC. */
  newWallet: () => Promise<Wallet>;
  newDeployedWallet: () => Promise<Wallet>;
  operationOf: (sender: Hex, calls: readonly InnerCall[]) => Promise<UserOperation>;
  /** Undefined when the EntryPoint takes the operation. */
  refusalOf: (operation: UserOperation) => Promise<string | undefined>;
  callContract: (to: Hex, data: Hex) => Promise<Hex>;
  stop: () => Promise<void>;
};

export async function startWalletWorld(network: NetworkId = "base-sepolia"): Promise<WalletWorld> {
  const node = await startTestChain({ chainId: NETWORKS[network].chainId });
  const { rpcUrl } = node;
  const chain = openChain({ network, urls: [rpcUrl], timeoutMs: 5_000 });

  async function sendFromRelayer({ to, data, gas }: { to: Hex; data: Hex; gas: bigint }): Promise<Receipt> {
    const transaction = { from: RELAYER, to, data, gas: toHex(gas) };
    return waitForReceipt(rpcUrl, await callRpc(rpcUrl, "eth_sendTransaction", [transaction]));
  }

  async function newWallet(): Promise<Wallet> {
    const passkey = await createSoftwarePasskey(SITE);
    const origin = accountOriginOf(passkey.publicKey);
    const address = accountAddress(origin);
    await fundUsdc(rpcUrl, address, 10_000_000n);
    const deployment = { to: origin.factory, data: encodeCreateAccount(origin.owners, origin.saltNonce) };
    return { passkey, origin, address, deployment };
  }

  return {
    chain,
    rpcUrl,
    sendFromRelayer,
    newWallet,
    async newDeployedWallet() {
      const wallet = await newWallet();
      const { status } = await sendFromRelayer({ ...wallet.deployment, gas: 400_000n });
      if (status !== "0x1") throw new Error("the factory did not create the wallet");
      return wallet;
    },
    async operationOf(sender, calls) {
      return buildUserOperation({ sender, nonce: await readAccountNonce(chain, sender), calls });
    },
    async refusalOf(operation) {
      const { to, data, gas } = buildUserOperationCall(operation, RELAYER);
      try {
        await chain.request("eth_call", [{ from: RELAYER, to, data, gas: toHex(gas) }, "latest"]);
        return undefined;
      } catch (error) {
        if (!(error instanceof RpcResponseError)) throw error;
        return explainFailedOperation(error.data) ?? error.message;
      }
    },
    async callContract(to, data) {
      return (await chain.request("eth_call", [{ to, data }, "latest"])) as Hex;
    },
    async stop() {
      chain.close();
      await node.stop();
    },
  };
}

export function payShop(units: bigint): InnerCall {
  return { to: NETWORKS["base-sepolia"].usdc.address, data: encodeTransfer(SHOP, units) };
}

/** Signs 32 bytes (or whatever `challenge` is) the way a browser does. */
export async function sign(
  passkey: SoftwarePasskey,
  challenge: Hex,
  quirks?: PasskeyQuirks,
  ownerIndex = 0,
): Promise<Hex> {
  const request = { challenge: Buffer.from(challenge.slice(2), "hex").toString("base64url") };
  return encodePasskeySignature((await passkey.authenticate(request, quirks)).response, ownerIndex);
}

export async function signOperation(
  passkey: SoftwarePasskey,
  operation: UserOperation,
  quirks?: PasskeyQuirks,
): Promise<UserOperation> {
  return { ...operation, signature: await sign(passkey, userOperationHash(operation, CHAIN_ID), quirks) };
}
