/** Payers with code, good and bad, and their orders. */

import { randomBytes } from "node:crypto";
import type { Hex } from "viem";
import { serializeErc6492Signature } from "viem/utils";
import { authorizationDigest, tokenDomainOf } from "../../core/chain/authorization-digest.ts";
import { accountAddress, accountOriginOf, encodeCreateAccount } from "../../core/chain/passkey-account.ts";
import { NETWORKS } from "../../core/domain/networks.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { createSoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import { replaySafeHash } from "../support/account-on-chain.ts";
import { SITE, sign } from "../support/passkey-wallets.ts";
import type { Lab, Order } from "../support/relay-lab.ts";
import { seedLink } from "../support/seed.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

const NETWORK = NETWORKS["base-sepolia"];
/** Answers ERC-1271's magic value to whoever asks. */
export const YES_SAYER: Hex = "0x631626ba7e60e01b60005260206000f3";
/** The same while gas costs nothing, as in a simulation; in a real transaction it burns all it is given. */
export const GAS_BOMB: Hex = "0x3a156009575b6005565b631626ba7e60e01b60005260206000f3";

let lastAmount = 5_000_000n;

/** An order whose payer is this address; `sign` gives the bytes over the authorization's digest. */
export async function orderOf(
  lab: Lab,
  from: Hex,
  signDigest: (digest: Hex) => Promise<Hex>,
): Promise<Order> {
  lastAmount += 1n;
  const amount = lastAmount;
  await fundUsdc(lab.chain.rpcUrl, from, amount * 2n);
  const linkId = await seedLink(lab.sql, lab.merchant, { amountUnits: amount });
  const authorization = {
    from,
    to: lab.merchant.address,
    value: amount,
    validAfter: 0n,
    validBefore: BigInt(Math.floor(Date.now() / 1000) + 600),
    nonce: `0x${randomBytes(32).toString("hex")}` as Hex,
  };
  const digest = authorizationDigest(tokenDomainOf(NETWORK), authorization);
  const signature = await signDigest(`0x${Buffer.from(digest).toString("hex")}`);
  const [validAfter, validBefore] = [0, Number(authorization.validBefore)];
  return { linkId, payment: { ...authorization, value: String(amount), validAfter, validBefore, signature } };
}

export async function walletOrder(lab: Lab, { isDeployed }: { isDeployed: boolean }): Promise<Order> {
  const passkey = await createSoftwarePasskey(SITE);
  const origin = accountOriginOf(passkey.publicKey);
  const data = encodeCreateAccount(origin.owners, origin.saltNonce);
  if (isDeployed) {
    const transaction = { from: localAccount(6).address, to: origin.factory, data, gas: "0x61a80" };
    const hash = await lab.rpc("eth_sendTransaction", [transaction]);
    await waitForReceipt(lab.chain.rpcUrl, hash);
  }
  return orderOf(lab, accountAddress(origin), async (digest) => {
    const inner = await sign(passkey, replaySafeHash(accountAddress(origin), NETWORK.chainId, digest));
    if (isDeployed) return inner;
    return serializeErc6492Signature({ address: origin.factory, data, signature: inner });
  });
}

export async function contractOrder(lab: Lab, code: Hex): Promise<Order> {
  const address: Hex = `0x${randomBytes(20).toString("hex")}`;
  await lab.rpc("anvil_setCode", [address, code]);
  return orderOf(lab, address, async () => "0x1234");
}
