/** Claims of the ledger campaign: made before and after their transfers, with and without a proof, and ended. */
import { encodeAggregate3 } from "../../core/chain/multicall.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { CONTRACTS } from "../../core/domain/networks.ts";
import { storeClaim, USDC } from "../support/indexer-lab.ts";
import { authorize } from "../support/indexer-lab-payments.ts";
import { endOne } from "./campaign-links.ts";
import {
  AMOUNTS,
  anyOf,
  NEWEST_LINKS_MET,
  newLink,
  type Stage,
  sendSigned,
  signCall,
} from "./campaign-stage.ts";

/** Claimed before any block holds the transfer, as a payment page does it. */
export async function claimAhead(stage: Stage): Promise<void> {
  const link = await newLink(stage);
  if (!link) return;
  const sent = await signCall(stage, encodeTransfer(link.recipient, link.amountUnits));
  const claim = { linkId: link.id, txHash: sent.txHash, clientAddress: sent.from };
  const stored = await storeClaim(stage.lab, claim);
  if (stored) stage.claims.push(stored.claim.id);
  await sendSigned(stage, sent);
}

export async function claimAny(stage: Stage, proof?: "EOA"): Promise<void> {
  const { lab } = stage;
  const rows = await lab.sql<{ id: string }[]>`
    select id from payment_links where status in ('ACTIVE', 'PENDING') and not is_reusable order by created_at, id`;
  const [link, sent] = [anyOf(stage, rows.slice(-NEWEST_LINKS_MET)), anyOf(stage, stage.sent.slice(-8))];
  if (!link || !sent) return;
  const key = `${link.id}:${sent.txHash}:${proof}`;
  if (stage.claimed.has(key)) return;
  stage.claimed.add(key);
  const claim = { linkId: link.id, txHash: sent.txHash, clientAddress: sent.from };
  const stored = await storeClaim(lab, { ...claim, ...(proof ? { proof } : {}) });
  if (stored) stage.claims.push(stored.claim.id);
}

/** A transaction that pays a wallet both amounts, in either order, and its sender's proof for one of its links: made before or after its block. */
export async function proveOneOfTwo(stage: Stage): Promise<void> {
  const [link, signer] = [await newLink(stage), anyOf(stage, stage.signers)];
  if (!link || !signer) return;
  const amounts = stage.random() < 0.5 ? AMOUNTS : AMOUNTS.toReversed();
  const signed = await Promise.all(amounts.map((value) => authorize(signer, { to: link.recipient, value })));
  const calls = signed.map(({ data }) => ({ to: USDC, data }));
  const sent = await signCall(stage, encodeAggregate3(calls), signer.lower, CONTRACTS.multicall3);
  const prove = async () => {
    const claim = { linkId: link.id, txHash: sent.txHash, clientAddress: sent.from, proof: "EOA" } as const;
    const stored = await storeClaim(stage.lab, claim);
    if (stored) stage.claims.push(stored.claim.id);
  };
  const isAhead = stage.random() < 0.5;
  if (isAhead) await prove();
  await sendSigned(stage, sent);
  if (!isAhead) await prove();
}

export async function endAnyClaim(stage: Stage): Promise<void> {
  const id = anyOf(stage, stage.claims.slice(-5));
  if (id) await endOne(stage.lab, id);
}
