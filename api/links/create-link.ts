/** Creates a link, once per Idempotency-Key. */

import { conflict, notFound, type ServiceError } from "../../core/domain/errors.ts";
import { newLinkId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { formatUnits } from "../../core/domain/money.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { OrderData } from "../../core/domain/order-data.ts";
import { presentLink } from "../../core/domain/present-link.ts";
import type { ReuseTerms } from "../../core/domain/reusable-link.ts";
import { unreachable } from "../../core/domain/unreachable.ts";
import { recordEvents } from "../../db/events/events.ts";
import { runIdempotent } from "../../db/http/idempotency.ts";
import { lowerCreatedBlock } from "../../db/links/created-block.ts";
import { insertLink } from "../../db/links/links.ts";
import type { ApiDeps } from "../http/deps.ts";
import { getEnabledChain } from "../wallets/enabled-network.ts";
import { ensureReturnSecret } from "./return-secret.ts";

export type LinkTerms = {
  userId: string;
  network: NetworkId;
  amountUnits: bigint;
  description: string;
  expiresInHours: number;
  order: OrderData;
  reuse: ReuseTerms;
  /** Absent unless true, because stored hashes of earlier requests lack the field. */
  isDiscoverable?: true;
};

/**
 * The response body, and whether it is a stored response. Throws NOT_FOUND without a wallet on the network, CONFLICT for a key used with another
 * request and for a reference that another link has.
 */
export async function createLink(
  { sql, chains, config }: Pick<ApiDeps, "sql" | "chains" | "config">,
  terms: LinkTerms,
  idempotencyKey: string | undefined,
): Promise<{ body: unknown; isReplay: boolean }> {
  getEnabledChain({ chains }, terms.network);
  const given =
    idempotencyKey === undefined
      ? undefined
      : { scope: `create_link:${terms.userId}`, key: idempotencyKey, request: terms };
  const { answer, isReplay } = await sql.begin((tx) =>
    runIdempotent(tx, given, async () => {
      const id = newLinkId();
      const inserted = await insertLink(tx, { id, tag: linkTag(id), ...terms });
      if (!inserted.ok) throw whyNotInserted(inserted.reason, terms);
      const { link } = inserted;
      if (terms.order.successUrl !== null || terms.order.cancelUrl !== null)
        await ensureReturnSecret(tx, config, terms.userId);
      const amount = link.minUnits === null ? formatUnits(link.amountUnits) : null;
      const data = { amount, network: link.network };
      await recordEvents(tx, [
        { userId: link.userId, type: "payment_link.created", subjectId: link.id, data },
      ]);
      return { status: 201, body: presentLink(link, config) };
    }),
  );
  await lowerCreatedBlock(sql, (answer.body as { id: string }).id);
  return { body: answer.body, isReplay };
}

function whyNotInserted(reason: "NO_WALLET" | "REFERENCE_TAKEN", { network }: LinkTerms): ServiceError {
  switch (reason) {
    case "NO_WALLET":
      return notFound(`A wallet of yours on ${network}`);
    case "REFERENCE_TAKEN":
      return conflict("Another payment link of yours has this reference", {
        field: "reference",
        issue: "reference_taken",
      });
    default:
      return unreachable(reason);
  }
}
