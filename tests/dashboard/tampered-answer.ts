/** What a service that lies could offer to sign: another operation, whole and consistent in itself. */
import { taggedTransfers } from "../../core/chain/account-state.ts";
import { buildUserOperation } from "../../core/chain/user-operation.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { operationTag } from "../../core/domain/wallet-operation.ts";

type Offer = {
  userOpHash: string;
  chainId: number;
  passkeyChallenge: { challenge: string };
  userOperation: Record<string, string>;
};

/** The same answer with other calls, its hash and challenge made anew. */
export function withOtherTransfer<Answer extends Offer>(
  answer: Answer,
  wanted: { id: string; linkId?: string; to: string; units: bigint; network?: NetworkId },
): Answer {
  const { id, linkId, to, units, network = "base-sepolia" } = wanted;
  const { usdc, chainId } = NETWORKS[network];
  const tag: Hex = `${operationTag(id)}${linkId ? linkTag(linkId).slice(2) : ""}`;
  const calls = taggedTransfers(usdc.address, [{ to: to as Hex, amountUnits: units }], tag);
  const sender = answer.userOperation.sender as Hex;
  const operation = buildUserOperation({ sender, nonce: BigInt(answer.userOperation.nonce ?? 0), calls });
  const userOpHash = userOperationHash(operation, chainId);
  const texts = Object.fromEntries(Object.entries(operation).map(([name, value]) => [name, String(value)]));
  const challenge = Buffer.from(userOpHash.slice(2), "hex").toString("base64url");
  return {
    ...answer,
    userOpHash,
    chainId,
    passkeyChallenge: { ...answer.passkeyChallenge, challenge },
    userOperation: { ...answer.userOperation, ...texts },
  };
}
