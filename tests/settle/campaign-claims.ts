/** Claims of the ledger campaign: made before and after their transfers, with and without a proof, and ended. */
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { storeClaim } from "../support/indexer-lab.ts";
import { endOne } from "./campaign-links.ts";
import { anyOf, NEWEST_LINKS_MET, newLink, type Stage, sendSigned, signCall } from "./campaign-stage.ts";

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

export async function endAnyClaim(stage: Stage): Promise<void> {
  const id = anyOf(stage, stage.claims.slice(-5));
  if (id) await endOne(stage.lab, id);
}
