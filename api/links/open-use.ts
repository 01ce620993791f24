/** Opens a use of a reusable link for a payer on the page or the public API. */
import { invalid, notFound, ServiceError } from "../../core/domain/errors.ts";
import { newLinkId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { lowerCreatedBlock } from "../../db/links/created-block.ts";
import type { Opener } from "../../db/links/places.ts";
import { type OpenedUse, openUse } from "../../db/links/uses.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { PaymentLink } from "../../db/schema.ts";

/** When a payer may try again to get a place of a link that has none left; none when all are paid. */
export function retryAfter(nextPlaceAt: Date | null): Record<string, string> {
  if (nextPlaceAt === null) return {};
  return { "retry-after": String(Math.max(1, Math.ceil((nextPlaceAt.getTime() - Date.now()) / 1_000))) };
}

/** There is no authorization yet, and the amount is in the body. */
const AMOUNT_MESSAGES = {
  AMOUNT_REQUIRED: "amount is chosen by the payer of this link: a number of USDC with at most 5 decimals",
  AMOUNT_BELOW_REQUIRED: "amount is less than this link accepts",
  AMOUNT_EXCEEDS_MAXIMUM: "amount is more than this link accepts",
};

/** Another transaction has the use that gives its place: for as long as a commit takes. */
const CONTENDED_TRIES = 5;
const CONTENDED_PAUSE_MS = 50;

/** As openUse, tried again while another transaction decides about the use whose place would be taken. */
export async function openUseUncontended(sql: Sql, given: Parameters<typeof openUse>[1]): Promise<OpenedUse> {
  for (let tries = 1; ; tries++) {
    const opened = await sql.begin((tx) => openUse(tx, given));
    const isContended = !opened.ok && opened.reason === "LINK_ALREADY_PAID" && opened.isContended;
    if (!isContended || tries === CONTENDED_TRIES) return opened;
    await Bun.sleep(CONTENDED_PAUSE_MS * tries);
  }
}

/** Throws NOT_FOUND, CONFLICT when it can no longer be paid, and VALIDATION_ERROR for an amount that it does not accept. */
export async function openUseFor(
  sql: Sql,
  { linkId, ...given }: { linkId: string; amountUnits: bigint | undefined } & Opener,
): Promise<PaymentLink> {
  const id = newLinkId();
  const opened = await openUseUncontended(sql, { parentId: linkId, id, tag: linkTag(id), ...given });
  if (opened.ok) {
    await lowerCreatedBlock(sql, id);
    return opened.link;
  }
  switch (opened.reason) {
    case "NOT_FOUND":
      throw notFound("Reusable payment link");
    case "LINK_NOT_PAYABLE":
      throw new ServiceError("CONFLICT", "This payment link accepts no more payments", {
        details: { field: "linkId", issue: opened.reason },
      });
    case "LINK_ALREADY_PAID":
      throw new ServiceError("CONFLICT", "All payments of this link are made or begun", {
        details: { field: "linkId", issue: opened.reason },
        headers: retryAfter(opened.nextPlaceAt),
      });
    case "AMOUNT_REQUIRED":
    case "AMOUNT_BELOW_REQUIRED":
    case "AMOUNT_EXCEEDS_MAXIMUM":
      throw invalid("amount", opened.reason, AMOUNT_MESSAGES[opened.reason]);
  }
}
