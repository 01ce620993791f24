/**
 * A wallet that is set up on another network gets the owners that were added before: the same signatures are valid there, with the
 * same nonces, and take effect with the wallet's first operation.
 */
import { withOwnerIndex } from "../../core/chain/passkey-signature.ts";
import type { UserOperation } from "../../core/chain/user-operation.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { anotherOwnerChangeId } from "../../core/domain/ids.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { withAdded } from "../../core/domain/owner.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Wallet } from "../../db/schema.ts";
import { copySignedAddition, listSignedAdditions } from "../../db/wallet-ops/owner-changes.ts";

/** Below its key. */
const SEQUENCE_BITS = 64;

/** Up to the first missing nonce: later changes could not be executed. */
export async function copyOwnerChanges(tx: Tx, from: Wallet, to: Wallet): Promise<void> {
  const signed = await listSignedAdditions(tx, from.id);
  const added: Hex[] = [];
  for (const [place, addition] of signed.entries()) {
    if (BigInt.asUintN(SEQUENCE_BITS, addition.nonce) !== BigInt(place)) return;
    const ownerIndex = withAdded(to.owners, added).indexOf(addition.signer);
    if (ownerIndex < 0) return;
    const operation: UserOperation = {
      sender: to.address,
      nonce: addition.nonce,
      callData: addition.callData,
      callGasLimit: addition.callGas,
      verificationGasLimit: addition.verificationGas,
      preVerificationGas: 0n,
      maxFeePerGas: 0n,
      maxPriorityFeePerGas: 0n,
      initCode: "0x",
      paymasterAndData: "0x",
      signature: "0x",
    };
    await copySignedAddition(tx, {
      id: addition.id,
      copyId: anotherOwnerChangeId(addition.id, new Date(Date.now() + place)),
      walletId: to.id,
      network: to.network,
      ownerIndex,
      userOpHash: userOperationHash(operation, NETWORKS[to.network].chainId),
      signature: withOwnerIndex(addition.signature, ownerIndex),
    });
    added.push(addition.owner);
  }
}
