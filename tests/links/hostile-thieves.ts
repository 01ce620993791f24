/** The attackers of the hostile campaign: they want a link of theirs paid with another payer's money. */
import type { Hex } from "../../core/domain/networks.ts";
import { makePayer, type SignedPayment, shapeA, standardV1 } from "../support/payer.ts";
import {
  ask,
  claim,
  type HostileLink,
  postJson,
  type Reply,
  type Stage,
  type Theft,
} from "./hostile-stage.ts";
import { randomHash } from "./payers.ts";

/** Claims another payer's transaction for `target`, with the sender's address or with their own. */
export async function claimAsThief(
  stage: Stage,
  kind: string,
  { target, txHash, sender }: { target: HostileLink; txHash: Hex; sender: Hex | undefined },
): Promise<void> {
  const clientWalletAddress = sender ?? makePayer().address;
  const reply = await claim(stage, target.id, { transactionHash: txHash, clientWalletAddress });
  note(stage, { kind: `${kind}${sender ? "" : ", own address"}`, target, txHash, status: reply.status });
}

/** Signs the claim with a key that is not the sender's. */
export async function forgeProof(
  stage: Stage,
  { target, txHash, sender }: { target: HostileLink; txHash: Hex; sender: Hex },
): Promise<void> {
  const signature: Hex = `0x${"5a".repeat(64)}1b`;
  const reply = await claim(stage, target.id, {
    transactionHash: txHash,
    clientWalletAddress: sender,
    signature,
  });
  note(stage, { kind: "forged proof", target, txHash, status: reply.status });
  if (reply.status === 200) stage.wrong.push(`a forged proof was taken for ${target.id}`);
}

/** Presents an executed authorization, which is public on the chain, for another link of the same price. */
export async function showToTwin(stage: Stage, target: HostileLink, payment: SignedPayment): Promise<void> {
  const reply = await ask(stage, `/v1/x402/${target.id}/pay`, postJson(shapeA(payment)));
  const theft = note(stage, { kind: "shown to a twin", target, status: reply.status });
  if (isSuccess(reply)) theft.paidWithNonce = payment.nonce;
}

/** A known payer and nonce with a random or another key's signature: no response may call it paid. */
export async function showGarbage(
  stage: Stage,
  target: HostileLink,
  { payment, byHeader }: { payment: SignedPayment; byHeader: boolean },
): Promise<void> {
  const forged = { ...payment, validBefore: payment.validBefore + 7, signature: garbageLike(payment) };
  const header = Buffer.from(JSON.stringify(standardV1(forged))).toString("base64");
  const reply = byHeader
    ? await ask(stage, `/v1/x402/${target.id}`, { headers: { "x-payment": header } })
    : await ask(stage, `/v1/x402/${target.id}/pay`, postJson(shapeA(forged)));
  note(stage, { kind: "garbage signature", target, status: reply.status });
  if (isSuccess(reply) || reply.body.txHash)
    stage.wrong.push(`a garbage signature was answered ${reply.status} ${JSON.stringify(reply.body)}`);
}

function garbageLike({ signature }: SignedPayment): Hex {
  return `0x${"5a".repeat((signature.length - 4) / 2)}1b`;
}

/** Claims of random hashes: they must not prevent the merchant from cancelling. */
export async function claimNothing(stage: Stage, target: HostileLink): Promise<void> {
  const clientWalletAddress = makePayer().address;
  const reply = await claim(stage, target.id, { transactionHash: randomHash(), clientWalletAddress });
  note(stage, { kind: "random hash", target, status: reply.status });
}

function isSuccess({ status, body }: Reply): boolean {
  return status === 200 || body?.success === true;
}

function note(
  stage: Stage,
  { kind, target, txHash, status }: { kind: string; target: HostileLink; txHash?: Hex; status: number },
): Theft {
  const theft: Theft = { kind, linkId: target.id, status, answeredAtMs: Date.now() };
  if (txHash) theft.txHash = txHash;
  stage.thefts.push(theft);
  return theft;
}
